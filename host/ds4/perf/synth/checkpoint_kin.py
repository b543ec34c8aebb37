"""Transformers checkpoints of llama and its kin: their tensors by the slot that each fills.

What is not one to one:
    llama, smollm3   rows of q and k: torch has a head's rotated pairs half a head apart, GGUF next to each other
    gemma3           norms: the checkpoint leaves out the 1 that is added to each weight, GGUF has it in
    qwen3_moe        experts: each a tensor by itself, or all in one with each one's gate rows before its up rows
    rope_freqs       no tensor at all, but what the config's rope says (config_kin.py)

Sources: transformers' modelling files, and the conversions that the `gguf` package's tensor names are used by.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ds4.core.families import SlotSpec
from ds4.errors import ModelFileError
from ds4.perf.synth import config_kin
from ds4.perf.synth.arrays import Floats
from ds4.perf.synth.safetensors import Checkpoint, Stored
from ds4.sys.descriptors import Role

PIECE = 1 << 22  # elements of a tensor that are held at a time

_TOP = {
    Role.TOKEN_EMBD: "model.embed_tokens.weight",
    Role.OUTPUT: "lm_head.weight",
    Role.OUTPUT_NORM: "model.norm.weight",
}
_LAYER = {
    Role.ATTN_NORM: "input_layernorm.weight",
    Role.ATTN_Q: "self_attn.q_proj.weight",
    Role.ATTN_K: "self_attn.k_proj.weight",
    Role.ATTN_V: "self_attn.v_proj.weight",
    Role.ATTN_OUT: "self_attn.o_proj.weight",
    Role.ATTN_Q_BIAS: "self_attn.q_proj.bias",
    Role.ATTN_K_BIAS: "self_attn.k_proj.bias",
    Role.ATTN_V_BIAS: "self_attn.v_proj.bias",
    Role.ATTN_Q_NORM: "self_attn.q_norm.weight",
    Role.ATTN_K_NORM: "self_attn.k_norm.weight",
    Role.FFN_NORM: "post_attention_layernorm.weight",
    Role.FFN_GATE: "mlp.gate_proj.weight",
    Role.FFN_UP: "mlp.up_proj.weight",
    Role.FFN_DOWN: "mlp.down_proj.weight",
    Role.ROUTER: "mlp.gate.weight",
}
_GEMMA3 = {
    Role.ATTN_POST_NORM: "post_attention_layernorm.weight",
    Role.FFN_NORM: "pre_feedforward_layernorm.weight",
    Role.FFN_POST_NORM: "post_feedforward_layernorm.weight",
}
_EXPERTS = {Role.EXPERTS_GATE: "gate_proj", Role.EXPERTS_UP: "up_proj", Role.EXPERTS_DOWN: "down_proj"}
_NORMS = frozenset(
    {
        Role.OUTPUT_NORM,
        Role.ATTN_NORM,
        Role.ATTN_Q_NORM,
        Role.ATTN_K_NORM,
        Role.ATTN_POST_NORM,
        Role.FFN_NORM,
        Role.FFN_POST_NORM,
    }
)


class KinReader:
    """The checkpoint of a config. Raises what config_kin raises."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.shape = config_kin.shape_of(config)
        self._tied = config_kin.tied(config)
        self._divisors = config_kin.divisors(config)
        architecture = self.shape["architecture"]
        self._paired = architecture in ("llama", "smollm3")
        self._gemma = architecture == "gemma3"

    def has(self, source: Checkpoint, spec: SlotSpec) -> bool:
        """Whether there is anything to fill an optional slot from. A tied model's head is its embedding, though some
        checkpoints have it once more."""
        if spec.role is Role.ROPE_FREQS:
            return self._divisors is not None
        return not (spec.role is Role.OUTPUT and self._tied) and self._names(source, spec)[0] in source

    def check(self, source: Checkpoint, spec: SlotSpec) -> None:
        """Whether what a slot is filled from is there, of the right shape. ModelFileError: `tensor_missing`,
        `tensor_dims`."""
        if spec.role is not Role.ROPE_FREQS:
            self._stored(source, spec)

    def unused(self, source: Checkpoint, specs: list[SlotSpec]) -> list[str]:
        used = {name for spec in specs if spec.role is not Role.ROPE_FREQS for name in self._names(source, spec)}
        used |= {_TOP[Role.OUTPUT]} if self._tied else set()
        return [name for name in source if name not in used and not name.endswith("rotary_emb.inv_freq")]

    def pieces(self, source: Checkpoint, spec: SlotSpec) -> Iterator[Floats]:
        """A slot's elements in GGUF's order, whole rows or PIECE of them at a time."""
        if spec.role is Role.ROPE_FREQS:
            assert self._divisors is not None  # `has` said so
            yield np.asarray(self._divisors, np.float32)
            return
        for stored in self._stored(source, spec):
            if self._paired and spec.role in (Role.ATTN_Q, Role.ATTN_K):
                yield from self._heads(stored, spec.dims[0])
                continue
            start, stop = self._share(stored, spec)
            for first, last in zip(start, stop, strict=True):
                for at in range(first, last, PIECE):
                    values = stored.floats(at, min(at + PIECE, last))
                    yield values + np.float32(1) if self._gemma and spec.role in _NORMS else values

    def _heads(self, stored: Stored, width: int) -> Iterator[Floats]:
        """Row 2 i + half of a head is torch's row half * length / 2 + i."""
        length = int(self.shape["attention.key_length"])  # type: ignore[arg-type]
        for at in range(0, stored.count, length * width):
            halves = stored.floats(at, at + length * width).reshape(2, length // 2, width)
            yield np.ascontiguousarray(halves.transpose(1, 0, 2)).reshape(-1)

    @staticmethod
    def _share(stored: Stored, spec: SlotSpec) -> tuple[list[int], list[int]]:
        """Which elements of a tensor are the slot's."""
        if len(stored.shape) == 3 and spec.role in (Role.EXPERTS_GATE, Role.EXPERTS_UP):
            count = spec.dims[0] * spec.dims[1]
            start = [2 * count * e + (count if spec.role is Role.EXPERTS_UP else 0) for e in range(spec.dims[2])]
            return start, [at + count for at in start]
        return [0], [stored.count]

    def _names(self, source: Checkpoint, spec: SlotSpec) -> list[str]:
        """The tensors that a slot is filled from."""
        if spec.layer < 0:
            return [_TOP[spec.role]]
        at = f"model.layers.{spec.layer}."
        if spec.role not in _EXPERTS:
            return [at + ((_GEMMA3.get(spec.role) if self._gemma else None) or _LAYER[spec.role])]
        joined = at + "mlp.experts." + ("down_proj" if spec.role is Role.EXPERTS_DOWN else "gate_up_proj")
        if joined in source:
            return [joined]
        return [f"{at}mlp.experts.{expert}.{_EXPERTS[spec.role]}.weight" for expert in range(spec.dims[2])]

    def _stored(self, source: Checkpoint, spec: SlotSpec) -> list[Stored]:
        names = self._names(source, spec)
        shape = tuple(reversed(spec.dims))
        if spec.role in _EXPERTS:
            if not names[0].endswith(".weight"):
                shape = (shape[0], shape[1] * (1 if spec.role is Role.EXPERTS_DOWN else 2), shape[2])
            else:
                shape = shape[1:]
        found = []
        for name in names:
            stored = source.get(name)
            if stored is None:
                raise ModelFileError(
                    "the checkpoint lacks a tensor",
                    code="tensor_missing",
                    subject=name,
                    expected=list(shape),
                    found="nothing",
                )
            if stored.shape != shape:
                raise ModelFileError(
                    "wrong shape", code="tensor_dims", subject=name, expected=list(shape), found=list(stored.shape)
                )
            found.append(stored)
        return found
