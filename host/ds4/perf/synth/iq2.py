"""IQ2_XXS: 2.0625 bits a weight. Eight magnitudes at a time are one of 256 published points, times a scale and signs.

    | off size
    |  0  f16 d | 2  8 runs of 32 elements, each two u32:
    |                 four 8-bit numbers of points;  four 7-bit sign masks, then a 4-bit scale s at bit 28
    x = d (s + 1/2) / 4 * magnitude * sign;  the eighth sign makes the number of minus signs even

Source: the GGUF format as the `gguf` package reads it. A point's magnitudes are 8, 25 or 43: GRID lists the points in
their order, element k the k-th ternary digit from below.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ds4.perf.synth.arrays import Floats, halves, raw

# fmt: off
GRID = (
    0, 2, 4, 6, 8, 10, 12, 18, 20, 24, 26, 28, 30, 36, 42, 46, 48, 54,
    56, 62, 74, 82, 84, 90, 94, 108, 138, 150, 162, 164, 182, 218, 244, 246, 252, 262,
    264, 270, 272, 276, 288, 298, 300, 306, 318, 324, 326, 330, 342, 356, 376, 378, 388, 412,
    414, 432, 462, 480, 486, 490, 492, 498, 510, 514, 516, 522, 524, 546, 570, 594, 650, 660,
    730, 732, 738, 748, 756, 774, 786, 792, 796, 810, 816, 828, 846, 854, 864, 912, 922, 972,
    978, 990, 994, 1006, 1026, 1068, 1100, 1134, 1148, 1216, 1218, 1224, 1242, 1270, 1296, 1300, 1368, 1414,
    1458, 1460, 1466, 1488, 1504, 1512, 1514, 1564, 1572, 1620, 1622, 1702, 1704, 1710, 1728, 1742, 1782, 1810,
    1830, 1926, 1950, 1962, 2010, 2136, 2188, 2190, 2196, 2202, 2206, 2208, 2214, 2220, 2228, 2232, 2242, 2244,
    2250, 2268, 2286, 2314, 2322, 2326, 2350, 2358, 2382, 2390, 2400, 2430, 2436, 2448, 2484, 2500, 2522, 2532,
    2592, 2674, 2676, 2682, 2700, 2704, 2754, 2796, 2800, 2810, 2866, 2898, 2916, 2922, 2926, 2932, 2934, 2970,
    2976, 3000, 3026, 3072, 3142, 3222, 3224, 3248, 3322, 3360, 3402, 3412, 3418, 3450, 3510, 3570, 3648, 3654,
    3672, 3696, 3726, 3766, 3822, 3852, 3888, 3892, 3978, 3980, 4026, 4160, 4374, 4376, 4382, 4402, 4430, 4458,
    4470, 4482, 4546, 4618, 4620, 4626, 4630, 4644, 4662, 4698, 4730, 4764, 4786, 4806, 4824, 4862, 4944, 5032,
    5106, 5112, 5124, 5130, 5176, 5198, 5238, 5296, 5346, 5366, 5376, 5464, 5644, 5688, 5834, 5868, 5890, 5920,
    5994, 6090, 6354, 6402,
)
# fmt: on
POINTS = np.array([8, 25, 43], np.float64)[np.array(GRID)[:, None] // 3 ** np.arange(8) % 3]
"""[256, 8]"""

_UNITS = 32  # of a scale, in which magnitudes are counted while points are compared
_NORMS = (_UNITS * np.square(POINTS).sum(axis=1)).astype(np.float32)
_TWICE = np.ascontiguousarray(2 * POINTS.T, np.float32)
_MOST = 15.5 / 4  # of d: the largest scale of a run
_LARGEST = 43.0
_FITS = (0.62, 0.74, 0.87, 1.0)  # scales that are tried, as parts of the one that reaches the largest element
_CHUNK = 1 << 6  # blocks at a time: their distances to all points fit a processor's cache


def iq2_xxs(x: Floats) -> bytes:
    """x: float32 [n, 256]."""
    return b"".join(_encode(x[at : at + _CHUNK].astype(np.float64)) for at in range(0, len(x), _CHUNK))


def _encode(x: npt.NDArray[np.float64]) -> bytes:
    groups = x.reshape(-1, 8, 4, 8)  # run, group of 8, element
    minus = np.signbit(groups)
    size = np.abs(groups)
    # An odd number of minus signs cannot be said: the smallest element takes the wrong sign.
    odd = minus.sum(axis=3) % 2 == 1
    least = size.argmin(axis=3)
    at = (*np.indices(odd.shape), least)
    minus[at] ^= odd
    size[at] = np.where(odd, -size[at], size[at])

    reach = np.abs(size).max(axis=(2, 3))  # [n, 8]
    d = (reach.max(axis=1, keepdims=True) / (_LARGEST * _MOST)).astype(np.float16)
    exact_d = d.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        wanted = np.where(exact_d > 0, reach / (_LARGEST * exact_d), 0.0)  # (s + 1/2) / 4 that reaches the largest
    best = np.full(reach.shape, np.inf)
    best_s = np.zeros(reach.shape, np.uint32)
    best_points = np.zeros((*reach.shape, 4), np.uint32)
    for fit in _FITS:
        s = np.clip(np.rint(wanted * fit * 4 - 0.5), 0, 15)
        scale = exact_d * (s + 0.5) / 4
        points, error = _nearest(size, scale)
        better = error < best
        best = np.minimum(error, best)
        best_s = np.where(better, s.astype(np.uint32), best_s)
        best_points = np.where(better[..., None], points, best_points)
    signs = (minus[..., :7] << np.arange(7, dtype=np.uint32)).sum(axis=3, dtype=np.uint32)
    numbers = (best_points << np.arange(0, 32, 8, dtype=np.uint32)).sum(axis=2, dtype=np.uint32)
    masks = (signs << np.arange(0, 28, 7, dtype=np.uint32)).sum(axis=2, dtype=np.uint32) | best_s << 28
    words = np.stack([numbers, masks], axis=2).astype("<u4").reshape(len(x), 16)
    return raw(halves(d.astype(np.float32)), np.ascontiguousarray(words).view(np.uint8))


def _nearest(
    size: npt.NDArray[np.float64], scale: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.float64]]:
    """The nearest point of each group [n, 8, 4] at its run's scale [n, 8], and each run's square error."""
    # |size - step p|^2 = |size|^2 - 2 step size.p + step^2 |p|^2. In whole units every product and sum below 2^24 is
    # exact in binary32, so that no library's order of summation can choose another point.
    step = scale[:, :, None, None]
    with np.errstate(divide="ignore"):
        inverse = np.where(step > 0, _UNITS / step, 0.0)
    units = np.clip(np.rint(size * inverse), -4095, 4095).astype(np.float32).reshape(-1, 8)
    distance = _NORMS - units @ _TWICE
    points = distance.argmin(axis=1).reshape(size.shape[:3])
    error = np.square(size - step * POINTS[points]).sum(axis=(2, 3))
    return points.astype(np.uint32), error
