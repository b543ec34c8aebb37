"""goldens/manifest.toml: where each golden comes from and the bytes that were frozen.

    [[golden]]
    folder = "stops"              relative to goldens/; may be nested
    source = "..."                the outside truth, with its version
    command = "..."               what made the files
    frozen = "2026-11-29"         the day of the newest digest
    used_by = ["..."]             who reads it, from the repository's root

    [golden.files]
    "splits.jsonl" = "<sha256>"   relative to the folder

It is written by people, so an edit changes the lines that it must and leaves order, comments and spacing alone.
"""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds4.errors import Ds4Error

NAME = "manifest.toml"
_UNUSUAL = "cannot be edited line by line: an entry is written in an unusual way"
_TABLE = re.compile(r"^\s*\[")
_KEY = re.compile(r'^\s*("(?:[^"\\]|\\.)*"|[A-Za-z0-9_-]+)\s*=')


class ManifestError(Ds4Error):
    """A manifest that is not of its form, or goldens that are not the ones it lists."""

    code = "manifest"


@dataclass(frozen=True)
class Entry:
    """Goldens of one provenance. files: sha256 by name, relative to the folder."""

    folder: str
    source: str
    command: str
    frozen: str
    used_by: tuple[str, ...]
    files: Mapping[str, str]


def load(text: str) -> list[Entry]:
    """The entries. ManifestError for an entry that lacks something."""
    entries = []
    try:
        listed = tomllib.loads(text).get("golden", [])
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(f"is no TOML: {error}", subject=NAME) from None
    for raw in listed:
        try:
            entry = Entry(
                raw["folder"], raw["source"], raw["command"], raw["frozen"], tuple(raw["used_by"]), dict(raw["files"])
            )
        except KeyError as error:
            raise ManifestError(f"an entry without {error}", subject=str(raw.get("folder"))) from None
        entries.append(entry)
    return entries


def read(goldens: Path) -> list[Entry]:
    return load((goldens / NAME).read_text(encoding="utf-8"))


def entry_of(entries: list[Entry], file: str) -> Entry | None:
    """The entry that lists a file (relative to goldens/)."""
    for entry in entries:
        if file.startswith(f"{entry.folder}/") and file[len(entry.folder) + 1 :] in entry.files:
            return entry
    return None


def check(entries: list[Entry], file: str, data: bytes) -> Entry:
    """The entry of a file whose bytes are the frozen ones. ManifestError otherwise."""
    entry = entry_of(entries, file)
    if entry is None:
        raise ManifestError("is in no entry of goldens/manifest.toml", subject=f"goldens/{file}")
    expected, found = entry.files[file[len(entry.folder) + 1 :]], sha256(data)
    if found != expected:
        raise ManifestError("is not the one that was frozen", subject=f"goldens/{file}", expected=expected, found=found)
    return entry


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def update(text: str, file: str, digest: str | None, today: str, new: Entry) -> str:
    """The manifest with a file's digest replaced and the date of its entry set; None removes the file.

    A file that is listed nowhere joins the entry of its folder together with the readers of `new`, or brings `new`
    where the folder has none.
    """
    entries = load(text)
    entry = entry_of(entries, file)
    if entry is None:
        entry = next((one for one in entries if one.folder == new.folder), None)
    lines = text.split("\n")
    if entry is None:
        if digest is None:
            raise ManifestError("is in no entry of goldens/manifest.toml", subject=f"goldens/{file}")
        made = {**vars(new), "frozen": today, "files": {file[len(new.folder) + 1 :]: digest}}
        edited = text.rstrip("\n") + "\n\n" + _render(made) + "\n"
        return _proven(edited, [*map(_plain, entries), _plain(Entry(**made))])
    name = file[len(entry.folder) + 1 :]
    readers = entry.used_by
    if name not in entry.files and digest is not None:
        readers += tuple(reader for reader in new.used_by if reader not in readers)
    files = {one: sha for one, sha in {**entry.files, name: digest}.items() if sha is not None}
    wanted = Entry(entry.folder, entry.source, entry.command, today, readers, files)
    start, end = _block(lines, entries.index(entry))
    block = lines[start:end]
    if not files:
        while start and lines[start - 1].startswith("#"):
            start -= 1
        block = []
    else:
        block = _set(block, "frozen", json.dumps(today))
        if readers != entry.used_by:
            block = _set(block, "used_by", json.dumps(list(readers), ensure_ascii=False))
        block = _set_file(block, name, digest)
    edited = "\n".join(lines[:start] + block + lines[end:]).rstrip("\n") + "\n"
    rest = [_plain(wanted) if one is entry else _plain(one) for one in entries if files or one is not entry]
    return _proven(edited, rest)


def _plain(entry: Entry) -> dict[str, Any]:
    return {**vars(entry), "used_by": list(entry.used_by), "files": dict(entry.files)}


def _proven(edited: str, wanted: list[dict[str, Any]]) -> str:
    """The text, once it is shown to say exactly what was meant."""
    if [_plain(entry) for entry in load(edited)] != wanted:
        raise ManifestError(_UNUSUAL, subject=NAME)
    return edited


def _render(entry: Mapping[str, Any]) -> str:
    def line(key: str) -> str:
        value = entry[key]
        return f"{key} = {json.dumps(list(value) if isinstance(value, tuple) else value, ensure_ascii=False)}"

    rows = ["[[golden]]", *map(line, ("folder", "source", "command", "frozen", "used_by")), "", "[golden.files]"]
    rows += [f"{json.dumps(name, ensure_ascii=False)} = {json.dumps(sha)}" for name, sha in entry["files"].items()]
    return "\n".join(rows)


def _block(lines: list[str], index: int) -> tuple[int, int]:
    """Lines [start, end) of the index-th [[golden]]."""
    starts = [i for i, line in enumerate(lines) if line.strip() == "[[golden]]"]
    if index >= len(starts):
        raise ManifestError(_UNUSUAL, subject=NAME)
    end = starts[index + 1] if index + 1 < len(starts) else len(lines)
    while index + 1 < len(starts) and lines[end - 1].startswith("#"):
        end -= 1  # comments right above belong to the next one
    return starts[index], end


def _set(block: list[str], key: str, value: str) -> list[str]:
    """The block with a key of its first table set; a value over several lines is replaced as a whole."""
    out: list[str] = []
    done = inside = False
    for line in block[1:]:
        if _TABLE.match(line):
            inside = False
            if not done:
                at = len(out)
                while at and not out[at - 1].strip():
                    at -= 1
                out.insert(at, f"{key} = {value}")
                done = True
        match = _KEY.match(line)
        if not done and match and match[1] == key:
            out.append(f"{key} = {value}")
            done, inside = True, line.count("[") > line.count("]")
            continue
        if inside:
            inside = "]" not in line
            continue
        out.append(line)
    return [block[0], *out]


def _set_file(block: list[str], name: str, digest: str | None) -> list[str]:
    """The block with a line of its [golden.files] replaced, removed, or put where its name sorts."""
    head = next((i for i, line in enumerate(block) if line.strip() == "[golden.files]"), None)
    if head is None:
        raise ManifestError(_UNUSUAL, subject=NAME)
    row = f"{json.dumps(name, ensure_ascii=False)} = {json.dumps(digest)}"
    last = head
    for i in range(head + 1, len(block)):
        match = _KEY.match(block[i])
        if not match:
            continue
        key = json.loads(match[1]) if match[1].startswith('"') else match[1]
        if key == name:
            return block[:i] + ([row] if digest is not None else []) + block[i + 1 :]
        if key < name:
            last = i
    return block[: last + 1] + [row] + block[last + 1 :]
