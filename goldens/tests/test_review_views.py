"""How a pending is shown: aligned rows, marked words, figures of arrays, fields of records, the order of the list."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from goldens.review import align, arrays, pages, records, units
from goldens.review.units import Unit
from goldens.review.views import View, view
from goldens.tests.checkout import EXPECTED, FOUND, LOGITS, leave, leave_some, make, the_one
from parity import goldens
from parity.goldens import Standing

KVC = b"KVC\1\4\1\0\0" + struct.pack("<IIIB3xQQQI", 812, 3, 4096, 2, 1_764_000_000, 1_764_000_900, 2, 2) + b"Hi\0\0"


def lines(*texts: str) -> list[Unit]:
    return [Unit(text, text) for text in texts]


def kinds(old: list[Unit], new: list[Unit]) -> str:
    return " ".join(row.kind for row in align.rows(old, new))


def marked(a: str, b: str) -> tuple[list[str], list[str]]:
    left, right = ([span.text for span in side if span.marked] for side in align.marks(a, b))
    return left, right


def shown(root: Path) -> View:
    one = the_one(root)
    return view(one, goldens.standing(one, root))


# ---- alignment ----


def test_a_line_that_was_put_in_leaves_the_others_beside_each_other() -> None:
    assert kinds(lines("a", "b", "c"), lines("a", "x", "b", "c")) == "same new same same"


def test_a_changed_line_stands_beside_the_one_it_was() -> None:
    old = lines("alpha one two", "beta", "gamma delta epsilon")
    new = lines("gamma delta epsilon zeta")
    assert kinds(old, new) == "old old change"


def test_lines_with_nothing_in_common_are_not_paired() -> None:
    assert sorted(kinds(lines("alpha beta"), lines("1234 5678")).split()) == ["new", "old"]


def test_units_with_names_belong_together_by_name() -> None:
    old = [Unit("emit a", "a", "emit"), Unit("hit x", "x", "hit")]
    new = [Unit("hit y", "y", "hit"), Unit("rest z", "z", "rest")]
    assert kinds(old, new) == "old change new"


def test_only_the_words_that_differ_are_marked() -> None:
    assert marked("run a large model on this machine", "run a small model on your machine") == (
        ["large", "this"],
        ["small", "your"],
    )


def test_a_long_line_is_marked_from_where_it_parts_to_where_it_meets() -> None:
    a = "word " * 2_000
    assert marked(a + "x" + a, a + "yy" + a) == (["x"], ["yy"])


def test_nothing_is_lost_on_the_way_to_spans() -> None:
    for a, b in (("", "x"), ("a b", "a  b"), ("tab\there", "tab here"), ("é e\u0301", "e\u0301 é")):
        left, right = align.marks(a, b)
        assert ("".join(s.text for s in left), "".join(s.text for s in right)) == (a, b)


def test_rows_far_from_a_difference_are_folded() -> None:
    old = [str(i) for i in range(50)]
    new = [*old[:25], "x", *old[26:]]
    folds = align.folds(align.rows(lines(*old), lines(*new)))
    assert [fold.hidden for fold in folds] == [22, 0, 21]
    assert sum(len(fold.rows) for fold in folds) == len(align.rows(lines(*old), lines(*new)))


@pytest.mark.parametrize("count", [20_000])
def test_many_lines_are_aligned_without_weighing_every_pair(count: int) -> None:
    old, new = lines(*map(str, range(count))), lines(*map(str, range(1, count + 1)))
    rows = align.rows(old, new)
    assert sum(row.old is not None for row in rows) == sum(row.new is not None for row in rows) == count


# ---- units ----


def test_what_cannot_be_seen_is_written_out() -> None:
    (unit,) = units.lines("a\u202eb\x1b[0m\u200bc\n")
    assert unit.shown == "a⟨U+202E⟩b⟨U+001B⟩[0m⟨U+200B⟩c"


def test_a_missing_newline_is_a_difference_that_is_seen() -> None:
    (row,) = align.rows(units.lines("a\n"), units.lines("a"))
    assert row.kind == "change" and row.new is not None
    assert "no newline" in "".join(span.text for span in row.new.spans)


def test_words_of_a_tape_are_shown_as_what_they_stand_for() -> None:
    (unit,) = units.tape_lines("push Hello%20w%C3%B6rld%0A 12 %-\n")
    assert (unit.name, unit.shown) == ("push", '"Hello wörld\\n"  12  ""')


def test_a_line_that_is_no_tape_is_shown_as_it_is() -> None:
    (unit,) = units.tape_lines("raised ValueError: 100% bad%\n")
    assert unit.shown == "raised ValueError: 100% bad%"


def test_tape_lines_that_differ_never_look_alike() -> None:
    (row,) = align.rows(units.tape_lines('word "a%20b"\n'), units.tape_lines("word a%20b\n"))
    assert row.kind == "change"
    assert row.old is not None and row.new is not None and row.old.spans != row.new.spans


def test_server_sent_events_are_units_with_the_name_of_their_kind() -> None:
    text = 'data: {"object":"chat.completion.chunk","id":1}\n\nevent: ping\ndata: {}\n\n: alive\n\ndata: [DONE]\n\n'
    assert [unit.name for unit in units.split("events", text)] == ["chat.completion.chunk", "ping", "comment", "data"]


def test_json_that_is_laid_out_alike_and_is_not_the_same_bytes_is_told_apart() -> None:
    (row,) = align.rows(units.sse('data: {"a":1}\n\n'), units.sse('data: {"a": 1}\n\n'))
    assert row.kind == "change" and row.old is not None and row.new is not None
    assert row.old.spans != row.new.spans


def test_rows_of_bytes_are_compared_byte_by_byte() -> None:
    (row,) = align.rows(units.hexadecimal(bytes(range(16))), units.hexadecimal(bytes([9, *range(1, 16)])))
    assert row.kind == "change" and row.old is not None
    assert [span.text for span in row.old.spans if span.marked] == ["00"]


def test_bytes_that_are_no_text_are_rows_of_hexadecimal() -> None:
    assert units.split("tape", b"\xff\xfe")[0].shown.startswith("ff fe")


# ---- arrays ----


def test_the_figures_of_arrays_are_what_they_say() -> None:
    found = LOGITS.copy()
    found[0, 0] += 3
    found[1, 5] -= 4
    it = arrays.compare(LOGITS, found)
    figures = {figure.name: figure.value for figure in it.figures}
    assert figures["max |Δ|"] == "4"
    assert figures["rms Δ"] == f"{np.sqrt((9 + 16) / 64):.4g}"
    assert it.differing == 2 and [worst.index for worst in it.worst] == ["[1, 5]", "[0, 0]"]
    p, q = (np.exp(x.astype(np.float64)) for x in (LOGITS, found))
    p, q = p / p.sum(-1, keepdims=True), q / q.sum(-1, keepdims=True)
    assert figures["KL"] == f"{(p * np.log(p / q)).sum(-1).mean():.4g}"


@pytest.mark.parametrize(
    "found",
    [
        np.full_like(LOGITS, np.nan),
        np.full_like(LOGITS, np.inf),
        LOGITS.astype(np.float64),
        LOGITS.reshape(-1),
        np.zeros((0,), np.float32),
        np.array(3),
        np.array(["text"]),
        np.array([1 + 2j]),
    ],
)
def test_any_array_can_be_shown(found: Any) -> None:
    it = arrays.compare(LOGITS, found)
    assert it.differing and it.summary
    assert arrays.compare(None, found).summary and arrays.compare(found, None).summary


def test_the_plot_is_a_picture_without_any_script_or_style() -> None:
    plot = str(arrays.compare(LOGITS, LOGITS + 1).plot)
    assert plot.startswith("<svg") and not re.search(r"style=|<script|http", plot)


# ---- records ----


def test_a_record_is_decoded_by_field_and_compared_so(tmp_path: Path) -> None:
    root = make(tmp_path)
    other = KVC[:12] + b"\4" + KVC[13:]
    leave(root, golden="kvc/sample.bin", case=None, kind="binary", input=None, expected=KVC, found=other)
    seen = shown(root)
    assert [panel.title for panel in seen.panels] == ["As a KVC record", "Bytes"]
    rows = [row for fold in seen.panels[0].folds for row in fold.rows]
    changed = [row for row in rows if row.kind == "change"]
    assert [(row.old.name, row.old.spans[0].text, row.new.spans[0].text) for row in changed if row.old and row.new] == [
        ("hits", "3", "4")
    ]


def test_every_format_is_decoded_by_its_component() -> None:
    known = {
        "a KVC record": KVC,
        "a DSV4 payload": b"DSV4" + struct.pack("<13I", 3, 99, 1, 9, 5, 9, 1, 61, 128, 64, 100, 1, 7),
        "a DS4D frame": b"DS4D" + struct.pack(">II", 2, 4) + b"oops",
        "a GGUF file": b"GGUF" + struct.pack("<IQQ", 3, 0, 0),
    }
    for name, data in known.items():
        found = records.fields(data)
        assert found is not None and found[0] == name
        assert len(found[1]) >= 1 and found[1][0].name != "error", found


def test_bytes_of_no_format_are_shown_as_bytes(tmp_path: Path) -> None:
    root = make(tmp_path)
    leave(root, golden="kvc/sample.bin", case=None, kind="binary", input=None, expected=b"\0\1", found=b"\0\2")
    assert [panel.title for panel in shown(root).panels] == ["Bytes"]


# ---- the whole ----


def test_what_the_oracle_says_is_told(tmp_path: Path) -> None:
    root = make(tmp_path)
    for oracle, word in ((EXPECTED, "golden says"), (FOUND, "was found"), ("x\n", "third")):
        leave(root, oracle=oracle.encode())
        (said,) = shown(root).verdicts
        assert word in said


def test_the_list_has_the_largest_difference_first(tmp_path: Path) -> None:
    root = make(tmp_path)
    leave_some(root)
    waiting, _ = goldens.open_pendings(root)
    views = pages.order([view(one, where) for one, where in waiting])
    assert [one.pending.component for one in views] == ["logits", "cli (text)", "stops"]
    assert [one.size for one in views] == sorted((one.size for one in views), reverse=True)


def test_the_summary_says_how_many_lines_differ_are_gone_or_more(tmp_path: Path) -> None:
    root = make(tmp_path)
    for found, said in (
        (EXPECTED.replace("END", "STOP"), "1 line differs"),
        ("emit Hello%20\n", "1 line gone"),
        (EXPECTED + "rest a\nrest b\n", "2 lines more"),
        ("emit Hello%20EN\n", "1 line differs, 1 line gone"),
    ):
        leave(root, found=found.encode())
        assert shown(root).summary == said
    leave(root, expected=None)
    assert shown(root).summary == "new: 2 lines"
    leave(root, found=None)
    assert shown(root).summary == "nothing asks for it any more: 2 lines"


def test_a_pending_that_cannot_be_shown_cannot_be_accepted(tmp_path: Path) -> None:
    root = make(tmp_path)
    leave(root, expected=LOGITS, found="text")
    one = the_one(root)
    seen = view(one, Standing(None, None, False))
    assert seen.standing.stale is not None and "cannot be shown" in seen.standing.stale


def test_a_result_of_many_lines_is_shown_in_part_and_says_so(tmp_path: Path) -> None:
    root = make(tmp_path)
    leave(root, kind="text", expected="", found="".join(f"line {i}\n" for i in range(5_000)))
    (panel,) = shown(root).panels
    assert panel.left_out == 2_000
