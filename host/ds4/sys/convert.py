"""Descriptors to C structs and native statuses to exceptions.

Each `*_struct` returns the struct and the list of cffi objects that its pointers borrow; the caller keeps that list
for as long as native may read the struct (the header: for the call only).
"""

from __future__ import annotations

from typing import Any, NoReturn

from ds4.errors import Cancelled, EngineError
from ds4.sys.bridge import Bridge
from ds4.sys.descriptors import (
    MAX_DIMS,
    Decoder,
    Dsv4,
    GgmlType,
    HParams,
    ModelDesc,
    Role,
    SamplerDesc,
    SessionDesc,
    Slot,
    Status,
)

_CODES = {
    Status.ARG: "engine_argument",
    Status.IO: "engine_io",
    Status.FORMAT: "engine_format",
    Status.MISMATCH: "engine_mismatch",
    Status.UNSUPPORTED: "engine_unsupported",
    Status.MEMORY: "engine_memory",
    Status.CONTEXT: "engine_context",
    Status.BUSY: "engine_busy",
    Status.INTERNAL: "engine_internal",
    Status.REWIND: "engine_rewind",
}


def fail(bridge: Bridge, status: int, error: Any) -> NoReturn:
    """Raises what a native status means: Cancelled, or EngineError with native's message and a code by status."""
    message = bridge.text(error.message) or f"native call failed with status {status}"
    if status == Status.CANCELLED:
        raise Cancelled(message)
    code = _CODES.get(Status(status), "engine") if status in Status._value2member_map_ else "engine"
    raise EngineError(message, status=status, code=code)


def closed(what: str) -> EngineError:
    return EngineError(f"the {what} is closed", status=Status.ARG, code="engine_closed")


def argument(message: str) -> EngineError:
    return EngineError(message, status=Status.ARG, code="engine_argument")


def hparams_struct(bridge: Bridge, hparams: HParams) -> tuple[Any, list[Any]]:
    struct = bridge.ffi.new("ds4_hparams *")
    for name in HParams.__dataclass_fields__:
        if name not in ("dsv4", "decoder"):
            setattr(struct, name, getattr(hparams, name))
    keep: list[Any] = []
    if hparams.dsv4 is not None:
        struct.dsv4, borrowed = _dsv4_struct(bridge, hparams.dsv4)
        keep += borrowed
    if hparams.decoder is not None:
        struct.decoder, borrowed = _decoder_struct(bridge, hparams.decoder)
        keep += borrowed
    return struct, keep


def _decoder_struct(bridge: Bridge, decoder: Decoder) -> tuple[Any, list[Any]]:
    struct, flags = bridge.ffi.new("ds4_decoder *"), bridge.ffi.new("int32_t[]", decoder.flags)
    for name in Decoder.__dataclass_fields__:
        setattr(struct, name, flags if name == "flags" else getattr(decoder, name))
    struct.n_flags = len(decoder.flags)
    return struct, [struct, flags]


def _dsv4_struct(bridge: Bridge, dsv4: Dsv4) -> tuple[Any, list[Any]]:
    arrays = {
        "ratios": bridge.ffi.new("int32_t[]", dsv4.ratios),
        "clamp_experts": bridge.ffi.new("float[]", dsv4.clamp_experts),
        "clamp_shared": bridge.ffi.new("float[]", dsv4.clamp_shared),
    }
    if len(dsv4.clamp_experts) != len(dsv4.clamp_shared):
        found = f"{len(dsv4.clamp_experts)} and {len(dsv4.clamp_shared)}"
        raise argument(f"clamps of {found} layers (expected the same number for routed and shared experts)")
    struct = bridge.ffi.new("ds4_dsv4 *")
    for name in Dsv4.__dataclass_fields__:
        setattr(struct, name, arrays.get(name, getattr(dsv4, name)))
    struct.n_ratios, struct.n_clamps = len(dsv4.ratios), len(dsv4.clamp_experts)
    return struct, [struct, *arrays.values()]


def model_struct(bridge: Bridge, desc: ModelDesc) -> tuple[Any, list[Any]]:
    ffi = bridge.ffi
    paths = [ffi.new("char[]", path.encode("utf-8", "surrogateescape")) for path in desc.shards]
    shards = ffi.new("const char *[]", paths)
    names = [ffi.new("char[]", slot.name.encode("utf-8")) for slot in desc.slots]
    slots = ffi.new("ds4_slot[]", len(desc.slots))
    for target, slot, name in zip(slots, desc.slots, names, strict=True):
        if not 1 <= len(slot.dims) <= MAX_DIMS:
            raise argument(f"slot {slot.name} has {len(slot.dims)} dims (expected 1..{MAX_DIMS})")
        target.role, target.layer, target.type, target.n_dims = slot.role, slot.layer, slot.type, len(slot.dims)
        target.dims = [*slot.dims, *[1] * (MAX_DIMS - len(slot.dims))]
        target.shard, target.offset, target.bytes, target.name = slot.shard, slot.offset, slot.nbytes, name
    hparams, borrowed = hparams_struct(bridge, desc.hparams)
    struct = ffi.new("ds4_model_desc *")
    struct.hparams = hparams[0]
    struct.shards, struct.n_shards = shards, len(desc.shards)
    struct.slots, struct.n_slots = slots, len(desc.slots)
    return struct, [*paths, shards, *names, slots, *borrowed]


def slot_from(bridge: Bridge, entry: Any) -> Slot:
    return Slot(
        role=Role(entry.role),
        layer=entry.layer,
        type=GgmlType(entry.type),
        dims=tuple(entry.dims[i] for i in range(entry.n_dims)),
        shard=entry.shard,
        offset=entry.offset,
        nbytes=entry.bytes,
        name=bridge.text(entry.name),
    )


def session_struct(bridge: Bridge, desc: SessionDesc) -> Any:
    struct = bridge.ffi.new("ds4_session_desc *")
    for name in SessionDesc.__dataclass_fields__:
        setattr(struct, name, getattr(desc, name))
    return struct


def sampler_struct(bridge: Bridge, desc: SamplerDesc) -> tuple[Any, list[Any]]:
    struct = bridge.ffi.new("ds4_sampler *")
    for name in SamplerDesc.__dataclass_fields__:
        if name != "bias":
            setattr(struct, name, getattr(desc, name))
    if not desc.bias:
        return struct, []
    ids = bridge.ffi.new("int32_t[]", [token for token, _ in desc.bias])
    values = bridge.ffi.new("float[]", [value for _, value in desc.bias])
    struct.bias_ids, struct.bias_values, struct.n_bias = ids, values, len(desc.bias)
    return struct, [ids, values]
