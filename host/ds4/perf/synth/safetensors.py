"""Reads the tensors of a checkpoint folder: one `model.safetensors`, or the shards that an index names.

    0   8  u64 length n of the header, little-endian
    8   n  JSON: {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [from, to]}, ..., "__metadata__": {...}}
    8+n    the data section; offsets count from its start; row-major, little-endian

Files are mapped, never read whole. Whatever their bytes are, the outcome is a Checkpoint or a ModelFileError: the
header's length is bounded before it is read, every offset is checked against dtype, shape and file before it is used.

Source: the format's description in the safetensors repository (README, "Format").
"""

from __future__ import annotations

import json
import math
import mmap
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from ds4.core.cursor import Buffer, shown
from ds4.core.gguf import mapped
from ds4.errors import ModelFileError
from ds4.perf.synth.arrays import Floats

MAX_HEADER_BYTES = 100_000_000  # the format's own limit
MAX_DIMS = 8
MAX_JSON_BYTES = 64 << 20  # an index or a config

# bytes of one element
DTYPES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E8M0": 1,
    "I16": 2,
    "U16": 2,
    "F16": 2,
    "BF16": 2,
    "I32": 4,
    "U32": 4,
    "F32": 4,
    "F64": 8,
    "I64": 8,
    "U64": 8,
}
_NUMPY = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8", "U8": "<u1", "I8": "<i1"}
_SHARD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\.safetensors", re.ASCII)


@dataclass(frozen=True, slots=True)
class Stored:
    """One tensor. shape: row-major order. start: of its bytes in `buffer`."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    buffer: Buffer
    start: int

    @property
    def count(self) -> int:
        return math.prod(self.shape)

    def floats(self, start: int, stop: int) -> Floats:
        """Elements start..stop as float32. ModelFileError, code `checkpoint_dtype`, for a dtype that is no float."""
        if self.dtype == "BF16":
            bits = self._array("<u2", start, stop).astype(np.uint32) << 16
            return bits.view(np.float32)
        if self.dtype not in ("F16", "F32", "F64"):
            _fail("checkpoint_dtype", self.name, "not a tensor of numbers", "F32, F16, BF16 or F64", self.dtype)
        out: Floats = self._array(_NUMPY[self.dtype], start, stop).astype(np.float32)
        return out

    def integers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Elements start..stop. ModelFileError, code `checkpoint_dtype`, for a dtype that is no integer."""
        if self.dtype not in ("I32", "I64"):
            _fail("checkpoint_dtype", self.name, "not a tensor of integers", "I32 or I64", self.dtype)
        out: npt.NDArray[np.int64] = self._array(_NUMPY[self.dtype], start, stop).astype(np.int64)
        return out

    def _array(self, code: str, start: int, stop: int) -> npt.NDArray[Any]:
        if not 0 <= start <= stop <= self.count:
            raise IndexError(f"{start}..{stop} of {self.count}")
        return np.frombuffer(self.buffer, code, stop - start, self.start + start * DTYPES[self.dtype])


@dataclass(frozen=True, slots=True)
class Checkpoint(Mapping[str, Stored]):
    """The tensors of a folder, by name."""

    folder: Path
    tensors: dict[str, Stored]

    def __getitem__(self, name: str) -> Stored:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


def open_checkpoint(folder: Path) -> Checkpoint:
    """Raises ModelFileError: `checkpoint_missing`, `checkpoint_json`, `checkpoint_header`, `checkpoint_tensor`,
    `checkpoint_duplicate`, `checkpoint_dtype`, or `file_io`."""
    index = folder / "model.safetensors.index.json"
    single = folder / "model.safetensors"
    if index.is_file():
        listed = read_json(index)
        weight_map = listed.get("weight_map")
        if not isinstance(weight_map, dict) or not all(isinstance(value, str) for value in weight_map.values()):
            found = type(weight_map).__name__
            _fail("checkpoint_json", index.name, "no weight map", "weight_map: names to files", found)
        names = sorted(set(weight_map.values()))
        for name in names:
            if _SHARD.fullmatch(name) is None:
                _fail("checkpoint_json", index.name, "not a file beside the index", "NAME.safetensors", shown(name))
    elif single.is_file():
        names = [single.name]
    else:
        _fail("checkpoint_missing", str(folder), "no checkpoint", "model.safetensors or its index", "neither")
    tensors: dict[str, Stored] = {}
    for name in names:
        for stored in read_file(folder / name):
            if stored.name in tensors:
                _fail("checkpoint_duplicate", stored.name, "the tensor is in two files", "one", "two")
            tensors[stored.name] = stored
    return Checkpoint(folder, tensors)


def read_file(path: Path) -> list[Stored]:
    """The tensors of one file."""
    buffer = mapped(path)
    if isinstance(buffer, mmap.mmap):
        buffer.madvise(mmap.MADV_SEQUENTIAL)
    return parse(buffer, path.name)


def parse(buffer: Buffer, source: str) -> list[Stored]:
    """The same over bytes. source: the file's name, for errors."""
    size = len(buffer)
    if size < 8:
        _fail("checkpoint_header", source, "too short to be a safetensors file", "8 bytes or more", size)
    length = int.from_bytes(buffer[:8], "little")
    if length > min(size - 8, MAX_HEADER_BYTES):
        most = min(size - 8, MAX_HEADER_BYTES)
        _fail("checkpoint_header", source, "the header is longer than the file", f"at most {most} bytes", length)
    try:
        # The last of two equal names would win unseen.
        table = json.loads(bytes(buffer[8 : 8 + length]), object_pairs_hook=_distinct)
    except (ValueError, RecursionError) as error:
        _fail("checkpoint_header", source, "the header is no JSON", "an object", shown(str(error)))
    if not isinstance(table, dict):
        _fail("checkpoint_header", source, "the header is no JSON object", "an object", type(table).__name__)
    table.pop("__metadata__", None)
    return [_tensor(name, about, buffer, 8 + length) for name, about in table.items()]


def _distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name stands there twice")
    return table


def _tensor(name: str, about: object, buffer: Buffer, data: int) -> Stored:
    def wrong(message: str, expected: object, found: object) -> NoReturn:
        _fail("checkpoint_tensor", name, message, expected, found)

    if not isinstance(about, dict):
        wrong("not an entry of a tensor", "an object", type(about).__name__)
    dtype, shape, offsets = about.get("dtype"), about.get("shape"), about.get("data_offsets")
    if not isinstance(dtype, str) or dtype not in DTYPES:
        wrong("unknown dtype", " or ".join(DTYPES), shown(str(dtype)))
    sizes, ends = _whole_numbers(shape), _whole_numbers(offsets)
    if sizes is None or len(sizes) > MAX_DIMS:
        wrong("bad shape", f"at most {MAX_DIMS} sizes", shown(str(shape)))
    if ends is None or len(ends) != 2:
        wrong("bad offsets", "two", shown(str(offsets)))
    start, end = ends
    nbytes = math.prod(sizes) * DTYPES[dtype]
    if end - start != nbytes:
        wrong("the size does not follow from dtype and shape", f"{nbytes} bytes", end - start)
    if not start <= end <= len(buffer) - data:
        wrong("outside the file", f"within {len(buffer) - data} bytes of data", f"{start}..{end}")
    return Stored(name, dtype, tuple(sizes), buffer, data + start)


def _whole_numbers(value: object) -> list[int] | None:
    if not isinstance(value, list) or not all(type(item) is int and 0 <= item < 1 << 62 for item in value):
        return None
    return value


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file of a checkpoint. Raises ModelFileError, code `checkpoint_missing` or
    `checkpoint_json`."""
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_JSON_BYTES + 1)
    except OSError as error:
        _fail("checkpoint_missing", path.name, f"the file cannot be read: {error.strerror or error}", "a file", "none")
    if len(raw) > MAX_JSON_BYTES:
        _fail("checkpoint_json", path.name, "too long", f"at most {MAX_JSON_BYTES} bytes", "more")
    try:
        value = json.loads(raw)
    except (ValueError, RecursionError) as error:
        _fail("checkpoint_json", path.name, "no JSON", "an object", shown(str(error)))
    if not isinstance(value, dict):
        _fail("checkpoint_json", path.name, "no JSON object", "an object", type(value).__name__)
    return value


def _fail(code: str, subject: str, message: str, expected: object, found: object) -> NoReturn:
    raise ModelFileError(message, code=code, subject=shown(subject, 512), expected=expected, found=found)
