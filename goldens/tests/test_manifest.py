"""Every golden has its provenance in manifest.toml, is the file that was frozen, and is read by something."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from datetime import date
from pathlib import Path

ROOT = Path("goldens")
FIELDS = {"folder", "source", "command", "frozen", "used_by", "files"}
ENTRIES = tomllib.loads((ROOT / "manifest.toml").read_text(encoding="utf-8"))["golden"]
PROGRAMS = {".py", ".pyc"}
NO_GOLDENS = {"entry", "review", "tests", "__pycache__"}


def frozen() -> set[str]:
    """Files that count as goldens: all in the folders of goldens/ but programs."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and path.name not in NO_GOLDENS]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix not in PROGRAMS]
    return {str(path.relative_to(ROOT)) for path in files}


def reads(reader: str, folder: str) -> bool:
    """Whether a file reads a golden's folder: it names it; the harness hands a component all of goldens/<its name>/."""
    path = Path(reader)
    if path.parent == Path("parity/components") and path.is_file():
        return path.stem == folder.partition("/")[0]
    if folder.startswith("snapshots/"):
        return path.parent == Path("host/tests", folder.partition("/")[2]) and "snapshot" in path.read_text("utf-8")
    return folder in path.read_text(encoding="utf-8")


def test_each_entry_tells_where_its_files_come_from() -> None:
    for entry in ENTRIES:
        assert set(entry) == FIELDS, entry.get("folder")
        assert entry["source"] and entry["command"] and entry["files"], entry["folder"]


def test_each_entry_has_the_day_when_it_was_frozen() -> None:
    for entry in ENTRIES:
        assert isinstance(entry["frozen"], str), f"{entry['folder']}: frozen is a day as text"
        assert date(2026, 1, 1) <= date.fromisoformat(entry["frozen"]), entry["folder"]


def test_each_file_is_the_one_that_was_frozen() -> None:
    for entry in ENTRIES:
        for name, digest in entry["files"].items():
            found = hashlib.sha256((ROOT / entry["folder"] / name).read_bytes()).hexdigest()
            assert found == digest, f"goldens/{entry['folder']}/{name}: expected sha256 {digest}, found {found}"


def test_no_file_lies_here_without_an_entry() -> None:
    listed = [f"{entry['folder']}/{name}" for entry in ENTRIES for name in entry["files"]]
    assert frozen() - set(listed) == set()
    assert [name for name, times in Counter(listed).items() if times > 1] == []


def test_each_case_of_a_file_has_a_name_of_its_own_and_says_what_is_expected() -> None:
    for name in sorted(name for name in frozen() if name.endswith(".jsonl")):
        seen = set()
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8").split("\n"), start=1):
            if not line:
                continue
            case = json.loads(line)
            assert isinstance(case["expected"], str), f"goldens/{name}:{number}"
            assert case["case"] not in seen, f"goldens/{name}:{number}: a second {case['case']!r}"
            seen.add(case["case"])
        assert seen, f"goldens/{name} has no case"


def test_each_golden_is_read_by_what_its_entry_names() -> None:
    for entry in ENTRIES:
        assert entry["used_by"], entry["folder"]
        for reader in entry["used_by"]:
            assert reads(reader, entry["folder"]), f"{reader} does not read {entry['folder']}"


def test_each_snapshot_is_one_of_a_test_that_is_there() -> None:
    for name in sorted(name for name in frozen() if name.startswith("snapshots/")):
        reader = f"host/tests/{name.removeprefix('snapshots/').removesuffix('.ambr')}.py"
        readers = [path for entry in ENTRIES if name.startswith(f"{entry['folder']}/") for path in entry["used_by"]]
        assert reader in readers, f"goldens/{name}: {reader} does not stand in used_by"
