"""Accepting and rejecting: what is written, and everything that is refused."""

from __future__ import annotations

import json
import os
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ds4.errors import Ds4Error

from goldens.tests.checkout import CASE, EXPECTED, FOUND, LOGITS, SNAPSHOT, entry, leave, make, the_one
from parity import golden_files, goldens, manifest, pending
from parity.goldens import ReviewError, StaleError

REASON = "the stop may begin in an earlier piece"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path)


def accept(root: Path, **changes: Any) -> goldens.Change:
    return goldens.accept(the_one(root), changes.get("name", "Ada"), changes.get("reason", REASON), root)


def everything(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def digests_hold(root: Path) -> None:
    for one in manifest.read(root / "goldens"):
        for name in one.files:
            goldens.read_bytes(f"{one.folder}/{name}", root / "goldens")


def test_an_accepted_case_says_what_was_found_and_all_else_stays(root: Path) -> None:
    before = (root / "goldens/stops/splits.jsonl").read_text().splitlines()
    leave(root)
    change = accept(root)
    after = (root / "goldens/stops/splits.jsonl").read_text().splitlines()
    assert after[0] == before[0]
    assert json.loads(after[1]) == {**json.loads(before[1]), "expected": FOUND}
    assert [case.expected for case in goldens.read("stops/splits.jsonl", root / "goldens")][1] == FOUND.encode()
    assert change.files == ("goldens/stops/splits.jsonl", "goldens/manifest.toml", "goldens/CHANGES.md")
    assert pending.collect(root).pendings == []
    digests_hold(root)


def test_the_manifest_changes_in_two_lines_and_keeps_its_comments(root: Path) -> None:
    before = (root / "goldens/manifest.toml").read_text().splitlines()
    leave(root)
    change = accept(root)
    after = (root / "goldens/manifest.toml").read_text().splitlines()
    changed = [(a, b) for a, b in zip(before, after, strict=True) if a != b]
    assert changed == [
        ('frozen = "2026-01-01"', f'frozen = "{date.today().isoformat()}"'),
        (f'"splits.jsonl" = "{change.old}"', f'"splits.jsonl" = "{change.new}"'),
    ]


def test_the_changelog_tells_who_what_and_why(root: Path) -> None:
    leave(root)
    change = accept(root, name="  Ada   Lovelace ", reason="two\nlines of  reason")
    text = (root / "goldens/CHANGES.md").read_text()
    assert text.startswith("# Changes of goldens\n")
    assert f"## {date.today().isoformat()}: stops/splits.jsonl, {CASE}\n\ntwo lines of reason\n" in text
    assert "- changed by Ada Lovelace\n" in text
    assert "`./dev gate stops`" in text
    assert f"{change.old} to {change.new}" in text


def test_later_entries_of_the_changelog_follow_earlier_ones(root: Path) -> None:
    for found in (b"first\n", b"second\n"):
        leave(root, expected=goldens.value("stops/splits.jsonl", CASE, root / "goldens"), found=found)
        accept(root, reason=f"reason for {found.decode().strip()}")
    text = (root / "goldens/CHANGES.md").read_text()
    assert text.index("reason for first") < text.index("reason for second")
    assert text.count("# Changes of goldens") == 1


def test_a_new_case_is_appended_with_its_input_and_expects_the_oracles_answer(root: Path) -> None:
    leave(root, case="found by a fuzz", setup="x", input=b"push \xff\n", expected=None, oracle=b"a\n", found=b"b\n")
    accept(root)
    last = (root / "goldens/stops/splits.jsonl").read_text().splitlines()[-1]
    assert json.loads(last) == {"case": "found by a fuzz", "setup": "x", "input_b64": "cHVzaCD/Cg==", "expected": "a\n"}
    (*_, case) = goldens.read("stops/splits.jsonl", root / "goldens")
    assert case.tape == b"push \xff\n" and case.setup == "x"


def test_a_first_case_of_a_folder_brings_its_entry(root: Path) -> None:
    leave(root, golden=pending.new_cases("stops"), case="new", expected=None)
    accept(root)
    assert 'used_by = ["parity/components/stops.py"]' in entry(root, "stops/found")
    assert f'frozen = "{date.today().isoformat()}"' in entry(root, "stops/found")
    assert 'frozen = "2026-01-01"' in entry(root, "stops")
    digests_hold(root)


def test_a_new_file_of_a_known_folder_joins_its_entry_with_its_reader(root: Path) -> None:
    leave(
        root,
        golden="snapshots/cli/test_about.ambr",
        case="test_about",
        kind="text",
        expected=None,
        found="'about'",
        reader="host/tests/cli/test_about.py",
    )
    accept(root)
    (one,) = [e for e in manifest.read(root / "goldens") if e.folder == "snapshots/cli"]
    assert list(one.files) == ["test_about.ambr", "test_help.ambr"]
    assert one.used_by == ("host/tests/cli/test_help.py", "host/tests/cli/test_about.py")


def test_a_snapshot_is_changed_in_its_file(root: Path) -> None:
    new = SNAPSHOT.replace("--stop TEXT", "--stop WORDS")
    leave(root, golden="snapshots/cli/test_help.ambr", case="test_help", kind="text", expected=SNAPSHOT, found=new)
    accept(root)
    text = (root / "goldens/snapshots/cli/test_help.ambr").read_text()
    assert text.startswith("# serializer version: 1\n# name: test_help\n") and "--stop WORDS" in text


def test_a_case_that_nothing_asks_for_goes_and_its_file_with_it(root: Path) -> None:
    leave(root, golden="snapshots/cli/test_help.ambr", case="test_help", kind="text", expected=SNAPSHOT, found=None)
    accept(root)
    assert not (root / "goldens/snapshots/cli/test_help.ambr").exists()
    text = (root / "goldens/manifest.toml").read_text()
    assert "snapshots/cli" not in text and "# About snapshots" not in text
    assert "# About stops" in text
    assert "- removed by Ada" in (root / "goldens/CHANGES.md").read_text()


def test_one_case_of_several_goes_alone(root: Path) -> None:
    leave(root, found=None)
    accept(root)
    assert [case.name for case in goldens.read("stops/splits.jsonl", root / "goldens")] == ["no stop at all"]


def test_an_array_takes_the_place_of_an_array(root: Path) -> None:
    leave(root, golden="logits/first.npy", case=None, kind="array", expected=LOGITS, found=LOGITS * 2)
    accept(root)
    assert np.array_equal(np.load(root / "goldens/logits/first.npy"), LOGITS * 2)


def test_one_array_of_an_archive_changes_and_the_others_stay(root: Path) -> None:
    leave(root, golden="logits/all.npz", case="first", kind="array", expected=None, found=LOGITS)
    accept(root)
    leave(root, golden="logits/all.npz", case="second", kind="array", expected=None, found=LOGITS + 1)
    accept(root)
    with np.load(root / "goldens/logits/all.npz") as arrays:
        assert np.array_equal(arrays["first"], LOGITS) and np.array_equal(arrays["second"], LOGITS + 1)


def test_a_golden_that_changed_since_is_not_overwritten(root: Path) -> None:
    leave(root)
    one = the_one(root)
    accept(root)
    leave(root, found=b"other\n")
    before = everything(root)
    with pytest.raises(StaleError, match="said something else"):
        accept(root)
    with pytest.raises(StaleError, match="says so already"):
        goldens.accept(one, "Ada", REASON, root)
    assert everything(root) == before


def test_a_golden_that_was_edited_by_hand_is_not_built_upon(root: Path) -> None:
    leave(root)
    with open(root / "goldens/stops/splits.jsonl", "a") as file:
        file.write('{"case": "by hand", "input": "", "expected": ""}\n')
    with pytest.raises(StaleError, match="is not the one that was frozen"):
        accept(root)


@pytest.mark.parametrize(("name", "reason"), [("", REASON), (" \n", REASON), ("Ada", ""), ("Ada", " "), ("Ada", "ok")])
def test_accepting_needs_a_name_and_a_reason(root: Path, name: str, reason: str) -> None:
    leave(root)
    before = everything(root)
    with pytest.raises(ReviewError):
        accept(root, name=name, reason=reason)
    assert {k: v for k, v in everything(root).items() if not k.endswith(".lock")} == before


def test_a_write_that_fails_leaves_everything_as_it_was(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(root)
    before = {k: v for k, v in everything(root).items() if k.startswith("goldens/")}
    replace, calls = os.replace, []

    def fail_third(source: str, target: str) -> None:
        calls.append(target)
        if len(calls) == 3:
            raise OSError(28, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_third)
    with pytest.raises(ReviewError, match="No space left"):
        accept(root)
    monkeypatch.undo()
    assert {k: v for k, v in everything(root).items() if k.startswith("goldens/")} == before
    assert the_one(root).case == CASE


def test_a_result_that_the_golden_cannot_hold_is_refused(root: Path) -> None:
    leave(root, found=b"\xff\n")
    with pytest.raises(Ds4Error, match="holds text"):
        accept(root)
    leave(root, golden="stops/new.jsonl", case="x", input=None, expected=None)
    with pytest.raises(Ds4Error, match="needs its input"):
        goldens.accept(next(one for one in pending.collect(root).pendings if one.case == "x"), "Ada", REASON, root)


def test_a_rejected_result_is_gone_and_the_golden_stays(root: Path) -> None:
    leave(root)
    before = {k: v for k, v in everything(root).items() if k.startswith("goldens/")}
    goldens.reject(the_one(root), "Ada", "a bug of ours", root)
    assert pending.collect(root).pendings == []
    assert {k: v for k, v in everything(root).items() if k.startswith("goldens/")} == before
    assert "a bug of ours" in (root / ".dev/reviewed.jsonl").read_text()


def test_what_the_golden_says_already_does_not_wait(root: Path) -> None:
    leave(root, found=EXPECTED.encode(), expected=b"older\n")
    assert goldens.open_pendings(root) == ([], [])


def test_a_golden_is_read_only_as_it_was_frozen(root: Path) -> None:
    path = root / "goldens/stops/splits.jsonl"
    path.write_bytes(path.read_bytes().replace(b"emit a", b"emit b"))
    with pytest.raises(manifest.ManifestError, match=r"expected [0-9a-f]{64}, found [0-9a-f]{64}"):
        goldens.read("stops/splits.jsonl", root / "goldens")
    with pytest.raises(manifest.ManifestError, match="is in no entry"):
        (root / "goldens/stops/more.jsonl").write_text("")
        goldens.read("stops/more.jsonl", root / "goldens")
    with pytest.raises(manifest.ManifestError, match="does not exist"):
        goldens.read("stops/none.jsonl", root / "goldens")


@pytest.mark.parametrize("line", ["{", "[]", '{"case": "a"}', '{"case": 1, "expected": ""}'])
def test_a_line_that_is_no_case_is_named(line: str) -> None:
    with pytest.raises(golden_files.GoldenFileError, match=r"x\.jsonl:2"):
        golden_files.rows("x.jsonl", b'{"case": "a", "expected": ""}\n' + line.encode())
    with pytest.raises(golden_files.GoldenFileError, match="is there twice"):
        golden_files.rows("x.jsonl", b'{"case": "a", "expected": ""}\n' * 2)


NEW = manifest.Entry("stops", "s", "c", "d", (), {})


def test_a_list_of_readers_over_several_lines_is_left_alone_or_replaced_as_one() -> None:
    text = '[[golden]]\nfolder = "stops"\nsource = "s"\ncommand = "c"\nused_by = [\n    "a",\n    "b",\n]\n'
    text += 'frozen = "2026-01-01"\n\n[golden.files]\n"m.jsonl" = "1"\n\n# tail\n'
    kept = manifest.update(text, "stops/m.jsonl", "2", "2026-02-02", NEW)
    assert kept == text.replace('"1"', '"2"').replace("2026-01-01", "2026-02-02")
    reader = manifest.Entry("stops", "s", "c", "d", ("c",), {})
    joined = manifest.update(text, "stops/a.jsonl", "3", "2026-02-02", reader)
    assert 'used_by = ["a", "b", "c"]\nfrozen = "2026-02-02"\n\n[golden.files]\n"a.jsonl" = "3"\n"m.jsonl"' in joined
    assert joined.endswith("# tail\n")


def test_a_manifest_that_cannot_be_edited_by_lines_is_left_alone() -> None:
    row = 'folder = "stops", source = "s", command = "c", frozen = "d", used_by = [], files = {"m" = "1"}'
    text = f"golden = [{{{row}}}]\n"
    with pytest.raises(manifest.ManifestError, match="unusual"):
        manifest.update(text, "stops/m", "2", "2026-02-02", NEW)


def test_the_real_manifest_can_be_edited() -> None:
    text = Path("goldens/manifest.toml").read_text(encoding="utf-8")
    for one in manifest.load(text):
        for name in one.files:
            edited = manifest.update(text, f"{one.folder}/{name}", "0" * 64, "2027-01-01", one)
            differing = [a for a, b in zip(text.splitlines(), edited.splitlines(), strict=True) if a != b]
            assert len(differing) == 2, name
            assert tomllib.loads(edited) != tomllib.loads(text)
            break
