"""The wire form of component `bind`: an inventory to a bind plan or a verdict (oracles/bind/README.md)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from ds4.core import bind
from ds4.core.bind import BindPlan
from ds4.core.cursor import shown
from ds4.core.families import FamilyContract, contract
from ds4.core.families.contract import note_unknown
from ds4.core.gguf import GgufFile, TensorInfo
from ds4.core.inventory import Inventory
from ds4.core.metadata import INTEGERS, ArrayRef, Entry, Metadata, ValueType
from ds4.core.tapes.gguf import KINDS, MAX_SIZE, RANGES, scalar_entry, scalar_words, strict_text
from ds4.core.tapes.verdict import refuse, subject_word
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.descriptors import Family, GgmlType, HParams, Role, RopeKind, RopeScaling, Slot
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, escape, integer, lines, text

MAX_SHARDS = 100_000
MAX_U32 = 2**32 - 1
MAX_ALIGNMENT = 2**31
MAX_DIMS = 4
LONGEST_READ = 1024  # elements of the longest array whose elements a family reads: one for each layer

INTS = (
    "family n_layer d_model n_head n_head_kv head_dim d_ff n_vocab n_ctx_train rope_kind rope_dim rope_scaling "
    "rope_ctx_original sliding_window"
).split()
FLOATS = (
    "rms_eps attn_scale rope_base rope_factor rope_attn_factor rope_ext_factor rope_beta_fast rope_beta_slow".split()
)
_ENUMS = {"family": Family, "rope_kind": RopeKind, "rope_scaling": RopeScaling}
_FLOATS = struct.Struct(">8f")
assert {field.name for field in fields(HParams)} == {*INTS, *FLOATS, "dsv4", "decoder"}

ARCHITECTURE = "llama"  # the family that the component is about

Answer = BindPlan | ModelFileError


def write_input(inventory: Inventory) -> bytes:
    """The input tape."""
    metadata = inventory.metadata
    out = [b"plan %d %d %d\n" % (len(inventory.shards), len(metadata), len(inventory.tensors))]
    out += [b"shard %d %d %d\n" % (s.file_bytes, s.data_offset, s.alignment) for s in inventory.shards]
    for key in metadata:
        out.append(b"key %s %s\n" % (escape(key), _value(metadata, key)))
    for info in inventory.tensors.values():
        numbers = " ".join(map(str, (info.shard, info.type, info.offset, info.nbytes, *info.dims)))
        out.append(b"tensor %s %s\n" % (escape(info.name), numbers.encode()))
    return b"".join(out)


def _value(metadata: Metadata, key: str) -> bytes:
    entry = metadata.entry(key)
    ref = entry.value
    if not isinstance(ref, ArrayRef):
        return scalar_words(entry)
    words = b"array %s %d" % (str(ref.element).encode(), ref.count)
    if ref.element not in INTEGERS or not ref.count:
        return words
    values = metadata.ints(key)
    return words + b" %d %d" % (min(values), max(values))


def read_input(tape: bytes) -> Inventory:
    """The inventory of an input tape. TapeError for one that the contract does not allow.

    Its arrays of integers hold the least element first and the greatest in all other places; those too long to be read
    by a family hold nothing.
    """
    rows = lines(tape)
    n_shards, n_keys, n_tensors = _bounded(_row(rows, b"plan", 3), MAX_SHARDS, MAX_SIZE, MAX_SIZE)
    if n_shards == 0:
        raise TapeError("no shards")
    shards = []
    for _ in range(n_shards):
        file_bytes, data_offset, alignment = _bounded(_row(rows, b"shard", 3), MAX_SIZE, MAX_SIZE, MAX_ALIGNMENT)
        if alignment == 0:
            raise TapeError("no alignment")
        shards.append((file_bytes, data_offset, alignment))
    arrays = bytearray()
    entries: dict[str, Entry] = {}
    for _ in range(n_keys):
        word, kind, *value = _row(rows, b"key")
        name = _name(word, entries)
        entries[name] = _entry(kind, value, arrays)
    tensors: dict[str, TensorInfo] = {}
    for _ in range(n_tensors):
        word, *numbers = _row(rows, b"tensor")
        name = _name(word, tensors)
        tensors[name] = _tensor(name, numbers)
    if next(rows, None) is not None:
        raise TapeError("lines left over")
    metadata = Metadata(bytes(arrays), "tape", entries)
    files = tuple(
        GgufFile(Path(f"shard-{index}"), 3, alignment, data_offset, file_bytes, metadata, ())
        for index, (file_bytes, data_offset, alignment) in enumerate(shards)
    )
    return Inventory(files, metadata, tensors, [])


def _row(rows: Iterator[list[bytes]], verb: bytes, count: int | None = None) -> list[bytes]:
    row = next(rows, [])
    if not row or row[0] != verb or len(row) < 3 or count not in (None, len(row) - 1):
        raise TapeError(f"no {verb.decode()} line: {row!r:.80}")
    return row[1:]


def _name(word: bytes, taken: dict[str, Entry] | dict[str, TensorInfo]) -> str:
    name = strict_text(word)
    if not name or name in taken:
        raise TapeError(f"no name, or one of two: {name[:60]!r}")
    return name


def _bounded(words: list[bytes], *most: int) -> list[int]:
    values = [integer(word) for word in words]
    for word, value, limit in zip(words, values, most, strict=True):
        if not 0 <= value <= limit or word.startswith(b"-"):
            raise TapeError(f"outside 0..{limit}: {value}")
    return values


def _tensor(name: str, words: list[bytes]) -> TensorInfo:
    if not 5 <= len(words) <= 4 + MAX_DIMS:
        raise TapeError("no tensor line")
    limits = (MAX_U32, MAX_U32, *[MAX_SIZE] * (len(words) - 2))
    shard, kind, offset, nbytes, *dims = _bounded(words, *limits)
    return TensorInfo(name, tuple(dims), kind, offset, nbytes, shard)


def _entry(word: bytes, value: list[bytes], arrays: bytearray) -> Entry:
    kind = KINDS.get(word)
    if kind is None:
        raise TapeError(f"no value type: {word[:60]!r}")
    if kind is not ValueType.ARRAY:
        if len(value) != 1:
            raise TapeError("not one value")
        return scalar_entry(kind, value[0])
    element = KINDS.get(value[0]) if len(value) >= 2 else None
    if element is None:
        raise TapeError("no array")
    (count,) = _bounded(value[1:2], MAX_SIZE)
    start = len(arrays)
    if element in INTEGERS and count:
        _fill(arrays, element, count, value[2:])
    elif len(value) != 2:
        raise TapeError("an array with values too many")
    return Entry(kind, ArrayRef(element, count, start, len(arrays)))


def _fill(arrays: bytearray, element: ValueType, count: int, words: list[bytes]) -> None:
    if len(words) != 2:
        raise TapeError("no least and greatest element")
    least, greatest = map(integer, words)
    low, high = RANGES[element]
    if not low <= least <= greatest <= high or (count == 1 and least != greatest):
        raise TapeError("no least and greatest element")
    if count <= LONGEST_READ:
        nbytes = (high - low).bit_length() // 8
        signed = low < 0
        arrays += least.to_bytes(nbytes, "little", signed=signed)
        arrays += greatest.to_bytes(nbytes, "little", signed=signed) * (count - 1)


def _known(architecture: str) -> FamilyContract:
    """The component is about one family: to it every other is unsupported."""
    if architecture == ARCHITECTURE:
        return contract(architecture)
    raise UnsupportedModelError(
        "this architecture is not the component's",
        code="unsupported_architecture",
        subject="general.architecture",
        expected=ARCHITECTURE,
        found=shown(architecture),
    )


def answer(inventory: Inventory) -> Answer:
    """What the replacement says to an inventory."""
    try:
        return bind.make(inventory, _known)
    except ModelFileError as error:
        return error


def write_output(result: Answer) -> bytes:
    """The output tape."""
    if isinstance(result, ModelFileError):
        return b"error %s %s\n" % (result.code.encode(), subject_word(result))
    hparams = result.hparams
    raw = _FLOATS.pack(*[getattr(hparams, name) for name in FLOATS]).hex().upper()
    out = [
        b"plan %s\n" % escape(result.architecture),
        f"hparams {' '.join([str(int(getattr(hparams, name))) for name in INTS])}\n".encode(),
        f"floats {' '.join([raw[at : at + 8] for at in range(0, len(raw), 8)])}\n".encode(),
    ]
    for slot in result.slots:
        numbers = (slot.role, slot.layer, slot.type, slot.shard, slot.offset, slot.nbytes)
        dims = " ".join(map(str, slot.dims)).encode()
        out.append(b"slot %d %d %d %d %d %d %s %s\n" % (*numbers, escape(slot.name), dims))
    out += [b"ignored %s\n" % escape(name) for name in result.ignored]
    out += [b"unknown %s\n" % escape(key) for key in result.unknown]
    return b"".join(out)


def by_tape(tape: bytes) -> bytes:
    """The replacement from tape to tape."""
    return write_output(answer(read_input(tape)))


def read_output(tape: bytes, inventory: Inventory) -> BindPlan:
    """The plan of an output tape, for the inventory that was asked about. Raises the verdict."""
    rows = list(lines(tape))
    if rows and len(rows[0]) == 3 and rows[0][0] == b"error":
        refuse(rows[0])
    if len(rows) < 3 or [row[0] for row in rows[:3]] != [b"plan", b"hparams", b"floats"]:
        raise TapeError(f"no plan: {tape[:60]!r}")
    values: dict[str, object] = {
        name: _ENUMS.get(name, int)(integer(word)) for name, word in zip(INTS, rows[1][1:], strict=True)
    }
    floats = _FLOATS.unpack(bytes.fromhex(b"".join(rows[2][1:]).decode("ascii")))
    values.update(zip(FLOATS, floats, strict=True))
    by_verb: dict[bytes, list[list[bytes]]] = {b"slot": [], b"ignored": [], b"unknown": []}
    for verb, *words in rows[3:]:
        by_verb[verb].append(words)
    unknown = tuple(text(words[0]) for words in by_verb[b"unknown"])
    return BindPlan(
        architecture=text(rows[0][1]),
        hparams=HParams(**values),  # type: ignore[arg-type]
        shards=bind.shards(inventory),
        slots=tuple(_slot(words) for words in by_verb[b"slot"]),
        ignored=tuple(text(words[0]) for words in by_verb[b"ignored"]),
        unknown=unknown,
        notes=tuple(note_unknown(key) for key in unknown),
    )


def _slot(words: list[bytes]) -> Slot:
    role, layer, kind, shard, offset, nbytes = map(integer, words[:6])
    dims = tuple(map(integer, words[7:]))
    return Slot(Role(role), layer, GgmlType(kind), dims, shard, offset, nbytes, text(words[6]))


def by_oracle(inventory: Inventory) -> BindPlan:
    """`bind.make`, decided by the oracle."""
    return read_output(oracle("bind").run(write_input(inventory)), inventory)
