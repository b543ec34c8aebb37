"""A pending as it is shown: panels of aligned rows, arrays with their figures, and how large the difference is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from goldens.review import align, arrays, records, units
from goldens.review.align import Fold, Row, Side, Span
from goldens.review.arrays import Comparison
from goldens.review.units import Unit
from parity import pending
from parity.golden_files import GoldenFileError
from parity.goldens import Standing
from parity.pending import Kind, Pending

if TYPE_CHECKING:
    from parity.pending import Array

ROWS = 3_000  # of a panel that are shown; what is left out is told
INPUT = 400  # lines of an input that are shown


@dataclass(frozen=True)
class Panel:
    """One table. old, new: heads of its columns, "" for a column that is not there; left_out: rows beyond ROWS."""

    title: str
    old: str
    new: str
    folds: tuple[Fold, ...]
    named: bool
    left_out: int = 0
    open: bool = True
    wide: bool = False
    """Rows of bytes: they stay on one line."""


@dataclass(frozen=True)
class View:
    """size: bytes of what differs, the order of the list."""

    pending: Pending
    standing: Standing
    size: int
    summary: str
    panels: tuple[Panel, ...]
    input: Panel | None
    comparison: Comparison | None
    verdicts: tuple[str, ...]
    takes: str
    outside: str | None


def view(one: Pending, where: Standing) -> View:
    """Everything that the page of a pending shows. What cannot be shown is told in its place, and is not accepted."""
    try:
        return _view(one, where)
    except Exception as error:  # its values are anybody's; one that cannot be shown must not hide the others
        where = replace(where, stale=f"this cannot be shown, and so not accepted: {type(error).__name__}: {error}")
        return View(one, where, 0, "cannot be shown", (), None, None, (), _takes(one), _outside(where))


def _view(one: Pending, where: Standing) -> View:
    left, right, heads = _sides(one)
    if _is_array(left) or _is_array(right):
        comparison = arrays.compare(_array(left), _array(right))
        size = comparison.differing * _itemsize(left, right)
        panels: list[Panel] = []
        summary = comparison.summary
    else:
        comparison = None
        panels, size, summary = _texts(one.kind, left, right, heads)
    if one.expected is not None and one.oracle is not None and not pending.same(one.expected, one.oracle):
        heads = ("The golden", "The oracle")
        panels += _texts(one.kind, one.expected, one.oracle, heads, title="The oracle", open=False)[0]
    if one.found is None:
        summary = f"nothing asks for it any more: {summary}"
    elif one.expected is None:
        summary = f"new: {summary}"
    return View(
        one, where, size, summary, tuple(panels), _input(one), comparison, _verdicts(one), _takes(one), _outside(where)
    )


def _sides(
    one: Pending,
) -> tuple[str | bytes | Array | None, str | bytes | Array | None, tuple[str, str]]:
    if one.expected is not None:
        return one.expected, one.found, ("The golden", "Found")
    if one.oracle is not None:
        return one.oracle, one.found, ("The oracle", "The replacement")
    return None, one.found, ("", "Found")


def _texts(
    kind: Kind,
    left: str | bytes | Array | None,
    right: str | bytes | Array | None,
    heads: tuple[str, str],
    *,
    title: str = "",
    open: bool = True,
) -> tuple[list[Panel], int, str]:
    old, new = (_plain(side) for side in (left, right))
    panels = []
    if kind == "binary":
        decoded = [None if side is None else records.fields(pending.raw(side)) for side in (old, new)]
        if any(decoded):
            names = {form[0] for form in decoded if form is not None}
            a, b = ([] if form is None else [_field(row) for row in form[1]] for form in decoded)
            panels.append(_panel(f"As {' and '.join(sorted(names))}", a, b, heads, open=open))
    a, b = ([] if side is None else units.split(kind, side) for side in (old, new))
    main = _panel(title or ("Bytes" if kind == "binary" else ""), a, b, heads, open=open)
    if kind == "binary":
        main = replace(main, wide=True)
    panels.append(main)
    every = [row for fold in main.folds for row in fold.rows] if not main.left_out else align.rows(a, b)
    return panels, _size(every), _summary(kind, every)


def _panel(title: str, a: Sequence[Unit], b: Sequence[Unit], heads: tuple[str, str], *, open: bool = True) -> Panel:
    every = align.rows(a, b)
    if not a:
        heads = ("", heads[1])
    elif not b:
        heads = (heads[0], "")
    folds, shown = [], 0
    for fold in align.folds(every) if a and b else [Fold(tuple(every), 0)]:
        keep = fold.rows[: max(0, ROWS - shown)]
        shown += len(keep)
        if keep:
            folds.append(Fold(keep, fold.hidden and len(keep)))
    named = any(unit.name for unit in [*a, *b])
    return Panel(title, heads[0], heads[1], tuple(folds), named, len(every) - shown, open)


def _field(field: records.Field) -> Unit:
    return Unit(f"{field.name} {field.value}", units.visible(field.value), field.name)


def _input(one: Pending) -> Panel | None:
    if one.input is None or not isinstance(one.input, str | bytes):
        return None
    data = pending.raw(one.input)
    record = records.split_input(data)
    if record is not None:
        fields = records.fields(record[1])
        rows = units.lines(record[0].decode("ascii", "replace"))
        rows += [_field(row) for row in fields[1]] if fields is not None else units.hexadecimal(record[1])
    else:
        rows = units.split("tape" if one.kind in ("tape", "binary") else "text", one.input)
    sides = [Side(i + 1, unit.name, (Span(unit.shown, False),)) for i, unit in enumerate(rows[:INPUT])]
    shown = [Row("same", None, side) for side in sides]
    named = any(unit.name for unit in rows)
    return Panel("Input", "", "Input", (Fold(tuple(shown), 0),), named, max(0, len(rows) - INPUT), len(rows) <= 12)


def _verdicts(one: Pending) -> tuple[str, ...]:
    """What the oracle says to it, where it was asked."""
    if one.oracle is None or one.expected is None:
        return ()
    if pending.same(one.oracle, one.expected):
        return ("The oracle says what the golden says: the replacement is most likely wrong.",)
    if pending.same(one.oracle, one.found):
        return ("The oracle says what was found: both sides left the golden.",)
    return ("The oracle says a third thing; it is shown below.",)


def _takes(one: Pending) -> str:
    """What accepting does."""
    if one.found is None:
        return "The case goes: nothing asks for it any more."
    if one.expected is None and one.oracle is not None:
        return "The new case will expect what the oracle answered."
    if one.expected is None:
        return "A new case joins the golden."
    return "The golden will say what was found."


def _outside(where: Standing) -> str | None:
    """Where the golden was taken from, if that is not ourselves."""
    if where.entry is None or where.entry.source.startswith(("our own", "found by our own")):
        return None
    return where.entry.source


def _size(rows: Sequence[Row]) -> int:
    """Bytes of what differs: marked words of rows with marks, whole rows otherwise."""
    size = 0
    for row in rows:
        if row.kind == "same":
            continue
        spans = [span for side in (row.old, row.new) if side is not None for span in side.spans]
        counted = [span for span in spans if span.marked] or spans
        size += sum(len(span.text.encode("utf-8", "replace")) for span in counted)
    return size


def _summary(kind: Kind, rows: Sequence[Row]) -> str:
    noun = {"events": "event", "binary": "row"}.get(kind, "line")

    def some(count: int) -> str:
        return f"{count:,} {noun}{'s' * (count != 1)}"

    changed, gone, more = (sum(row.kind == name for row in rows) for name in ("change", "old", "new"))
    if len(rows) in (gone, more):
        return some(len(rows))
    said = [f"{some(changed)} differ{'s' * (changed == 1)}", f"{some(gone)} gone", f"{some(more)} more"]
    return ", ".join(text for text, count in zip(said, (changed, gone, more), strict=True) if count) or some(len(rows))


def _is_array(value: str | bytes | Array | None) -> bool:
    return value is not None and not isinstance(value, str | bytes)


def _array(value: str | bytes | Array | None) -> Array | None:
    if isinstance(value, str | bytes):
        raise GoldenFileError("an array beside text", expected="two arrays", found=type(value).__name__)
    return value


def _plain(value: str | bytes | Array | None) -> str | bytes | None:
    assert value is None or isinstance(value, str | bytes)
    return value


def _itemsize(*sides: str | bytes | Array | None) -> int:
    return max(side.dtype.itemsize for side in sides if side is not None and not isinstance(side, str | bytes))
