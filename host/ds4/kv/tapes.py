"""The kvc component on tapes (oracles/kvc/README.md), and the record's two functions answered by the oracle."""

from __future__ import annotations

from dataclasses import dataclass

from ds4.errors import Ds4Error, RecordError
from ds4.kv import record
from ds4.kv.extensions import Extensions, Tool
from ds4.kv.record import HEADER_BYTES, HEADER_FIELDS, Buffer, Header, Record
from ds4.sys import tape
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError


@dataclass(frozen=True, slots=True)
class Decode:
    """A request to read `data`."""

    data: Buffer


@dataclass(frozen=True, slots=True)
class Encode:
    """A request to write."""

    record: Record


@dataclass(frozen=True, slots=True)
class Read:
    """What a decode tells: all of a record but its payload, of which it tells the length."""

    header: Header
    text: bytes
    payload_bytes: int
    extensions: Extensions
    name: str


@dataclass(frozen=True, slots=True)
class Written:
    """A whole file."""

    data: bytes
    name: str


Request = Decode | Encode
Result = Read | Written | Ds4Error


def write_input(request: Request) -> bytes:
    """The tape of a request."""
    if isinstance(request, Decode):
        return b"decode\n" + bytes(request.data)
    given = request.record
    return (
        tape.line("encode", *[getattr(given.header, name) for name in HEADER_FIELDS])
        + tape.line("text", given.text)
        + tape.line("payload", bytes(given.payload))
        + _sections(given.extensions)
    )


def _sections(extensions: Extensions) -> bytes:
    out = [] if extensions.title is None else [tape.line("title", extensions.title)]
    out += [tape.line("tool", tool.id, tool.body) for tool in extensions.tools]
    out += [] if extensions.identity is None else [tape.line("identity", extensions.identity)]
    return b"".join(out)


def read_input(data: bytes) -> Request:
    """The request of a tape. Raises TapeError for bytes that are none."""
    words, rest = tape.command(data)
    match words:
        case [b"decode"]:
            return Decode(rest)
        case [b"encode", *values] if len(values) == len(HEADER_FIELDS):
            header = Header(*map(tape.unsigned, values))
            rows = list(tape.lines(rest))
            match rows[:2]:
                case [[b"text", text], [b"payload", payload]]:
                    extensions = _read_sections(rows[2:])
                    return Encode(Record(header, tape.unescape(text), tape.unescape(payload), extensions))
    raise TapeError("not a tape of kvc")


def _read_sections(rows: list[list[bytes]]) -> Extensions:
    """title, then tools, then identity, and nothing else."""
    title = identity = None
    tools = []
    rank = 0
    for row in rows:
        match row:
            case [b"title", word] if rank == 0:
                rank, title = 1, tape.unescape(word)
            case [b"tool", key, body] if rank <= 1:
                rank = 1
                tools.append(Tool(tape.unescape(key), tape.unescape(body)))
            case [b"identity", word] if rank <= 1:
                rank, identity = 2, tape.unescape(word)
            case _:
                raise TapeError(f"not a section of a record here: {row[:1]}")
    return Extensions(title, tuple(tools), identity)


def write_output(result: Result) -> bytes:
    """The tape of what came of a request."""
    if isinstance(result, Ds4Error):
        return tape.line("error", result.code, result.subject or "-")
    if isinstance(result, Written):
        return tape.line("bytes", result.data) + tape.line("name", result.name)
    return (
        tape.line("record", *[getattr(result.header, name) for name in HEADER_FIELDS])
        + tape.line("text", result.text)
        + tape.line("payload", HEADER_BYTES + len(result.text), result.payload_bytes)
        + _sections(result.extensions)
        + tape.line("name", result.name)
    )


def read_output(data: bytes) -> Result:
    """What a tape says came of a request. Raises TapeError for bytes that say nothing."""
    match list(tape.lines(data)):
        case [[b"error", code, subject]]:
            return RecordError("refused", code=code.decode("ascii"), subject=subject.decode("ascii"))
        case [[b"bytes", word], [b"name", name]]:
            return Written(tape.unescape(word), name.decode("ascii"))
        case [[b"record", *values], [b"text", text], [b"payload", _, payload_bytes], *rows, [b"name", name]]:
            return Read(
                Header(*map(int, values)),
                tape.unescape(text),
                int(payload_bytes),
                _read_sections(rows),
                name.decode("ascii"),
            )
    raise TapeError("not an output of kvc")


def run(request: Request) -> Result:
    """The replacement's answer to a request."""
    try:
        if isinstance(request, Encode):
            return Written(record.encode_python(request.record), request.record.name)
        found = record.decode_python(request.data)
        return Read(found.header, found.text, len(found.payload), found.extensions, found.name)
    except Ds4Error as error:
        return error


def by_tape(data: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(data)))


# ---- answered by the oracle ----


def _ask(request: Request) -> Read | Written:
    result = read_output(oracle("kvc").run(write_input(request)))
    if isinstance(result, Ds4Error):
        raise result
    return result


def decode_by_oracle(buffer: Buffer) -> Record:
    """record.decode, answered by the oracle."""
    result = _ask(Decode(buffer))
    assert isinstance(result, Read)
    start = HEADER_BYTES + len(result.text)
    return Record(
        result.header, result.text, memoryview(buffer)[start : start + result.payload_bytes], result.extensions
    )


def encode_by_oracle(given: Record) -> bytes:
    """record.encode, answered by the oracle."""
    result = _ask(Encode(given))
    assert isinstance(result, Written)
    return result.data
