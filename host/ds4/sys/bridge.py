"""The one place that loads libds4: finds it, opens it through cffi and checks that both sides mean the same structs.

`load()` returns the process's `Bridge`; it opens the library on the first call and is cheap afterwards. A library
that is missing, or that was built from another header than the declarations here, is an `EngineError` that says so;
nothing is called through it before that check.
"""

from __future__ import annotations

import functools
import importlib
import os
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds4.errors import EngineError
from ds4.sys.descriptors import ABI_VERSION, Status

LIBRARY = "libds4.dylib" if sys.platform == "darwin" else "libds4.so"
_HEADER = Path("native/bridge/ds4_bridge.h")
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Bridge:
    """ffi and lib of cffi (untyped by nature), and the path that the library was opened from."""

    ffi: Any
    lib: Any
    path: Path

    def text(self, pointer: Any) -> str:
        """A C string of the library's as str."""
        raw: bytes = self.ffi.string(pointer)
        return raw.decode("utf-8", "replace")


def _roots() -> Iterator[Path]:
    """Folders that may hold native/: the source tree or runfiles root above this package, as written and as
    resolved.
    """
    seen: set[Path] = set()
    for here in (_HERE.absolute(), _HERE.resolve()):
        for root in list(here.parents)[1:3]:
            if root not in seen:
                seen.add(root)
                yield root


def candidates() -> list[Path]:
    """Where the library is looked for, in order. DS4_LIBRARY, when set, is the only place."""
    forced = os.environ.get("DS4_LIBRARY")
    if forced:
        return [Path(forced)]
    paths = [_HERE / "lib" / LIBRARY]
    for root in _roots():
        paths.append(root / "native" / LIBRARY)
        paths.append(root / "bazel-bin" / "native" / LIBRARY)
    return paths


def _declarations() -> Any:
    """The `ffi` of the generated module; in a source tree that has none, of one made now from the header."""
    try:
        return importlib.import_module("ds4.sys._bridge").ffi
    except ModuleNotFoundError as error:
        if error.name != "ds4.sys._bridge":
            raise
    for root in _roots():
        header = root / _HEADER
        if header.is_file():
            from ds4.sys.generate import generate

            module = types.ModuleType("ds4.sys._bridge")
            exec(compile(generate(header.read_text(encoding="utf-8")), str(header), "exec"), module.__dict__)
            return module.__dict__["ffi"]
    raise EngineError(
        "the cffi declarations ds4.sys._bridge are missing and no ds4_bridge.h lies near to make them from",
        status=Status.UNSUPPORTED,
        code="engine_missing",
    )


def _missing(path: Path | None, reason: str) -> EngineError:
    tried = "\n".join(f"  {place}" for place in candidates())
    subject = LIBRARY if path is None else str(path)
    message = f"cannot load the native engine {subject}: {reason}. Looked at:\n{tried}\nSet DS4_LIBRARY to its path."
    return EngineError(message, status=Status.IO, code="engine_missing")


def check_layout(ffi: Any, table: str) -> None:
    """Compares ds4_abi_layout()'s table with the declarations: every struct's size, and each field's name and offset.

    Raises EngineError naming the first difference. A struct that only one side knows is a difference too.
    """
    native: dict[str, tuple[int, dict[str, int]]] = {}
    for line in filter(None, table.split("\n")):
        name, size, *fields = line.split(" ")
        offsets = {field: int(offset) for field, _, offset in (entry.partition(":") for entry in fields)}
        native[name] = (int(size), offsets)
    declared: dict[str, tuple[int, dict[str, int]]] = {}
    for name in ffi.list_types()[0]:
        kind = ffi.typeof(name)
        if kind.kind != "struct":
            continue
        try:
            size = ffi.sizeof(kind)  # first: an out-of-line module lays a struct out when its size is asked for
        except (TypeError, ValueError, ffi.error):
            continue  # opaque
        declared[name] = (size, {field: entry.offset for field, entry in kind.fields})
    for name in sorted(declared.keys() | native.keys()):
        if declared.get(name) != native.get(name):
            raise EngineError(
                f"the native library was built from another header: {name} is (size, offsets) {native.get(name)} "
                f"there and {declared.get(name)} here",
                status=Status.MISMATCH,
                code="engine_abi",
            )


def open_library(path: Path) -> Bridge:
    """Opens one library file and checks its ABI. Raises EngineError (engine_missing, engine_abi)."""
    ffi = _declarations()
    try:
        lib = ffi.dlopen(str(path))
    except OSError as error:
        raise _missing(path, str(error)) from None
    try:
        version = int(lib.ds4_abi_version())
        layout = ffi.string(lib.ds4_abi_layout()).decode("ascii")
    except (AttributeError, ffi.error) as error:
        raise EngineError(f"{path} is not a ds4 engine: {error}", status=Status.MISMATCH, code="engine_abi") from None
    if version != ABI_VERSION:
        raise EngineError(
            f"{path} speaks ABI version {version}, this host speaks {ABI_VERSION}",
            status=Status.MISMATCH,
            code="engine_abi",
        )
    check_layout(ffi, layout)
    return Bridge(ffi, lib, path)


@functools.cache
def load() -> Bridge:
    """The process's bridge. Raises EngineError when there is no usable library; a later call looks again."""
    for path in candidates():
        if path.is_file():
            return open_library(path.absolute())
    raise _missing(None, "no such file")
