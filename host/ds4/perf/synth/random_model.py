"""Random weights for any shape that a family's contract describes.

Each tensor's bytes follow from the seed, its name, its type and its dims alone: raw words of Philox, and from them
arithmetic that is exact. `values` draws bell-shaped numbers and quantises them, so that the same seed in another mix is
the same model, rounded otherwise. `blocks` draws the bytes of quantised blocks directly, which is nearly as fast as the
disk: what is computed with them means nothing, but takes the time that the real thing takes.

With `alias`, tensors of a kind that differ only in their layer are stored once. The file then reads like one of full
depth while it takes the space of one layer of each kind.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ds4.core.families import SlotSpec, contract
from ds4.core.ggml_types import TENSOR_TYPES
from ds4.core.kinds import did_you_mean
from ds4.errors import SettingsError
from ds4.perf.synth import gguf_file, shapes, vocabulary
from ds4.perf.synth.arrays import Floats
from ds4.perf.synth.blocks import fast, random_blocks
from ds4.perf.synth.convert import general, layout
from ds4.perf.synth.gguf_file import Keys, Tensor, Written
from ds4.perf.synth.mixes import Mix
from ds4.perf.synth.quantize import encode
from ds4.perf.synth.shapes import Shape
from ds4.sys.descriptors import Role

PIECE = 1 << 20  # elements that are held at a time; a multiple of every block

_EMBEDDING, _LOGITS, _POSITION = 1.0, 2.0, 0.5  # standard deviations of embedding rows, logits and position biases
_SCALES = (Role.HC_ATTN_SCALE, Role.HC_FFN_SCALE, Role.OUTPUT_HC_SCALE, Role.MTP_HC_SCALE)
_BASES = (Role.HC_ATTN_BASE, Role.HC_FFN_BASE, Role.OUTPUT_HC_BASE, Role.MTP_HC_BASE, Role.ATTN_SINKS)
_BIASES = (Role.ATTN_Q_BIAS, Role.ATTN_K_BIAS, Role.ATTN_V_BIAS)
_LAYER = re.compile(r"^blk\.\d+\.")


class Draws:
    """A stream of numbers that depends on (seed, name) alone."""

    def __init__(self, seed: int, name: str) -> None:
        digest = hashlib.sha256(f"{seed}\0{name}".encode()).digest()
        self._words = np.random.Philox(key=np.frombuffer(digest[:16], "<u8"))

    def words(self, count: int) -> npt.NDArray[np.uint64]:
        return np.asarray(self._words.random_raw(count), np.uint64)

    def raw(self, count: int) -> bytes:
        return self.words(-(-count // 8)).astype("<u8").tobytes()[:count]

    def bell(self, count: int) -> Floats:
        """Mean 0, standard deviation 1, within 3.5: the sum of four uniform 16-bit numbers, which is exact."""
        parts = self.words(count).astype("<u8").view("<u2").reshape(count, 4)
        sums = parts.sum(axis=1, dtype=np.int32) - 2 * 65535
        out: Floats = sums.astype(np.float32) * np.float32(1 / math.sqrt(4 * (65536**2 - 1) / 12))
        return out


def write(
    target: Path,
    shape: Shape,
    mix: Mix,
    *,
    seed: int = 0,
    fill: str = "values",
    alias: bool = False,
    tokenizer: Path | None = None,
    name: str = "synthetic",
    drafting: bool = False,
    without: Sequence[str] = (),
) -> Written:
    """tokenizer: a GGUF file or a folder with a tokenizer.json whose vocabulary is taken. drafting: with an MTP block.
    without: names of optional tensors that the model does not have, such as output.weight.

    Raises SettingsError, ModelFileError or UnsupportedModelError naming the key or tensor.
    """
    family = contract(str(shape["architecture"]))
    keys = general(shape, mix, name) | shapes.keys(shape)
    count = int(shape["vocab_size"])  # type: ignore[arg-type]
    keys |= _words(tokenizer, count, family.PROMPT.pre, family.PROMPT.markup)
    specs = leave_out(layout(family, keys, drafting=drafting), without)
    return gguf_file.write(target, keys, [_tensor(spec, mix.kind(spec), seed, fill, alias, shape) for spec in specs])


def leave_out(specs: list[SlotSpec], without: Sequence[str]) -> list[SlotSpec]:
    """Raises SettingsError for a name that is not of an optional tensor."""
    optional = [spec.name for spec in specs if not spec.required]
    for name in without:
        if name not in optional:
            raise SettingsError(
                "not a tensor that can be left out" + did_you_mean(name, optional),
                expected=", ".join(optional[:8]) or "none",
                found=name,
            )
    return [spec for spec in specs if spec.name not in without]


def _words(tokenizer: Path | None, count: int, pre: frozenset[str], markup: tuple[str, ...]) -> Keys:
    if tokenizer is not None and tokenizer.is_file() and tokenizer.suffix == ".gguf":
        return vocabulary.from_gguf(tokenizer)
    if tokenizer is not None:
        found = vocabulary.from_folder(tokenizer.parent if tokenizer.is_file() else tokenizer, count)
        if found is not None:
            return found
    chosen = "joyai-llm" if "joyai-llm" in pre else "gpt-2"
    return vocabulary.placeholder(count, chosen, markup or ("<|bos|>", "<|eos|>"))


def _tensor(spec: SlotSpec, kind: int, seed: int, fill: str, alias: bool, shape: Shape) -> Tensor:
    share = _LAYER.sub("blk.*.", spec.name) if alias and spec.layer >= 0 and len(spec.dims) > 1 else ""
    source = share or spec.name

    def data() -> Iterator[bytes]:
        draws = Draws(seed, source)
        count = math.prod(spec.dims)
        for at in range(0, count, PIECE):
            size = min(PIECE, count - at)
            if fill == "blocks" and fast(kind):
                yield random_blocks(kind, draws.raw, size // TENSOR_TYPES[kind].block, deviation(spec))
            else:
                yield encode(kind, _values(spec, draws.bell(size)), spec.name)

    if spec.role is Role.ROUTER_HASH:
        return Tensor(spec.name, spec.dims, kind, lambda: _table(spec, Draws(seed, source), shape), share)
    return Tensor(spec.name, spec.dims, kind, data, share)


def _table(spec: SlotSpec, draws: Draws, shape: Shape) -> Iterator[bytes]:
    used, tokens = spec.dims
    for at in range(0, tokens, PIECE // 64):
        yield _experts(draws, min(PIECE // 64, tokens - at), used, int(shape["expert_count"]))  # type: ignore[arg-type]


def _experts(draws: Draws, tokens: int, used: int, count: int) -> bytes:
    """`used` different experts for each token: from a random one on, by a random step that meets every expert."""
    steps = np.array([step for step in range(1, count + 1) if math.gcd(step, count) == 1], np.uint64)
    words = draws.words(tokens)
    first, step = words % count, steps[(words >> np.uint64(32)) % len(steps)]
    chosen = (first[:, None] + step[:, None] * np.arange(used, dtype=np.uint64)) % np.uint64(count)
    return bytes(chosen.astype("<i4").tobytes())


def deviation(spec: SlotSpec) -> float:
    """Of a matrix's elements: such that what it makes of inputs of deviation 1 has deviation 1 (logits: 2)."""
    if spec.role in (Role.TOKEN_EMBD, Role.MTP_TOKEN_EMBD):
        return _EMBEDDING
    if spec.role in (Role.COMPRESS_APE, Role.INDEX_APE):
        return _POSITION
    return (_LOGITS if spec.role in (Role.OUTPUT, Role.MTP_OUTPUT) else 1.0) / math.sqrt(spec.dims[0])


def _values(spec: SlotSpec, bell: Floats) -> Floats:
    """Vectors that multiply lie around 1, those that are added around 0."""
    if len(spec.dims) > 1:
        return bell * np.float32(deviation(spec))
    if spec.role in _SCALES:
        return np.float32(0.5) + np.float32(0.05) * bell
    if spec.role in _BASES:
        return np.float32(0.3) * bell
    if spec.role in _BIASES:
        return np.float32(0.5) * bell
    if spec.role is Role.ROUTER_BIAS:
        return np.float32(0.05) * bell
    if spec.role is Role.ROPE_FREQS:
        return np.float32(1) + np.abs(bell)  # divisors, as context extension has them
    return np.float32(1) + np.float32(0.1) * bell
