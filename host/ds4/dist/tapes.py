"""The frames component on tapes (oracles/frames/README.md), and the room's functions answered by the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ds4.dist import activations, frames
from ds4.dist import chain as chains
from ds4.dist.activations import Buffer
from ds4.dist.messages import (
    Failure,
    Hello,
    Hop,
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
from ds4.errors import Ds4Error, FrameError
from ds4.sys import tape
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError

Words = list[bytes]


@dataclass(frozen=True, slots=True)
class Decode:
    """A request to read the frame in `data`."""

    data: Buffer


@dataclass(frozen=True, slots=True)
class Encode:
    """A request to write."""

    message: Message


@dataclass(frozen=True, slots=True)
class Chain:
    """A request to hash ids behind those that `start` stands for."""

    start: int
    tokens: Sequence[int]


@dataclass(frozen=True, slots=True)
class Convert:
    """A request to bring values to a width, or back."""

    verb: Literal["pack", "unpack"]
    bits: int
    data: Buffer


Request = Decode | Encode | Chain | Convert
Answer = Message | bytes | int | Ds4Error

# ---- a message as lines ----

_VERBS: dict[type, str] = {
    Hello: "hello",
    Failure: "failure",
    Work: "work",
    Result: "result",
    SnapshotSave: "snapshot-save",
    SnapshotBegin: "snapshot-begin",
    SnapshotChunk: "snapshot-chunk",
    SnapshotDone: "snapshot-done",
    SnapshotLoad: "snapshot-load",
    Hop: "hop",
    Return: "return",
    Telemetry: "telemetry",
}
_LAST: dict[type, str] = {Hello: "name", Failure: "message", SnapshotChunk: "chunk", SnapshotDone: "message"}
"""The word of bytes that ends the first line."""
_FIRST: dict[type, str] = {Hop: "host"}
"""The word of bytes that begins a line."""


def _names(cls: type) -> list[str]:
    """The words of the line of a message or part, in order."""
    names = list(numbers(cls))
    if cls is Return:
        names.insert(1, "host")
    first, last = _FIRST.get(cls), _LAST.get(cls)
    return ([first] if first else []) + names + ([last] if last else [])


_WORDS = {cls: _names(cls) for cls in _VERBS}
_CLASSES = {verb.encode(): cls for cls, verb in _VERBS.items()}


def _line(value: Message | Hop | Return | Telemetry) -> bytes:
    return tape.line(_VERBS[type(value)], *[getattr(value, name) for name in _WORDS[type(value)]])


def _fields(cls: type, words: Words) -> dict[str, Any]:
    """The values of a line, by name."""
    names = _WORDS[cls]
    if len(words) != len(names) + 1:
        raise TapeError(f"{_VERBS[cls]} with a wrong number of words")
    bytes_of = (_FIRST.get(cls), _LAST.get(cls), "host")
    return {
        name: tape.unescape(word) if name in bytes_of else tape.unsigned(word)
        for name, word in zip(names, words[1:], strict=True)
    }


def write_message(message: Message) -> bytes:
    """The lines of a message."""
    head = _line(message)
    match message:
        case Work():
            parts = [*message.hops, *((message.back,) if message.back is not None else ())]
            return (
                head
                + tape.line("tokens", *message.tokens)
                + tape.line("activations", message.activations)
                + b"".join([_line(part) for part in parts])
            )
        case Result():
            return head + b"".join([_line(one) for one in message.telemetry]) + tape.line("payload", message.payload)
        case SnapshotBegin():
            return head + tape.line("tokens", *message.tokens) + tape.line("message", message.message)
        case SnapshotLoad():
            return head + tape.line("tokens", *message.tokens)
        case _:
            return head


def read_message(rows: list[Words]) -> Message:
    """The message of these lines. Raises TapeError."""
    cls = _CLASSES.get(rows[0][0]) if rows and rows[0] else None
    if cls is None or cls in (Hop, Return, Telemetry):
        raise TapeError("no message begins so")
    fields = _fields(cls, rows[0])
    rest = _read_rest(cls, rows[1:])
    message: Message = cls(**fields, **rest)
    return message


def _read_rest(cls: type, rows: list[Words]) -> dict[str, Any]:
    """The fields that the lines behind the first one hold."""
    if cls is Work:
        match rows:
            case [[b"tokens", *ids], [b"activations", word], *route]:
                hops = tuple([Hop(**_fields(Hop, row)) for row in _until(route, b"hop")])
                ends = route[len(hops) :]
                if bool(hops) == bool(ends) and len(ends) <= 1 and all(row[:1] == [b"return"] for row in ends):
                    back = Return(**_fields(Return, ends[0])) if ends else None
                    activations = tape.unescape(word)
                    return {"tokens": _ids(ids), "activations": activations, "hops": hops, "back": back}
    elif cls is Result:
        match rows:
            case [*records, [b"payload", word]] if all(row[:1] == [b"telemetry"] for row in records):
                telemetry = tuple([Telemetry(**_fields(Telemetry, row)) for row in records])
                return {"telemetry": telemetry, "payload": tape.unescape(word)}
    elif cls is SnapshotBegin:
        match rows:
            case [[b"tokens", *ids], [b"message", word]]:
                return {"tokens": _ids(ids), "message": tape.unescape(word)}
    elif cls is SnapshotLoad:
        match rows:
            case [[b"tokens", *ids]]:
                return {"tokens": _ids(ids)}
    elif not rows:
        return {}
    raise TapeError(f"not the lines of {_VERBS[cls]}")


def _until(rows: list[Words], verb: bytes) -> list[Words]:
    """The rows of this verb at the start."""
    count = next((i for i, row in enumerate(rows) if row[:1] != [verb]), len(rows))
    return rows[:count]


def _ids(words: Words) -> tuple[int, ...]:
    return tuple([tape.unsigned(word) for word in words])


# ---- requests and answers ----


def write_input(request: Request) -> bytes:
    """The tape of a request."""
    match request:
        case Decode():
            return b"decode\n" + bytes(request.data)
        case Encode():
            return b"encode\n" + write_message(request.message)
        case Chain():
            return tape.line("hash", request.start, *request.tokens)
        case Convert():
            return tape.line(request.verb, request.bits) + bytes(request.data)


def read_input(data: bytes) -> Request:
    """The request of a tape. Raises TapeError for bytes that are none."""
    words, rest = tape.command(data)
    match words:
        case [b"decode"]:
            return Decode(rest)
        case [b"encode"]:
            return Encode(read_message(list(tape.lines(rest))))
        case [b"hash", start, *ids] if not rest:
            return Chain(tape.unsigned(start), _ids(ids))
        case [b"pack", bits]:
            return Convert("pack", tape.unsigned(bits), rest)
        case [b"unpack", bits]:
            return Convert("unpack", tape.unsigned(bits), rest)
    raise TapeError("not a tape of frames")


def write_output(answer: Answer) -> bytes:
    """The tape of what came of a request."""
    match answer:
        case Ds4Error():
            return tape.line("error", answer.code, answer.subject or "-")
        case bytes():
            return tape.line("bytes", answer)
        case int():
            return tape.line("hash", answer)
        case _:
            return write_message(answer)


def read_output(data: bytes) -> Answer:
    """What a tape says came of a request. Raises TapeError for bytes that say nothing."""
    rows = list(tape.lines(data))
    match rows:
        case [[b"error", code, subject]]:
            return FrameError("refused", code=code.decode("ascii"), subject=subject.decode("ascii"))
        case [[b"bytes", word]]:
            return tape.unescape(word)
        case [[b"hash", value]]:
            return tape.unsigned(value)
    return read_message(rows)


def run(request: Request) -> Answer:
    """The replacement's answer to a request."""
    try:
        match request:
            case Decode():
                return frames.decode_python(request.data)
            case Encode():
                return frames.encode_python(request.message)
            case Chain():
                return chains.chain_python(request.tokens, request.start)
            case Convert():
                call = activations.pack_python if request.verb == "pack" else activations.unpack_python
                return call(request.data, request.bits)
    except Ds4Error as error:
        return error


def by_tape(data: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(data)))


# ---- answered by the oracle ----


def _ask(request: Request) -> Any:
    answer = read_output(oracle("frames").run(write_input(request)))
    if isinstance(answer, Ds4Error):
        raise answer
    return answer


def decode_by_oracle(buffer: Buffer) -> Message:
    """frames.decode, answered by the oracle."""
    message: Message = _ask(Decode(buffer))
    return message


def encode_by_oracle(message: Message) -> bytes:
    """frames.encode, answered by the oracle."""
    frame: bytes = _ask(Encode(message))
    return frame


def chain_by_oracle(tokens: Sequence[int], start: int = chains.START) -> int:
    """chain.chain, answered by the oracle."""
    value: int = _ask(Chain(start, tokens))
    return value


def pack_by_oracle(values: Buffer, bits: int) -> bytes:
    """activations.pack, answered by the oracle."""
    wire: bytes = _ask(Convert("pack", bits, values))
    return wire


def unpack_by_oracle(wire: Buffer, bits: int) -> bytes:
    """activations.unpack, answered by the oracle."""
    values: bytes = _ask(Convert("unpack", bits, wire))
    return values
