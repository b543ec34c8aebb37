"""The C oracles in this process: finds liboracles, and runs an oracle on a tape.

They are there for the parity system, and for a host that the ledger (`ds4.core.components`) tells to let an oracle
decide. They are not hardened for production and no release depends on them: a wheel does not carry them.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cffi  # type: ignore[import-untyped]

from ds4.errors import Ds4Error
from ds4.sys.tape import TapeError

LIBRARY = "liboracles.dylib" if sys.platform == "darwin" else "liboracles.so"
_HERE = Path(__file__).parent
_DOORS = """
typedef struct ds4_oracle ds4_oracle;
const char *ds4_oracle_names(void);
int ds4_oracle_open(const char *name, const uint8_t *setup, size_t length, ds4_oracle **oracle);
int ds4_oracle_run(const ds4_oracle *oracle, const uint8_t *input, size_t length, char **out, size_t *out_length);
void ds4_oracle_free(char *out);
void ds4_oracle_close(ds4_oracle *oracle);
"""
_BAD_TAPE, _NO_MEMORY, _UNKNOWN = 1, 2, 3


class OracleError(Ds4Error):
    """There is no such oracle, no library that holds it, or no memory for its answer."""

    code = "oracle"


def candidates() -> Iterator[Path]:
    """Where the library is looked for, in order. DS4_ORACLES, when set, is the only place."""
    if forced := os.environ.get("DS4_ORACLES"):
        yield Path(forced)
        return
    for here in (_HERE.absolute(), _HERE.resolve()):
        for root in list(here.parents)[1:3]:
            yield root / "oracles" / LIBRARY
            yield root / "bazel-bin" / "oracles" / LIBRARY


@functools.cache
def _load() -> tuple[Any, Any]:
    ffi = cffi.FFI()
    ffi.cdef(_DOORS)
    for path in candidates():
        if path.is_file():
            try:
                return ffi, ffi.dlopen(str(path.absolute()))
            except OSError as error:
                raise OracleError(f"the oracles cannot be loaded: {error}", subject=str(path)) from None
    raise OracleError(
        "no oracles are at hand: build //oracles:liboracles.so, or set DS4_ORACLES to its path", subject=LIBRARY
    )


def names() -> list[str]:
    """The oracles that the library holds."""
    ffi, lib = _load()
    text: bytes = ffi.string(lib.ds4_oracle_names())
    return text.decode("ascii").split()


class Oracle:
    """One oracle, with its setup. Pure, so it may be used from several threads; native calls release the GIL."""

    def __init__(self, name: str, setup: bytes = b"") -> None:
        """OracleError for a name that there is none of; TapeError for a setup that is not one of this oracle."""
        ffi, lib = _load()
        handle = ffi.new("ds4_oracle **")
        _check(lib.ds4_oracle_open(name.encode("ascii"), ffi.from_buffer(setup), len(setup), handle), name, "setup")
        self.name = name
        self._ffi, self._lib = ffi, lib
        self._handle = ffi.gc(handle[0], lib.ds4_oracle_close)
        self._local = threading.local()

    def run(self, tape: bytes | bytearray | memoryview) -> bytes:
        """The output tape for an input tape. TapeError when the input is no tape of this oracle."""
        try:
            out, length = self._local.out
        except AttributeError:
            out, length = self._local.out = self._ffi.new("char **"), self._ffi.new("size_t *")
        code = self._lib.ds4_oracle_run(self._handle, self._ffi.from_buffer(tape), len(tape), out, length)
        _check(code, self.name, "input")
        try:
            return bytes(self._ffi.buffer(out[0], length[0])) if length[0] else b""
        finally:
            self._lib.ds4_oracle_free(out[0])


def _check(code: int, name: str, what: str) -> None:
    if code == _BAD_TAPE:
        raise TapeError(f"oracle {name}: the {what} is no tape of this component")
    if code == _UNKNOWN:
        raise OracleError("no such oracle", subject=name, expected=" ".join(names()), found=name)
    if code == _NO_MEMORY:
        raise OracleError("out of memory", subject=name)
    if code:
        raise OracleError(f"failed with {code}", subject=name)


@functools.cache
def oracle(name: str) -> Oracle:
    """The process's oracle of this name, for those that need no setup."""
    return Oracle(name)
