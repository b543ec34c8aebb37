"""Native functions that need no handle: the library's identity, its sampler, and its kernels by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ds4.sys.bridge import load
from ds4.sys.convert import argument, fail, hparams_struct, sampler_struct
from ds4.sys.descriptors import GgmlType, HParams, Numeric, SamplerDesc

Buffer = bytes | bytearray | memoryview


def version() -> str:
    """The library's release, e.g. "0.1.0"."""
    bridge = load()
    return bridge.text(bridge.lib.ds4_version())


def cpu_kernels() -> str:
    """The CPU kernels that the library chose on this processor, e.g. "avx2"."""
    bridge = load()
    return bridge.text(bridge.lib.ds4_cpu_kernels())


def kv_bytes_per_position(hparams: HParams, kv_type: GgmlType) -> int:
    """Bytes of KV cache that one further position of one bank takes."""
    bridge = load()
    struct, keep = hparams_struct(bridge, hparams)
    size = int(bridge.lib.ds4_kv_bytes_per_position(struct, kv_type))
    del keep
    if size == 0:
        raise argument(f"no KV cache of type {kv_type!r} for these hyperparameters")
    return size


def bank_bytes(hparams: HParams, kv_type: GgmlType, n_ctx: int, max_rows: int) -> int:
    """Bytes of state that one bank of n_ctx positions takes when full, in a session of that prefill width."""
    bridge = load()
    struct, keep = hparams_struct(bridge, hparams)
    size = int(bridge.lib.ds4_bank_bytes(struct, kv_type, n_ctx, max_rows))
    del keep
    if size == 0:
        raise argument(f"no bank of {n_ctx} positions of type {kv_type!r} for these hyperparameters")
    return size


def type_block(kind: GgmlType) -> tuple[int, int]:
    """(elements, bytes) of one block of the type."""
    bridge = load()
    size = bridge.ffi.new("int32_t *")
    elements = int(bridge.lib.ds4_type_block(kind, size))
    if elements == 0:
        raise argument(f"unknown tensor type {int(kind)}")
    return elements, int(size[0])


def _floats(count: int) -> tuple[bytearray, memoryview[float]]:
    store = bytearray(4 * count)
    return store, memoryview(store).cast("f")


def dequantize(kind: GgmlType, blocks: Buffer, count: int) -> memoryview[float]:
    """`count` elements (a whole number of blocks) as float32 [count]."""
    bridge = load()
    elements, size = type_block(kind)
    if count < 0 or count % elements or memoryview(blocks).nbytes != count // elements * size:
        found = memoryview(blocks).nbytes
        raise argument(f"{found} bytes for {count} elements of {kind.name} ({elements} in {size} bytes)")
    store, view = _floats(count)
    error = bridge.ffi.new("ds4_error *")
    source = bridge.ffi.from_buffer(blocks)
    status = bridge.lib.ds4_dequantize(kind, source, count, bridge.ffi.from_buffer("float[]", store), error)
    if status:
        fail(bridge, status, error)
    return view


def quantize(kind: GgmlType, values: Buffer, count: int) -> bytes:
    """`count` float32 numbers (a whole number of blocks) as blocks of F16, BF16 or Q8_0, which the engine writes.

    EngineError engine_unsupported for another type.
    """
    bridge = load()
    elements, size = type_block(kind)
    found = memoryview(values).nbytes
    if count < 0 or count % elements or found != 4 * count:
        raise argument(f"{found} bytes of float32 for {count} elements of {kind.name} ({elements} a block)")
    store = bytearray(count // elements * size)
    source, target = bridge.ffi.from_buffer("float[]", values), bridge.ffi.from_buffer(store)
    error = bridge.ffi.new("ds4_error *")
    status = bridge.lib.ds4_quantize(kind, source, count, target, error)
    if status:
        fail(bridge, status, error)
    return bytes(store)


def matmul_probe(
    kind: GgmlType,
    weights: Buffer,
    n_out: int,
    n_in: int,
    x: Buffer,
    n_rows: int,
    *,
    numeric: Numeric = Numeric.SHIP,
    n_threads: int = 1,
    kernels: str | None = None,
) -> memoryview[float]:
    """y[r, o] = sum_k W[o, k] x[r, k] through the kernels a session would use; float32 [n_rows * n_out].

    weights: n_out rows of n_in elements of `kind`; x: float32 [n_rows, n_in].
    """
    bridge = load()
    ffi = bridge.ffi
    elements, size = type_block(kind)
    found = (memoryview(weights).nbytes, memoryview(x).nbytes)
    wanted = (n_out * (n_in // elements) * size, 4 * n_rows * n_in)
    if min(n_out, n_in, n_rows) < 1 or n_in % elements or found != wanted:
        shapes = f"W [{n_out}, {n_in}] of {kind.name} and x [{n_rows}, {n_in}]"
        raise argument(f"W and x of {found} bytes do not fit {shapes}")
    store, view = _floats(n_rows * n_out)
    error = ffi.new("ds4_error *")
    name: Any = ffi.NULL if kernels is None else ffi.new("char[]", kernels.encode("ascii"))
    w, rows, y = ffi.from_buffer(weights), ffi.from_buffer("float[]", x), ffi.from_buffer("float[]", store)
    status = bridge.lib.ds4_matmul_probe(kind, w, n_out, n_in, rows, n_rows, y, numeric, n_threads, name, error)
    if status:
        fail(bridge, status, error)
    return view


def sample_logits(
    sampler: SamplerDesc,
    logits: bytearray | memoryview | memoryview[float],
    history: Sequence[int] = (),
    n_prompt: int = 0,
    *,
    mask: Buffer | None = None,
    uniform: float = 0.0,
) -> int:
    """The engine's sampler on its own: filters `logits` (float32 [n_vocab], changed in place) and draws with
    `uniform`.

    history: the tokens so far, of which the first n_prompt are the prompt. mask: bits of allowed ids, 32-bit words.
    """
    bridge = load()
    ffi = bridge.ffi
    arguments, keep = sampler_struct(bridge, sampler)
    n_vocab, rest = divmod(memoryview(logits).nbytes, 4)
    if rest or not 0 <= n_prompt <= len(history):
        raise argument(f"logits of {4 * n_vocab + rest} bytes, {n_prompt} prompt tokens of {len(history)}")
    if mask is not None and memoryview(mask).nbytes < 4 * ((n_vocab + 31) // 32):
        raise argument(f"a mask of {memoryview(mask).nbytes} bytes does not cover {n_vocab} tokens")
    values = ffi.from_buffer("float[]", logits, require_writable=True)
    tokens = ffi.new("int32_t[]", list(history))
    words = ffi.NULL if mask is None else ffi.from_buffer("uint32_t[]", mask)
    token, error = ffi.new("int32_t *"), ffi.new("ds4_error *")
    status = bridge.lib.ds4_sample_logits(
        arguments, values, n_vocab, tokens, len(history), n_prompt, words, uniform, token, error
    )
    del keep
    if status:
        fail(bridge, status, error)
    return int(token[0])


def sample_uniform(seed: int, position: int) -> float:
    """The uniform in [0, 1) that a step uses for (seed, position)."""
    return float(load().lib.ds4_sample_uniform(seed, position))
