"""Quantised blocks out of random bytes: every code is as likely as every other, and the scale fixes the deviation."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ds4.core.ggml_types import TENSOR_TYPES

_E8M0 = 39  # MXFP4: its scale is one byte, a power of two

# (offset of d, offset of what is added or taken away or -1, that in units of d, deviation of elements where d is 1)
_FIELDS: dict[int, tuple[int, int, float, float]] = {
    2: (0, -1, 0.0, 4.61),
    3: (0, 2, -7.5, 4.61),
    6: (0, -1, 0.0, 9.23),
    7: (0, 2, -15.5, 9.23),
    8: (0, -1, 0.0, 73.9),
    10: (80, 82, 1.5, 13.87),
    11: (108, -1, 0.0, 43.3),
    12: (0, 2, 7.5, 258.0),
    13: (0, 2, 15.5, 526.0),
    14: (208, -1, 0.0, 1367.0),
    16: (0, -1, 0.0, 53.4),
    _E8M0: (0, -1, 0.0, 2.93),
}


def fast(kind: int) -> bool:
    """Whether blocks of a type can be drawn so."""
    return kind in _FIELDS


def random_blocks(kind: int, raw: Callable[[int], bytes], count: int, deviation: float) -> bytes:
    """`count` blocks whose elements have mean 0 (nearly, for types without an offset) and the given deviation."""
    offset, added, ratio, unit = _FIELDS[kind]
    nbytes = TENSOR_TYPES[kind].nbytes
    blocks = np.frombuffer(bytearray(raw(count * nbytes)), np.uint8).reshape(count, nbytes)
    d = deviation / unit
    if kind == _E8M0:
        blocks[:, 0] = min(max(round(math.log2(d)) + 127, 0), 254)
        return blocks.tobytes()
    blocks[:, offset : offset + 2] = _half(d)
    if added >= 0:
        blocks[:, added : added + 2] = _half(ratio * d)
    return blocks.tobytes()


def _half(value: float) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
    return np.frombuffer(np.array(value, "<f2").tobytes(), np.uint8)
