"""The K formats: 256 elements with a scale for each 16 or 32 of them, itself a small integer times one half.

    Q2_K, Q4_K, Q5_K    x = d sc q - dmin m          sc, m: 4 or 6 bits
    Q3_K, Q6_K          x = d sc q                   sc, q signed

Each run's scale and minimum are fitted by least squares to its own rounding, twice, then rounded to the integers that
the block stores; the elements are rounded last, to what those can say. Byte tables: native/quant/blocks.h.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ds4.perf.synth.arrays import Bytes, Floats, halves, raw

_ROUNDS = 2
_Exact = npt.NDArray[np.float64]
_Integers = npt.NDArray[Any]


def _inverse(d: _Exact) -> _Exact:
    with np.errstate(divide="ignore"):
        out: _Exact = np.where(d != 0, 1 / d, 0.0)
    return out


def _ramp(x: _Exact, levels: int) -> tuple[_Exact, _Exact]:
    """The scale s and minimum m >= 0 of each run that make s q - m, q in 0..levels, fit best. x: [n, runs, length]."""
    m = -np.minimum(x.min(axis=2, keepdims=True), 0)
    s = (x.max(axis=2, keepdims=True).clip(min=0) + m) / levels
    best_s, best_m, best = s, m, np.full(s.shape, np.inf)
    for left in range(_ROUNDS, -1, -1):
        q = np.clip(np.rint((x + m) * _inverse(s)), 0, levels)
        error = np.square(s * q - m - x).sum(axis=2, keepdims=True)
        better = error < best
        best, best_s, best_m = np.minimum(error, best), np.where(better, s, best_s), np.where(better, m, best_m)
        if left:
            q_mean, x_mean = q.mean(axis=2, keepdims=True), x.mean(axis=2, keepdims=True)
            spread = np.square(q - q_mean).sum(axis=2, keepdims=True)
            s = ((q - q_mean) * (x - x_mean)).sum(axis=2, keepdims=True) * _inverse(spread)
            m = s * q_mean - x_mean
            at_zero = (q * x).sum(axis=2, keepdims=True) * _inverse(np.square(q).sum(axis=2, keepdims=True))
            s, m = np.where(m < 0, at_zero, s).clip(min=0), m.clip(min=0)
    return best_s, best_m


def _ramp_blocks(x: Floats, run: int, levels: int, most: int) -> tuple[Floats, Floats, Bytes, Bytes, Bytes]:
    """d, dmin [n, 1]; sc, m [n, runs]; q [n, 256]."""
    exact = x.astype(np.float64).reshape(len(x), -1, run)
    s, low = _ramp(exact, levels)
    stored = []
    for wanted in (s, low):
        d = (wanted.max(axis=1) / most).astype(np.float16)
        integers = np.clip(np.rint(wanted[:, :, 0] * _inverse(d.astype(np.float64))), 0, most)
        stored.append((d.astype(np.float32), integers))
    (d, sc), (dmin, m) = stored
    scale, minimum = (d * sc)[:, :, None], (dmin * m)[:, :, None]
    q = np.clip(np.rint((exact + minimum) * _inverse(scale.astype(np.float64))), 0, levels)
    return d, dmin, sc.astype(np.uint8), m.astype(np.uint8), q.astype(np.uint8).reshape(len(x), 256)


def _signed_blocks(x: Floats, half: int, most: int) -> tuple[Floats, npt.NDArray[np.int8], Bytes]:
    """d [n, 1]; sc [n, 16] in -most..most; q + half [n, 256], q in -half..half-1."""
    exact = x.astype(np.float64).reshape(len(x), 16, 16)
    extreme = np.take_along_axis(exact, np.abs(exact).argmax(axis=2, keepdims=True), axis=2)
    s = extreme / -half
    for _ in range(_ROUNDS):
        q = np.clip(np.rint(exact * _inverse(s)), -half, half - 1)
        fitted = (q * exact).sum(axis=2, keepdims=True) * _inverse(np.square(q).sum(axis=2, keepdims=True))
        q_fitted = np.clip(np.rint(exact * _inverse(fitted)), -half, half - 1)
        gain = np.square(s * q - exact) - np.square(fitted * q_fitted - exact)
        s = np.where(gain.sum(axis=2, keepdims=True) > 0, fitted, s)
    d = (np.abs(s).max(axis=1) / most).astype(np.float16)
    sc = np.clip(np.rint(s[:, :, 0] * _inverse(d.astype(np.float64))), -most, most)
    scale = (d.astype(np.float64) * sc)[:, :, None]
    q = np.clip(np.rint(exact * _inverse(scale)), -half, half - 1)
    return d.astype(np.float32), sc.astype(np.int8), (q + half).astype(np.uint8).reshape(len(x), 256)


def _crumbs(q: _Integers) -> Bytes:
    """2 bits of each element: byte 32 h + l holds element l of runs 4 h .. 4 h + 3, from bit 0 up."""
    runs = q.reshape(-1, 2, 4, 32)
    packed: _Integers = runs[:, :, 0] | runs[:, :, 1] << 2 | runs[:, :, 2] << 4 | runs[:, :, 3] << 6
    return packed.reshape(-1, 64)


def _nibbles(q: _Integers) -> Bytes:
    """4 bits of each element: byte 32 (t / 2) + l holds element l of runs t and t + 1."""
    runs = q.reshape(-1, 4, 2, 32)
    packed: _Integers = runs[:, :, 0] | runs[:, :, 1] << 4
    return packed.reshape(-1, 128)


def _bits(q: _Integers) -> Bytes:
    """1 bit of each element: bit t of byte l is element l of run t."""
    return np.packbits(q.reshape(-1, 8, 32), axis=1, bitorder="little").reshape(-1, 32)


def _scales_4k(sc: Bytes, m: Bytes) -> Bytes:
    """Eight 6-bit scales and minimums in 12 bytes."""
    low = sc[:, :4] | sc[:, 4:] >> 4 << 6
    high = m[:, :4] | m[:, 4:] >> 4 << 6
    return np.concatenate([low, high, sc[:, 4:] & 15 | (m[:, 4:] & 15) << 4], axis=1)


def _scales_3k(sc: npt.NDArray[np.int8]) -> Bytes:
    """Sixteen 6-bit scales plus 32 in 12 bytes."""
    u = (sc.astype(np.int16) + 32).astype(np.uint8)
    top = u >> 4
    upper = top[:, :4] | top[:, 4:8] << 2 | top[:, 8:12] << 4 | top[:, 12:] << 6
    return np.concatenate([u[:, :8] & 15 | (u[:, 8:] & 15) << 4, upper], axis=1)


def q2_k(x: Floats) -> bytes:
    d, dmin, sc, m, q = _ramp_blocks(x, 16, 3, 15)
    return raw(sc | m << 4, _crumbs(q), halves(d), halves(dmin))


def q3_k(x: Floats) -> bytes:
    d, sc, q = _signed_blocks(x, 4, 31)
    return raw(_bits(q >> 2), _crumbs(q & 3), _scales_3k(sc), halves(d))


def q4_k(x: Floats) -> bytes:
    d, dmin, sc, m, q = _ramp_blocks(x, 32, 15, 63)
    return raw(halves(d), halves(dmin), _scales_4k(sc, m), _nibbles(q))


def q5_k(x: Floats) -> bytes:
    d, dmin, sc, m, q = _ramp_blocks(x, 32, 31, 63)
    return raw(halves(d), halves(dmin), _scales_4k(sc, m), _bits(q >> 4), _nibbles(q & 15))


def q6_k(x: Floats) -> bytes:
    d, sc, q = _signed_blocks(x, 32, 127)
    runs = (q & 15).reshape(-1, 2, 2, 2, 32)  # half, nibble j / 2, j % 2, element
    low = (runs[:, :, 0] | runs[:, :, 1] << 4).reshape(-1, 128)
    return raw(low, _crumbs(q >> 4), sc, halves(d))
