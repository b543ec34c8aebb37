"""Texts that a person names: prompts from a file or a pipe."""

from __future__ import annotations

import sys
from pathlib import Path

from ds4.errors import SettingsError

LARGEST_TEXT = 64 << 20
"""Bytes; more than any context holds. A device that never ends is refused instead of filling the memory."""


def read_text(file: Path | None) -> str:
    """The file's text as it is, line ends included; None or "-": standard input's. SettingsError if it cannot be
    read, is too large or no UTF-8."""
    piped = file is None or str(file) == "-"
    subject = "standard input" if piped else str(file)
    if file is None or piped:
        raw = sys.stdin.buffer.read(LARGEST_TEXT + 1)
    else:
        try:
            with file.open("rb") as stream:
                raw = stream.read(LARGEST_TEXT + 1)
        except OSError as error:
            raise SettingsError(f"cannot read it: {error.strerror or error}", subject=subject) from None
    if len(raw) > LARGEST_TEXT:
        expected = f"at most {LARGEST_TEXT} bytes"
        raise SettingsError("the text is too large", subject=subject, expected=expected, found="more")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingsError("the text is not UTF-8", subject=subject, expected="UTF-8", found=str(error)) from None
