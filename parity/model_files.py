"""GGUF files out of bytes: small right ones, and what can be wrong with them, in their structure and in their bytes.

Written field by field from the format's description, without ds4: `Draft.build` also tells where each number stands, so
that a mutation can aim at lengths, counts, types and offsets instead of hoping to hit one.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from ds4.sys.tape import escape

from parity.choices import Choices

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
SCALARS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B", U64: "Q", I64: "q", F64: "d"}
BLOCKS = {0: (1, 4), 1: (1, 2), 2: (32, 18), 8: (32, 34), 12: (256, 144), 24: (1, 1), 30: (1, 2), 39: (32, 17)}

# Numbers at the edges of what fields hold, and of every limit of the contract.
EDGES = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 9, 12, 13, 16, 24, 31, 32, 33, 48, 63, 64, 65, 96, 128, 255, 256, 257, 1024),
    *(65535, 65536, 65537, 262144, 262145, 2**20, 2**20 + 1, 2**21, 2**31 - 1, 2**31, 2**32 - 1, 2**32),
    *(2**61, 2**61 + 1, 2**62, 2**63 - 32, 2**63 - 1, 2**63, 2**63 + 64, 2**64 - 32, 2**64 - 1),
)
TYPES = (0, 1, 2, 3, 4, 6, 8, 9, 12, 14, 15, 16, 20, 24, 28, 29, 30, 31, 35, 36, 39, 40, 41, 42, 43, 99, 2**32 - 1)
SIZES = (0, 1, 3, 4, 5, 23, 24, 25, 31, 32, 100, 1000, 10_000, 3_000_000, 2**24, 2**40, 2**63 - 1)
NAMES = (
    *(b"a", b"b", b"general.alignment", b"split.count", b"split.no", b"split.tensors.count", b"", b"x y", b"\xc3\xa9"),
    *(
        b"\xff",
        b"\xed\xa0\x80",
        b"\xc0\xaf",
        b"\xf4\x90\x80\x80",
        b"a\0",
        b"\x1b[2J",
        b"\x7f",
        b"\xc2\x85",
        b"\xc2\xa0",
    ),
    *(
        b"\xc2\xad",
        b"\xe2\x80\xae",
        b"\xe2\x80\x8b",
        b"\xef\xbb\xbf",
        b"\xf3\xa0\x80\x81",
        b"\xef\xbf\xbd",
        b"\xef\xbf\xaf",
    ),
    *(
        b"n" * 63,
        b"n" * 64,
        b"n" * 65,
        b"k" * 93,
        b"k" * 96,
        b"k" * 97,
        b"\xc3\xa9" * 96,
        b"\xf0\x9f\x98\x80" * 97,
        b"%\\",
    ),
)
TEXTS = (b"", b"text", b"50% \xc3\xa9\n", b"\xc3\x28", b"\xed\xa0\x80", b"\0", b"\xf0\x9f\x98\x80", b"x" * 70)

FOREIGN = (b"", b"GG", b"GGUF", b"PK\x03\x04" + bytes(60), b"tjgg" + bytes(30), b"GGUF\0\0\0\x03" + bytes(16))


def string(raw: bytes) -> bytes:
    return struct.pack("<Q", len(raw)) + raw


def array(element: int, values: Sequence[float | bytes]) -> bytes:
    """An array's payload; strings as bytes, inner arrays as ready payloads."""
    head = struct.pack("<IQ", element, len(values))
    if element == STRING:
        return head + b"".join([string(v) for v in values if isinstance(v, bytes)])
    if element == ARRAY:
        return head + b"".join([v for v in values if isinstance(v, bytes)])
    return head + struct.pack(f"<{len(values)}{SCALARS[element]}", *values)


def nested(levels: int) -> bytes:
    """The payload of an array of arrays, so many levels deep."""
    payload = array(U8, [7])
    for _ in range(levels - 1):
        payload = array(ARRAY, [payload])
    return payload


@dataclass
class Tensor:
    name: bytes
    dims: tuple[int, ...]
    type: int = 0
    offset: int = 0


@dataclass
class Draft:
    """A file as its writer sees it. data: bytes of its data section."""

    keys: list[tuple[bytes, int, bytes]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    version: int = 3
    alignment: int = 32
    data: int = 0

    def scalar(self, name: bytes, kind: int, value: float) -> Draft:
        self.keys.append((name, kind, struct.pack("<" + SCALARS[kind], value)))
        return self

    def text(self, name: bytes, raw: bytes) -> Draft:
        self.keys.append((name, STRING, string(raw)))
        return self

    def many(self, name: bytes, element: int, values: Sequence[float | bytes]) -> Draft:
        self.keys.append((name, ARRAY, array(element, values)))
        return self

    def tensor(self, name: bytes, dims: tuple[int, ...], kind: int = 0) -> Draft:
        """Behind those before it."""
        block, nbytes = BLOCKS[kind]
        size = nbytes
        for dim in dims:
            size *= dim
        self.tensors.append(Tensor(name, dims, kind, self.data))
        self.data += -(-size // block // self.alignment) * self.alignment
        return self

    def copy(self) -> Draft:
        return Draft(list(self.keys), list(self.tensors), self.version, self.alignment, self.data)

    def build(self) -> tuple[bytes, list[tuple[int, int]]]:
        """(the file, where its numbers stand: (offset, size in bytes))."""
        out = bytearray(struct.pack("<4sIQQ", b"GGUF", self.version & 0xFFFFFFFF, len(self.tensors), len(self.keys)))
        at = [(4, 4), (8, 8), (16, 8)]
        for name, kind, payload in self.keys:
            at.append((len(out), 8))
            out += struct.pack("<Q", len(name)) + name
            at.append((len(out), 4))
            out += struct.pack("<I", kind & 0xFFFFFFFF)
            if kind == STRING:
                at.append((len(out), 8))
            elif kind == ARRAY:
                at += [(len(out), 4), (len(out) + 4, 8), (len(out) + 12, 8)]
            elif len(payload) in (4, 8):
                at.append((len(out), len(payload)))
            out += payload
        for tensor in self.tensors:
            at.append((len(out), 8))
            out += struct.pack("<Q", len(tensor.name)) + tensor.name
            at.append((len(out), 4))
            out += struct.pack("<I", len(tensor.dims))
            for dim in tensor.dims:
                at.append((len(out), 8))
                out += struct.pack("<Q", dim & 0xFFFFFFFFFFFFFFFF)
            at += [(len(out), 4), (len(out) + 4, 8)]
            out += struct.pack("<IQ", tensor.type & 0xFFFFFFFF, tensor.offset & 0xFFFFFFFFFFFFFFFF)
        out += bytes(-len(out) % self.alignment + self.data)
        return bytes(out), at


@dataclass(frozen=True)
class Built:
    draft: Draft
    raw: bytes
    numbers: list[tuple[int, int]]


Folder = tuple[tuple[bytes, Built], ...]
"""Files of one input by name, the opened one first."""


def _scalars() -> Draft:
    draft = Draft()
    for kind in SCALARS:
        draft.scalar(b"k.%d" % kind, kind, 1)
    draft.scalar(b"k.neg", I64, -(2**63)).scalar(b"k.small", I8, -1).scalar(b"k.inf", F32, float("inf"))
    return draft.scalar(b"k.nan", F64, float("nan")).scalar(b"k.big", U64, 2**64 - 1)


def _arrays() -> Draft:
    draft = Draft()
    for kind in SCALARS:
        draft.many(b"a.%d" % kind, kind, [0, 1, 1])
    draft.many(b"a.s", STRING, [b"one", b"", b"tw\xc3\xb6"]).many(b"a.none", STRING, []).many(b"a.empty", F32, [])
    inner = array(STRING, [b"x", b"y"])
    draft.many(b"a.a", ARRAY, [inner, array(U16, [1]), array(ARRAY, [array(BOOL, [1])])])
    draft.keys.append((b"a.deep", ARRAY, nested(4)))
    return draft


def _tensors(alignment: int = 32) -> Draft:
    draft = Draft(alignment=alignment)
    if alignment != 32:
        draft.scalar(b"general.alignment", U32, alignment)
    draft.tensor(b"t.f32", (4, 3)).tensor(b"t.f16", (5,), 1).tensor(b"t.q8", (64, 2), 8).tensor(
        b"t.i8", (2, 2, 2, 2), 24
    )
    draft.tensor(b"t.q4k", (256,), 12).tensor(b"t.bf16", (3, 1, 2), 30)
    draft.tensors.append(Tensor(b"t.tied", (4, 3), 0, draft.tensors[0].offset))
    return draft


def _shards(count: int) -> list[tuple[bytes, Draft]]:
    made = []
    for index in range(count):
        draft = Draft()
        if index == 0:
            draft.text(b"general.architecture", b"llama")
        draft.scalar(b"split.no", U16, index).scalar(b"split.count", U16, count)
        draft.scalar(b"split.tensors.count", I32, 2 * count)
        draft.tensor(b"t.%d" % index, (8,)).tensor(b"u.%d" % index, (2, 2))
        made.append((b"m-%05d-of-%05d.gguf" % (index + 1, count), draft))
    return made


def _built(*files: tuple[bytes, Draft]) -> Folder:
    return tuple((name, Built(draft, *draft.build())) for name, draft in files)


@functools.cache
def folders() -> tuple[Folder, ...]:
    """Right inputs of every shape."""
    one = Draft().scalar(b"split.count", U16, 1).scalar(b"split.no", U16, 0).tensor(b"t", (8,))
    small = Draft().text(b"general.name", b"small").tensor(b"t", (8,)).tensor(b"u", (8,))
    last = Draft(alignment=1).many(b"a.s", STRING, [b""] * 40)  # the file ends with its strings
    return (
        _built((b"m.gguf", small)),
        _built((b"m.gguf", _scalars())),
        _built((b"m.gguf", _arrays())),
        _built((b"m.gguf", _tensors())),
        _built((b"m.gguf", _tensors(64))),
        _built(*_shards(2)),
        _built(*_shards(3)),
        _built((b"m-00001-of-00001.gguf", one)),
        _built((b"m-00001-of-00001.gguf", small)),
        _built((b"m.gguf", Draft(version=2))),
        _built((b"m.gguf", last)),
    )


def tape(data: bytes) -> bytes:
    """An input tape out of bytes: a right input, changed in its structure, in its bytes, and in what of it is there."""
    choices = Choices(data)
    kind = choices.below(32)
    files = list(choices.of(folders()) if kind else _built((b"m.gguf", _drafted(choices))))
    if len(files) > 1 and choices.once_in(6):
        _shuffle(files, choices)
    target = choices.below(len(files))
    name, built = files[target]
    raw, numbers = built.raw, built.numbers
    for _ in range(choices.of((1, 0, 1, 2))):
        draft = built.draft.copy()
        _restructure(draft, choices)
        built = Built(draft, *draft.build())
        raw, numbers = built.raw, built.numbers
    for _ in range(choices.of((0, 0, 1, 2))):
        raw = _bytes_changed(raw, numbers, choices)
    size, head = len(raw), len(raw)
    if choices.once_in(4):
        size, head = _extent(size, choices)
    if choices.once_in(24):
        name = choices.of(FILE_NAMES)
    out = [b"%s %d\n" % (choices.of((b"load", b"check")), len(files))]
    for index, (each, other) in enumerate(files):
        if index == target:
            out.append(b"file %s %d %d\n%s" % (escape(name), size, head, raw[:head]))
        else:
            out.append(b"file %s %d %d\n%s" % (escape(each), len(other.raw), len(other.raw), other.raw))
    return b"".join(out)


FILE_NAMES = (
    *(b"other.gguf", b"-00001-of-00002.gguf", b"n-00001-of-00002.gguf", b"n-00002-of-00002.gguf"),
    *(b"n-00003-of-00002.gguf", b"n-00000-of-00002.gguf", b"n-00001-of-00099.gguf", b"n-00001-of-00001.gguf"),
    *(b"n-1-of-1.gguf", b"\xff\xe2\x82 \n", b"\xe2\x82\xac-00002-of-00003.gguf", b"\xff-00002-of-00003.gguf"),
    *(b"x" * 100 + b"-00002-of-00002.gguf", b"..", b".", b"n-00001-of-00002.gguf\n", b"n-00001-of-00002.GGUF"),
    b"n-0000\xd9\xa1-of-00002.gguf",
)


def _shuffle(files: list[tuple[bytes, Built]], choices: Choices) -> None:
    """Another opened file, a missing shard, or two shards' contents swapped."""
    what, index = choices.below(3), choices.below(len(files))
    if what == 0:
        files.insert(0, files.pop(index))
    elif what == 1:
        del files[index]
    else:
        files[0], files[index] = (files[0][0], files[index][1]), (files[index][0], files[0][1])
        if index == 0:
            files[1] = (files[1][0], files[0][1])


def _drafted(choices: Choices) -> Draft:
    draft = Draft(version=choices.of((3, 2)))
    for _ in range(choices.below(5)):
        draft.keys.append((choices.of(NAMES), *_value(choices)))
    for _ in range(choices.below(4)):
        kind = choices.of(tuple(BLOCKS))
        dims = tuple([1 + choices.below(3) for _ in range(1 + choices.below(4))])
        draft.tensor(choices.of(NAMES), (BLOCKS[kind][0], *dims[1:]), kind)
    return draft


def _value(choices: Choices) -> tuple[int, bytes]:
    kind = choices.below(14)
    if kind == STRING:
        return kind, string(choices.of(TEXTS))
    if kind == 13 and choices.once_in(3):
        return ARRAY, nested(3 + choices.below(4))
    if kind == 13:
        return ARRAY, array(STRING, [choices.of(TEXTS) for _ in range(choices.below(4))])
    if kind == ARRAY:
        element = choices.of((*SCALARS,))
        return kind, struct.pack("<IQ", element, 2) + bytes([choices.below(256)]) * 2 * struct.calcsize(
            SCALARS[element]
        )
    return kind, bytes([choices.below(3)]) + bytes(struct.calcsize(SCALARS[kind]) - 1)


def _restructure(draft: Draft, choices: Choices) -> None:
    what = choices.below(12)
    if what <= 4 and draft.tensors:
        index = choices.below(len(draft.tensors))
        old = draft.tensors[index]
        draft.tensors[index] = _tensor_changed(draft, old, what, choices)
    elif what == 5 and draft.tensors:
        index = choices.below(len(draft.tensors))
        if choices.once_in(2):
            del draft.tensors[index]
        else:
            draft.tensors.insert(choices.below(len(draft.tensors) + 1), draft.tensors[index])
    elif what <= 7 and draft.keys:
        index = choices.below(len(draft.keys))
        name, kind, payload = draft.keys[index]
        how = choices.below(4)
        if how == 0:
            draft.keys[index] = (choices.of(NAMES), kind, payload)
        elif how == 1:
            draft.keys[index] = (name, *_value(choices))
        elif how == 2:
            del draft.keys[index]
        else:
            draft.keys.append(draft.keys[index])
    elif what == 8:
        value = choices.of((64, 8, 4, 0, 1, 16, 48, 128, 2**20, 2**21, 2**31))
        kind = choices.of((U32, U32, U32, U64, I32, STRING))
        if kind == STRING:
            draft.text(b"general.alignment", b"32")
        else:
            draft.scalar(b"general.alignment", kind, min(value, 2**31 - 1) if kind == I32 else value)
    elif what == 9:
        key = choices.of((b"split.count", b"split.no", b"split.tensors.count"))
        kind = choices.of((U16, I32, I64, F32, STRING))
        if kind == STRING:
            draft.text(key, b"1")
        else:
            draft.scalar(key, kind, choices.of((0, 1, 2, 3, 4, 6) if kind != I64 else (2, -1, 2**32, 2**32 - 1)))
    elif what == 10:
        draft.version = choices.of((3, 2, 1, 0, 4, 0x03000000, 0x02000000, 0x0100, 0x10000, 0xFFFF0000, 0xFFFFFFFF))
    else:
        draft.keys.insert(choices.below(len(draft.keys) + 1), (choices.of(NAMES), *_value(choices)))


def _tensor_changed(draft: Draft, old: Tensor, what: int, choices: Choices) -> Tensor:
    if what == 0:
        return Tensor(choices.of(NAMES), old.dims, old.type, old.offset)
    if what == 1:
        dims = tuple([choices.of(EDGES) for _ in range(choices.below(6))])
        return Tensor(old.name, dims, old.type, old.offset)
    if what == 2:
        return Tensor(old.name, old.dims, choices.of(TYPES), old.offset)
    if what == 3:
        end = draft.data - choices.of((0, 8, 16, 32, 64))
        return Tensor(old.name, old.dims, old.type, choices.of((0, 8, 32, max(end, 0), *EDGES)))
    kept = old.dims[: choices.below(len(old.dims) or 1)]
    more = (choices.of(EDGES), *old.dims[1:])[: 1 + choices.below(4)]
    return Tensor(old.name, kept + more, old.type, old.offset)


def _bytes_changed(raw: bytes, numbers: list[tuple[int, int]], choices: Choices) -> bytes:
    what = choices.below(8)
    if what <= 3:
        at, width = choices.of(numbers)
        now = int.from_bytes(raw[at : at + width], "little")
        edge = choices.below(4 + len(EDGES))
        value = (now + 1, now - 1, now * 2, len(raw) - at - width)[edge] if edge < 4 else EDGES[edge - 4]
        return raw[:at] + (value % (1 << 8 * width)).to_bytes(width, "little") + raw[at + width :]
    at = choices.below(max(len(raw), 1) % 65536)
    if what == 4:
        return raw[:at] + bytes([choices.below(256)]) + raw[at + 1 :]
    if what == 5:
        return raw[:at]
    if what == 6:
        return raw[:at] + raw[at + 1 + choices.below(16) :]
    if choices.once_in(3):
        return choices.of(
            (b"", b"GG", b"GGUF", b"PK\x03\x04" + bytes(60), b"tjgg" + bytes(30), b"GGUF\0\0\0\x03" + bytes(16))
        )
    return raw[:at] + bytes([choices.below(256)]) * (1 + choices.below(16)) + raw[at:]


def _extent(size: int, choices: Choices) -> tuple[int, int]:
    """(stated size, head that is there)."""
    what = choices.below(4)
    if what == 0:
        return size, choices.below(size + 1) if size < 65536 else size
    stated = choices.of(SIZES) if what == 1 else size + choices.of((1, 32, 1000, 10**7, 2**40))
    if what == 3:
        stated = max(0, size - 1 - choices.below(64))
    return stated, min(stated, size)
