"""Binary records as lines of fields, told by the component that owns the format.

Its replacement answers, or else its oracle; where there is neither, a record is shown as bytes.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ds4.errors import Ds4Error
from ds4.sys import tape

Run = Callable[[bytes], bytes]


@dataclass(frozen=True)
class Format:
    """A format by its first bytes, the question that makes a component decode it, and what the words of its lines are
    (as the component's contract has them; a line that is not named here stays a line)."""

    magic: bytes
    name: str
    component: str
    question: Callable[[bytes], bytes]
    words: Mapping[str, str]


@dataclass(frozen=True)
class Field:
    name: str
    value: str


_BEGIN = "model_id session request token_hash layer_start layer_end payload_bytes status"
FORMATS = (
    Format(
        b"KVC",
        "a KVC record",
        "kvc",
        lambda data: b"decode\n" + data,
        {
            "record": "quant reason marks model tokens hits ctx created used",
            "payload": "payload_offset payload_bytes",
        },
    ),
    Format(
        b"DSV4",
        "a DSV4 payload",
        "payload",
        lambda data: b"decode any 0\n" + data,
        {
            "payload": "version layout ctx prefill_width raw_capacity raw_window compressed_capacity token_count layers"
            " head_dim indexer_head_dim vocab live_rows",
            "tail": "tail_offset tail_bytes",
        },
    ),
    Format(
        b"DS4D",
        "a DS4D frame",
        "frames",
        lambda data: b"decode\n" + data,
        {
            "hello": "model_id quant_bits layer_start layer_end has_output has_hidden ctx layers port name",
            "work": "model_id session request prefix_hash result_hash pos0 layer_start layer_end flags activation_bits"
            " route_index",
            "result": "request result_hash status kind payload_bits",
            "snapshot-save": "model_id session request token_hash token_count layer_start layer_end",
            "snapshot-begin": _BEGIN,
            "snapshot-load": _BEGIN,
            "snapshot-done": "request status message",
        },
    ),
    Format(
        b"GGUF",
        "a GGUF file",
        "gguf",
        lambda data: b"load 1\nfile g %d %d\n" % (len(data), len(data)) + data,
        {"shard": "shard file version alignment data_offset file_bytes keys tensors"},
    ),
)
_TYPICAL = 12  # bytes: whatever is shorter says more as it is


def fields(data: bytes) -> tuple[str, list[Field]] | None:
    """(the format's name, its fields in order), or None for bytes of no known format."""
    form = next((form for form in FORMATS if data.startswith(form.magic)), None)
    if form is None or len(data) < _TYPICAL:
        return None
    for side in _sides(form.component):
        try:
            answer = list(tape.lines(side(form.question(data))))
            return form.name, [field for words in answer for field in _named(form, words)]
        except (Ds4Error, ValueError, LookupError, OSError):
            continue  # the next side, or none: bytes are shown
    return None


def split_input(data: bytes) -> tuple[bytes, bytes] | None:
    """(the tape's first line, a record behind it), or None where no record follows."""
    line, newline, rest = data.partition(b"\n")
    if newline and len(line) < 256 and any(rest.startswith(form.magic) for form in FORMATS):
        return line + newline, rest
    return None


def _named(form: Format, words: list[bytes]) -> Iterator[Field]:
    """A line's fields: one for each word that has a name, or the line as one."""
    verb, values = words[0].decode("ascii", "replace"), [_readable(word) for word in words[1:]]
    names = form.words.get(verb, "").split()
    if len(names) != len(values):
        yield Field(verb, "  ".join(values))
        return
    if form.component == "frames":
        yield Field("type", verb)
    yield from map(Field, names, values)


def _readable(word: bytes) -> str:
    text = word.decode("ascii", "replace")
    if "%" not in text:
        return text
    raw = tape.unescape(word)
    try:
        return json.dumps(raw.decode("utf-8"), ensure_ascii=False)
    except UnicodeDecodeError:
        return raw.hex(" ")


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
