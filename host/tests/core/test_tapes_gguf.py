"""The wire form of gguf: what a tape may be, what it says, and that an oracle's answer makes the same inventory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from ds4.core import gguf, inventory
from ds4.core.tapes import gguf as tapes
from ds4.errors import ModelFileError
from ds4.sys.tape import TapeError, line
from hypothesis import given
from hypothesis import strategies as st
from support.gguf_faults import FAULTS
from support.gguf_writer import BOOL, F64, STRING, U8, U16, GgufWriter, array, tiny_llama, tiny_shards
from support.oracles import standing_in


@pytest.fixture(autouse=True)
def answered_by_the_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapes, "oracle", standing_in(tapes.by_tape))


def _ask(raw: bytes, *, command: str = "load", size: int | None = None, name: bytes = b"m.gguf") -> str:
    size = len(raw) if size is None else size
    return tapes.by_tape(line(command, 1) + line("file", name, size, len(raw)) + raw).decode()


def _rich() -> GgufWriter:
    writer = tiny_llama().number("k.nan", F64, float("nan")).number("k.minus", F64, -0.0)
    writer.array("k.flags", BOOL, [1, 0]).raw("k.deep", 9, array(9, [array(STRING, ["a", "é"]), array(U16, [])]))
    return writer.string("k.text", "50% é\n")


def test_an_empty_model_is_one_line() -> None:
    assert _ask(GgufWriter().build()[:24]) == "ok 1\nshard 0 0 3 32 32 24 0 0\n"


def test_values_are_told_by_type() -> None:
    said = _ask(_rich().build()).split("\n")
    assert "key k.nan f64 nan" in said
    assert "key k.minus f64 8000000000000000" in said
    assert "key k.text string 50%25%20%C3%A9%0A" in said
    assert next(row for row in said if row.startswith("key k.flags")).startswith("key k.flags array bool 2 ")


def test_tensors_that_share_bytes_are_reported() -> None:
    raw = GgufWriter().tensor("a", (8,)).tensor("b c", (4,), data=b"", offset=0).build()
    assert _ask(raw).endswith("alias 0 96 32 a b%20c\n")


@pytest.mark.parametrize("name", [name for name, (file, *_) in FAULTS.items() if isinstance(file, GgufWriter)])
def test_a_fault_is_its_code_and_subject(name: str) -> None:
    file, code, subject, _, _ = FAULTS[name]
    assert isinstance(file, GgufWriter)
    assert _ask(file.build()) == line("error", code, subject.encode()).decode()


def test_subjects_do_not_depend_on_a_table_of_unicode() -> None:
    raw = GgufWriter().raw("é\u0378\U0001fbff", BOOL, b"\2").build()
    assert _ask(raw) == "error gguf_bool \\xe9\\u0378\\U0001fbff\n"


@pytest.mark.parametrize(
    "mark", ["\0", "\x7f", "\x85", "\xad", "\u200b", "\u202e", "\u2066", "\ufeff", "\uffff", "\U000e0041"]
)
def test_names_have_no_marks_that_cannot_be_seen(mark: str) -> None:
    assert _ask(GgufWriter().u32(f"a{mark}", 1).build()) == "error gguf_name key%200\n"


@pytest.mark.parametrize("name", ["\xa0", "é", "\u3000", "\u0378", "日本", "\U0001f600"])
def test_other_characters_are_names_in_every_version_of_unicode(name: str) -> None:
    assert _ask(GgufWriter().u32(name, 1).build()).startswith("ok 1")


@given(st.integers(0, 700))
def test_a_head_is_enough_or_said_to_be_too_short(head: int) -> None:
    raw = _rich().build()
    said, whole = _ask(raw[:head], size=len(raw)), _ask(raw)
    assert said in ("short 0\n", whole)


def test_the_shortest_head_that_is_enough_ends_with_the_directory() -> None:
    raw = tiny_llama().build()
    name = b"output_norm.weight"
    end = raw.index(name) + len(name) + 4 + 8 + 4 + 8
    assert _ask(raw[: end - 1], size=len(raw)) == "short 0\n"
    assert _ask(raw[:end], size=len(raw)) == _ask(raw)


def test_check_looks_into_arrays_and_load_does_not() -> None:
    raw = GgufWriter().array("a", STRING, ["x", b"\xff"]).build()
    assert _ask(raw).startswith("ok 1")
    assert _ask(raw, command="check") == "error gguf_utf8 a[1]\n"


BAD_TAPES = (
    b"",
    b"load",
    b"load\n",
    b"load 0\n",
    b"load 1\n",
    b"open 1\nfile a 0 0\n",
    b"load 1\nfile a 0\n",
    b"load 1\nfile a 0 0 0\n",
    b"load 1\nfile a 0 1\nx",
    b"load 1\nfile a 2 2\nx",
    b"load 1\nfile a 0 0\nx",
    b"load 1\nfile a -1 0\n",
    b"load 1\nfile a -0 0\n",
    b"load 1\nfile a 9223372036854775808 0\n",
    b"load 1\nfile a/b 0 0\n",
    b"load 1\nfile a%00 0 0\n",
    b"load 1\nfile %- 0 0\n",
    b"load 2\nfile a 0 0\nfile a 0 0\n",
    b"load 2\nfile a 0 0\n",
    b"load 100001\n",
)


@pytest.mark.parametrize("tape", BAD_TAPES)
def test_bytes_that_are_no_tape_are_refused(tape: bytes) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(tape)


def test_what_is_written_is_read_back() -> None:
    files = (tapes.File(b"m \xff", 5, 3, b"abc"), tapes.File(b"n", 0, 0, b""))
    question = tapes.Question(True, files)
    assert tapes.read_input(tapes.write_input(question)) == question


def _same(ours: inventory.Inventory, theirs: inventory.Inventory) -> None:
    assert ours == theirs
    assert [shard.path for shard in ours.shards] == [shard.path for shard in theirs.shards]
    assert list(ours.metadata) == list(theirs.metadata)


def test_an_oracles_answer_makes_the_same_inventory(tmp_path: Path) -> None:
    path = _rich().write(tmp_path / "m.gguf")
    ours, theirs = inventory.assemble_path(path), tapes.by_oracle(path)
    _same(ours, theirs)
    assert theirs.metadata["k.deep"] == [["a", "é"], []]
    assert theirs.metadata.strings("tokenizer.ggml.tokens") == ours.metadata.strings("tokenizer.ggml.tokens")


def test_an_oracles_answer_makes_the_same_set_of_shards(tmp_path: Path) -> None:
    path = tiny_shards().write(tmp_path)
    _same(inventory.assemble_path(path), tapes.by_oracle(path))


def test_an_oracle_gets_heads_and_asks_for_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tapes, "FIRST_HEAD", 64)
    heads: list[int] = []

    def run(tape: bytes) -> bytes:
        heads.extend(file.head_bytes for file in tapes.read_input(tape).files)
        return tapes.by_tape(tape)

    monkeypatch.setattr(tapes, "oracle", standing_in(run))
    path = _rich().write(tmp_path / "m.gguf")
    _same(inventory.assemble_path(path), tapes.by_oracle(path))
    assert heads == [64, 256, 1024, 4096]
    assert heads[-1] < path.stat().st_size


@pytest.fixture
def wrong_sets(tmp_path: Path) -> Iterator[Path]:
    made = tiny_shards()
    made.skip.add(1)
    made.write(tmp_path)
    (tmp_path / "cut.gguf").write_bytes(tiny_llama().build()[:100])
    (tmp_path / "empty.gguf").write_bytes(b"")
    (tmp_path / "folder.gguf").mkdir()
    return iter([tmp_path])


def test_an_oracles_verdicts_are_those_of_python(wrong_sets: Iterator[Path]) -> None:
    (folder,) = wrong_sets
    for name in os.listdir(folder) + ["none.gguf", "m-00002-of-00003.gguf"]:
        with pytest.raises(ModelFileError) as ours:
            inventory.assemble_path(folder / name)
        with pytest.raises(ModelFileError) as theirs:
            tapes.by_oracle(folder / name)
        assert (type(ours.value), ours.value.code, ours.value.subject) == (
            type(theirs.value),
            theirs.value.code,
            theirs.value.subject,
        )


def test_metadata_is_compared_without_being_decoded() -> None:
    def read(raw: bytes) -> gguf.Metadata:
        return gguf.parse(raw, Path("m.gguf")).metadata

    bad = GgufWriter().array("a", STRING, [b"\xff"]).number("n", F64, float("nan"))
    assert read(bad.build()) == read(bad.build())
    assert read(GgufWriter().array("a", U8, [1]).build()) != read(GgufWriter().array("a", U8, [2]).build())
    assert read(GgufWriter().u32("a", 1).build()) != read(GgufWriter().number("a", U16, 1).build())
    assert read(GgufWriter().u32("a", 1).u32("b", 1).build()) != read(GgufWriter().u32("b", 1).u32("a", 1).build())
    assert read(GgufWriter().u32("a", 1).build()) == {"a": 1}
