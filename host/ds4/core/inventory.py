"""All tensors of a model, from one file or from a set of shards named `NAME-0000N-of-0000M.gguf`.

A set's first shard carries the metadata. Each shard repeats three keys, which must agree with the names and with what
the shards hold: `split.no` (from 0), `split.count` and `split.tensors.count` (of the whole set).

Source: the naming rule and the split keys of llama.cpp's gguf-split, as published.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ds4.core import components
from ds4.core.cursor import shown
from ds4.core.gguf import GgufFile, TensorInfo, read
from ds4.core.metadata import Metadata
from ds4.errors import ModelFileError

_SHARD_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.ASCII | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Alias:
    """Tensors of one shard whose bytes overlap, each at least with its neighbour. Legal: writers share tied weights.

    names: by rising offset. offset, nbytes: the stretch of the file that they cover together.
    """

    shard: int
    names: tuple[str, ...]
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Inventory:
    """shards: in order. metadata: the first shard's. tensors: by name, in file order."""

    shards: tuple[GgufFile, ...]
    metadata: Metadata
    tensors: dict[str, TensorInfo]
    aliased: list[Alias]

    @property
    def path(self) -> Path:
        """What to point at to open the model again: the first shard."""
        return self.shards[0].path

    @property
    def file_bytes(self) -> int:
        return sum(shard.file_bytes for shard in self.shards)


@dataclass(frozen=True, slots=True)
class ShardName:
    """The parts of a shard's file name; number counts from 1."""

    stem: str
    number: int
    count: int

    def sibling(self, number: int) -> str:
        return f"{self.stem}-{number:05d}-of-{self.count:05d}.gguf"


def shard_name(file_name: str) -> ShardName | None:
    """The parts of `NAME-00001-of-00003.gguf`; None for any other name, or one with N outside 1..M."""
    match = _SHARD_NAME.fullmatch(file_name)
    if match is None:
        return None
    number, count = int(match["number"]), int(match["count"])
    return ShardName(match["stem"], number, count) if 1 <= number <= count else None


def load(path: str | os.PathLike[str]) -> Inventory:
    """The inventory of the model whose only file, or first shard, is `path`.

    Raises ModelFileError: those of `gguf.read`, and with code `split_name`, `split_first`, `split_missing`,
    `split_number`, `split_count`, `split_tensors` or `split_duplicate` for a set that does not fit together.
    """
    return _loader()(Path(path))


@functools.cache
def _loader() -> Callable[[Path], Inventory]:
    return components.pick("gguf", python=assemble_path, oracle=_by_oracle)


def assemble_path(path: Path) -> Inventory:
    """`load` as Python decides it."""
    return assemble(_Disk(path.parent), path.name)


def _by_oracle(path: Path) -> Inventory:
    from ds4.core.tapes import gguf  # late: it imports this module

    return gguf.by_oracle(path)


class Folder(Protocol):
    """Where a model's files lie."""

    def has(self, name: str) -> bool: ...

    def read(self, name: str, shard: int) -> GgufFile: ...


@dataclass(frozen=True, slots=True)
class _Disk:
    folder: Path

    def has(self, name: str) -> bool:
        return (self.folder / name).exists()

    def read(self, name: str, shard: int) -> GgufFile:
        return read(self.folder / name, shard=shard)


def assemble(folder: Folder, file_name: str) -> Inventory:
    """`load` for a file of any folder."""
    name = shard_name(file_name)
    if name is not None and name.number != 1:
        raise ModelFileError(
            "a model is opened by its first shard",
            code="split_first",
            subject=shown(file_name),
            expected=shown(name.sibling(1)),
            found=f"shard {name.number} of {name.count}",
        )
    first = folder.read(file_name, 0)
    count = first.metadata.u32("split.count", 1)
    if name is None:
        if count > 1:
            raise ModelFileError(
                "a shard whose name does not tell where the others are",
                code="split_name",
                subject=shown(file_name),
                expected=f"NAME-00001-of-{count:05d}.gguf",
                found=shown(file_name),
            )
        return merge((first,))
    if name.count == 1 and "split.count" not in first.metadata:
        return merge((first,))
    _check_split(first, 0, name.count)
    siblings = [name.sibling(number) for number in range(2, name.count + 1)]
    _require(folder, siblings)
    shards = [first]
    for index, sibling in enumerate(siblings, start=1):
        shard = folder.read(sibling, index)
        _check_split(shard, index, name.count)
        shards.append(shard)
    return merge(tuple(shards))


def _require(folder: Folder, siblings: list[str]) -> None:
    missing = [sibling for sibling in siblings if not folder.has(sibling)]
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelFileError(
            "a shard is missing",
            code="split_missing",
            subject=shown(missing[0]),
            expected=f"{len(siblings) + 1} shards beside each other",
            found=f"no {shown(missing[0])}{others}",
        )


def _check_split(shard: GgufFile, index: int, count: int) -> None:
    """The shard's own keys against its place in the set."""
    name = shown(shard.path.name)
    for key, code, expected in (("split.count", "split_count", count), ("split.no", "split_number", index)):
        found = shard.metadata.u32(key)
        if found != expected:
            raise ModelFileError(
                f"the shard's metadata and its name disagree, in {name}",
                code=code,
                subject=key,
                expected=expected,
                found=found,
            )


def merge(shards: tuple[GgufFile, ...]) -> Inventory:
    """The inventory of files that are already read, in shard order. Raises ModelFileError with code `split_duplicate`
    or `split_tensors`."""
    tensors: dict[str, TensorInfo] = {}
    for shard in shards:
        for info in shard.tensors:
            before = tensors.get(info.name)
            if before is not None:
                raise ModelFileError(
                    "the tensor is in two shards",
                    code="split_duplicate",
                    subject=shown(info.name),
                    expected="one shard",
                    found=f"{shown(shards[before.shard].path.name)} and {shown(shard.path.name)}",
                )
            tensors[info.name] = info
    for shard in shards:
        expected = shard.metadata.u32("split.tensors.count", len(tensors))
        if expected != len(tensors):
            raise ModelFileError(
                f"the shards hold another number of tensors than {shown(shard.path.name)} says",
                code="split_tensors",
                subject="split.tensors.count",
                expected=expected,
                found=len(tensors),
            )
    return Inventory(shards, shards[0].metadata, tensors, aliases(tensors.values()))


def aliases(tensors: Iterable[TensorInfo]) -> list[Alias]:
    """Groups of tensors whose byte ranges overlap, by one sweep over the offsets of each shard."""
    found: list[Alias] = []
    group: list[TensorInfo] = []
    end = 0

    def close() -> None:
        if len(group) > 1:
            start = group[0].offset
            found.append(Alias(group[0].shard, tuple(info.name for info in group), start, end - start))

    for info in sorted(tensors, key=lambda t: (t.shard, t.offset, -t.nbytes)):
        if group and info.shard == group[0].shard and info.offset < end:
            group.append(info)
            end = max(end, info.offset + info.nbytes)
        else:
            close()
            group = [info]
            end = info.offset + info.nbytes
    close()
    return found
