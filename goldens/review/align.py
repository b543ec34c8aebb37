"""Two lists of units side by side: which belong together, and inside a pair, which words differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from goldens.review.units import Unit

LINES = 4_000  # units of a side that are aligned by content; the rest, by position
PAIRS = 22_500  # pairs of a block that are weighed against each other
TOKENS = 600  # of a line whose words are compared; a longer one is marked from where it parts
CONTEXT = 3  # equal rows that stay open beside a difference
ALIKE = 0.3  # below that, two lines have nothing to do with each other and marks would be noise
_TOKEN = re.compile(r"\w+|\s+|[^\w\s]", re.UNICODE)


@dataclass(frozen=True)
class Span:
    text: str
    marked: bool


@dataclass(frozen=True)
class Side:
    """One side of a row. number: of the unit, from 1."""

    number: int
    name: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Row:
    """same: both sides alike; change: both, different; old, new: on one side only."""

    kind: str
    old: Side | None
    new: Side | None


@dataclass(frozen=True)
class Fold:
    """Rows between differences. hidden: equal ones that are folded away; 0: the rows are shown."""

    rows: tuple[Row, ...]
    hidden: int


def rows(old: Sequence[Unit], new: Sequence[Unit]) -> list[Row]:
    """All rows, in order."""
    out: list[Row] = []
    for i, j in pairs(old, new):
        a, b = (None if i is None else old[i]), (None if j is None else new[j])
        if a is not None and b is not None:
            assert i is not None and j is not None
            if a.raw == b.raw:
                out.append(Row("same", _side(i, a, ()), _side(j, b, ())))
                continue
            alike = a.shown == b.shown and a.name == b.name
            left, right = marks(a.raw, b.raw) if alike else marks(a.shown, b.shown)
            out.append(Row("change", Side(i + 1, a.name, left), Side(j + 1, b.name, right)))
        elif a is not None and i is not None:
            out.append(Row("old", _side(i, a, ()), None))
        elif b is not None and j is not None:
            out.append(Row("new", None, _side(j, b, ())))
    return out


def folds(every: Sequence[Row], context: int = CONTEXT) -> list[Fold]:
    """The rows in runs: equal ones far from any difference are folded."""
    near = [False] * len(every)
    for at, row in enumerate(every):
        if row.kind != "same":
            for i in range(max(0, at - context), min(len(every), at + context + 1)):
                near[i] = True
    out: list[Fold] = []
    at = 0
    while at < len(every):
        end = at
        while end < len(every) and near[end] == near[at]:
            end += 1
        run = tuple(every[at:end])
        out.append(Fold(run, 0 if near[at] or len(run) <= 2 else len(run)))
        at = end
    return out


def pairs(old: Sequence[Unit], new: Sequence[Unit]) -> list[tuple[int | None, int | None]]:
    """Indices that belong together; None where a side has nothing."""
    head = 0
    while head < min(len(old), len(new)) and old[head].raw == new[head].raw:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail].raw == new[-1 - tail].raw:
        tail += 1
    out: list[tuple[int | None, int | None]] = [(i, i) for i in range(head)]
    a, b = range(head, len(old) - tail), range(head, len(new) - tail)
    if max(len(a), len(b)) > LINES:
        out += _by_position(a, b)
    else:
        matcher = SequenceMatcher(None, [old[i].raw for i in a], [new[j].raw for j in b], autojunk=False)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes():
            left, right = a[i1:i2], b[j1:j2]
            out += list(zip(left, right, strict=True)) if tag == "equal" else _block(old, new, left, right)
    out += [(len(old) - tail + k, len(new) - tail + k) for k in range(tail)]
    return out


def _by_position(a: range, b: range) -> list[tuple[int | None, int | None]]:
    count = max(len(a), len(b))
    return [(a[k] if k < len(a) else None, b[k] if k < len(b) else None) for k in range(count)]


def _block(
    old: Sequence[Unit], new: Sequence[Unit], a: Sequence[int], b: Sequence[int]
) -> list[tuple[int | None, int | None]]:
    """Pairs of a block that differs: the likest units, in order (the cheapest way through the table of both)."""
    if not a or not b:
        return [*((i, None) for i in a), *((None, j) for j in b)]
    if len(a) * len(b) > PAIRS:
        return _by_position(range(a[0], a[-1] + 1), range(b[0], b[-1] + 1))
    left, right = [_bag(old[i]) for i in a], [_bag(new[j]) for j in b]
    gain = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a) - 1, -1, -1):
        for j in range(len(b) - 1, -1, -1):
            like = _likeness(old[a[i]], new[b[j]], left[i], right[j])
            gain[i][j] = max(gain[i + 1][j], gain[i][j + 1], gain[i + 1][j + 1] + like)
    out: list[tuple[int | None, int | None]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        like = _likeness(old[a[i]], new[b[j]], left[i], right[j])
        if like > 0 and gain[i][j] == gain[i + 1][j + 1] + like:
            out.append((a[i], b[j]))
            i, j = i + 1, j + 1
        elif gain[i][j] == gain[i + 1][j]:
            out.append((a[i], None))
            i += 1
        else:
            out.append((None, b[j]))
            j += 1
    out += [*((k, None) for k in a[i:]), *((None, k) for k in b[j:])]
    return out


def _bag(unit: Unit) -> Counter[str]:
    return Counter(token for token in _TOKEN.findall(unit.shown[:4_000]) if not token.isspace())


def _likeness(a: Unit, b: Unit, left: Counter[str], right: Counter[str]) -> float:
    """0: nothing to do with each other, 1: alike. Units with names belong together only by name."""
    if a.name != b.name:
        return 0.0
    total = left.total() + right.total()
    shared = (left & right).total()
    like = 2 * shared / total if total else 1.0
    return 0.2 + 0.8 * like if a.name else (like if like >= ALIKE else 0.0)


def marks(a: str, b: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Both texts in spans, the words that differ marked. Texts with little in common come back unmarked."""
    left, right = _TOKEN.findall(a), _TOKEN.findall(b)
    if max(len(left), len(right)) > TOKENS:
        return _ends(a, b)
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if matcher.ratio() < ALIKE:
        return (Span(a, False),), (Span(b, False),)
    old: list[Span] = []
    new: list[Span] = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        one, two = "".join(left[i1:i2]), "".join(right[j1:j2])
        island = tag == "equal" and not one.strip() and old and new and i2 < len(left)
        marked = tag != "equal" or (bool(island) and len(one) == 1 and (old[-1].marked or new[-1].marked))
        _add(old, one, marked)
        _add(new, two, marked)
    return tuple(old), tuple(new)


def _add(spans: list[Span], text: str, marked: bool) -> None:
    if not text:
        return
    if spans and spans[-1].marked == marked:
        spans[-1] = Span(spans[-1].text + text, marked)
    else:
        spans.append(Span(text, marked))


def _ends(a: str, b: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """One mark for each side: from where the texts part to where they meet again for good."""
    limit = min(len(a), len(b))
    head = next((i for i in range(limit) if a[i] != b[i]), limit)
    tail = next((i for i in range(limit - head) if a[-1 - i] != b[-1 - i]), limit - head)

    def cut(text: str) -> tuple[Span, ...]:
        end = len(text) - tail
        parts = (Span(text[:head], False), Span(text[head:end], True), Span(text[end:], False))
        return tuple(span for span in parts if span.text)

    return cut(a), cut(b)


def _side(index: int, unit: Unit, spans: tuple[Span, ...]) -> Side:
    return Side(index + 1, unit.name, spans or (Span(unit.shown, False),))
