"""The frames of the distributed wire (DS4D): a header of 12 bytes and a body, every integer big-endian.

    0   4  magic 0x44533444, the bytes "DS4D"
    4   4  type 1..9
    8   4  body bytes, within the limits of the type

    type  message          fixed fields (u32 unless said)
    1     Hello            40: model id, quant bits, layer start, layer end, has output, has hidden, ctx, layers, port,
                               name length; the name
    2     Failure           0: the message
    3     Work             80: model id, u64 session, u64 request, u64 prefix hash, u64 result hash, pos0, token count,
                               layer start, layer end, flags, token bytes, activation bytes, activation bits, hop count,
                               route index, route bytes; tokens, activations, route (ds4.dist.route)
    4     Result           40: u64 request, u64 result hash, status, kind, telemetry count, telemetry bytes,
                               payload bytes, payload bits; telemetry records of ten u32, the payload
    5     SnapshotSave     40: model id, u64 session, u64 request, u64 token hash, token count, layer start, layer end
    6     SnapshotBegin    60: model id, u64 session, u64 request, u64 token hash, token count, layer start, layer end,
                               u64 payload bytes, status, token bytes, message bytes; tokens, the message
    7     SnapshotChunk    12: u64 request, chunk bytes; the chunk
    8     SnapshotDone     16: u64 request, status, message bytes; the message
    9     SnapshotLoad     60: as SnapshotBegin, without a message

Codecs only: whether layers, ports and hashes fit is for whoever asked. oracles/frames/README.md is the contract, with
the order in which faults are found.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ds4.core import components
from ds4.dist import route
from ds4.dist.activations import check_length, width
from ds4.dist.messages import (
    MAX_CHUNK_BYTES,
    MAX_MESSAGE_BYTES,
    MAX_NAME_BYTES,
    WORK_FLAGS,
    Failure,
    Hello,
    Hop,
    Kind,
    Message,
    Result,
    Return,
    SnapshotBegin,
    SnapshotChunk,
    SnapshotDone,
    SnapshotLoad,
    SnapshotSave,
    Telemetry,
    Work,
    numbers,
)
from ds4.errors import FrameError

MAGIC = 0x44533444
U32_MAX = 2**32 - 1
_LARGE, _SNAPSHOT = 1 << 30, 1 << 27

Buffer = bytes | bytearray | memoryview

_HEADER = struct.Struct(">3I")
HEADER_BYTES = _HEADER.size

_HELLO = struct.Struct(">10I")
_WORK = struct.Struct(">I4Q11I")
_RESULT = struct.Struct(">2Q6I")
_TELEMETRY = struct.Struct(">10I")
_SAVE = struct.Struct(">I3Q3I")
_BEGIN = struct.Struct(">I3Q3IQ3I")
_CHUNK = struct.Struct(">QI")
_DONE = struct.Struct(">Q2I")


class Head(NamedTuple):
    """A frame's header: how much must be read behind it, and for what."""

    type: int
    length: int


class _Kind(NamedTuple):
    """A type of frame: the limits of its body, and how that is read."""

    message: type[Message]
    least: int
    most: int
    read: Callable[[memoryview], Message]


# ---- reading ----


def read_header(buffer: Buffer) -> Head:
    """The header at the start of `buffer`. Raises FrameError; a length that is returned is fit to be allocated."""
    if len(buffer) < HEADER_BYTES:
        raise _truncated("header", HEADER_BYTES, len(buffer))
    magic, number, length = _HEADER.unpack_from(buffer)
    if magic != MAGIC:
        raise FrameError("not a frame", code="frame_magic", subject="magic", expected=MAGIC, found=magic)
    kind = _KINDS.get(number)
    if kind is None:
        raise FrameError("unknown type", code="frame_type", subject="type", expected="1..9", found=number)
    _check_body(kind, length)
    return Head(number, length)


def decode_python(buffer: Buffer) -> Message:
    """The message of one whole frame. Raises FrameError, its code `frame_*` and its subject the field."""
    head = read_header(buffer)
    left = len(buffer) - HEADER_BYTES
    if left < head.length:
        raise _truncated("body", head.length, left)
    if left > head.length:
        raise FrameError(
            "bytes behind the frame", code="frame_trailing", subject="body", expected=f"{head.length} bytes",
            found=f"{left} bytes",
        )  # fmt: skip
    return _KINDS[head.type].read(memoryview(buffer)[HEADER_BYTES:])


def _check_body(kind: _Kind, length: int) -> None:
    if not kind.least <= length <= kind.most:
        raise FrameError(
            f"a body of a wrong length for {kind.message.__name__}", code="frame_length", subject="body",
            expected=f"{kind.least}..{kind.most} bytes", found=f"{length} bytes",
        )  # fmt: skip


def _truncated(subject: str, expected: int, left: int) -> FrameError:
    return FrameError(
        "the frame ends early", code="frame_truncated", subject=subject, expected=f"{expected} bytes",
        found=f"{left} bytes left",
    )  # fmt: skip


def _check_sizes(said: int, body: memoryview, fixed: struct.Struct, subject: str = "body") -> None:
    if said != len(body) - fixed.size:
        raise FrameError(
            "lengths that do not add up", code="frame_sizes", subject=subject,
            expected=f"{len(body) - fixed.size} bytes", found=f"{said} bytes",
        )  # fmt: skip


def _check_name(name: bytes) -> None:
    if 0 in name or len(name) > MAX_NAME_BYTES:
        raise FrameError(
            "not a model's name", code="frame_name", subject="name", found=name[: MAX_NAME_BYTES + 1],
            expected=f"at most {MAX_NAME_BYTES} bytes, none of them zero",
        )  # fmt: skip


def _check_flags(flags: int) -> None:
    if flags & ~WORK_FLAGS:
        raise FrameError("unknown flags", code="frame_flags", subject="flags", expected="bits of 15", found=flags)


def _check_kind(kind: int) -> None:
    if kind > Kind.LOGITS:
        raise FrameError("unknown kind", code="frame_kind", subject="kind", expected="0..2", found=kind)


def _tokens_differ(expected: object, found: object) -> FrameError:
    return FrameError("a wrong token count", code="frame_tokens", subject="tokens", expected=expected, found=found)


def _read_tokens(raw: memoryview) -> tuple[int, ...]:
    return struct.unpack(f">{len(raw) // 4}I", raw)


def _read_hello(body: memoryview) -> Hello:
    (
        model_id, quant_bits, layer_start, layer_end, has_output, has_hidden, ctx, layers, port, length,
    ) = _HELLO.unpack_from(body)  # fmt: skip
    _check_sizes(length, body, _HELLO, "name")
    name = bytes(body[_HELLO.size :])
    _check_name(name)
    return Hello(model_id, quant_bits, layer_start, layer_end, has_output, has_hidden, ctx, layers, port, name)


def _read_failure(body: memoryview) -> Failure:
    return Failure(bytes(body))


def _read_work(body: memoryview) -> Work:
    (
        model_id, session, request, prefix_hash, result_hash, pos0, count, layer_start, layer_end, flags, token_bytes,
        activation_bytes, bits, hop_count, route_index, route_bytes,
    ) = _WORK.unpack_from(body)  # fmt: skip
    _check_flags(flags)
    size = width(bits, "activation_bits")
    if count == 0 or token_bytes != 4 * count:
        raise _tokens_differ("4 bytes for each, at least one", f"{count} tokens, {token_bytes} bytes")
    _check_sizes(token_bytes + activation_bytes + route_bytes, body, _WORK)
    check_length(activation_bytes, size, "activations")
    after_tokens = _WORK.size + token_bytes
    after_activations = after_tokens + activation_bytes
    hops, back = route.decode(body[after_activations:], hop_count)
    return Work(
        model_id, session, request, prefix_hash, result_hash, pos0, layer_start, layer_end, flags, bits, route_index,
        _read_tokens(body[_WORK.size : after_tokens]), bytes(body[after_tokens:after_activations]), hops, back,
    )  # fmt: skip


def _read_result(body: memoryview) -> Result:
    request, result_hash, status, kind, count, telemetry_bytes, payload_bytes, bits = _RESULT.unpack_from(body)
    _check_kind(kind)
    size = width(bits, "payload_bits")
    if telemetry_bytes != _TELEMETRY.size * count:
        raise FrameError(
            "telemetry of a wrong length", code="frame_telemetry", subject="telemetry",
            expected=f"{_TELEMETRY.size * count} bytes", found=f"{telemetry_bytes} bytes",
        )  # fmt: skip
    _check_sizes(telemetry_bytes + payload_bytes, body, _RESULT)
    if status == 0 and kind != Kind.ACK:
        check_length(payload_bytes, size, "payload")
    middle = _RESULT.size + telemetry_bytes
    telemetry = tuple([Telemetry(*record) for record in _TELEMETRY.iter_unpack(body[_RESULT.size : middle])])
    return Result(request, result_hash, status, kind, bits, telemetry, bytes(body[middle:]))


def _read_save(body: memoryview) -> SnapshotSave:
    return SnapshotSave(*_SAVE.unpack(body))


def _read_begin(body: memoryview) -> SnapshotBegin:
    return _read_start(body, load=False)


def _read_load(body: memoryview) -> SnapshotLoad:
    start = _read_start(body, load=True)
    return SnapshotLoad(
        start.model_id, start.session, start.request, start.token_hash, start.layer_start, start.layer_end,
        start.payload_bytes, start.status, start.tokens,
    )  # fmt: skip


def _read_start(body: memoryview, *, load: bool) -> SnapshotBegin:
    (
        model_id, session, request, token_hash, count, layer_start, layer_end, payload_bytes, status, token_bytes,
        message_bytes,
    ) = _BEGIN.unpack_from(body)  # fmt: skip
    if token_bytes != 4 * count:
        raise _tokens_differ(f"{4 * count} bytes", f"{token_bytes} bytes")
    if load and message_bytes:
        raise FrameError(
            "a message", code="frame_message", subject="message", expected="none", found=f"{message_bytes} bytes"
        )
    _check_sizes(token_bytes + message_bytes, body, _BEGIN)
    middle = _BEGIN.size + token_bytes
    return SnapshotBegin(
        model_id, session, request, token_hash, layer_start, layer_end, payload_bytes, status,
        _read_tokens(body[_BEGIN.size : middle]), bytes(body[middle:]),
    )  # fmt: skip


def _read_chunk(body: memoryview) -> SnapshotChunk:
    request, length = _CHUNK.unpack_from(body)
    _check_sizes(length, body, _CHUNK)
    return SnapshotChunk(request, bytes(body[_CHUNK.size :]))


def _read_done(body: memoryview) -> SnapshotDone:
    request, status, length = _DONE.unpack_from(body)
    _check_sizes(length, body, _DONE)
    return SnapshotDone(request, status, bytes(body[_DONE.size :]))


_KINDS = {
    1: _Kind(Hello, _HELLO.size, _HELLO.size + MAX_NAME_BYTES, _read_hello),
    2: _Kind(Failure, 0, MAX_MESSAGE_BYTES, _read_failure),
    3: _Kind(Work, _WORK.size, _LARGE, _read_work),
    4: _Kind(Result, _RESULT.size, _LARGE, _read_result),
    5: _Kind(SnapshotSave, _SAVE.size, _SAVE.size, _read_save),
    6: _Kind(SnapshotBegin, _BEGIN.size, _SNAPSHOT, _read_begin),
    7: _Kind(SnapshotChunk, _CHUNK.size, _CHUNK.size + MAX_CHUNK_BYTES, _read_chunk),
    8: _Kind(SnapshotDone, _DONE.size, _DONE.size + MAX_MESSAGE_BYTES, _read_done),
    9: _Kind(SnapshotLoad, _BEGIN.size, _SNAPSHOT, _read_load),
}
_TYPES = {kind.message: number for number, kind in _KINDS.items()}


# ---- writing ----

_NUMBERS: dict[type, tuple[tuple[str, int], ...]] = {
    cls: tuple(numbers(cls).items()) for cls in (*_TYPES, Hop, Return, Telemetry)
}


def encode_python(message: Message) -> bytes:
    """The frame of a message. Raises FrameError for one that `decode` would not take."""
    parts = _parts(message)
    number = _TYPES[type(message)]
    length = sum(map(len, parts))
    _check_body(_KINDS[number], length)
    return b"".join((_HEADER.pack(MAGIC, number, length), *parts))


def _parts(message: Message) -> list[bytes]:
    """The body, in pieces."""
    match message:
        case Hello():
            return _write_hello(message)
        case Failure():
            return [message.message]
        case Work():
            return _write_work(message)
        case Result():
            return _write_result(message)
        case SnapshotSave():
            return _write_save(message)
        case SnapshotBegin():
            return _write_start(message, message.message)
        case SnapshotLoad():
            return _write_start(message, b"")
        case SnapshotChunk():
            return _write_chunk(message)
        case SnapshotDone():
            return _write_done(message)


def _check_numbers(value: object, subject: str | None = None) -> None:
    """That each number of a message, or of a part that is told apart by `subject`, fits its field."""
    for name, most in _NUMBERS[type(value)]:
        if not 0 <= getattr(value, name) <= most:
            raise FrameError(
                "out of range", code="frame_range", subject=subject or name, expected=f"0..{most}",
                found=getattr(value, name),
            )  # fmt: skip


def _write_tokens(tokens: Sequence[int]) -> bytes:
    try:
        return struct.pack(f">{len(tokens)}I", *tokens)
    except struct.error:
        bad = next(token for token in tokens if not 0 <= token <= U32_MAX)
        raise FrameError("no u32", code="frame_range", subject="tokens", expected=f"0..{U32_MAX}", found=bad) from None


def _write_hello(m: Hello) -> list[bytes]:
    _check_numbers(m)
    _check_name(m.name)
    fixed = _HELLO.pack(
        m.model_id, m.quant_bits, m.layer_start, m.layer_end, m.has_output, m.has_hidden, m.ctx, m.layers, m.port,
        len(m.name),
    )  # fmt: skip
    return [fixed, m.name]


def _write_work(m: Work) -> list[bytes]:
    _check_numbers(m)
    tokens = _write_tokens(m.tokens)
    for part in (*m.hops, *((m.back,) if m.back is not None else ())):
        _check_numbers(part, "route")
    _check_flags(m.flags)
    size = width(m.activation_bits, "activation_bits")
    if not tokens:
        raise _tokens_differ("at least one", "none")
    check_length(len(m.activations), size, "activations")
    route.check(m.hops, m.back)
    blob = route.encode(m.hops, m.back)
    fixed = _WORK.pack(
        m.model_id, m.session, m.request, m.prefix_hash, m.result_hash, m.pos0, len(m.tokens), m.layer_start,
        m.layer_end, m.flags, len(tokens), len(m.activations), m.activation_bits, len(m.hops), m.route_index, len(blob),
    )  # fmt: skip
    return [fixed, tokens, m.activations, blob]


def _write_result(m: Result) -> list[bytes]:
    _check_numbers(m)
    for record in m.telemetry:
        _check_numbers(record, "telemetry")
    _check_kind(m.kind)
    size = width(m.payload_bits, "payload_bits")
    if m.status == 0 and m.kind != Kind.ACK:
        check_length(len(m.payload), size, "payload")
    names = [name for name, _ in _NUMBERS[Telemetry]]
    telemetry = b"".join([_TELEMETRY.pack(*[getattr(record, name) for name in names]) for record in m.telemetry])
    fixed = _RESULT.pack(
        m.request, m.result_hash, m.status, m.kind, len(m.telemetry), len(telemetry), len(m.payload), m.payload_bits
    )
    return [fixed, telemetry, m.payload]


def _write_save(m: SnapshotSave) -> list[bytes]:
    _check_numbers(m)
    return [_SAVE.pack(m.model_id, m.session, m.request, m.token_hash, m.token_count, m.layer_start, m.layer_end)]


def _write_start(m: SnapshotBegin | SnapshotLoad, message: bytes) -> list[bytes]:
    _check_numbers(m)
    tokens = _write_tokens(m.tokens)
    fixed = _BEGIN.pack(
        m.model_id, m.session, m.request, m.token_hash, len(m.tokens), m.layer_start, m.layer_end, m.payload_bytes,
        m.status, len(tokens), len(message),
    )  # fmt: skip
    return [fixed, tokens, message]


def _write_chunk(m: SnapshotChunk) -> list[bytes]:
    _check_numbers(m)
    return [_CHUNK.pack(m.request, len(m.chunk)), m.chunk]


def _write_done(m: SnapshotDone) -> list[bytes]:
    _check_numbers(m)
    return [_DONE.pack(m.request, m.status, len(m.message)), m.message]


# ---- which side decides ----


def _decode_oracle(buffer: Buffer) -> Message:
    from ds4.dist import tapes

    return tapes.decode_by_oracle(buffer)


def _encode_oracle(message: Message) -> bytes:
    from ds4.dist import tapes

    return tapes.encode_by_oracle(message)


decode = components.pick("frames", python=decode_python, oracle=_decode_oracle)
encode = components.pick("frames", python=encode_python, oracle=_encode_oracle)
