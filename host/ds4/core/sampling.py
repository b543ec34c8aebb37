"""Sampling parameters, checked. The engine applies them; `ds4_bridge.h` gives the order."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from ds4.errors import SamplingError
from ds4.sys.descriptors import SamplerDesc

MOST_BIASED = 4096


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. The default is greedy.

    temperature: >= 0; 0 is greedy. top_p: (0, 1], 1 off. top_k: 0 off. min_p: [0, 1), 0 off.
    repetition_penalty: > 0, 1 off, over prompt and output. frequency_penalty, presence_penalty: -2..2 over the
    output.
    logit_bias: token id to what is added to its logit, -100..100. seed: None draws a fresh one for each generation.
    """

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    seed: int | None = None

    def __post_init__(self) -> None:
        _number("temperature", self.temperature, 0.0, 100.0)
        _number("top_p", self.top_p, 0.0, 1.0, open_low=True)
        _number("min_p", self.min_p, 0.0, 1.0, open_high=True)
        _number("repetition_penalty", self.repetition_penalty, 0.0, 100.0, open_low=True)
        _number("frequency_penalty", self.frequency_penalty, -2.0, 2.0)
        _number("presence_penalty", self.presence_penalty, -2.0, 2.0)
        _integer("top_k", self.top_k, 0, 2**31 - 1)
        if self.seed is not None:
            _integer("seed", self.seed, -(2**63), 2**64 - 1)
        if not isinstance(self.logit_bias, Mapping):
            found = repr(self.logit_bias)[:80]
            raise SamplingError("not a mapping", subject="logit_bias", expected="{token id: bias}", found=found)
        if len(self.logit_bias) > MOST_BIASED:
            expected = f"at most {MOST_BIASED}"
            raise SamplingError("too many tokens", subject="logit_bias", expected=expected, found=len(self.logit_bias))
        for token, value in self.logit_bias.items():
            _integer("logit_bias", token, 0, 2**31 - 1)
            _number(f"logit_bias[{token}]", value, -100.0, 100.0)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def check_vocabulary(self, n_vocab: int) -> None:
        """SamplingError for a bias on a token that the model does not have."""
        for token in self.logit_bias:
            _integer("logit_bias", token, 0, n_vocab - 1)

    def desc(self, output_from: int, seed: int | None = None) -> SamplerDesc:
        """For the engine. output_from: the position from which tokens count as output. seed: what to use where these
        parameters have none; None draws one. Negative seeds wrap to 64 bits."""
        chosen = self.seed if self.seed is not None else seed
        return SamplerDesc(
            temperature=self.temperature,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            frequency_penalty=self.frequency_penalty,
            presence_penalty=self.presence_penalty,
            top_k=self.top_k,
            output_from=output_from,
            seed=(secrets.randbits(64) if chosen is None else chosen) % 2**64,
            bias=tuple(self.logit_bias.items()),
        )


def _number(
    name: str, value: object, low: float, high: float, *, open_low: bool = False, open_high: bool = False
) -> None:
    wanted = f"a number in {'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise SamplingError("not a number", subject=name, expected=wanted, found=repr(value))
    bad = not low <= value <= high
    if not bad and (open_low or open_high):
        # The engine's numbers are float32: what rounds to the excluded end is out of range there.
        (single,) = struct.unpack("f", struct.pack("f", value))
        bad = (open_low and single == low) or (open_high and single == high)
    if bad:
        raise SamplingError("out of range", subject=name, expected=wanted, found=value)


def _integer(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SamplingError("not an integer", subject=name, expected=f"{low}..{high}", found=repr(value))
    if not low <= value <= high:
        raise SamplingError("out of range", subject=name, expected=f"{low}..{high}", found=value)
