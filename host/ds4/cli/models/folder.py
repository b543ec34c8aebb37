"""The model folder: which files belong to a model, the hash that was recorded for each, and taking a model away.

The hash lies beside the file as `NAME.gguf.sha256`, in the form that sha256sum writes and checks.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from ds4.cli.models.download import discard
from ds4.core import catalog
from ds4.core.catalog import Entry
from ds4.core.kinds import did_you_mean
from ds4.errors import DownloadError, SettingsError

_SHARD = re.compile(r"-00001-of-(\d{5})\.gguf$")
TERMS = ".terms.txt"  # of a model that has some


def files_of(path: Path) -> list[Path]:
    """The file, or all shards of the set that it is the first of."""
    shard = _SHARD.search(path.name)
    if shard is None:
        return [path]
    stem, count = path.name[: shard.start()], shard[1]
    return [path.with_name(f"{stem}-{number:05d}-of-{count}.gguf") for number in range(1, int(count) + 1)]


def record(file: Path) -> Path:
    return file.with_name(file.name + ".sha256")


def write_record(file: Path, sha256: str) -> None:
    record(file).write_text(f"{sha256}  {file.name}\n", encoding="utf-8")


def recorded(file: Path) -> str | None:
    """The hash recorded for a file. Raises DownloadError for a record that is none."""
    try:
        text = record(file).read_bytes()[:8192].decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    found = re.match(r"([0-9a-fA-F]{64}) [ *]", text)
    if found is None:
        raise DownloadError("is no record of a hash", subject=str(record(file)), expected="SHA256  NAME",
                            found=repr(text[:40]))  # fmt: skip
    return found[1].lower()


def sha256_of(file: Path, report: Callable[[int, int | None], None]) -> str:
    digest, done = hashlib.sha256(), 0
    with file.open("rb") as stream:
        total = os.fstat(stream.fileno()).st_size
        while block := stream.read(1 << 20):
            digest.update(block)
            done += len(block)
            report(done, total)
    return digest.hexdigest()


def entry(name: str, folder: Path) -> Entry:
    """The model of that name in the folder. Raises SettingsError."""
    inside = catalog.in_folder(folder) if folder.is_dir() else []
    for one in inside:
        if one.name.lower() == name.lower():
            return one
    if any(name == embedded.name for embedded in catalog.EMBEDDED):
        raise SettingsError(f"belongs to this build; only models in {folder} can be removed", subject=name)
    raise SettingsError(f"no such model in {folder}" + did_you_mean(name, [one.name for one in inside]), subject=name)


def remove(one: Entry, folder: Path) -> list[Path]:
    """Deletes a model's files, what was recorded of them, and folders that are empty then. Returns those files."""
    files = [file for file in files_of(one.path) if file.exists() or file.is_symlink()]
    root = folder.resolve()
    for file in files:
        if root not in file.parent.resolve().parents and file.parent.resolve() != root:
            raise SettingsError("lies outside the model folder", subject=str(file), expected=str(root),
                                found=str(file.parent.resolve()))  # fmt: skip
    for file in files:
        file.unlink()
        record(file).unlink(missing_ok=True)
        discard(file.with_name(file.name + ".part"))
        file.with_name(file.name.removesuffix(".gguf") + TERMS).unlink(missing_ok=True)
    parent = one.path.parent
    while parent.resolve() != root and not any(parent.iterdir()):
        parent.rmdir()
        parent = parent.parent
    return files
