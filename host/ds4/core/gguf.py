"""Reads the metadata and the tensor directory of a GGUF file, and nothing else of it.

Layout, little-endian, versions 2 and 3 (they differ only in that 3 also allows big-endian files, which are refused):

    0   4  magic "GGUF"
    4   4  u32 version
    8   8  u64 tensor count
    16  8  u64 key count
    24     keys: string, u32 value type, value            (see ds4.core.metadata)
           tensor directory, for each tensor:
             string  name
             u32     number of dimensions, 1..4
             u64     each dimension, the contiguous one first
             u32     type                                 (see ds4.core.ggml_types)
             u64     offset of its data from the data section's start, a multiple of the alignment
           zeros up to a multiple of the alignment (`general.alignment`, 32 if absent), then the data section

Source: the GGUF specification in the ggml repository (docs/gguf.md).

The file is mapped, never read into memory. Whatever its bytes are, the outcome is a GgufFile or a ModelFileError, and
the time and memory spent are bounded by the size of the metadata that is really there. Two tensors may share bytes:
that is legal, and reported by ds4.core.inventory.

A file that is cut while it is mapped takes the process with it (SIGBUS), here as in the engine: replace a model by
renaming a new file over it, never by writing into it.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from ds4.core.cursor import Buffer, Cursor, shown
from ds4.core.ggml_types import REMOVED_TYPES, TENSOR_TYPES, type_name
from ds4.core.metadata import Entry, Metadata, Value, ValueType, read_entry
from ds4.errors import ModelFileError

__all__ = ["GgufFile", "Metadata", "TensorInfo", "Value", "parse", "read"]

VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32
MAX_ALIGNMENT = 1 << 20
MAX_KEYS = 1 << 16  # published files have a few dozen
MAX_TENSORS = 1 << 18  # the largest published models have a few thousand
MAX_KEY_BYTES = 65535  # both name limits are the specification's
MAX_NAME_BYTES = 64
MAX_DIMS = 4
MAX_BYTES = 2**63 - 1  # offsets and sizes must fit the engine's int64

LEAST_KEY_BYTES = 8 + 1 + 4 + 1  # length, a 1-byte key, type, a 1-byte value
LEAST_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8

# What people point at by mistake, by first bytes.
_FOREIGN: tuple[tuple[bytes, str], ...] = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file it stands for"),
    (b"PK\x03\x04", "a ZIP archive (a PyTorch checkpoint?)"),
    (b"\x80\x02", "a pickle (a PyTorch checkpoint?)"),
    (b"ggjt", "a GGJT file, older than GGUF"),
    (b"tjgg", "a GGJT file, older than GGUF"),
    (b"lmgg", "a GGML file, older than GGUF"),
    (b"algg", "a GGLA adapter file"),
    (b"<!DOCTYPE", "an HTML page"),
    (b"<html", "an HTML page"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"\x89HDF", "an HDF5 file"),
)


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """One tensor of a file.

    dims: GGUF order, the contiguous one first. type: a number of TENSOR_TYPES.
    offset: bytes from the start of the file. nbytes: size of its data. shard: index of the file in its set.
    """

    name: str
    dims: tuple[int, ...]
    type: int
    offset: int
    nbytes: int
    shard: int = 0

    @property
    def n_elements(self) -> int:
        count = 1
        for dim in self.dims:
            count *= dim
        return count

    @property
    def type_name(self) -> str:
        return type_name(self.type)


@dataclass(frozen=True, slots=True)
class GgufFile:
    """data_offset: bytes from the file's start to its data section. The metadata keeps the file mapped."""

    path: Path
    version: int
    alignment: int
    data_offset: int
    file_bytes: int
    metadata: Metadata = field(repr=False)
    tensors: tuple[TensorInfo, ...] = field(repr=False)


def read(path: str | os.PathLike[str], *, shard: int = 0) -> GgufFile:
    """Maps and checks the file at `path`. shard: what TensorInfo.shard says.

    Raises ModelFileError: code `file_missing`, `file_kind`, `file_io`, or one of parse's.
    """
    where = Path(path)
    return parse(mapped(where), where, shard=shard)


def parse(buffer: Buffer, path: Path, *, shard: int = 0, file_bytes: int | None = None) -> GgufFile:
    """The same over bytes that are already in reach. Raises ModelFileError with a code that begins `gguf_`.

    file_bytes: the file's size, where `buffer` is only its head; raises BeyondHead if the metadata is longer than that.
    """
    cursor = Cursor(buffer, path.name, file_bytes)
    version = _read_header(cursor)
    n_tensors = _read_count(cursor, "tensor count", MAX_TENSORS, LEAST_TENSOR_BYTES)
    n_keys = _read_count(cursor, "key count", MAX_KEYS, LEAST_KEY_BYTES)

    entries: dict[str, Entry] = {}
    for index in range(n_keys):
        key = cursor.identifier(f"key {index}", most=MAX_KEY_BYTES)
        if key in entries:
            cursor.fail("gguf_duplicate_key", key, "the key occurs twice", expected="one", found="two")
        entries[key] = read_entry(cursor, key)
    alignment = _alignment(cursor, entries.get("general.alignment"))

    directory = [_read_tensor(cursor, index, alignment) for index in range(n_tensors)]
    data_offset = -(-cursor.position // alignment) * alignment
    tensors: dict[str, TensorInfo] = {}
    for info in directory:
        if info.name in tensors:
            cursor.fail("gguf_duplicate_tensor", info.name, "the tensor occurs twice", expected="one", found="two")
        end = data_offset + info.offset + info.nbytes
        if end > cursor.end:
            cursor.fail(
                "gguf_tensor_past_end",
                info.name,
                "the tensor's data runs past the end of the file",
                expected=f"an end within {cursor.end} bytes",
                found=f"bytes {data_offset + info.offset}..{end}",
            )
        tensors[info.name] = TensorInfo(info.name, info.dims, info.type, data_offset + info.offset, info.nbytes, shard)
    return GgufFile(
        path=path,
        version=version,
        alignment=alignment,
        data_offset=data_offset,
        file_bytes=cursor.end,
        metadata=Metadata(buffer, path.name, entries),
        tensors=tuple(tensors.values()),
    )


def mapped(path: Path) -> Buffer:
    """The bytes of a regular file. Raises ModelFileError: code `file_missing`, `file_kind` or `file_io`."""
    name = shown(path.name)
    try:
        # O_NONBLOCK: opening a FIFO must not wait for a writer.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (OSError, ValueError) as e:
        missing = isinstance(e, OSError) and e.errno in (errno.ENOENT, errno.ENOTDIR)
        reason = (e.strerror or str(e)) if isinstance(e, OSError) else str(e)
        raise ModelFileError(
            f"the file cannot be opened: {reason}",
            code="file_missing" if missing else "file_io",
            subject=shown(str(path), 512),
        ) from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a device, pipe or socket"
            raise ModelFileError(
                "not a regular file",
                code="file_kind",
                subject=shown(str(path), 512),
                expected="a GGUF file",
                found=kind,
            )
        if status.st_size == 0:
            return b""
        return mmap.mmap(fd, 0, access=mmap.ACCESS_READ)
    except OSError as e:
        raise ModelFileError(f"the file cannot be mapped: {e.strerror or e}", code="file_io", subject=name) from None
    finally:
        os.close(fd)


def _read_header(cursor: Cursor) -> int:
    start = cursor.buffer[:24]
    if cursor.end >= 4:
        cursor.need(4, "magic")
    if start[:4] != b"GGUF":
        found = next((what for magic, what in _FOREIGN if start.startswith(magic)), None)
        if found is None:
            safetensors = len(start) >= 10 and start[8:9] == b"{" and start[4:8] == bytes(4)
            found = "a safetensors file" if safetensors else f"bytes {start[:4]!r}" if start else "an empty file"
        cursor.fail("gguf_magic", "magic", "not a GGUF file", expected="b'GGUF'", found=found)
    cursor.position = 4
    version = cursor.u32("version")
    if version not in VERSIONS:
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        if version != 0 and swapped <= 0xFFFF:
            cursor.fail(
                "gguf_big_endian",
                "version",
                "the file is big-endian; convert it for a little-endian machine",
                expected="a little-endian file",
                found=f"big-endian version {swapped}",
            )
        cursor.fail("gguf_version", "version", "unknown GGUF version", expected="2 or 3", found=version)
    return version


def _read_count(cursor: Cursor, subject: str, most: int, least_bytes: int) -> int:
    """A count of things that take at least `least_bytes` each."""
    count = cursor.u64(subject)
    if count > cursor.left // least_bytes:
        cursor.fail(
            "gguf_count",
            subject,
            "more than the file can hold",
            expected=f"at most {cursor.left // least_bytes} in {cursor.left} bytes",
            found=count,
        )
    if count > most:
        cursor.fail("gguf_count", subject, "more than this reader takes", expected=f"at most {most}", found=count)
    return count


def _alignment(cursor: Cursor, entry: Entry | None) -> int:
    if entry is None:
        return DEFAULT_ALIGNMENT
    key = "general.alignment"
    if entry.type is not ValueType.U32 or not isinstance(entry.value, int):
        cursor.fail("gguf_alignment", key, "wrong type", expected="u32", found=entry.type_name)
    value = entry.value
    if value < 8 or value > MAX_ALIGNMENT or value & (value - 1):
        cursor.fail(
            "gguf_alignment", key, "not a usable alignment", expected=f"a power of two, 8..{MAX_ALIGNMENT}", found=value
        )
    return value


def _read_tensor(cursor: Cursor, index: int, alignment: int) -> TensorInfo:
    """One directory entry; its offset is still relative to the data section."""
    name = cursor.identifier(f"tensor {index}", most=MAX_NAME_BYTES)
    n_dims = cursor.u32(name)
    if not 1 <= n_dims <= MAX_DIMS:
        cursor.fail("gguf_dims", name, "bad number of dimensions", expected=f"1..{MAX_DIMS}", found=n_dims)
    dims = tuple(cursor.u64(name) for _ in range(n_dims))
    count = 1
    for dim in dims:
        if dim == 0:
            cursor.fail("gguf_dims", name, "a dimension is zero", expected="at least 1", found=list(dims))
        count *= dim
        if count > MAX_BYTES:
            cursor.fail(
                "gguf_dims",
                name,
                "the element count overflows",
                expected="less than 2^63",
                found=" x ".join(map(str, dims)),
            )
    number = cursor.u32(name)
    kind = TENSOR_TYPES.get(number)
    if kind is None:
        removed = REMOVED_TYPES.get(number)
        cursor.fail(
            "gguf_tensor_type",
            name,
            "unknown tensor type" if removed is None else "a tensor type that GGUF has removed",
            expected="a type of TENSOR_TYPES" if removed is None else "a current type",
            found=f"type {number}" if removed is None else f"{removed} (type {number})",
        )
    if dims[0] % kind.block:
        cursor.fail(
            "gguf_blocks",
            name,
            f"rows are not whole {kind.name} blocks",
            expected=f"a multiple of {kind.block}",
            found=dims[0],
        )
    nbytes = count // kind.block * kind.nbytes
    if nbytes > MAX_BYTES:
        cursor.fail("gguf_dims", name, "the size in bytes overflows", expected="less than 2^63", found=nbytes)
    offset = cursor.u64(name)
    if offset % alignment:
        cursor.fail(
            "gguf_offset",
            name,
            "the data is not aligned",
            expected=f"a multiple of {alignment}",
            found=f"offset {offset}",
        )
    if offset > MAX_BYTES:
        cursor.fail("gguf_offset", name, "the offset overflows", expected="less than 2^63", found=offset)
    return TensorInfo(name, dims, number, offset, nbytes)
