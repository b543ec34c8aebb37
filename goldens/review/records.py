"""Binary records as lines of fields, told by the component that owns the format.

Its replacement answers, or else its oracle; where there is neither, a record is shown as bytes.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ds4.errors import Ds4Error
from ds4.sys import tape

Run = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Format:
    """A format by its first bytes, and the question that makes a component decode it."""

    magic: bytes
    name: str
    component: str
    question: Callable[[bytes], bytes]


FORMATS = (
    Format(b"KVC", "a KVC record", "kvc", lambda data: b"decode\n" + data),
    Format(b"DSV4", "a DSV4 payload", "payload", lambda data: b"decode any 0\n" + data),
    Format(b"DS4D", "a DS4D frame", "frames", lambda data: b"decode\n" + data),
    Format(b"GGUF", "a GGUF file", "gguf", lambda data: b"load 1\nfile g %d %d\n" % (len(data), len(data)) + data),
)
_TYPICAL = 12  # bytes: whatever is shorter says more as it is


def fields(data: bytes) -> tuple[str, list[str]] | None:
    """(the format's name, a line for each field), or None for bytes of no known format."""
    form = next((form for form in FORMATS if data.startswith(form.magic)), None)
    if form is None or len(data) < _TYPICAL:
        return None
    for side in _sides(form.component):
        try:
            return form.name, [_readable(words) for words in tape.lines(side(form.question(data)))]
        except (Ds4Error, ValueError, LookupError, OSError):
            continue  # the next side, or none: bytes are shown
    return None


def split_input(data: bytes) -> tuple[bytes, bytes] | None:
    """(the tape's first line, a record behind it), or None where no record follows."""
    line, newline, rest = data.partition(b"\n")
    if newline and len(line) < 256 and any(rest.startswith(form.magic) for form in FORMATS):
        return line + newline, rest
    return None


def _readable(words: list[bytes]) -> str:
    shown = []
    for word in words:
        text = word.decode("ascii", "replace")
        if "%" in text:
            raw = tape.unescape(word)
            try:
                text = repr(raw.decode("utf-8"))
            except UnicodeDecodeError:
                text = raw.hex(" ")
        shown.append(text)
    return "  ".join(shown)


@functools.cache
def _sides(component: str) -> tuple[Run, ...]:
    return tuple(_found(component))


def _found(component: str) -> Iterator[Run]:
    try:
        yield importlib.import_module(f"parity.components.{component}").COMPONENT.replacement("")
    except (ImportError, AttributeError, Ds4Error, OSError):
        pass
    try:
        from ds4.sys.oracles import oracle

        yield oracle(component).run
    except (ImportError, Ds4Error, OSError):
        pass
