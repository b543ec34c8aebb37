"""The record that keeps a session on disk (KVC, version 1): a header, the rendered text, the payload, a trailer.

    offset  bytes  field, integers little-endian
    0       3      magic "KVC"
    3       1      file version, 1
    4       1      bits of the routed weights, 2 or 4
    5       1      reason, 0..9; a reader takes a larger one as 0
    6       1      extension bits (ds4.kv.extensions)
    7       1      model id
    8       4      tokens, not 0
    12      4      hits
    16      4      context when it was saved, in tokens
    20      1      payload ABI, 2
    21      3      zeros
    24      8      created, Unix seconds
    32      8      last used, Unix seconds
    40      8      payload bytes
    48      4      text bytes
    52             the text, the payload, the trailer to the end of the file

A payload may be larger than memory: `decode` leaves it where it is (give it a mapped file), and `pieces` takes it as it
is. oracles/kvc/README.md is the contract, with the order in which faults are found.
"""

from __future__ import annotations

import hashlib
import mmap
import struct
from dataclasses import dataclass, replace
from enum import IntEnum

from ds4.core import components
from ds4.errors import RecordError
from ds4.kv import extensions as sections
from ds4.kv.extensions import Extensions

MAGIC = b"KVC"
VERSION = 1
PAYLOAD_ABI = 2
QUANTS = (2, 4)
U32_MAX = 2**32 - 1

_HEAD = struct.Struct("<3sBBBBBIIIB3sQQQI")
HEADER_BYTES = _HEAD.size

Buffer = bytes | bytearray | memoryview | mmap.mmap


class Reason(IntEnum):
    """Why a session was saved."""

    UNKNOWN = 0
    COLD = 1
    CONTINUED = 2
    EVICT = 3
    SHUTDOWN = 4
    AGENT_SYSTEM = 5
    AGENT_SESSION = 6
    BANK_EVICT = 7
    BANK_SHUTDOWN = 8
    BANK_CHECKPOINT = 9


@dataclass(frozen=True, slots=True)
class Header:
    """What a record says of itself. quant: bits of the routed weights. marks: extension bits that have no section.

    created, used: Unix seconds. ctx: of the session that was saved, in tokens.
    """

    quant: int
    reason: int
    marks: int
    model: int
    tokens: int
    hits: int
    ctx: int
    created: int
    used: int

    def hit(self, now: int) -> Header:
        """The header after one more use."""
        return replace(self, hits=min(self.hits + 1, U32_MAX), used=now)


HEADER_FIELDS = tuple(Header.__slots__)
_MOST = (255, 255, 255, 255, U32_MAX, U32_MAX, U32_MAX, 2**64 - 1, 2**64 - 1)


@dataclass(frozen=True, slots=True)
class Record:
    """A whole record. payload: a view into what was decoded, or whatever is to be written."""

    header: Header
    text: bytes
    payload: bytes | bytearray | memoryview
    extensions: Extensions = sections.NONE

    @property
    def payload_offset(self) -> int:
        """Bytes from the start of the file."""
        return HEADER_BYTES + len(self.text)

    @property
    def name(self) -> str:
        """Of its file. A titled session keeps its name while it grows; any other record is found by its text."""
        if self.extensions.title is None:
            key = self.text
        else:
            key = self.extensions.title + self.header.created.to_bytes(8, "little")
        return hashlib.sha1(key, usedforsecurity=False).hexdigest() + ".kv"


def decode_python(buffer: Buffer) -> Record:
    """Reads a record. Raises RecordError, its code `kvc_*` and its subject the field. The payload is not touched."""
    view = memoryview(buffer)
    if len(view) < HEADER_BYTES:
        raise _truncated("header", HEADER_BYTES, len(view))
    (
        magic, version, quant, reason, bits, model, tokens, hits, ctx, abi, reserved, created, used, payload_bytes,
        text_bytes,
    ) = _HEAD.unpack_from(view)  # fmt: skip
    _expect(magic == MAGIC, "magic", "not a KV record", MAGIC, magic)
    _expect(version == VERSION, "version", "unknown version", VERSION, version)
    _expect(abi == PAYLOAD_ABI, "abi", "unknown payload ABI", PAYLOAD_ABI, abi)
    _expect(reserved == b"\0\0\0", "reserved", "reserved bytes in use", "zeros", reserved)
    _expect(quant in QUANTS, "quant", "unknown weight bits", "2 or 4", quant)
    _expect(not bits & ~sections.KNOWN, "extension", "an unknown extension", f"bits of {sections.KNOWN}", bits)
    _expect(tokens != 0, "tokens", "no tokens", "at least 1", 0)
    left = len(view) - HEADER_BYTES
    if text_bytes > left:
        raise _truncated("text", text_bytes, left)
    if payload_bytes > left - text_bytes:
        raise _truncated("payload", payload_bytes, left - text_bytes)
    start = HEADER_BYTES + text_bytes
    end = start + payload_bytes
    trailer = sections.decode(bits, view[end:])
    if reason > Reason.BANK_CHECKPOINT:
        reason = 0
    header = Header(quant, reason, bits & sections.MARKS, model, tokens, hits, ctx, created, used)
    return Record(header, bytes(view[HEADER_BYTES:start]), view[start:end], trailer)


def pieces(record: Record) -> tuple[bytes, bytes | bytearray | memoryview, bytes]:
    """What to write, one behind the other: header and text, the payload as it is, the trailer.

    Raises RecordError for a record that `decode` would not take.
    """
    header, extensions = record.header, record.extensions
    for name, most in zip(HEADER_FIELDS, _MOST, strict=True):
        value = getattr(header, name)
        if not 0 <= value <= most:
            raise RecordError("out of range", code="kvc_range", subject=name, expected=f"0..{most}", found=value)
    _expect(header.quant in QUANTS, "quant", "unknown weight bits", "2 or 4", header.quant)
    _expect(header.reason <= Reason.BANK_CHECKPOINT, "reason", "unknown reason", "0..9", header.reason)
    marks_ok = not header.marks & ~sections.MARKS
    _expect(marks_ok, "extension", "no marks", f"bits of {sections.MARKS}", header.marks)
    _expect(header.tokens != 0, "tokens", "no tokens", "at least 1", 0)
    _expect(len(record.text) <= U32_MAX, "text", "too long", f"at most {U32_MAX} bytes", len(record.text))
    sections.check(extensions)
    head = _HEAD.pack(
        MAGIC, VERSION, header.quant, header.reason, header.marks | extensions.bits, header.model, header.tokens,
        header.hits, header.ctx, PAYLOAD_ABI, b"\0\0\0", header.created, header.used, len(record.payload),
        len(record.text),
    )  # fmt: skip
    return head + record.text, record.payload, sections.encode(extensions)


def encode_python(record: Record) -> bytes:
    """The whole file in one piece. Raises RecordError."""
    return b"".join(pieces(record))


def _expect(right: bool, field: str, message: str, expected: object, found: object) -> None:
    if not right:
        subject = "extensions" if field == "extension" else field
        raise RecordError(message, code=f"kvc_{field}", subject=subject, expected=expected, found=found)


def _truncated(subject: str, expected: int, found: int) -> RecordError:
    return RecordError(
        "the record ends early", code="kvc_truncated", subject=subject, expected=f"{expected} bytes",
        found=f"{found} bytes left",
    )  # fmt: skip


# ---- which side decides ----


def _decode_oracle(buffer: Buffer) -> Record:
    from ds4.kv import tapes

    return tapes.decode_by_oracle(buffer)


def _encode_oracle(record: Record) -> bytes:
    from ds4.kv import tapes

    return tapes.encode_by_oracle(record)


decode = components.pick("kvc", python=decode_python, oracle=_decode_oracle)
encode = components.pick("kvc", python=encode_python, oracle=_encode_oracle)
