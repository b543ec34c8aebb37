"""~/.ds4_history."""

from __future__ import annotations

from pathlib import Path

from ds4.cli import history


def test_entries_come_back_in_order_with_their_newlines(tmp_path: Path) -> None:
    file = tmp_path / "history"
    for entry in ("one", "two\nlines", "three"):
        history.add(file, entry)
    assert history.load(file) == ["one", "two\nlines", "three"]
    assert file.read_bytes() == b"one\ntwo\rlines\nthree\n"


def test_only_its_owner_may_read_the_file_even_if_it_was_wider_before(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_text("old\n")
    file.chmod(0o644)
    history.add(file, "new")
    assert file.stat().st_mode & 0o777 == 0o600


def test_the_same_entry_is_not_kept_twice_in_a_row(tmp_path: Path) -> None:
    file = tmp_path / "history"
    for entry in ("a", "a", "b", "a", ""):
        history.add(file, entry)
    assert history.load(file) == ["a", "b", "a"]


def test_the_oldest_entries_go_beyond_512(tmp_path: Path) -> None:
    file = tmp_path / "history"
    file.write_text("".join(f"{i}\n" for i in range(600)))
    history.add(file, "last")
    entries = history.load(file)
    assert (len(entries), entries[0], entries[-1]) == (512, "89", "last")


def test_a_chat_beside_this_one_keeps_its_entries(tmp_path: Path) -> None:
    file = tmp_path / "history"
    history.add(file, "mine")
    file.write_bytes(file.read_bytes() + b"theirs\n")
    history.add(file, "mine again")
    assert history.load(file) == ["mine", "theirs", "mine again"]


def test_a_folder_that_cannot_be_written_costs_only_the_history(tmp_path: Path) -> None:
    history.add(tmp_path / "gone" / "history", "x")
    assert history.load(tmp_path / "gone" / "history") == []
