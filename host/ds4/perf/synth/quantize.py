"""float32 to GGUF's tensor types, whole arrays at a time.

    encode(GgmlType.Q4_K, values)    values: float32 [blocks of 256 elements, any shape]    -> the file's bytes

Every element of a block weighs the same: there is no importance matrix. The result depends on the values alone, not on
how a tensor is cut into calls. Sources of the layouts: native/quant/blocks.h and the `gguf` package, which the tests
read the blocks back with.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ds4.core.cursor import shown
from ds4.core.ggml_types import TENSOR_TYPES, type_name
from ds4.errors import ModelFileError
from ds4.perf.synth import iq2, kquants
from ds4.perf.synth.arrays import Bytes, Floats, halves, raw

_I32 = 26

MXFP4_STEPS = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
_MXFP4_EDGES = (MXFP4_STEPS[:-1] + MXFP4_STEPS[1:]) / 2


def encode(kind: int, values: Floats, name: str = "values") -> bytes:
    """values: float32, a whole number of blocks of the type `kind` (GGUF's number), row after row.

    Raises ModelFileError, subject `name`: code `tensor_type` for a type that nothing here writes, `tensor_blocks` for
    rows that are no whole blocks, `tensor_values` for a number that is not finite or, in F16, too large.
    """
    writer = WRITERS.get(kind)
    if writer is None:
        raise ModelFileError(
            "no such type can be written",
            code="tensor_type",
            subject=shown(name),
            expected=" or ".join(type_name(known) for known in WRITERS),
            found=type_name(kind),
        )
    block = TENSOR_TYPES[kind].block
    if values.size % block:
        raise ModelFileError(
            f"rows are not whole {type_name(kind)} blocks",
            code="tensor_blocks",
            subject=shown(name),
            expected=f"a multiple of {block}",
            found=values.size,
        )
    if not np.isfinite(values).all():
        raise ModelFileError(
            "a weight is not a number", code="tensor_values", subject=shown(name), expected="finite", found="inf or NaN"
        )
    if kind == 1 and values.size and float(np.abs(values).max()) >= 65520:
        raise ModelFileError(
            "a weight does not fit F16",
            code="tensor_values",
            subject=shown(name),
            expected="less than 65520",
            found=float(np.abs(values).max()),
        )
    return writer(np.ascontiguousarray(values, np.float32).reshape(-1, block))


def _f32(x: Floats) -> bytes:
    return x.astype("<f4").tobytes()


def _f16(x: Floats) -> bytes:
    return x.astype("<f2").tobytes()


def _bf16(x: Floats) -> bytes:
    """The upper half of a binary32, rounded to nearest, ties to even."""
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2").tobytes()


def _q8_0(x: Floats) -> bytes:
    d = np.abs(x).max(axis=1, keepdims=True) / np.float32(127)
    return raw(halves(d), _whole(x, d).astype(np.int8))


def _whole(x: Floats, d: Floats) -> Floats:
    """x / d to the nearest integer, half to even; 0 where d is 0."""
    with np.errstate(divide="ignore"):
        inverse = np.where(d > 0, np.float32(1) / d, np.float32(0))
    out: Floats = np.rint(x * inverse)
    return out


def _signed(x: Floats, levels: int) -> tuple[Floats, Bytes]:
    """x = d * (q - levels), the element of largest magnitude at q = 0."""
    extreme = np.take_along_axis(x, np.abs(x).argmax(axis=1, keepdims=True), axis=1)
    d = extreme / np.float32(-levels)
    with np.errstate(divide="ignore"):
        inverse = np.where(d != 0, np.float32(1) / d, np.float32(0))
    return d, np.clip(np.rint(x * inverse) + levels, 0, 2 * levels - 1).astype(np.uint8)


def _ramp(x: Floats, levels: int) -> tuple[Floats, Floats, Bytes]:
    """x = d * q + m."""
    m = x.min(axis=1, keepdims=True)
    d = (x.max(axis=1, keepdims=True) - m) / np.float32(levels)
    return d, m, np.clip(_whole(x - m, d), 0, levels).astype(np.uint8)


def _nibbles(q: Bytes) -> Bytes:
    """Byte i: element i low, element i + 16 high."""
    return (q[:, :16] & 15 | (q[:, 16:] & 15) << 4).astype(np.uint8)


def _fifth(q: Bytes) -> Bytes:
    """Bit 4 of each element as a little-endian word."""
    return np.packbits(q >> 4, axis=1, bitorder="little")


def _q4_0(x: Floats) -> bytes:
    d, q = _signed(x, 8)
    return raw(halves(d), _nibbles(q))


def _q4_1(x: Floats) -> bytes:
    d, m, q = _ramp(x, 15)
    return raw(halves(d), halves(m), _nibbles(q))


def _q5_0(x: Floats) -> bytes:
    d, q = _signed(x, 16)
    return raw(halves(d), _fifth(q), _nibbles(q))


def _q5_1(x: Floats) -> bytes:
    d, m, q = _ramp(x, 31)
    return raw(halves(d), halves(m), _fifth(q), _nibbles(q))


def _mxfp4(x: Floats) -> bytes:
    """A shared power of two (E8M0: byte e is 2^(e - 127)) and 32 E2M1 numbers; of two neighbouring powers the one with
    the smaller square error."""
    amax = np.abs(x).max(axis=1, keepdims=True)
    _, exponent = np.frexp(amax)  # amax in [2^(exponent - 1), 2^exponent): its largest element lands in [4, 8)
    best: tuple[npt.NDArray[np.float64], Bytes, Bytes] | None = None
    for more in (0, 1):
        power = np.clip(exponent + more - 3, -127, 127)
        scaled = np.ldexp(np.abs(x), -power)
        code = np.searchsorted(_MXFP4_EDGES, scaled, side="left").astype(np.uint8)
        error = np.square((MXFP4_STEPS[code] - scaled).astype(np.float64)).sum(axis=1, keepdims=True)
        error = np.ldexp(error, 2 * power)
        code |= (np.signbit(x) & (code > 0)).astype(np.uint8) << 3
        e = (power + 127).astype(np.uint8)
        if best is None:
            best = error, e, code
        else:
            less = error < best[0]
            best = np.minimum(error, best[0]), np.where(less, e, best[1]), np.where(less, code, best[2])
    assert best is not None
    return raw(best[1], _nibbles(best[2]))


def _i32(x: Floats) -> bytes:
    return np.rint(x).astype("<i4").tobytes()


WRITERS: dict[int, Callable[[Floats], bytes]] = {
    0: _f32,
    1: _f16,
    2: _q4_0,
    3: _q4_1,
    6: _q5_0,
    7: _q5_1,
    8: _q8_0,
    10: kquants.q2_k,
    11: kquants.q3_k,
    12: kquants.q4_k,
    13: kquants.q5_k,
    14: kquants.q6_k,
    16: iq2.iq2_xxs,
    _I32: _i32,
    30: _bf16,
    39: _mxfp4,
}
"""By GGUF's type number: blocks [n, elements of a block] to bytes."""
