"""Which models there are: those embedded in the build and those in a folder; and what `-m` means.

An embedded model is looked for in this order: the file that DS4_EMBEDDED_MODEL names, the package's own data
(`ds4/models/*.gguf`, as in a wheel), the source tree (`models/<name>/`), Bazel's runfiles (`external/<repository>/`).
"""

from __future__ import annotations

import difflib
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ds4.core.kinds import expanded
from ds4.core.settings import caller_directory
from ds4.errors import SettingsError

DEFAULT_MODEL = "smollm2-135m-instruct"
_SHARD = re.compile(r"-(\d{5})-of-(\d{5})$")
_NAMED = 12  # how many models a message lists
_DEPTH = 3  # how deep --model-dir is searched: publisher/repository/file.gguf


@dataclass(frozen=True)
class Embedded:
    """A model that the build brings along. variable: the environment variable that names its file instead. sha256: of
    the file, where the repository holds it; what is fetched for the build was checked then."""

    name: str
    file: str  # its file name, wherever it lies
    repository: str  # the Bazel repository that holds it; "": this one, in models/<name>
    variable: str
    sha256: str | None = None


EMBEDDED = (
    Embedded(DEFAULT_MODEL, "SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2", "DS4_EMBEDDED_MODEL"),
    Embedded(
        "ds4-mini",
        "ds4-mini.gguf",
        "",
        "DS4_MINI_MODEL",
        "21b370816dcbbf1b7ced4b5b409ef78534a00118d0661722a346dd58324f95e4",
    ),
)


@dataclass(frozen=True)
class Entry:
    """A model that can be asked for by name. path: the file, or the first of its shards."""

    name: str
    path: Path
    origin: str  # "embedded" or the folder
    shards: int = 1


def embedded_path(name: str = DEFAULT_MODEL) -> Path:
    """Where an embedded model's file lies. Raises SettingsError that says where it was looked for."""
    model = next((m for m in EMBEDDED if m.name == name), None)
    if model is None:
        known = ", ".join(m.name for m in EMBEDDED)
        raise SettingsError("no such embedded model", subject=name, expected=known, found=name)
    if os.environ.get(model.variable):
        path = caller_directory() / _expanded(os.environ[model.variable], model.variable)
        if not path.is_file():
            raise SettingsError("names no file", subject=model.variable, expected="a GGUF file", found=str(path))
        return path
    looked: list[Path] = []
    for folder in _folders(model):
        looked.append(folder)
        if (folder / model.file).is_file():
            return folder / model.file
        # A wheel that is unpacked as a repository keeps the file in its package's folder.
        nested = next(iter(sorted(folder.glob(f"*/{model.file}"))), None)
        if nested is not None:
            return nested
    raise SettingsError(
        f"this build does not embed {model.file}; set {model.variable} to the file, or pass -m FILE "
        f"(looked in {', '.join(map(str, looked))})",
        subject=name,
    )


def default_folder() -> Path:
    """Where models lie if nobody says: $XDG_DATA_HOME/ds4/models."""
    home = os.environ.get("XDG_DATA_HOME") or _expanded("~/.local/share", "HOME")
    return Path(home) / "ds4" / "models"


def _fetched() -> Path | None:
    """The default folder, if there is one; a service may have no home."""
    try:
        folder = default_folder()
    except SettingsError:
        return None
    return folder if folder.is_dir() else None


def entries(model_dir: Path | None = None) -> list[Entry]:
    """The embedded models that this build has, then those under model_dir (None: the default folder, if there is
    one), by name."""
    model_dir = _fetched() if model_dir is None else model_dir
    found: list[Entry] = []
    for model in EMBEDDED:
        try:
            found.append(Entry(model.name, embedded_path(model.name), "embedded"))
        except SettingsError:
            if os.environ.get(model.variable):
                raise
    return found + (in_folder(model_dir) if model_dir is not None else [])


def resolve(spec: str, model_dir: Path | None = None) -> Path:
    """The file that `-m spec` means: an embedded model's name, an existing path (relative ones from the caller's
    directory), or the name of a model under model_dir. Raises SettingsError, for a model_dir that there is not too:
    what was meant with it would otherwise come to light much later."""
    if model_dir is not None and not model_dir.is_dir():
        raise _no_folder(model_dir)
    if any(spec == model.name for model in EMBEDDED):
        try:
            return embedded_path(spec)
        except SettingsError:
            fetched = next((entry for entry in entries(model_dir) if entry.name == spec), None)
            if fetched is None:
                raise
            return fetched.path
    path = caller_directory() / _expanded(spec, spec)
    if path.is_file():
        return path
    if path.is_dir() and (inside := sorted(in_folder(path), key=lambda e: e.name)):
        if len(inside) == 1:
            return inside[0].path
        raise SettingsError(f"the folder holds several models; name one of {_names(inside)}", subject=spec)
    listed = entries(model_dir)
    for entry in listed:
        if entry.name.lower() == spec.lower():
            return entry.path
    if path.is_dir():
        raise SettingsError("the folder holds no model (*.gguf)", subject=spec)
    if path.exists():
        raise SettingsError("neither a model's name nor a regular file", subject=spec)
    if os.sep in spec or spec.endswith(".gguf"):
        raise SettingsError("no such file", subject=str(path))
    close = difflib.get_close_matches(spec.lower(), [e.name.lower() for e in listed] or [DEFAULT_MODEL], n=1)
    hint = f"; did you mean {close[0]}?" if close else ""
    raise SettingsError(f"no such model or file{hint} (known: {_names(listed) or 'none'})", subject=spec)


def _expanded(path: str, subject: str) -> Path:
    try:
        return expanded(path)
    except ValueError as error:
        raise SettingsError("cannot use this value", subject=subject, expected=error, found=path) from None


def _names(listed: list[Entry]) -> str:
    """For a message: the first ones, each once, and how many more there are."""
    names = list(dict.fromkeys(entry.name for entry in listed))
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _folders(model: Embedded) -> Iterator[Path]:
    package = Path(os.path.abspath(__file__)).parents[1]
    yield package / "models"
    if not model.repository:
        yield package.parents[1] / "models" / model.name  # of the source tree; in runfiles it lies the same
        return
    for root in _runfiles_roots():
        yield root / model.repository
        yield from sorted(root.glob(f"*/external/{model.repository}"))


def _runfiles_roots() -> Iterator[Path]:
    """Bazel's runfiles folder: named by RUNFILES_DIR, beside the program, or above this file (whose path must not be
    resolved: runfiles are links)."""
    seen: set[Path] = set()
    named = [os.environ.get("RUNFILES_DIR"), os.environ.get("TEST_SRCDIR"), f"{os.path.abspath(sys.argv[0])}.runfiles"]
    above = [str(p) for p in Path(os.path.abspath(__file__)).parents if p.name.endswith(".runfiles")]
    for name in (*named, *above):
        if name and (root := Path(name)) not in seen and root.is_dir():
            seen.add(root)
            yield root


def in_folder(folder: Path) -> list[Entry]:
    """The models in a folder and those below it. Raises SettingsError if there is none of that name."""
    return list(_walk(folder))


def _no_folder(folder: Path) -> SettingsError:
    return SettingsError("no such folder", subject=str(folder))


def _walk(folder: Path) -> Iterator[Entry]:
    if not folder.is_dir():
        raise _no_folder(folder)
    for root, folders, files in os.walk(folder):
        depth = len(Path(root).relative_to(folder).parts)
        folders[:] = sorted(f for f in folders if not f.startswith(".")) if depth < _DEPTH - 1 else []
        for file in sorted(files):
            if not file.endswith(".gguf"):
                continue
            stem = file.removesuffix(".gguf")
            shard = _SHARD.search(stem)
            if shard and int(shard[1]) != 1:
                continue  # listed with its first shard
            yield Entry(_SHARD.sub("", readable(stem)), Path(root) / file, str(folder), int(shard[2]) if shard else 1)


def readable(name: str) -> str:
    """A file's name as it can be said in an answer: bytes that are no UTF-8 are replaced."""
    return os.fsencode(name).decode("utf-8", "replace")
