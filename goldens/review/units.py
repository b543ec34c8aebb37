"""What a value is made of when it is looked at: lines of a text, lines of a tape with their words decoded, events.

A unit keeps its raw form beside the one that is shown, so that two units that look alike and are not can be told apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ds4.sys import tape

from goldens.review import records
from parity.pending import Kind

SHORT = 480  # characters of JSON that stay on one line
_SSE = re.compile(r"^(data|event|id|retry|:)", re.MULTILINE)
_PLAIN = re.compile(r"[!#-&(-\[\]-~]+")  # a word that needs no quotes to be seen
_CODE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]")


@dataclass(frozen=True)
class Unit:
    """One line or event. name: what it is aligned by, shown apart (an event's name, a tape line's verb) or ""."""

    raw: str
    shown: str
    name: str = ""


def split(kind: Kind, value: str | bytes) -> list[Unit]:
    """The units of a value, as its kind has them."""
    if kind == "binary":
        return hexadecimal(value if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass"))
    text = value if isinstance(value, str) else _decoded(value)
    if text is None:
        return hexadecimal(value if isinstance(value, bytes) else b"")
    if kind == "events" and _SSE.match(text):
        return sse(text)
    if kind in ("events", "tape"):
        return tape_lines(text)
    return lines(text)


def lines(text: str) -> list[Unit]:
    """Lines of a text; a missing newline at the end is told."""
    rows = text.split("\n")
    if rows[-1] == "":
        rows.pop()
    elif text:
        last = Unit(rows[-1] + "\0", visible(rows[-1]) + "  ⟨no newline⟩")
        return [*(Unit(row, visible(row)) for row in rows[:-1]), last]
    return [Unit(row, visible(row)) for row in rows]


def tape_lines(text: str) -> list[Unit]:
    """Lines of a tape: the verb, and the words as the bytes that they stand for. Any other text comes back as lines."""
    if not text.endswith("\n"):
        return lines(text)
    units = []
    for unit in lines(text):
        verb, _, rest = unit.raw.partition(" ")
        try:
            words = [_word(word) for word in rest.split(" ")] if rest else []
        except tape.TapeError:
            units.append(unit)
            continue
        units.append(Unit(unit.raw, "  ".join(words), verb))
    return units


def sse(text: str) -> list[Unit]:
    """Server-sent events, their JSON laid out over lines."""
    units = []
    for block in re.split(r"\r?\n\r?\n", text):
        if not block:
            continue
        name, data, rest = "", [], []
        for line in re.split(r"\r?\n", block):
            field, _, content = line.partition(":")
            content = content.removeprefix(" ")
            if field == "event":
                name = content
            elif field == "data":
                data.append(content)
            else:
                rest.append(f"{field}: {content}" if field else f"comment: {content}")
        body = "\n".join(data)
        parsed = _json(body)
        if not name:
            name = _kind_of(parsed) if isinstance(parsed, dict) else "data" if data else "comment"
        shown = visible(_laid_out(parsed) if parsed is not None else body)
        units.append(Unit(block, "\n".join(filter(None, [*map(visible, rest), shown])), name))
    return units


def hexadecimal(data: bytes, width: int = 16) -> list[Unit]:
    """Rows of bytes: hexadecimal and as characters."""
    units = []
    for at in range(0, len(data), width):
        row = data[at : at + width]
        left = " ".join(f"{byte:02x}" for byte in row[:8]) + "  " + " ".join(f"{byte:02x}" for byte in row[8:])
        right = "".join(chr(byte) if 0x20 <= byte < 0x7F else "·" for byte in row)
        units.append(Unit(row.hex(), f"{left:{3 * width}}  {right}"))
    return units


def visible(text: str) -> str:
    """The text with everything that cannot be seen, or would turn the line round, written as its code point."""
    return _CODE.sub(lambda m: f"⟨U+{ord(m[0]):04X}⟩", text)


def _decoded(data: bytes) -> str | None:
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


def _word(word: str) -> str:
    raw = word.encode("utf-8", "surrogatepass")
    if "%" not in word:
        return visible(word)
    data = tape.unescape(raw)
    fields = records.fields(data)
    if fields is not None:
        rows = [f"    {field.name}  {visible(field.value)}" for field in fields[1]]
        return "\n".join([f"⟨{len(data):,} bytes, {fields[0]}⟩", *rows])
    text = _decoded(data)
    if text is None:
        return f"⟨{len(data):,} bytes⟩ " + data.hex(" ")
    return text if _PLAIN.fullmatch(text) else visible(_quoted(text))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _json(body: str) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return None


def _laid_out(parsed: Any) -> str:
    """JSON on one line as long as that can be read at a glance."""
    line = json.dumps(parsed, ensure_ascii=False)
    return line if len(line) <= SHORT else json.dumps(parsed, ensure_ascii=False, indent=2)


def _kind_of(parsed: dict[str, Any]) -> str:
    """What an event without a name of its own is: what its JSON says it is."""
    for key in ("type", "object"):
        if isinstance(parsed.get(key), str):
            return str(parsed[key])
    return "data"


Split = Callable[[Kind, str | bytes], list[Unit]]
