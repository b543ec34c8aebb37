"""The host's part of a session payload (DSV4): 13 integers and the token ids, before a native tail that is not read.

    offset  field, each a little-endian u32
    0       magic 0x34565344, the bytes "DSV4"
    4       version: 3 is written; 1, 2 and 3 are read, all with this layout
    8       context of the writer, in tokens
    12      prefill width
    16      raw capacity, in rows
    20      a layout's tag, or the raw window of a deepseek payload
    24      compressed capacity, in rows
    28      token count
    32      layers
    36      head dim
    40      indexer head dim
    44      vocabulary size
    48      live rows (for qwen: a byte count of its own)
    52      token ids
            the native tail, to the end

oracles/payload/README.md is the contract, with the order in which faults are found.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from ds4.core import components
from ds4.errors import PayloadError

MAGIC = 0x34565344
VERSION = 3
VERSIONS = (1, 2, 3)
U32_MAX = 2**32 - 1

_HEADER = struct.Struct("<13I")
HEADER_BYTES = _HEADER.size

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True, slots=True)
class Layout:
    """What the field at 20 says about a payload.

    tag: its value; 0 for deepseek, whose payloads have their raw window there. family: who can read it.
    rows_are_tokens: live rows must be the token count. takes_all: a context of N holds N tokens, not N - 1.
    """

    name: str
    family: str
    tag: int
    rows_are_tokens: bool = True
    takes_all: bool = False

    def holds(self, tokens: int, ctx: int) -> bool:
        """Whether a context of `ctx` positions takes this many tokens."""
        return tokens < ctx + self.takes_all


def _tag(text: bytes) -> int:
    return int.from_bytes(text, "little")


DEEPSEEK = Layout("deepseek", "deepseek", 0, rows_are_tokens=False)
_TAGGED = (
    Layout("solar", "solar", _tag(b"SLR3")),
    Layout("exaone", "exaone", _tag(b"EXA3")),
    Layout("motif", "motif", _tag(b"MTF3")),
    Layout("dots", "dots", _tag(b"DTS3")),
    Layout("qwen", "qwen", _tag(b"QWN3"), rows_are_tokens=False, takes_all=True),
    Layout("qwen-fp8", "qwen", _tag(b"QWF3"), rows_are_tokens=False, takes_all=True),
    Layout("step", "step", _tag(b"STP3")),
    Layout("ling", "ling", _tag(b"LNG3")),
)
_BY_TAG = {layout.tag: layout for layout in _TAGGED}
LAYOUTS = {layout.name: layout for layout in (DEEPSEEK, *_TAGGED)}
FAMILIES = frozenset(layout.family for layout in LAYOUTS.values())


@dataclass(frozen=True, slots=True)
class Shape:
    """The header without magic, version and token count. Capacities and widths are in rows, ctx is in tokens.

    raw_window: 0 for every layout but deepseek.
    """

    layout: Layout
    ctx: int
    prefill_width: int
    raw_capacity: int
    raw_window: int
    compressed_capacity: int
    layers: int
    head_dim: int
    indexer_head_dim: int
    vocab: int
    live_rows: int


SHAPE_FIELDS = tuple(Shape.__slots__)[1:]


@dataclass(frozen=True, slots=True)
class Payload:
    """What stands before the tail. tail: its offset in the payload; tail_bytes: its length."""

    version: int
    shape: Shape
    tokens: Sequence[int]
    tail: int
    tail_bytes: int


def decode_python(buffer: Buffer, *, family: str | None = None, ctx: int = 0) -> Payload:
    """Reads the prefix of the payload in `buffer`; a memoryview of a mapped file will do, its tail is not touched.

    family: of the reader's model; None takes any. ctx: the reader's context in tokens; 0 stands for the writer's.
    Raises PayloadError, its code `payload_*` and its subject the field.
    """
    if len(buffer) < HEADER_BYTES:
        raise _truncated("header", HEADER_BYTES, len(buffer))
    fields = _HEADER.unpack_from(buffer)
    magic, version, written_ctx, prefill_width, raw_capacity, mark, compressed_capacity, count = fields[:8]
    if magic != MAGIC:
        raise PayloadError("not a session payload", code="payload_magic", subject="magic", expected=MAGIC, found=magic)
    if version not in VERSIONS:
        raise PayloadError("unknown version", code="payload_version", subject="version", expected="1..3", found=version)
    layout = _BY_TAG.get(mark, DEEPSEEK)
    if family is not None and family != layout.family:
        raise PayloadError(
            "of another model family", code="payload_family", subject="layout", expected=family, found=layout.name
        )
    _check_context(layout, count, ctx or written_ctx)
    left = len(buffer) - HEADER_BYTES
    if 4 * count > left:
        raise _truncated("ids", 4 * count, left)
    _check_live_rows(layout, count, fields[12])
    tail = HEADER_BYTES + 4 * count
    tokens = array("I")
    tokens.frombytes(memoryview(buffer)[HEADER_BYTES:tail])
    if sys.byteorder == "big":
        tokens.byteswap()
    _check_tokens(tokens, fields[11])
    window = mark if layout is DEEPSEEK else 0
    shape = Shape(layout, written_ctx, prefill_width, raw_capacity, window, compressed_capacity, *fields[8:])
    return Payload(version, shape, tokens, tail, len(buffer) - tail)


def encode_python(shape: Shape, tokens: Sequence[int]) -> bytes:
    """The header and the ids, to be followed by the tail. Raises PayloadError for what `decode` would not take."""
    for name in SHAPE_FIELDS:
        if not 0 <= getattr(shape, name) <= U32_MAX:
            raise _range(name, getattr(shape, name))
    for token in (min(tokens), max(tokens)) if tokens else ():
        if not 0 <= token <= U32_MAX:
            raise _range("ids", token)
    layout, window, count = shape.layout, shape.raw_window, len(tokens)
    if (window in _BY_TAG) if layout is DEEPSEEK else window:
        raise PayloadError(
            "a window that tells another layout", code="payload_layout", subject="raw_window", found=window,
            expected="0, but for deepseek, and no layout's tag",
        )  # fmt: skip
    _check_context(layout, count, shape.ctx)
    _check_live_rows(layout, count, shape.live_rows)
    _check_tokens(tokens, shape.vocab)
    header = _HEADER.pack(
        MAGIC, VERSION, shape.ctx, shape.prefill_width, shape.raw_capacity, layout.tag or window,
        shape.compressed_capacity, count, shape.layers, shape.head_dim, shape.indexer_head_dim, shape.vocab,
        shape.live_rows,
    )  # fmt: skip
    return header + struct.pack(f"<{count}I", *tokens)


def _check_context(layout: Layout, count: int, ctx: int) -> None:
    if not layout.holds(count, ctx):
        raise PayloadError(
            "too long for the context", code="payload_context", subject="token_count", found=f"{count} tokens",
            expected=f"{'at most' if layout.takes_all else 'less than'} {ctx}",
        )  # fmt: skip


def _check_live_rows(layout: Layout, count: int, live_rows: int) -> None:
    if layout.rows_are_tokens and live_rows != count:
        raise PayloadError(
            "not one row for each token", code="payload_live_rows", subject="live_rows", expected=count, found=live_rows
        )


def _check_tokens(tokens: Sequence[int], vocab: int) -> None:
    if tokens and (worst := max(tokens)) >= vocab:
        raise PayloadError(
            "an id outside the vocabulary", code="payload_token", subject="ids", expected=f"below {vocab}", found=worst
        )


def _truncated(subject: str, expected: int, found: int) -> PayloadError:
    return PayloadError(
        "the payload ends early", code="payload_truncated", subject=subject, expected=f"{expected} bytes",
        found=f"{found} bytes left",
    )  # fmt: skip


def _range(subject: str, found: int) -> PayloadError:
    return PayloadError("no u32", code="payload_range", subject=subject, expected=f"0..{U32_MAX}", found=found)


# ---- which side decides ----


def _decode_oracle(buffer: Buffer, *, family: str | None = None, ctx: int = 0) -> Payload:
    from ds4.core.tapes import payload as tapes

    return tapes.decode_by_oracle(buffer, family=family, ctx=ctx)


def _encode_oracle(shape: Shape, tokens: Sequence[int]) -> bytes:
    from ds4.core.tapes import payload as tapes

    return tapes.encode_by_oracle(shape, tokens)


decode = components.pick("payload", python=decode_python, oracle=_decode_oracle)
encode = components.pick("payload", python=encode_python, oracle=_encode_oracle)
