"""The key-value section of a GGUF file: a mapping with typed getters over the mapped bytes.

A vocabulary is tens of thousands of strings that most callers never look at, so an array is walked once while the file
is read (every length is checked then) and decoded each time it is asked for; keep what you decode. Numbers and single
strings are decoded, and checked, at once.

Value of each type on disk (little-endian), by the type number in front of it:

    0 u8, 1 i8, 2 u16, 3 i16, 4 u32, 5 i32, 6 f32     1, 1, 2, 2, 4, 4, 4 bytes
    7 bool                                            1 byte, 0 or 1
    8 string                                          u64 length in bytes, then UTF-8
    9 array                                           u32 element type, u64 count, then the elements
    10 u64, 11 i64, 12 f64                            8 bytes

Source: the GGUF specification in the ggml repository (docs/gguf.md).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NoReturn, TypeAlias, TypeVar, overload

from ds4.core.cursor import U64, Buffer, Cursor, decode_utf8, shown
from ds4.errors import ModelFileError

Value: TypeAlias = "int | float | bool | str | list[Value]"
D = TypeVar("D")

MAX_ARRAY_DEPTH = 4  # arrays inside arrays; published files use one level


class ValueType(IntEnum):
    U8 = 0
    I8 = 1
    U16 = 2
    I16 = 3
    U32 = 4
    I32 = 5
    F32 = 6
    BOOL = 7
    STRING = 8
    ARRAY = 9
    U64 = 10
    I64 = 11
    F64 = 12

    def __str__(self) -> str:
        return self.name.lower()


_CODES = {
    ValueType.U8: "B",
    ValueType.I8: "b",
    ValueType.U16: "H",
    ValueType.I16: "h",
    ValueType.U32: "I",
    ValueType.I32: "i",
    ValueType.F32: "f",
    ValueType.BOOL: "B",
    ValueType.U64: "Q",
    ValueType.I64: "q",
    ValueType.F64: "d",
}
_SIZES = {kind: struct.calcsize("<" + code) for kind, code in _CODES.items()}
_LEAST = {**_SIZES, ValueType.STRING: 8, ValueType.ARRAY: 12}  # bytes that the shortest element takes

INTEGERS = frozenset(
    {
        ValueType.U8,
        ValueType.I8,
        ValueType.U16,
        ValueType.I16,
        ValueType.U32,
        ValueType.I32,
        ValueType.U64,
        ValueType.I64,
    }
)
_FLOATS = frozenset({ValueType.F32, ValueType.F64})


@dataclass(frozen=True, slots=True)
class ArrayRef:
    """Where an array lies: `count` elements of `element` in bytes `start`..`end` of the file."""

    element: ValueType
    count: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One key's value: decoded, or a reference into the file for an array."""

    type: ValueType
    value: int | float | bool | str | ArrayRef

    @property
    def type_name(self) -> str:
        if isinstance(self.value, ArrayRef):
            return f"array of {self.value.count} {self.value.element}"
        return str(self.type)


def read_entry(cursor: Cursor, key: str) -> Entry:
    """The type number and value that follow `key`. Fails, typed, on anything the byte table above does not allow."""
    kind = _read_type(cursor, key)
    if kind is ValueType.ARRAY:
        return Entry(kind, _scan_array(cursor, key, 1))
    if kind is ValueType.STRING:
        return Entry(kind, cursor.text(key))
    size = _SIZES[kind]
    cursor.need(size, key)
    value: int | float = struct.unpack_from("<" + _CODES[kind], cursor.buffer, cursor.position)[0]
    cursor.position += size
    if kind is ValueType.BOOL:
        if value > 1:
            cursor.fail("gguf_bool", key, "not a boolean", expected="0 or 1", found=value)
        return Entry(kind, bool(value))
    return Entry(kind, value)


def _read_type(cursor: Cursor, key: str) -> ValueType:
    number = cursor.u32(key)
    try:
        return ValueType(number)
    except ValueError:
        cursor.fail("gguf_value_type", key, "unknown value type", expected="0..12", found=number)


def _scan_array(cursor: Cursor, key: str, depth: int) -> ArrayRef:
    """Walks an array, checking every length in it, and leaves the cursor behind it. Allocates nothing by its size."""
    if depth > MAX_ARRAY_DEPTH:
        cursor.fail(
            "gguf_array_depth",
            key,
            "arrays are nested too deeply",
            expected=f"at most {MAX_ARRAY_DEPTH} levels",
            found=f"{depth} or more",
        )
    element = _read_type(cursor, key)
    count = cursor.u64(key)
    if count > cursor.left // _LEAST[element]:
        cursor.fail(
            "gguf_array_count",
            key,
            "the array is longer than the file",
            expected=f"at most {cursor.left // _LEAST[element]} elements of {element} in {cursor.left} bytes",
            found=f"{count} elements",
        )
    start = cursor.position
    if element is ValueType.STRING:
        cursor.position = _skip_strings(cursor, key, count)
    elif element is ValueType.ARRAY:
        for _ in range(count):
            _scan_array(cursor, key, depth + 1)
    else:
        cursor.skip(count * _SIZES[element], key)
    return ArrayRef(element, count, start, cursor.position)


def _skip_strings(cursor: Cursor, key: str, count: int) -> int:
    """The position behind `count` strings.

    The loop is the hot spot of reading a file (10^5 strings), so it leaves the bounds to unpack_from, which refuses to
    read past the buffer, and walks again with full checks once something was refused.
    """
    unpack, buffer, position = U64.unpack_from, cursor.buffer, cursor.position
    try:
        for _ in range(count):
            position += unpack(buffer, position)[0] + 8
        if position <= cursor.reach:
            return position
    except (struct.error, OverflowError):
        pass
    for index in range(count):
        subject = f"{key}[{index}]"
        cursor.skip(cursor.u64(subject), subject)
    raise AssertionError("the checked walk accepts what the quick one refused")


class Metadata(Mapping[str, Value]):
    """Keys in file order. `metadata[key]` decodes to plain Python values; the getters also check the type.

    A getter raises ModelFileError with code `metadata_missing` (no such key and no default), `metadata_type` or
    `metadata_range`; integers of any width are taken where the value fits, as writers differ in the width they choose.
    """

    def __init__(self, buffer: Buffer, source: str, entries: dict[str, Entry]) -> None:
        self._buffer = buffer
        self._source = source
        self._entries = entries

    def __getitem__(self, key: str) -> Value:
        entry = self._entries[key]
        return self._decode(key, entry.value) if isinstance(entry.value, ArrayRef) else entry.value

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __eq__(self, other: object) -> bool:
        """Another Metadata is compared by entries and the bytes of arrays: nothing is decoded, nothing fails."""
        if not isinstance(other, Metadata):
            return super().__eq__(other)
        mine, theirs = list(self._entries.items()), list(other._entries.items())
        return len(mine) == len(theirs) and all(
            key == key_too and entry.type is too.type and self._raw(entry) == other._raw(too)
            for (key, entry), (key_too, too) in zip(mine, theirs, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]  # as of every mapping

    def _raw(self, entry: Entry) -> object:
        value = entry.value
        if isinstance(value, ArrayRef):
            return value.element, value.count, self._buffer[value.start : value.end]
        return struct.pack("<d", value) if isinstance(value, float) else value

    def entry(self, key: str) -> Entry:
        """The key's value as it was read: an array as the place where it lies. KeyError."""
        return self._entries[key]

    def array_bytes(self, ref: ArrayRef) -> bytes:
        """The bytes of an array of this file."""
        return self._buffer[ref.start : ref.end]

    def type_of(self, key: str) -> str:
        """ "u32", "string", "array of 49152 string"."""
        return self._entries[key].type_name

    def count(self, key: str) -> int | None:
        """Elements of an array, without decoding it; None if there is no such key."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if not isinstance(entry.value, ArrayRef):
            self._wrong_type(key, "array", entry)
        return entry.value.count

    def check(self) -> None:
        """Decodes everything once, to find what reading alone leaves unseen: array elements that are not UTF-8 or not
        booleans."""
        for key, entry in self._entries.items():
            if isinstance(entry.value, ArrayRef):
                self._decode(key, entry.value)

    @overload
    def u32(self, key: str) -> int: ...
    @overload
    def u32(self, key: str, default: D) -> int | D: ...
    def u32(self, key: str, default: object = ...) -> object:
        """An integer of any type in 0..2^32-1."""
        return self._integer(key, "u32", 0, 2**32 - 1, default)

    @overload
    def u64(self, key: str) -> int: ...
    @overload
    def u64(self, key: str, default: D) -> int | D: ...
    def u64(self, key: str, default: object = ...) -> object:
        """An integer of any type in 0..2^64-1."""
        return self._integer(key, "u64", 0, 2**64 - 1, default)

    @overload
    def i32(self, key: str) -> int: ...
    @overload
    def i32(self, key: str, default: D) -> int | D: ...
    def i32(self, key: str, default: object = ...) -> object:
        """An integer of any type in -2^31..2^31-1."""
        return self._integer(key, "i32", -(2**31), 2**31 - 1, default)

    @overload
    def f32(self, key: str) -> float: ...
    @overload
    def f32(self, key: str, default: D) -> float | D: ...
    def f32(self, key: str, default: object = ...) -> object:
        """A float of either width. May be infinite or NaN: the caller knows the range."""
        entry = self._find(key, "f32", default)
        if entry is None:
            return default
        if entry.type not in _FLOATS:
            self._wrong_type(key, "f32", entry)
        return entry.value

    @overload
    def string(self, key: str) -> str: ...
    @overload
    def string(self, key: str, default: D) -> str | D: ...
    def string(self, key: str, default: object = ...) -> object:
        entry = self._find(key, "string", default)
        if entry is None:
            return default
        if entry.type is not ValueType.STRING:
            self._wrong_type(key, "string", entry)
        return entry.value

    @overload
    def boolean(self, key: str) -> bool: ...
    @overload
    def boolean(self, key: str, default: D) -> bool | D: ...
    def boolean(self, key: str, default: object = ...) -> object:
        entry = self._find(key, "bool", default)
        if entry is None:
            return default
        if entry.type is not ValueType.BOOL:
            self._wrong_type(key, "bool", entry)
        return entry.value

    @overload
    def strings(self, key: str) -> list[str]: ...
    @overload
    def strings(self, key: str, default: D) -> list[str] | D: ...
    def strings(self, key: str, default: object = ...) -> object:
        """An array of strings; an element that is not UTF-8 is an error that names its index."""
        ref = self._array(key, "array of string", frozenset({ValueType.STRING}), default)
        return default if ref is None else self._decode_strings(key, ref)

    @overload
    def floats(self, key: str) -> list[float]: ...
    @overload
    def floats(self, key: str, default: D) -> list[float] | D: ...
    def floats(self, key: str, default: object = ...) -> object:
        """An array of f32 or f64; integers are not floats."""
        ref = self._array(key, "array of f32", _FLOATS, default)
        return default if ref is None else self._decode_numbers(ref)

    @overload
    def ints(self, key: str) -> list[int]: ...
    @overload
    def ints(self, key: str, default: D) -> list[int] | D: ...
    def ints(self, key: str, default: object = ...) -> object:
        """An array of any integer type; floats and booleans are not integers."""
        ref = self._array(key, "array of i32", INTEGERS, default)
        return default if ref is None else self._decode_numbers(ref)

    def booleans(self, key: str) -> list[bool]:
        """An array of booleans, or of integers that are 0 or 1, as some converters write them."""
        ref = self._array(key, "array of bool", INTEGERS | {ValueType.BOOL}, ...)
        assert ref is not None  # there is no default
        numbers = self._decode_numbers(ref)
        for index, number in enumerate(numbers):
            if number not in (0, 1):
                raise ModelFileError(
                    f"not a boolean, in {shown(self._source)}",
                    code="metadata_range",
                    subject=shown(f"{key}[{index}]"),
                    expected="0 or 1",
                    found=number,
                )
        return [bool(number) for number in numbers]

    def _find(self, key: str, wanted: str, default: object) -> Entry | None:
        entry = self._entries.get(key)
        if entry is None and default is ...:
            raise ModelFileError(
                f"the key is missing, in {shown(self._source)}",
                code="metadata_missing",
                subject=shown(key),
                expected=wanted,
                found="nothing",
            )
        return entry

    def _wrong_type(self, key: str, wanted: str, entry: Entry) -> NoReturn:
        raise ModelFileError(
            f"wrong type, in {shown(self._source)}",
            code="metadata_type",
            subject=shown(key),
            expected=wanted,
            found=entry.type_name,
        )

    def _integer(self, key: str, wanted: str, low: int, high: int, default: object) -> object:
        entry = self._find(key, wanted, default)
        if entry is None:
            return default
        if entry.type not in INTEGERS or not isinstance(entry.value, int):
            self._wrong_type(key, wanted, entry)
        if not low <= entry.value <= high:
            raise ModelFileError(
                f"out of range, in {shown(self._source)}",
                code="metadata_range",
                subject=shown(key),
                expected=f"{wanted}, {low}..{high}",
                found=entry.value,
            )
        return entry.value

    def _array(self, key: str, wanted: str, elements: frozenset[ValueType], default: object) -> ArrayRef | None:
        entry = self._find(key, wanted, default)
        if entry is None:
            return None
        if not isinstance(entry.value, ArrayRef) or entry.value.element not in elements:
            self._wrong_type(key, wanted, entry)
        return entry.value

    def _decode(self, key: str, ref: ArrayRef) -> list[Value]:
        if ref.element is ValueType.STRING:
            return list(self._decode_strings(key, ref))
        if ref.element is ValueType.ARRAY:
            cursor = Cursor(self._buffer, self._source)
            cursor.position = ref.start
            # Each element is walked to find the next one's start; the first walk has already bounded the depth.
            refs = [_scan_array(cursor, key, 2) for _ in range(ref.count)]
            return [self._decode(f"{key}[{index}]", inner) for index, inner in enumerate(refs)]
        numbers = self._decode_numbers(ref)
        if ref.element is ValueType.BOOL:
            for index, number in enumerate(numbers):
                if number > 1:
                    raise ModelFileError(
                        f"not a boolean, in {shown(self._source)}",
                        code="gguf_bool",
                        subject=shown(f"{key}[{index}]"),
                        expected="0 or 1",
                        found=number,
                    )
            return [bool(number) for number in numbers]
        return list(numbers)

    def _decode_numbers(self, ref: ArrayRef) -> list[int] | list[float]:
        return list(struct.unpack_from(f"<{ref.count}{_CODES[ref.element]}", self._buffer, ref.start))

    def _decode_strings(self, key: str, ref: ArrayRef) -> list[str]:
        unpack, buffer, position = U64.unpack_from, self._buffer, ref.start
        out: list[str] = []
        for index in range(ref.count):
            start = position + 8
            position = start + unpack(buffer, position)[0]
            raw = buffer[start:position]
            try:
                out.append(raw.decode())
            except UnicodeDecodeError:
                decode_utf8(raw, f"{key}[{index}]", self._source)
        return out
