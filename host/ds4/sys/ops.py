"""One operation of the engine by itself (ds4_ops_probe): what a session computes, shown on the caller's numbers.

For tools and tests: each call makes a backend of its own. Numbers are float32, row-major, in anything with a buffer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from ds4.sys.bridge import Bridge, load
from ds4.sys.convert import argument, fail, sampler_struct
from ds4.sys.descriptors import GgmlType, Numeric, SamplerDesc
from ds4.sys.probe import Buffer, type_block


class Op(IntEnum):
    """ds4_op."""

    EMBED = 1
    RMSNORM = 2
    MATMUL = 3
    ADD = 4
    SWIGLU = 5
    ROPE = 6
    ATTENTION = 7
    SAMPLE = 8


class How(NamedTuple):
    """What must not change the answer beyond rounding: arithmetic, threads, kernels, and rows of one step (0: all)."""

    numeric: Numeric = Numeric.FLOAT
    threads: int = 1
    kernels: str | None = None
    step_rows: int = 0


class Drawn(NamedTuple):
    """token, its log-probability under the raw logits (0.0 where no top was asked for), and the likeliest tokens."""

    token: int
    logprob: float
    top: list[tuple[int, float]]


_PLAIN = How()


def _floats(bridge: Bridge, name: str, data: Buffer | None, count: int) -> Any:
    found = 0 if data is None else memoryview(data).nbytes
    if found != 4 * count:
        raise argument(f"{name}: {found} bytes (expected {count} float32)")
    return bridge.ffi.from_buffer("float[]", data)


def _weight(bridge: Bridge, kind: GgmlType, data: Buffer, rows: int, cols: int) -> Any:
    elements, size = type_block(kind)
    found = memoryview(data).nbytes
    if rows < 1 or cols < 1 or cols % elements or found != rows * (cols // elements) * size:
        raise argument(f"a weight of {found} bytes is no [{rows}, {cols}] of {kind.name} ({elements} in {size} bytes)")
    return bridge.ffi.from_buffer(data)


def _run(bridge: Bridge, how: How, fields: dict[str, Any], rows: int, n_out: int) -> memoryview[float]:
    """Calls the door and returns y, float32 [rows * n_out]."""
    ffi = bridge.ffi
    store = bytearray(4 * rows * n_out)
    desc, name = _desc(bridge, how, {**fields, "n_rows": rows, "n_out": n_out})
    error = ffi.new("ds4_error *")
    status = bridge.lib.ds4_ops_probe(desc, ffi.from_buffer("float[]", store), ffi.NULL, error)
    del name
    if status:
        fail(bridge, status, error)
    return memoryview(store).cast("f")


def _desc(bridge: Bridge, how: How, fields: dict[str, Any]) -> tuple[Any, Any]:
    name = None if how.kernels is None else bridge.ffi.new("char[]", how.kernels.encode("ascii"))
    if name is not None:
        fields["kernels"] = name
    fields |= {"numeric": how.numeric, "n_threads": how.threads, "step_rows": how.step_rows}
    return bridge.ffi.new("ds4_op_desc *", fields), name


def embed(
    kind: GgmlType, table: Buffer, vocab: int, width: int, ids: Sequence[int], how: How = _PLAIN
) -> memoryview[float]:
    """Rows `ids` of the table [vocab, width]."""
    bridge = load()
    fields = {
        "op": Op.EMBED,
        "weight_type": kind,
        "weight_rows": vocab,
        "weight": _weight(bridge, kind, table, vocab, width),
        "tokens": bridge.ffi.new("int32_t[]", list(ids)),
    }
    return _run(bridge, how, fields, len(ids), width)


def rmsnorm(x: Buffer, weight: Buffer, rows: int, eps: float, how: How = _PLAIN) -> memoryview[float]:
    """x / sqrt(mean(x^2) + eps) * weight of each row."""
    bridge = load()
    width = memoryview(weight).nbytes // 4
    fields = {
        "op": Op.RMSNORM,
        "n_in": width,
        "weight_type": GgmlType.F32,
        "weight": _weight(bridge, GgmlType.F32, weight, 1, width),
        "a": _floats(bridge, "x", x, rows * width),
        "hparams": (hparams := bridge.ffi.new("ds4_hparams *", {"rms_eps": eps})),
    }
    result = _run(bridge, how, fields, rows, width)
    del hparams
    return result


def matmul(
    kind: GgmlType, weights: Buffer, n_out: int, n_in: int, x: Buffer, rows: int, how: How = _PLAIN
) -> memoryview[float]:
    """y[r, o] = sum_k W[o, k] x[r, k], through the backend's program."""
    bridge = load()
    fields = {
        "op": Op.MATMUL,
        "n_in": n_in,
        "weight_type": kind,
        "weight": _weight(bridge, kind, weights, n_out, n_in),
        "a": _floats(bridge, "x", x, rows * n_in),
    }
    return _run(bridge, how, fields, rows, n_out)


def _pair(op: Op, a: Buffer, b: Buffer, rows: int, width: int, how: How) -> memoryview[float]:
    bridge = load()
    fields = {
        "op": op,
        "n_in": width,
        "a": _floats(bridge, "a", a, rows * width),
        "b": _floats(bridge, "b", b, rows * width),
    }
    return _run(bridge, how, fields, rows, width)


def add(a: Buffer, b: Buffer, rows: int, width: int, how: How = _PLAIN) -> memoryview[float]:
    return _pair(Op.ADD, a, b, rows, width, how)


def swiglu(gate: Buffer, up: Buffer, rows: int, width: int, how: How = _PLAIN) -> memoryview[float]:
    """gate / (1 + exp(-gate)) * up."""
    return _pair(Op.SWIGLU, gate, up, rows, width, how)


def rope(
    x: Buffer,
    positions: Sequence[int],
    hparams: Mapping[str, float],
    divisors: Buffer | None = None,
    how: How = _PLAIN,
) -> memoryview[float]:
    """x [rows, n_head * head_dim] turned by its positions.

    hparams: fields of ds4_hparams: n_head, head_dim and those that begin with rope_. divisors: [rope_dim / 2] or None.
    """
    bridge = load()
    width = int(hparams["n_head"] * hparams["head_dim"])
    struct = bridge.ffi.new("ds4_hparams *", dict(hparams))
    fields = {
        "op": Op.ROPE,
        "n_in": width,
        "hparams": struct,
        "a": _floats(bridge, "x", x, len(positions) * width),
        "positions": bridge.ffi.new("int32_t[]", list(positions)),
    }
    if divisors is not None:
        fields["divisors"] = _floats(bridge, "divisors", divisors, struct.rope_dim // 2)
    return _run(bridge, how, fields, len(positions), width)


def attention(
    q: Buffer,
    k: Buffer,
    v: Buffer,
    places: Sequence[tuple[int, int]],
    hparams: Mapping[str, float],
    kv_type: GgmlType = GgmlType.F32,
    how: How = _PLAIN,
) -> memoryview[float]:
    """Stores k and v of each row at its place (bank, position) and attends with q over the bank up to there.

    hparams: n_head, n_head_kv, head_dim, attn_scale (0: 1 / sqrt(head_dim)) and sliding_window (0: none).
    """
    bridge = load()
    rows, dim = len(places), int(hparams["head_dim"])
    width, cols = int(hparams["n_head"]) * dim, int(hparams["n_head_kv"]) * dim
    fields = {
        "op": Op.ATTENTION,
        "n_in": width,
        "kv_type": kv_type,
        "hparams": bridge.ffi.new("ds4_hparams *", dict(hparams)),
        "a": _floats(bridge, "q", q, rows * width),
        "b": _floats(bridge, "k", k, rows * cols),
        "c": _floats(bridge, "v", v, rows * cols),
        "banks": bridge.ffi.new("int32_t[]", [bank for bank, _ in places]),
        "positions": bridge.ffi.new("int32_t[]", [position for _, position in places]),
    }
    return _run(bridge, how, fields, rows, width)


def sample(
    sampler: SamplerDesc,
    logits: Buffer,
    history: Sequence[int],
    *,
    top: int = 0,
    mask: Buffer | None = None,
    how: How = _PLAIN,
) -> Drawn:
    """Draws as a step does for the position of the last token of `history`, with `top` log-probabilities."""
    bridge = load()
    ffi = bridge.ffi
    count = memoryview(logits).nbytes // 4
    if not history:
        raise argument("a draw needs at least one token before it")
    if mask is not None and memoryview(mask).nbytes < 4 * ((count + 31) // 32):
        raise argument(f"a mask of {memoryview(mask).nbytes} bytes does not cover {count} tokens")
    struct, keep = sampler_struct(bridge, sampler)
    fields = {
        "op": Op.SAMPLE,
        "n_rows": 1,
        "n_in": count,
        "n_out": 1 + top,
        "a": _floats(bridge, "logits", logits, count),
        "tokens": ffi.new("int32_t[]", list(history)),
        "positions": ffi.new("int32_t[]", [len(history) - 1]),
        "sampler": struct,
    }
    if mask is not None:
        fields["mask"] = ffi.from_buffer("uint32_t[]", mask)
    desc, name = _desc(bridge, how, fields)
    y, ids, error = ffi.new("float[]", 1 + max(top, 0)), ffi.new("int32_t[]", 1 + max(top, 0)), ffi.new("ds4_error *")
    status = bridge.lib.ds4_ops_probe(desc, y, ids, error)
    del keep, name
    if status:
        fail(bridge, status, error)
    return Drawn(int(ids[0]), float(y[0]), [(int(ids[i]), float(y[i])) for i in range(1, 1 + min(top, count))])
