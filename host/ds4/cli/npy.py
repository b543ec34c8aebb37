"""Writing a float32 matrix as .npy, row by row, so that a dump of any length needs the memory of one row.

    offset  bytes  what
    0       6      magic, 93 4E 55 4D 50 59 (\\x93NUMPY)
    6       2      version 1, 0
    8       2      u16 little-endian: length of the header text
    10      n      a Python dict literal with descr, fortran_order and shape, padded with blanks, ended by a newline, so
                   that the data starts at a multiple of 64
    10+n           rows x columns little-endian float32

Source of the format: NumPy's NEP 1.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path
from types import TracebackType

_HEADER_BYTES = 128  # room for any shape; the row count is known only when the last row is in


class NpyWriter:
    """A context manager; rows() so far are the file's rows when it closes. A row has the dims `columns`.

    The file appears under its name only when it is whole: it is written beside it and renamed.
    """

    def __init__(self, path: Path, *columns: int) -> None:
        if path.exists() and not path.is_file():
            # Renaming over /dev/null, as root, would replace it for everybody.
            raise OSError(f"{path}: not a regular file")
        self._path, self._columns, self._rows = path, columns, 0
        self._width = math.prod(columns)
        self._partial = path.with_name(path.name + ".partial")
        self._file = self._partial.open("wb")
        self._file.write(self._header())

    def _header(self) -> bytes:
        text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {(self._rows, *self._columns)}, }}"
        padded = text.ljust(_HEADER_BYTES - 11) + "\n"
        return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded.encode("latin-1")

    def append(self, row: memoryview[float]) -> None:
        """One row: a memoryview of float32 [columns]."""
        if row.format != "f" or row.nbytes != 4 * self._width:
            raise ValueError(f"a row of {row.nbytes} bytes of {row.format!r} (expected {self._width} float32)")
        if sys.byteorder == "big":
            import array

            swapped = array.array("f", row.tobytes())
            swapped.byteswap()
            self._file.write(swapped.tobytes())
        else:
            self._file.write(row)
        self._rows += 1

    def __enter__(self) -> NpyWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._file.seek(0)
                self._file.write(self._header())
        finally:
            self._file.close()
        if kind is None:
            self._partial.replace(self._path)
        else:
            self._partial.unlink(missing_ok=True)
