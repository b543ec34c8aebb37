"""The payload component on tapes (oracles/payload/README.md), and its two functions answered by the oracle."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from ds4.core import payload
from ds4.core.payload import LAYOUTS, SHAPE_FIELDS, U32_MAX, Buffer, Payload, Shape
from ds4.errors import Ds4Error, PayloadError
from ds4.sys import tape
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError


@dataclass(frozen=True, slots=True)
class Decode:
    """A request to read `data`. family: None is any."""

    data: Buffer
    family: str | None = None
    ctx: int = 0


@dataclass(frozen=True, slots=True)
class Encode:
    """A request to write."""

    shape: Shape
    tokens: Sequence[int]


Request = Decode | Encode
Result = Payload | bytes | Ds4Error


def write_input(request: Request) -> bytes:
    """The tape of a request."""
    if isinstance(request, Decode):
        return tape.line("decode", request.family or "any", request.ctx) + request.data
    values = [getattr(request.shape, name) for name in SHAPE_FIELDS]
    return tape.line("encode", request.shape.layout.name, *values) + tape.line("ids", *request.tokens)


def read_input(data: bytes) -> Request:
    """The request of a tape. Raises TapeError for bytes that are none."""
    words, rest = tape.command(data)
    match words:
        case [b"decode", family, ctx]:
            limit = tape.unsigned(ctx)
            if limit > U32_MAX or family != b"any" and family.decode("latin-1") not in payload.FAMILIES:
                raise TapeError("not a decode command")
            return Decode(rest, None if family == b"any" else family.decode("ascii"), limit)
        case [b"encode", layout, *values] if len(values) == len(SHAPE_FIELDS):
            match list(tape.lines(rest)):
                case [[b"ids", *ids]] if layout.decode("latin-1") in LAYOUTS:
                    shape = Shape(LAYOUTS[layout.decode("ascii")], *map(tape.unsigned, values))
                    return Encode(shape, [tape.unsigned(word) for word in ids])
    raise TapeError("not a tape of payload")


def write_output(result: Result) -> bytes:
    """The tape of what came of a request."""
    if isinstance(result, Ds4Error):
        return tape.line("error", result.code, result.subject or "-")
    if isinstance(result, bytes):
        return tape.line("bytes", result)
    shape, count = result.shape, len(result.tokens)
    first = [getattr(shape, name) for name in SHAPE_FIELDS]
    return (
        tape.line("payload", result.version, shape.layout.name, *first[:5], count, *first[5:])
        + tape.line("ids", *result.tokens)
        + tape.line("tail", result.tail, result.tail_bytes)
    )


def read_output(data: bytes) -> Result:
    """What a tape says came of a request. Raises TapeError for bytes that say nothing."""
    match list(tape.lines(data)):
        case [[b"error", code, subject]]:
            return PayloadError("refused", code=code.decode("ascii"), subject=subject.decode("ascii"))
        case [[b"bytes", word]]:
            return tape.unescape(word)
        case [[b"payload", version, layout, *values], [b"ids", *ids], [b"tail", tail, tail_bytes]]:
            fields = [int(value) for value in values]
            del fields[5]  # the count of ids
            shape = Shape(LAYOUTS[layout.decode("ascii")], *fields)
            return Payload(int(version), shape, array("I", map(int, ids)), int(tail), int(tail_bytes))
    raise TapeError("not an output of payload")


def run(request: Request) -> Result:
    """The replacement's answer to a request."""
    try:
        if isinstance(request, Decode):
            return payload.decode_python(request.data, family=request.family, ctx=request.ctx)
        return payload.encode_python(request.shape, request.tokens)
    except Ds4Error as error:
        return error


def by_tape(data: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(data)))


# ---- answered by the oracle ----


def _ask(request: Request) -> Payload | bytes:
    result = read_output(oracle("payload").run(write_input(request)))
    if isinstance(result, Ds4Error):
        raise result
    return result


def decode_by_oracle(buffer: Buffer, *, family: str | None = None, ctx: int = 0) -> Payload:
    """payload.decode, answered by the oracle."""
    result = _ask(Decode(buffer, family, ctx))
    assert isinstance(result, Payload)
    return result


def encode_by_oracle(shape: Shape, tokens: Sequence[int]) -> bytes:
    """payload.encode, answered by the oracle."""
    result = _ask(Encode(shape, tokens))
    assert isinstance(result, bytes)
    return result
