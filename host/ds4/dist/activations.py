"""The widths in which activations travel: 32, 16 or 8 bits a value. Values are little-endian 32-bit floats in memory.

    32  the bits as they are
    16  IEEE 754 half, little-endian; to nearest, ties to even; beyond the largest: infinity; any NaN: 0x7E00
    8   sign, 4 exponent bits of bias 7, 3 mantissa bits; to nearest, ties to the even code; beyond 240: 240

    8-bit codes, sign bit off        value
    0x00..0x07                       m x 2^-9
    0x08..0x77                       (1 + m / 8) x 2^(e - 7), m the low three bits, e the others
    0x78..0x7E                       never written; read as 240
    0x7F                             NaN

A NaN keeps its sign and loses its payload, but in 32 bits. Nothing here needs more than the standard library: halves go
through `struct`, 8-bit codes are found among the 119 midpoints between them, and are read by two tables of bytes.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_right
from math import copysign, inf

from ds4.core import components
from ds4.errors import FrameError

WIDTHS = {0: 4, 8: 1, 16: 2, 32: 4}
"""Bytes of a value, by its bits; 0 stands for 32."""

Buffer = bytes | bytearray | memoryview


def width(bits: int, subject: str = "bits") -> int:
    """Bytes of a value. Raises FrameError (frame_bits)."""
    found = WIDTHS.get(bits)
    if found is None:
        raise FrameError(
            "not a width of the wire", code="frame_bits", subject=subject, expected="8, 16 or 32", found=bits
        )
    return found


def check_length(count: int, size: int, subject: str = "values") -> None:
    """Raises FrameError (frame_activations) unless `count` bytes are whole values of `size` bytes."""
    if count % size:
        raise FrameError(
            "not whole values", code="frame_activations", subject=subject, expected=f"a multiple of {size} bytes",
            found=f"{count} bytes",
        )  # fmt: skip


def pack_python(values: Buffer, bits: int) -> bytes:
    """The wire bytes of little-endian 32-bit floats. Raises FrameError."""
    size = width(bits)
    check_length(len(values), 4)
    if size == 4:
        return bytes(values)
    return _pack_half(values) if size == 2 else _pack_e4m3(values)


def unpack_python(wire: Buffer, bits: int) -> bytes:
    """Little-endian 32-bit floats from wire bytes. Raises FrameError."""
    size = width(bits)
    check_length(len(wire), size)
    if size == 4:
        return bytes(wire)
    return _unpack_half(wire) if size == 2 else _unpack_e4m3(wire)


# ---- 16 bits ----


def _pack_half(values: Buffer) -> bytes:
    count = len(values) // 4
    floats = struct.unpack(f"<{count}f", values)
    try:
        return struct.pack(f"<{count}e", *floats)
    except OverflowError:  # struct refuses what rounds to infinity
        return struct.pack(f"<{count}e", *[x if not abs(x) >= _HALF_OVER else copysign(inf, x) for x in floats])


_HALF_OVER = 65520.0
"""Midway between the largest half and the power of two above it: from here on it is infinity."""


def _unpack_half(wire: Buffer) -> bytes:
    count = len(wire) // 2
    return struct.pack(f"<{count}f", *struct.unpack(f"<{count}e", wire))


# ---- 8 bits ----

_LARGEST_CODE, _NAN_CODE = 0x77, 0x7F
_F32_INFINITY = 0x7F800000


def _value(code: int) -> float:
    """Of a code below 0x80."""
    exponent, mantissa = code >> 3, code & 7
    if code == _NAN_CODE:
        return float("nan")
    if code > _LARGEST_CODE:
        return 240.0
    return (8 + mantissa) * 2.0 ** (exponent - 10) if exponent else mantissa * 2.0**-9


def _f32_bits(value: float) -> int:
    bits: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return bits


def _bounds() -> list[int]:
    """The bits of the smallest magnitude that is rounded to each code from 1 to the largest.

    Magnitudes are in the order of their bits, so a value's code is the number of bounds at or below it.
    """
    bounds = []
    for code in range(1, _LARGEST_CODE + 1):
        middle = _f32_bits((_value(code - 1) + _value(code)) / 2)
        bounds.append(middle + code % 2)  # a tie goes to the even one
    return bounds


_BOUNDS = _bounds()
# 8-bit values use only the upper half of a float's 32 bits: byte 3 and byte 2, for every code.
_UPPER = [_f32_bits(_value(code & 0x7F)) >> 16 & 0x7FFF | (code & 0x80) << 8 for code in range(256)]
_BYTE_3 = bytes([upper >> 8 for upper in _UPPER])
_BYTE_2 = bytes([upper & 0xFF for upper in _UPPER])


def _pack_e4m3(values: Buffer) -> bytes:
    words = array("I")
    words.frombytes(values)
    if sys.byteorder == "big":
        words.byteswap()
    bounds = _BOUNDS
    return bytes([
        bisect_right(bounds, magnitude) | (word >> 24 & 0x80)
        if (magnitude := word & 0x7FFFFFFF) <= _F32_INFINITY
        else _NAN_CODE | (word >> 24 & 0x80)
        for word in words
    ])  # fmt: skip


def _unpack_e4m3(wire: Buffer) -> bytes:
    raw = bytes(wire)
    out = bytearray(4 * len(raw))
    out[3::4] = raw.translate(_BYTE_3)
    out[2::4] = raw.translate(_BYTE_2)
    return bytes(out)


# ---- which side decides ----


def _pack_oracle(values: Buffer, bits: int) -> bytes:
    from ds4.dist import tapes

    return tapes.pack_by_oracle(values, bits)


def _unpack_oracle(wire: Buffer, bits: int) -> bytes:
    from ds4.dist import tapes

    return tapes.unpack_by_oracle(wire, bits)


pack = components.pick("frames", python=pack_python, oracle=_pack_oracle)
unpack = components.pick("frames", python=unpack_python, oracle=_unpack_oracle)
