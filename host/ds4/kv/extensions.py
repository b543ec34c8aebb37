"""The trailer of a KV record: sections that the header's extension bits announce, one behind the other in this order.

    session title  (bit 3)  u32 length, at most 65536; the title
    tool map       (bit 0)  "KTM" 0x01, u32 count 1..400000, then for each entry: u32 id length 1..256,
                            u32 body length 1..2^29, id, body; no zero bytes in either
    identity       (bit 6)  the last 40 bytes: "KVI" 0x01, a 32-byte digest, "KVI!"

Integers are little-endian. The other bits are marks and have no section. The body of a tool map's entry is the exact
text that was sampled for a call: with it a conversation that comes back re-worded still has the tokens of the record.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from ds4.errors import RecordError

TOOL_MAP = 1 << 0
RESPONSES_VISIBLE = 1 << 1
THINKING_VISIBLE = 1 << 2
SESSION_TITLE = 1 << 3
BANK_REPLAY = 1 << 4
IMAGE_PIXELS = 1 << 5
IDENTITY = 1 << 6

MARKS = RESPONSES_VISIBLE | THINKING_VISIBLE | BANK_REPLAY | IMAGE_PIXELS
KNOWN = MARKS | TOOL_MAP | SESSION_TITLE | IDENTITY

MAX_TITLE_BYTES = 65536
MAX_TOOLS = 400_000
MAX_ID_BYTES = 256
MAX_BODY_BYTES = 1 << 29
DIGEST_BYTES = 32

_U32 = struct.Struct("<I")
_MAP_HEAD = struct.Struct("<4sI")
_ENTRY = struct.Struct("<II")
_MAP_MAGIC = b"KTM\x01"
_FOOTER_START, _FOOTER_END = b"KVI\x01", b"KVI!"
_FOOTER_BYTES = len(_FOOTER_START) + DIGEST_BYTES + len(_FOOTER_END)
_LEAST_ENTRY_BYTES = _ENTRY.size + 1 + 1


class Tool(NamedTuple):
    """The text that was sampled for the tool call of this id."""

    id: bytes
    body: bytes


@dataclass(frozen=True, slots=True)
class Extensions:
    """The sections of a record; an empty one is not written. tools: in the file's order; ids may repeat."""

    title: bytes | None = None
    tools: tuple[Tool, ...] = ()
    identity: bytes | None = None

    @property
    def bits(self) -> int:
        """The extension bits that announce them."""
        return (
            (SESSION_TITLE if self.title is not None else 0)
            | (TOOL_MAP if self.tools else 0)
            | (IDENTITY if self.identity is not None else 0)
        )


NONE = Extensions()


def decode(bits: int, trailer: memoryview) -> Extensions:
    """The sections of a trailer, which these extension bits announce. Raises RecordError."""
    identity = title = None
    tools: tuple[Tool, ...] = ()
    end = len(trailer)
    if bits & IDENTITY:
        end -= _FOOTER_BYTES
        if end < 0:
            _truncated("identity", _FOOTER_BYTES, len(trailer))
        footer = bytes(trailer[end:])
        if not (footer.startswith(_FOOTER_START) and footer.endswith(_FOOTER_END)):
            found = f"{footer[:4]!r} .. {footer[-4:]!r}"
            _fail("identity", "identity", "not an identity footer", f"{_FOOTER_START!r} .. {_FOOTER_END!r}", found)
        identity = footer[4:-4]
    at = 0
    if bits & SESSION_TITLE:
        title, at = _title(trailer, at, end)
    if bits & TOOL_MAP:
        tools, at = _tools(trailer, at, end)
    if at != end:
        _fail("trailing", "trailer", "bytes that no extension bit announces", "none", f"{end - at} bytes")
    return Extensions(title, tools, identity)


def _title(trailer: memoryview, at: int, end: int) -> tuple[bytes, int]:
    if end - at < _U32.size:
        _truncated("title", _U32.size, end - at)
    length: int = _U32.unpack_from(trailer, at)[0]
    at += _U32.size
    _check_title(length)
    if length > end - at:
        _truncated("title", length, end - at)
    return bytes(trailer[at : at + length]), at + length


def _tools(trailer: memoryview, at: int, end: int) -> tuple[tuple[Tool, ...], int]:
    if end - at < _MAP_HEAD.size:
        _truncated("tool_map", _MAP_HEAD.size, end - at)
    magic, count = _MAP_HEAD.unpack_from(trailer, at)
    at += _MAP_HEAD.size
    if magic != _MAP_MAGIC:
        _fail("tool_magic", "tool_map", "not a tool map of a known version", _MAP_MAGIC, magic)
    most = min(MAX_TOOLS, (end - at) // _LEAST_ENTRY_BYTES)
    if not 1 <= count <= most:
        _fail("tool_count", "tool_map", "a count that the bytes left cannot hold", f"1..{most}", count)
    tools = []
    for _ in range(count):
        if end - at < _ENTRY.size:
            _truncated("tool_map", _ENTRY.size, end - at)
        id_bytes, body_bytes = _ENTRY.unpack_from(trailer, at)
        at += _ENTRY.size
        _check_length("tool_id", id_bytes, MAX_ID_BYTES)
        _check_length("tool_body", body_bytes, MAX_BODY_BYTES)
        if id_bytes + body_bytes > end - at:
            _truncated("tool_map", id_bytes + body_bytes, end - at)
        split = at + id_bytes
        tool = Tool(bytes(trailer[at:split]), bytes(trailer[split : split + body_bytes]))
        _check_no_zero("tool_id", tool.id)
        _check_no_zero("tool_body", tool.body)
        tools.append(tool)
        at = split + body_bytes
    return tuple(tools), at


def check(extensions: Extensions) -> None:
    """Raises RecordError for sections that `decode` would not take."""
    if extensions.title is not None:
        _check_title(len(extensions.title))
    if len(extensions.tools) > MAX_TOOLS:
        _fail("tool_count", "tool_map", "too many entries", f"at most {MAX_TOOLS}", len(extensions.tools))
    for tool in extensions.tools:
        _check_length("tool_id", len(tool.id), MAX_ID_BYTES)
        _check_no_zero("tool_id", tool.id)
        _check_length("tool_body", len(tool.body), MAX_BODY_BYTES)
        _check_no_zero("tool_body", tool.body)
    if extensions.identity is not None and len(extensions.identity) != DIGEST_BYTES:
        found = f"{len(extensions.identity)} bytes"
        _fail("identity", "identity", "a digest of the wrong length", f"{DIGEST_BYTES} bytes", found)


def encode(extensions: Extensions) -> bytes:
    """The trailer. The sections are taken as `check` left them."""
    parts = []
    if extensions.title is not None:
        parts += [_U32.pack(len(extensions.title)), extensions.title]
    if extensions.tools:
        parts.append(_MAP_HEAD.pack(_MAP_MAGIC, len(extensions.tools)))
        for tool in extensions.tools:
            parts += [_ENTRY.pack(len(tool.id), len(tool.body)), tool.id, tool.body]
    if extensions.identity is not None:
        parts += [_FOOTER_START, extensions.identity, _FOOTER_END]
    return b"".join(parts)


def _check_title(length: int) -> None:
    if length > MAX_TITLE_BYTES:
        _fail("title", "title", "too long", f"at most {MAX_TITLE_BYTES} bytes", f"{length} bytes")


def _check_length(code: str, length: int, most: int) -> None:
    if not 1 <= length <= most:
        _fail(code, "tool_map", "a length out of range", f"1..{most} bytes", f"{length} bytes")


def _check_no_zero(code: str, data: bytes) -> None:
    if 0 in data:
        _fail(code, "tool_map", "a zero byte", "none", f"one at {data.index(0)}")


def _truncated(subject: str, expected: int, found: int) -> NoReturn:
    _fail("truncated", subject, "the record ends early", f"{expected} bytes", f"{found} bytes left")


def _fail(code: str, subject: str, message: str, expected: object, found: object) -> NoReturn:
    raise RecordError(message, code=f"kvc_{code}", subject=subject, expected=expected, found=found)
