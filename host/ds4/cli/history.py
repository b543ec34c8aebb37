"""The chat's history: ~/.ds4_history.

One entry a line, UTF-8, oldest first; a newline inside an entry is stored as a carriage return. At most 512 entries,
no entry twice in a row, the file readable by its owner alone.
"""

from __future__ import annotations

import os
from pathlib import Path

MOST = 512


def default_path() -> Path:
    return Path(os.environ.get("HOME") or "~").expanduser() / ".ds4_history"


def load(path: Path) -> list[str]:
    """The entries, oldest first; none where there is no readable file."""
    try:
        lines = path.read_bytes().decode("utf-8", "replace").split("\n")  # read_text would turn \r into \n
    except OSError:
        return []
    return [line.replace("\r", "\n") for line in lines if line][-MOST:]


def add(path: Path, entry: str) -> None:
    """Puts an entry at the end. A file that cannot be written costs the history, not the chat."""
    entry = entry.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    entries = load(path)  # again: another chat may have added to it
    if not entry or (entries and entries[-1] == entry):
        return
    entries = [*entries, entry][-MOST:]
    partial = path.with_name(path.name + ".partial")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8", errors="replace", newline="") as file:
            os.fchmod(descriptor, 0o600)
            file.writelines(item.replace("\n", "\r") + "\n" for item in entries)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
