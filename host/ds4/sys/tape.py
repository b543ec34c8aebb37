"""The text that oracles and replacements read and write; oracles/common/tape.h is its description.

A tape is lines, each ended by a newline; a line is words separated by one space. A word is an integer in decimal, or
bytes: 0x21..0x7e but "%" stand for themselves, every other byte is %XX (upper-case hex), and no bytes at all are "%-".
There is exactly one way to write a thing, so tapes are compared byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_PLAIN = re.compile(rb"[!-$&-~]+")
_ESCAPES = [bytes([b]) if 0x20 < b < 0x7F and b != 0x25 else b"%%%02X" % b for b in range(256)]
_ESCAPED = re.compile(rb"%([0-9A-F]{2})")
_INTEGER = re.compile(rb"-?[0-9]{1,20}")
_INTEGERS = re.compile(rb"-?[0-9]{1,20}(?: -?[0-9]{1,20})*")


class TapeError(ValueError):
    """Bytes that are no tape of the component that read them: the caller's bug, not a verdict."""


def escape(data: bytes | str) -> bytes:
    """The word for these bytes; text is taken as UTF-8, lone surrogates as the three bytes each would have."""
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else bytes(data)
    if not raw:
        return b"%-"
    if _PLAIN.fullmatch(raw):
        return raw
    return b"".join([_ESCAPES[b] for b in raw])


def unescape(word: bytes) -> bytes:
    """The bytes of a word. TapeError for one that `escape` does not write."""
    if word == b"%-":
        return b""
    if _PLAIN.fullmatch(word):
        return word
    raw = _ESCAPED.sub(lambda m: bytes([int(m[1], 16)]), word)
    if escape(raw) != word:
        raise TapeError(f"not a word: {word[:60]!r}")
    return raw


def text(word: bytes) -> str:
    """The word's bytes as text. TapeError where they are no UTF-8 (surrogates as `escape` writes them are taken)."""
    try:
        return unescape(word).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise TapeError(f"not text: {word[:60]!r}") from None


def integer(word: bytes) -> int:
    """The integer of a word."""
    if _INTEGER.fullmatch(word) is None:
        raise TapeError(f"not an integer: {word[:60]!r}")
    return int(word)


def unsigned(word: bytes) -> int:
    """The integer of a word of plain digits, below 2^64; zeros in front do not count."""
    digits = word.lstrip(b"0")
    if not word.isdigit() or len(digits) > 20 or (value := int(digits or b"0")) >= 1 << 64:
        raise TapeError(f"not an unsigned integer: {word[:60]!r}")
    return value


def integers(words: Sequence[bytes]) -> list[int]:
    """The integers of several words; much faster than one by one."""
    if _INTEGERS.fullmatch(b" ".join(words)) is None:
        return [integer(word) for word in words]  # says which one is none
    return list(map(int, words))


def line(*words: int | str | bytes) -> bytes:
    """One line: a str is a verb, written as it is; bytes are escaped (encode and pass text that is data as bytes)."""
    return b" ".join([escape(w) if isinstance(w, bytes) else str(w).encode("ascii") for w in words]) + b"\n"


def lines(tape: bytes) -> Iterator[list[bytes]]:
    """The words of each line, still escaped. TapeError for a tape that does not end with a newline, or has an empty
    word."""
    if not tape:
        return
    if not tape.endswith(b"\n"):
        raise TapeError("the last line has no end")
    for row in tape[:-1].split(b"\n"):
        words = row.split(b" ") if row else []
        if b"" in words:
            raise TapeError(f"an empty word: {row[:60]!r}")
        yield words


def command(tape: bytes) -> tuple[list[bytes], bytes]:
    """The words of the first line, and the raw bytes behind it."""
    head, newline, rest = tape.partition(b"\n")
    if not newline:
        raise TapeError("no command line")
    return head.split(b" "), rest
