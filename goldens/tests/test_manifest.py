"""Every golden has its provenance in manifest.toml, is the file that was frozen, and is read by a test."""

import hashlib
import tomllib
from pathlib import Path

ROOT = Path("goldens")
FIELDS = {"folder", "source", "command", "used_by", "files"}
ENTRIES = tomllib.loads((ROOT / "manifest.toml").read_text(encoding="utf-8"))["golden"]
IGNORED = {".py", ".pyc", ".ambr"}


def frozen() -> set[str]:
    """Files that count as goldens: all in the folders of goldens/ but programs."""
    folders = [path for path in ROOT.iterdir() if path.is_dir() and path.name not in ("tests", "__pycache__")]
    files = [path for folder in folders for path in folder.rglob("*") if path.is_file() and path.suffix not in IGNORED]
    return {str(path.relative_to(ROOT)) for path in files}


def test_each_entry_tells_where_its_files_come_from() -> None:
    for entry in ENTRIES:
        assert set(entry) == FIELDS, entry.get("folder")
        assert entry["source"] and entry["command"] and entry["files"], entry["folder"]


def test_each_file_is_the_one_that_was_frozen() -> None:
    for entry in ENTRIES:
        for name, digest in entry["files"].items():
            found = hashlib.sha256((ROOT / entry["folder"] / name).read_bytes()).hexdigest()
            assert found == digest, f"goldens/{entry['folder']}/{name}: expected sha256 {digest}, found {found}"


def test_no_file_lies_here_without_an_entry() -> None:
    listed = {f"{entry['folder']}/{name}" for entry in ENTRIES for name in entry["files"]}
    assert frozen() - listed == set()


def test_each_golden_is_read_by_the_test_that_its_entry_names() -> None:
    for entry in ENTRIES:
        assert entry["used_by"], entry["folder"]
        for reader in entry["used_by"]:
            assert entry["folder"] in Path(reader).read_text(encoding="utf-8"), (
                f"{reader} does not read {entry['folder']}"
            )
