"""Whether a loaded model's files are still what was loaded.

Weights are mapped, not copied: whoever writes into the file changes them under the engine, and whoever cuts it makes
the next access end the process. A file that is replaced by another one (renamed over, or deleted) is no such case: the
mapping keeps the old one.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from pathlib import Path

from ds4.errors import ModelFileError


class WeightsWatch:
    """paths: of all shards, looked at from now on by their size and time of change. Safe to use from two threads: one
    closes it, another looks."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._lock = threading.Lock()
        self._files: list[tuple[Path, int, tuple[int, int]]] = []
        try:
            for path in paths:
                fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
                self._files.append((path, fd, _state(fd)))
        except OSError as error:
            self.close()
            raise ModelFileError(f"cannot be opened: {error.strerror}", subject=str(path)) from None

    def change(self) -> ModelFileError | None:
        """What has become of the files, if anything has. None too once it is closed."""
        with self._lock:
            for path, fd, before in self._files:
                if (now := _state(fd)) != before:
                    return ModelFileError(
                        "was written to while it was loaded; replace a model by renaming a new file over it",
                        subject=str(path),
                        expected=f"{before[0]} bytes, untouched",
                        found=f"{now[0]} bytes" if now[0] != before[0] else "a later time of change",
                    )
        return None

    def close(self) -> None:
        with self._lock:
            for _, fd, _ in self._files:
                os.close(fd)
            self._files.clear()


def _state(fd: int) -> tuple[int, int]:
    stat = os.fstat(fd)
    return stat.st_size, stat.st_mtime_ns
