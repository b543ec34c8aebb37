"""Writes a GGUF file: keys, a directory, then each tensor's data piece by piece, so that memory holds one piece.

Tensors may share bytes: those of one `share` are stored once. The file appears under its name when it is whole, as it
is written beside it and renamed. The format's byte table stands in ds4.core.gguf.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ds4.core.cursor import shown
from ds4.core.ggml_types import TENSOR_TYPES
from ds4.core.gguf import MAX_NAME_BYTES, GgufFile, parse
from ds4.core.metadata import ValueType
from ds4.errors import ModelFileError

ALIGNMENT = 32

_SCALARS = {
    ValueType.U8: struct.Struct("<B"),
    ValueType.I8: struct.Struct("<b"),
    ValueType.U16: struct.Struct("<H"),
    ValueType.I16: struct.Struct("<h"),
    ValueType.U32: struct.Struct("<I"),
    ValueType.I32: struct.Struct("<i"),
    ValueType.F32: struct.Struct("<f"),
    ValueType.BOOL: struct.Struct("<?"),
    ValueType.U64: struct.Struct("<Q"),
    ValueType.I64: struct.Struct("<q"),
    ValueType.F64: struct.Struct("<d"),
}

Scalar: TypeAlias = "int | float | bool | str"


@dataclass(frozen=True, slots=True)
class Key:
    """A value and its type on disk. elements: of an array; None for a scalar."""

    kind: ValueType
    value: Scalar | Sequence[Scalar]
    array: bool = False


Keys: TypeAlias = dict[str, Key]


def u32(value: int) -> Key:
    return Key(ValueType.U32, value)


def f32(value: float) -> Key:
    return Key(ValueType.F32, value)


def boolean(value: bool) -> Key:
    return Key(ValueType.BOOL, value)


def text(value: str) -> Key:
    return Key(ValueType.STRING, value)


def array(kind: ValueType, values: Sequence[Scalar]) -> Key:
    return Key(kind, values, array=True)


@dataclass(frozen=True, slots=True)
class Tensor:
    """dims: GGUF order. kind: GGUF's type number. data: its bytes, in pieces, each time it is called.

    share: tensors of the same one, type and size are stored once, as the first of them; "": by itself.
    """

    name: str
    dims: tuple[int, ...]
    kind: int
    data: Callable[[], Iterator[bytes]]
    share: str = ""

    @property
    def nbytes(self) -> int:
        kind = TENSOR_TYPES[self.kind]
        return math.prod(self.dims) // kind.block * kind.nbytes


@dataclass(frozen=True, slots=True)
class Written:
    """What was written. stored_bytes: the file; weight_bytes: what its tensors amount to."""

    path: Path
    tensors: int
    stored_bytes: int
    weight_bytes: int


def header(keys: Mapping[str, Key], tensors: Sequence[Tensor]) -> tuple[bytes, list[int]]:
    """Everything before the data section, padded to it; and each tensor's offset within the data section."""
    out = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(keys))]
    for name, key in keys.items():
        out += [_text(name), _key(name, key)]
    offsets: list[int] = []
    end = 0
    shared: dict[tuple[str, int, int], int] = {}
    for tensor in tensors:
        _check(tensor)
        place = (tensor.share, tensor.kind, tensor.nbytes)
        offset = shared.get(place) if tensor.share else None
        if offset is None:
            offset = end
            end += -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT
            if tensor.share:
                shared[place] = offset
        offsets.append(offset)
        count = len(tensor.dims)
        out.append(_text(tensor.name) + struct.pack(f"<I{count}QIQ", count, *tensor.dims, tensor.kind, offset))
    head = b"".join(out)
    return head + bytes(-len(head) % ALIGNMENT), offsets


def inspect(keys: Mapping[str, Key], tensors: Sequence[Tensor] = ()) -> GgufFile:
    """The file that `write` would write, as its reader sees it, without any data."""
    head, offsets = header(keys, tensors)
    end = max((offset + tensor.nbytes for offset, tensor in zip(offsets, tensors, strict=True)), default=0)
    return parse(head, Path("planned.gguf"), file_bytes=len(head) + end)


def write(path: Path, keys: Mapping[str, Key], tensors: Sequence[Tensor]) -> Written:
    """Raises ModelFileError with code `file_io` where the disk refuses, `tensor_data` for a tensor whose data is not
    of its size, or what the data itself raises; then nothing stays behind."""
    head, offsets = header(keys, tensors)
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            file.write(head)
            end = 0
            for tensor, offset in zip(tensors, offsets, strict=True):
                if offset < end:
                    continue
                file.write(bytes(offset - end))
                end = offset + _copy(file.write, tensor)
            file.write(bytes(-end % ALIGNMENT))
            stored = file.tell()
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ModelFileError(
            f"the file cannot be written: {error.strerror or error}", code="file_io", subject=shown(str(path), 512)
        ) from None
    except BaseException:
        part.unlink(missing_ok=True)
        raise
    return Written(path, len(tensors), stored, sum(tensor.nbytes for tensor in tensors))


def _copy(write: Callable[[bytes], object], tensor: Tensor) -> int:
    """Bytes written."""
    count = 0
    for piece in tensor.data():
        count += len(piece)
        if count > tensor.nbytes:
            break
        write(piece)
    if count != tensor.nbytes:
        raise ModelFileError(
            "the data is not of the tensor's size",
            code="tensor_data",
            subject=shown(tensor.name),
            expected=f"{tensor.nbytes} bytes",
            found=f"{count} bytes" if count < tensor.nbytes else "more",
        )
    return count


def _check(tensor: Tensor) -> None:
    kind = TENSOR_TYPES[tensor.kind]
    if not 1 <= len(tensor.dims) <= 4 or min(tensor.dims) < 1 or tensor.dims[0] % kind.block:
        raise ModelFileError(
            "dimensions that cannot be stored",
            code="tensor_dims",
            subject=shown(tensor.name),
            expected=f"1..4 of them, the first a multiple of {kind.block} ({kind.name})",
            found=list(tensor.dims),
        )
    if len(tensor.name.encode()) > MAX_NAME_BYTES:
        raise ModelFileError(
            "the name is too long",
            code="tensor_name",
            subject=shown(tensor.name),
            expected=f"at most {MAX_NAME_BYTES} bytes",
            found=len(tensor.name.encode()),
        )


def _text(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def _key(name: str, key: Key) -> bytes:
    if not key.array:
        return struct.pack("<I", key.kind) + _value(name, key.kind, key.value)
    assert isinstance(key.value, Sequence) and not isinstance(key.value, str)
    head = struct.pack("<IIQ", ValueType.ARRAY, key.kind, len(key.value))
    return head + b"".join(_values(name, key.kind, key.value))


def _values(name: str, kind: ValueType, values: Iterable[Scalar]) -> Iterator[bytes]:
    return (_value(name, kind, value) for value in values)


def _value(name: str, kind: ValueType, value: object) -> bytes:
    if isinstance(value, str) and kind is ValueType.STRING:
        return _text(value)
    try:
        return _SCALARS[kind].pack(value)
    except (struct.error, KeyError, OverflowError):
        raise ModelFileError(
            "a value that its type cannot hold",
            code="metadata_range",
            subject=shown(name),
            expected=str(kind),
            found=shown(repr(value)),
        ) from None
