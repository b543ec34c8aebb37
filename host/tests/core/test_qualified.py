"""What is verified of a model comes from the table alone, and whatever goes beyond it is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from ds4.core import inventory, qualified
from ds4.core.qualified import Configuration, Proof, Row
from ds4.errors import SettingsError
from support.gguf_writer import tiny_llama

SHIP = Configuration("cpu", "ship", "f16", 2048, 4)
MODE = {"backend": "cpu", "numeric": "ship", "kv": "f16"}


def proof(context: int = 2048, banks: int = 4, **changes: str) -> Proof:
    return Proof("2026-01-02", "a test", "a figure", **(MODE | changes), context=context, banks=banks)


def table(**axes: Proof) -> tuple[Row, ...]:
    """A file's row of these axes, and its family's: loader and forward in float mode, up to 100 positions."""
    kin: dict[str, tuple[Proof, ...]] = {"loader": (Proof("2026-01-01", "a test", "bound", "cpu"),)}
    kin["forward"] = (proof(100, 1, numeric="float"),)
    own: dict[str, tuple[Proof, ...]] = {name: (one,) for name, one in axes.items()}
    return (Row("llama", "", "", "", kin), Row("llama", "one.gguf", "00", "the mark", own))


def test_a_verified_file_within_its_bounds_exceeds_nothing() -> None:
    found = qualified.standing("llama", lambda: "the mark", SHIP, table(forward=proof(), api=proof()))
    assert found.artifact == "one.gguf"
    assert found.exceeds == ()
    assert found.unverified == ("loader", "state", "performance")
    assert found.axes("artifact") == ["forward", "api"]


def test_a_longer_context_and_more_banks_than_verified_are_named_with_what_was() -> None:
    found = qualified.standing("llama", lambda: "the mark", SHIP, table(loader=proof(), forward=proof(512, 2)))
    assert "forward at context 2048, verified up to 512" in found.exceeds
    assert "forward at banks 4, verified up to 2" in found.exceeds


def test_other_arithmetic_than_verified_is_named_and_its_bounds_are_not_taken() -> None:
    rows = table(forward=proof(10**6, numeric="float", kv="f32"))
    found = qualified.standing("llama", lambda: "the mark", SHIP, rows)
    assert found.exceeds == ("forward with ship/f16/cpu, verified with float/f32/cpu",)


def test_another_file_of_the_family_has_only_what_the_family_has() -> None:
    found = qualified.standing("llama", lambda: "another", SHIP, table(forward=proof(), api=proof()))
    assert found.artifact is None and found.unverified == qualified.AXES
    assert [(axis, of) for axis, of, _ in found.verified] == [("loader", "family"), ("forward", "family")]
    assert found.exceeds == ("forward with ship/f16/cpu, verified with float/f16/cpu",)
    assert "its family: loader, forward" in found.line


def test_a_family_without_rows_has_nothing_and_no_file_is_read_for_it() -> None:
    def never() -> str:
        raise AssertionError("asked for")

    found = qualified.standing("qwen3", never, SHIP, table(forward=proof()))
    assert found.verified == () and found.exceeds == () and found.unverified == qualified.AXES
    assert found.line == "nothing of this family or file"


def test_the_mark_tells_other_bytes_apart_and_does_not_know_the_files_name(tmp_path: Path) -> None:
    path = tmp_path / "one.gguf"
    path.write_bytes(tiny_llama().build())
    before = qualified.mark(inventory.load(path))
    raw = bytearray(path.read_bytes())
    for at in (len(raw) - 1, len(raw) - 64, raw.find(b"A model")):
        raw[at] ^= 1
        other = tmp_path / "other.gguf"
        other.write_bytes(raw)
        assert qualified.mark(inventory.load(other)) != before
        raw[at] ^= 1
    (tmp_path / "moved.gguf").write_bytes(raw)
    assert qualified.mark(inventory.load(tmp_path / "moved.gguf")) == before


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[row]]\nartifact = 'x'\n", "a row is of a family"),
        ("[[row]]\nfamily = 'llama'\nartifact = 'x'\n", "mark"),
        ("[[row]]\nfamily = 'llama'\nspeed = 3\n", "unknown: speed"),
        ("[[row]]\nfamily = 'llama'\n[[row.api]]\nverified = 'x'\n", "missing"),
        ("[[row", "cannot be read"),
    ],
)
def test_a_table_that_cannot_be_read_names_the_row(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "qualified.toml"
    path.write_text(text)
    with pytest.raises(SettingsError, match=why):
        qualified.read(path)


def test_the_table_of_this_build_can_be_read() -> None:
    assert all(row.proofs for row in qualified.rows())
