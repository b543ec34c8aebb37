"""Verdicts about model files on a tape: `error <code> <subject>`."""

from __future__ import annotations

from typing import NoReturn

from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.tape import escape, text

_UNSUPPORTED = frozenset(
    {
        "unsupported_kind",
        "unsupported_architecture",
        "unsupported_key",
        "unsupported_shape",
        "tensor_type",
        "tensor_unused",
    }
)


def subject_word(error: ModelFileError) -> bytes:
    """The error's subject as a tape word. It has been cut and made printable by `shown`; here the rest of what is not
    ASCII is escaped the same way, so that the word depends on no table of Unicode."""
    subject = error.subject or ""
    if not subject.isascii() or not subject.isprintable():
        subject = "".join(c if " " <= c <= "~" else ascii(c)[1:-1] for c in subject)
    return escape(subject)


def refuse(row: list[bytes]) -> NoReturn:
    """Raises the error that the words of an `error` line stand for."""
    code = row[1].decode("ascii")
    kind = UnsupportedModelError if code in _UNSUPPORTED else ModelFileError
    raise kind("refused by the oracle", code=code, subject=text(row[2]))
