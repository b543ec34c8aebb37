"""A position in a mapped file that never moves past its end.

Every read compares what it is about to take with the bytes that are left, and fails with a `ModelFileError` that names
the field, how many bytes it needs and how many there are. Nothing is sliced, and so nothing is allocated, before that.
"""

from __future__ import annotations

import mmap
import re
import struct
from typing import NoReturn

from ds4.errors import ModelFileError

Buffer = bytes | mmap.mmap

U32 = struct.Struct("<I")
U64 = struct.Struct("<Q")

# What a name may not have: controls, marks that cannot be seen, marks that turn the direction of text around. A list of
# our own, as str.isprintable changes with each version of Unicode and a file must not be good in one Python only.
_UNFIT = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff0-\uffff\U000e0000-\U000e0fff]"
)


class BeyondHead(Exception):
    """The file has bytes that had to be read behind the head that was given. Met only by a caller that gives a head."""


def shown(text: str, limit: int = 96) -> str:
    """`text` made fit for a terminal or a log line: control characters escaped, and cut to `limit` characters."""
    if len(text) > limit:
        text = text[: limit - 3] + "..."
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


class Cursor:
    """Reads little-endian fields from `buffer` from `position` on. source: the file's name, for messages.

    file_bytes: the file's size where `buffer` is only its head; to read behind the head raises BeyondHead.
    """

    __slots__ = ("buffer", "end", "position", "reach", "source")

    def __init__(self, buffer: Buffer, source: str, file_bytes: int | None = None) -> None:
        self.buffer = buffer
        self.reach = len(buffer)
        self.end = self.reach if file_bytes is None else file_bytes
        self.position = 0
        self.source = source

    @property
    def left(self) -> int:
        return self.end - self.position

    def fail(self, code: str, subject: str, message: str, *, expected: object = None, found: object = None) -> NoReturn:
        raise ModelFileError(
            f"{message}, in {shown(self.source)}", code=code, subject=shown(subject), expected=expected, found=found
        )

    def need(self, count: int, subject: str) -> None:
        """Fails unless `count` bytes are left."""
        if count > self.end - self.position:
            self.fail(
                "gguf_truncated",
                subject,
                f"the file ends inside this field at byte {self.position}",
                expected=f"{count} bytes",
                found=f"{self.left} bytes left",
            )
        if count > self.reach - self.position:
            raise BeyondHead(subject)

    def skip(self, count: int, subject: str) -> None:
        self.need(count, subject)
        self.position += count

    def u32(self, subject: str) -> int:
        self.need(4, subject)
        value: int = U32.unpack_from(self.buffer, self.position)[0]
        self.position += 4
        return value

    def u64(self, subject: str) -> int:
        self.need(8, subject)
        value: int = U64.unpack_from(self.buffer, self.position)[0]
        self.position += 8
        return value

    def raw(self, count: int, subject: str) -> bytes:
        self.need(count, subject)
        start = self.position
        self.position = start + count
        return self.buffer[start : start + count]

    def text(self, subject: str, *, most: int | None = None) -> str:
        """A GGUF string: u64 byte length, then UTF-8 without a terminator. most: the longest allowed, in bytes."""
        length = self.u64(subject)
        if most is not None and length > most:
            self.fail(
                "gguf_string_length",
                subject,
                "the string is too long",
                expected=f"at most {most} bytes",
                found=f"{length} bytes",
            )
        return decode_utf8(self.raw(length, subject), subject, self.source)

    def identifier(self, subject: str, *, most: int) -> str:
        """A metadata key or tensor name: 1..`most` bytes of visible text (the engine reads names up to a NUL)."""
        name = self.text(subject, most=most)
        if not name:
            self.fail("gguf_name", subject, "the name is empty", expected="at least 1 byte", found="0 bytes")
        if _UNFIT.search(name) is not None:
            self.fail(
                "gguf_name", subject, "the name is not text", expected="printable characters", found=shown(ascii(name))
            )
        return name


def decode_utf8(raw: bytes, subject: str, source: str) -> str:
    """Strict UTF-8. Surrogate escapes are no way out: a lone surrogate read here would come back as a crash at the
    edge, where a token's text is encoded for the wire."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as e:
        raise ModelFileError(
            f"the string is not UTF-8, in {shown(source)}",
            code="gguf_utf8",
            subject=shown(subject),
            expected="valid UTF-8",
            found=f"byte 0x{raw[e.start]:02x} at {e.start} of {len(raw)}",
        ) from None
