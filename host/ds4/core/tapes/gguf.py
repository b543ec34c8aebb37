"""The wire form of component `gguf`: files to an inventory or a verdict. oracles/gguf/README.md is its description."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ds4.core.cursor import BeyondHead, Buffer
from ds4.core.gguf import GgufFile, TensorInfo, mapped, parse
from ds4.core.inventory import Alias, Inventory, assemble, shard_name
from ds4.core.metadata import ArrayRef, Entry, Metadata, ValueType
from ds4.core.tapes.verdict import refuse, subject_word
from ds4.errors import ModelFileError
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, escape, integer, lines, text, unescape

MAX_FILES = 100_000
MAX_NAME = 4096
MAX_SIZE = 2**63 - 1
FIRST_HEAD = 1 << 20  # bytes of a file that an oracle is handed at first; it asks where they are too few


@dataclass(frozen=True, slots=True)
class File:
    """A file as a tape holds it: its name, its true size, and a buffer whose first `head_bytes` bytes are known."""

    name: bytes
    file_bytes: int
    head_bytes: int
    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Question:
    """files: the one that is opened, then what lies beside it. check: whether arrays are looked into as well."""

    check: bool
    files: tuple[File, ...]


class Short(Exception):
    """A file's head does not hold all of its metadata. file: which one of the tape."""

    def __init__(self, file: int) -> None:
        super().__init__(f"the head of file {file} is too short")
        self.file = file


Answer = tuple[Question, Inventory] | ModelFileError | Short


def write_input(question: Question) -> bytes:
    """The input tape."""
    out = [b"%s %d\n" % (b"check" if question.check else b"load", len(question.files))]
    for file in question.files:
        out.append(b"file %s %d %d\n" % (escape(file.name), file.file_bytes, file.head_bytes))
        out.append(file.buffer[: file.head_bytes])
    return b"".join(out)


def read_input(tape: bytes) -> Question:
    """The question of an input tape. TapeError for one that the contract does not allow."""
    words, at = _command(tape, 0)
    if len(words) != 2 or words[0] not in (b"load", b"check"):
        raise TapeError(f"no command: {tape[:60]!r}")
    count = _bounded(words[1], MAX_FILES)
    files: dict[bytes, File] = {}
    for _ in range(count):
        row, at = _command(tape, at)
        if len(row) != 4 or row[0] != b"file":
            raise TapeError("no file line")
        name = unescape(row[1])
        size = _bounded(row[2], MAX_SIZE)
        head = _bounded(row[3], size)
        if not 1 <= len(name) <= MAX_NAME or b"/" in name or b"\0" in name or name in files:
            raise TapeError(f"no file name: {name[:60]!r}")
        if head > len(tape) - at:
            raise TapeError("the tape ends inside a head")
        files[name] = File(name, size, head, tape[at : at + head])
        at += head
    if count == 0 or at != len(tape):
        raise TapeError("no files, or bytes behind them")
    return Question(words[0] == b"check", tuple(files.values()))


def _command(tape: bytes, at: int) -> tuple[list[bytes], int]:
    end = tape.find(b"\n", at)
    if end < 0:
        raise TapeError("a line without an end")
    return tape[at:end].split(b" "), end + 1


def _bounded(word: bytes, most: int) -> int:
    value = integer(word)
    if not 0 <= value <= most or word.startswith(b"-"):
        raise TapeError(f"outside 0..{most}: {value}")
    return value


def answer(question: Question) -> Answer:
    """What the replacement says to a question."""
    folder = _Held(question.files)
    try:
        inventory = assemble(folder, os.fsdecode(question.files[0].name))
        if question.check:
            for shard in inventory.shards:
                shard.metadata.check()
    except ModelFileError as error:
        return error
    except BeyondHead:
        return Short(folder.last)
    return question, inventory


class _Held:
    """The folder that a tape is."""

    def __init__(self, files: Sequence[File]) -> None:
        self._files = {os.fsdecode(file.name): (index, file) for index, file in enumerate(files)}
        self.last = 0

    def has(self, name: str) -> bool:
        return name in self._files

    def read(self, name: str, shard: int) -> GgufFile:
        self.last, file = self._files[name]
        return parse(file.buffer, Path(name), shard=shard, file_bytes=file.file_bytes)


def write_output(result: Answer) -> bytes:
    """The output tape."""
    if isinstance(result, ModelFileError):
        return b"error %s %s\n" % (result.code.encode(), subject_word(result))
    if isinstance(result, Short):
        return b"short %d\n" % result.file
    question, inventory = result
    places = {os.fsdecode(file.name): index for index, file in enumerate(question.files)}
    out = [b"ok %d\n" % len(inventory.shards)]
    for index, shard in enumerate(inventory.shards):
        head = (index, places[str(shard.path)], shard.version, shard.alignment, shard.data_offset)
        counts = (shard.file_bytes, len(shard.metadata), len(shard.tensors))
        out.append(b"shard %d %d %d %d %d %d %d %d\n" % (*head, *counts))
        for key in shard.metadata:
            out.append(b"key %s %s\n" % (escape(key), _value(shard.metadata, key)))
        for info in shard.tensors:
            numbers = " ".join(map(str, (info.shard, info.type, info.offset, info.nbytes, *info.dims)))
            out.append(b"tensor %s %s\n" % (escape(info.name), numbers.encode()))
    for alias in inventory.aliased:
        names = b" ".join([escape(name) for name in alias.names])
        out.append(b"alias %d %d %d %s\n" % (alias.shard, alias.offset, alias.nbytes, names))
    return b"".join(out)


def by_tape(tape: bytes) -> bytes:
    """The replacement from tape to tape."""
    return write_output(answer(read_input(tape)))


def _value(metadata: Metadata, key: str) -> bytes:
    entry = metadata.entry(key)
    value = entry.value
    if not isinstance(value, ArrayRef):
        return scalar_words(entry)
    place = (value.count, value.start, value.end - value.start)
    crc = zlib.crc32(metadata.array_bytes(value))
    return b"array %s %d %d %d %08X" % (str(value.element).encode(), *place, crc)


def scalar_words(entry: Entry) -> bytes:
    """`<type> <value>` of anything but an array."""
    kind, value = str(entry.type).encode(), entry.value
    if isinstance(value, str):
        return kind + b" " + escape(value)
    if isinstance(value, float):
        if value != value:
            return kind + b" nan"
        return kind + b" " + struct.pack(">f" if entry.type is ValueType.F32 else ">d", value).hex().upper().encode()
    assert isinstance(value, int)
    return b"%s %d" % (kind, value)


_INTEGER_BITS = {
    ValueType.U8: (0, 8),
    ValueType.I8: (1, 8),
    ValueType.U16: (0, 16),
    ValueType.I16: (1, 16),
    ValueType.U32: (0, 32),
    ValueType.I32: (1, 32),
    ValueType.U64: (0, 64),
    ValueType.I64: (1, 64),
    ValueType.BOOL: (0, 1),
}
RANGES = {
    kind: (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    for kind, (signed, bits) in _INTEGER_BITS.items()
}
"""The values of each integer type, and of booleans."""
KINDS = {str(kind).encode(): kind for kind in ValueType}
"""Value types by their words."""


def scalar_entry(kind: ValueType, word: bytes) -> Entry:
    """The entry that `scalar_words` wrote. TapeError for a value that the type does not have."""
    if kind is ValueType.STRING:
        return Entry(kind, strict_text(word))
    if kind in (ValueType.F32, ValueType.F64):
        return Entry(kind, _float(word, ">f" if kind is ValueType.F32 else ">d"))
    value = integer(word)
    low, high = RANGES[kind]
    if not low <= value <= high:
        raise TapeError(f"no {kind}: {value}")
    return Entry(kind, bool(value) if kind is ValueType.BOOL else value)


def _float(word: bytes, code: str) -> float:
    if word == b"nan":
        return float("nan")
    try:
        raw = bytes.fromhex(word.decode("ascii"))
    except ValueError:
        raise TapeError(f"no float: {word[:60]!r}") from None
    if len(raw) != struct.calcsize(code) or raw.hex().upper().encode() != word:
        raise TapeError(f"no float: {word[:60]!r}")
    value: float = struct.unpack(code, raw)[0]
    if value != value:
        raise TapeError("a NaN is written nan")
    return value


def strict_text(word: bytes) -> str:
    """A word's text; unlike `ds4.sys.tape.text`, lone surrogates are refused."""
    made = text(word)
    try:
        made.encode()
    except UnicodeEncodeError:
        raise TapeError(f"not text: {word[:60]!r}") from None
    return made


def read_output(tape: bytes, question: Question, folder: Path = Path()) -> Inventory:
    """The inventory of an output tape, over the question's buffers. Raises the verdict, or Short."""
    rows = lines(tape)
    first = next(rows, [])
    if len(first) == 3 and first[0] == b"error":
        refuse(first)
    if len(first) == 2 and first[0] == b"short":
        raise Short(integer(first[1]))
    if len(first) != 2 or first[0] != b"ok":
        raise TapeError(f"no answer: {tape[:60]!r}")
    shards = [_shard(rows, question, folder) for _ in range(integer(first[1]))]
    aliased = [
        Alias(integer(row[1]), tuple(text(word) for word in row[4:]), integer(row[2]), integer(row[3])) for row in rows
    ]
    tensors = {info.name: info for shard in shards for info in shard.tensors}
    return Inventory(tuple(shards), shards[0].metadata, tensors, aliased)


def _shard(rows: Iterator[list[bytes]], question: Question, folder: Path) -> GgufFile:
    _, file, version, alignment, data_offset, file_bytes, n_keys, n_tensors = map(integer, next(rows)[1:])
    held = question.files[file]
    entries: dict[str, Entry] = {}
    for _ in range(n_keys):
        _, name, kind, *value = next(rows)
        entries[text(name)] = _entry(KINDS[kind], value)
    tensors = []
    for _ in range(n_tensors):
        _, name, shard, kind_number, offset, nbytes, *dims = next(rows)
        place = integer(offset), integer(nbytes), integer(shard)
        tensors.append(TensorInfo(text(name), tuple(map(integer, dims)), integer(kind_number), *place))
    name_text = os.fsdecode(held.name)
    metadata = Metadata(held.buffer, name_text, entries)
    return GgufFile(folder / name_text, version, alignment, data_offset, file_bytes, metadata, tuple(tensors))


def _entry(kind: ValueType, value: list[bytes]) -> Entry:
    if kind is not ValueType.ARRAY:
        return scalar_entry(kind, value[0])
    count, start, nbytes = map(integer, value[1:4])
    return Entry(kind, ArrayRef(KINDS[value[0]], count, start, start + nbytes))


def by_oracle(path: Path) -> Inventory:
    """`inventory.load`, decided by the oracle. It is handed the head of each file and asks for more where it needs it.

    A sibling that is there but cannot be opened is reported before any fault of the files before it.
    """
    name = shard_name(path.name)
    wanted = [path.name]
    if name is not None and name.number == 1:
        wanted += [n for number in range(2, name.count + 1) if path.with_name(n := name.sibling(number)).exists()]
    if name is not None and name.number != 1:
        files = [File(os.fsencode(path.name), 0, 0, b"")]  # refused by its name, unread
    else:
        files = [_file(path.parent / each) for each in wanted]
    while True:
        question = Question(False, tuple(files))
        try:
            return read_output(oracle("gguf").run(write_input(question)), question, path.parent)
        except Short as short:
            grown = files[short.file]
            more = min(grown.file_bytes, 4 * grown.head_bytes)
            if more == grown.head_bytes:
                raise TapeError("the oracle asks for more than there is") from None
            files[short.file] = File(grown.name, grown.file_bytes, more, grown.buffer)


def _file(path: Path) -> File:
    buffer = mapped(path)
    return File(os.fsencode(path.name), len(buffer), min(len(buffer), FIRST_HEAD), buffer)
