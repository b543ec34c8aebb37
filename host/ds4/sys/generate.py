"""Writes the cffi declarations of the bridge: `python -m ds4.sys.generate HEADER OUT`.

The build runs this once over native/bridge/ds4_bridge.h; the result, `ds4/sys/_bridge.py`, is an out-of-line ABI
module: it holds the parsed declarations, so that loading the host neither parses C nor needs pycparser. A source tree
without the generated file gets the same module built in memory by `ds4.sys.bridge`.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import tempfile
from pathlib import Path

import cffi  # type: ignore[import-untyped]

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_CONSTANT = re.compile(r"^\s*#\s*define\s+(DS4_\w+)\s+(-?(?:0x)?[0-9A-Fa-f]+)\s*$")
_EXTERN_C = re.compile(r"^\s*#\s*ifdef\s+__cplusplus\b.*?^\s*#\s*endif[^\n]*$", re.DOTALL | re.MULTILINE)


def declarations(header: str) -> str:
    """The header's text as `FFI.cdef` takes it: no comments, no preprocessor but for integer constants, no
    DS4_API.
    """
    text = _EXTERN_C.sub("", _COMMENT.sub("", header))
    kept: list[str] = []
    for line in text.splitlines():
        constant = _CONSTANT.match(line)
        if constant is not None:
            kept.append(f"#define {constant[1]} {constant[2]}")
        elif not line.lstrip().startswith("#"):
            kept.append(re.sub(r"\bDS4_API\s+", "", line))
    return "\n".join(kept) + "\n"


def generate(header: str) -> str:
    """Source of the out-of-line ABI module for the header's text."""
    ffi = cffi.FFI()
    ffi.cdef(declarations(header))
    ffi.set_source("ds4.sys._bridge", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "_bridge.py"
        with contextlib.redirect_stdout(io.StringIO()):  # cffi announces each file that it writes
            ffi.emit_python_code(str(path))
        return path.read_text(encoding="utf-8")


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print("usage: python -m ds4.sys.generate HEADER OUT", file=sys.stderr)
        return 2
    header, out = arguments
    Path(out).write_text(generate(Path(header).read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
