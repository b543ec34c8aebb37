"""How two numeric arrays differ: the figures a person asks for, the elements that differ most, and a plot.

KL is the mean over rows (the last axis) of KL(softmax(golden) || softmax(found)), in nats: the meaning of a difference
in logits. It is left out for arrays of integers and for rows of one element.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from markupsafe import Markup

if TYPE_CHECKING:
    import numpy.typing as npt

    from parity.pending import Array

    Floats = npt.NDArray[np.float64]

TOP = 8
WIDTH, HEIGHT, GAP = 720, 120, 14
BUCKETS = 240


@dataclass(frozen=True)
class Figure:
    name: str
    value: str
    hint: str


@dataclass(frozen=True)
class Worst:
    index: str
    expected: str
    found: str
    difference: str


@dataclass(frozen=True)
class Comparison:
    """differing: elements that are not the same bits; note: why nothing can be compared, or ""."""

    figures: tuple[Figure, ...]
    worst: tuple[Worst, ...]
    plot: Markup
    differing: int
    summary: str
    note: str = ""


def describe(array: Array) -> str:
    return f"{array.dtype} [{' x '.join(map(str, array.shape))}]"


def compare(expected: Array | None, found: Array | None) -> Comparison:
    """The comparison of a golden array with what was found; one of them may be missing."""
    only = found if expected is None else expected
    if expected is None or found is None:
        assert only is not None
        plot = _plot([("found", _flat(only))], None)
        return Comparison(tuple(_facts(only)), (), plot, int(only.size), describe(only))
    if expected.shape != found.shape:
        note = f"the golden is {describe(expected)}, what was found is {describe(found)}: they cannot be compared"
        plot = _plot([("golden", _flat(expected)), ("found", _flat(found))], None)
        return Comparison(tuple(_facts(found)), (), plot, int(max(expected.size, found.size)), "another shape", note)
    a, b = _flat(expected), _flat(found)
    with np.errstate(all="ignore"):
        both = np.isfinite(a) & np.isfinite(b)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        delta = np.where(both, np.abs(a - b), np.where(same, 0.0, np.inf))
    differing = int((~same).sum()) or int(expected.dtype != found.dtype)
    finite = delta[np.isfinite(delta)]
    largest = float(delta.max(initial=0.0))
    rms = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    scale = float(np.sqrt(np.mean(a[both] ** 2))) if both.any() else 0.0
    figures = [
        Figure("max |Δ|", _number(largest), "the largest difference of one element"),
        Figure("rms Δ", _number(rms), "the root of the mean squared difference"),
        Figure("rms Δ / rms", _number(rms / scale) if scale else "–", "relative to the golden's own size"),
    ]
    divergence = _kl(expected, found)
    if divergence is not None:
        hint = "mean over rows of KL(golden ‖ found) of their softmax, in nats"
        figures.append(Figure("KL", _number(divergence), hint))
        agree = float(np.mean(np.argmax(expected, -1) == np.argmax(found, -1)))
        figures.append(Figure("argmax", f"{100 * agree:.1f} %", "rows whose largest element is the same"))
    figures.append(Figure("differ", f"{differing:,} of {a.size:,}", "elements that are not the same"))
    lost = int((~np.isfinite(b)).sum())
    if lost:
        figures.append(Figure("not finite", f"{lost:,}", "elements found that are infinite or no number"))
    summary = f"max |Δ| {_number(largest)}, rms {_number(rms)}"
    if divergence is not None:
        summary += f", KL {_number(divergence)}"
    note = "" if expected.dtype == found.dtype else f"the golden is {expected.dtype}, what was found is {found.dtype}"
    worst = tuple(_worst(a, b, delta, expected.shape))
    return Comparison(tuple(figures), worst, _plot([("golden", a), ("found", b)], delta), differing, summary, note)


def _flat(array: Array) -> Floats:
    if array.dtype.kind not in "biufe":
        return np.zeros(0)
    return np.asarray(array, dtype=np.float64).reshape(-1)


def _facts(array: Array) -> list[Figure]:
    flat = _flat(array)
    finite = flat[np.isfinite(flat)]
    facts = [Figure("shape", " x ".join(map(str, array.shape)) or "one", ""), Figure("type", str(array.dtype), "")]
    if finite.size:
        facts += [
            Figure("least", _number(float(finite.min())), ""),
            Figure("mean", _number(float(finite.mean())), ""),
            Figure("most", _number(float(finite.max())), ""),
        ]
    return facts


def _kl(expected: Array, found: Array) -> float | None:
    if expected.ndim == 0 or expected.shape[-1] < 2 or expected.dtype.kind != "f" or found.dtype.kind != "f":
        return None
    a, b = (np.asarray(x, np.float64).reshape(-1, expected.shape[-1]) for x in (expected, found))
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        return None
    p, q = (x - x.max(-1, keepdims=True) for x in (a, b))
    log_p, log_q = (x - np.log(np.exp(x).sum(-1, keepdims=True)) for x in (p, q))
    return max(0.0, float((np.exp(log_p) * (log_p - log_q)).sum(-1).mean()))


def _worst(a: Floats, b: Floats, delta: Floats, shape: Sequence[int]) -> list[Worst]:
    order = np.argsort(-delta, kind="stable")[:TOP]
    rows = []
    for at in order:
        if delta[at] == 0:
            break
        index = ", ".join(str(int(i)) for i in np.unravel_index(int(at), tuple(shape)))
        rows.append(Worst(f"[{index}]", f"{a[at]:.7g}", f"{b[at]:.7g}", _number(float(delta[at]))))
    return rows


def _number(value: float) -> str:
    if value == 0:
        return "0"
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    return f"{value:.2e}" if not 1e-3 <= abs(value) < 1e5 else f"{value:.4g}"


def _plot(series: Sequence[tuple[str, Floats]], delta: Floats | None) -> Markup:
    """An SVG: each series as the band between its least and most of every stretch, the difference below it."""
    values = [flat[np.isfinite(flat)] for _, flat in series]
    if not any(v.size for v in values):
        return Markup("")
    low, high = min(float(v.min()) for v in values if v.size), max(float(v.max()) for v in values if v.size)
    height = HEIGHT + (GAP + HEIGHT // 2 if delta is not None else 0)
    parts = [_band(flat, low, high, 0, HEIGHT, name) for name, flat in series]
    parts.append(f'<line class="axis" x1="0" y1="{HEIGHT}" x2="{WIDTH}" y2="{HEIGHT}"/>')
    if delta is not None:
        finite = np.where(np.isfinite(delta), delta, 0.0)
        parts.append(_band(finite, 0.0, float(finite.max(initial=0.0)), HEIGHT + GAP, height, "difference"))
        parts.append(f'<line class="axis" x1="0" y1="{height}" x2="{WIDTH}" y2="{height}"/>')
    label = "golden and found over the elements" + ("; the difference below" if delta is not None else "")
    return Markup(
        f'<svg class="plot" viewBox="0 -4 {WIDTH} {height + 8}" role="img" aria-label="{label}" '
        f'preserveAspectRatio="none">{"".join(parts)}</svg>'
    )


def _band(flat: Floats, low: float, high: float, top: int, bottom: int, name: str) -> str:
    if not flat.size:
        return ""
    span = (high - low) or 1.0
    count = min(BUCKETS, flat.size)
    upper, lower = [], []
    for k, piece in enumerate(np.array_split(flat, count)):
        finite = piece[np.isfinite(piece)]
        if not finite.size:
            continue
        x = (k + 0.5) * WIDTH / count
        upper.append((x, bottom - (float(finite.max()) - low) / span * (bottom - top)))
        lower.append((x, bottom - (float(finite.min()) - low) / span * (bottom - top)))
    if name == "difference":
        lower = [(x, float(bottom)) for x, _ in lower]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*upper, *reversed(lower)])
    return f'<polygon class="{name}" points="{points}"/>'
