"""One JSON value in text that arrives in pieces: where it ends, and its text as valid JSON shows it.

Models write line feeds and tabs into strings as they are, which JSON forbids; they are shown as escapes, so that what
was meant arrives. Nothing else is mended: a value that is no JSON in another way is not `valid`.
"""

from __future__ import annotations

import re

from ds4.core.json_text import MOST_DEPTH, WHITE, characters, is_json, loads

_INSIDE = re.compile(r'(?:[^"\\\x00-\x1f]+|\\[^\x00-\x1f])*+').match  # of a string
_OUTSIDE = re.compile(r'[^"\[\]{}]*+').match
_BRACKET = re.compile(r"[\[\]{}]").search
_SCALAR = re.compile(rf"[^,\]}}{WHITE}]*+").match
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*+("?)|[\[\]{}]', re.DOTALL)
_CLOSE = {"{": "}", "[": "]"}


class JsonValue:
    """A value that begins with `first`, which is still to be read."""

    __slots__ = ("_depth", "_escaped", "_parts", "_scalar", "_string")

    def __init__(self, first: str) -> None:
        self._scalar = first not in '"[{'
        self._depth = 0
        self._string = self._escaped = False
        self._parts: list[str] = []

    def read(self, text: str, at: int) -> tuple[int, str, bool]:
        """(up to where text[at:] was used, what of it is to be shown, whether the value ends there)."""
        if self._scalar:
            found = _SCALAR(text, at)
            assert found is not None
            self._parts.append(found[0])
            return found.end(), found[0], found.end() < len(text)
        start, end, out = at, len(text), ""
        complete = False
        while at < end and not complete:
            if self._escaped:
                self._escaped = False
                at += 1
                continue
            plain = (_INSIDE if self._string else _OUTSIDE)(text, at)
            assert plain is not None
            at = plain.end()
            if at == end:
                break
            character = text[at]
            at += 1
            if character == '"':
                self._string = not self._string
                complete = not self._string and not self._depth
            elif self._string and character == "\\":
                self._escaped = True  # what it escapes has not come, or is none of JSON's
            elif self._string:
                out += text[start : at - 1] + characters(character)
                start = at
            elif character in "[{":
                self._depth += 1
                complete = self._depth > MOST_DEPTH  # no JSON whatever follows
            else:
                self._depth -= 1
                complete = self._depth <= 0
        out += text[start:at]
        self._parts.append(out)
        return at, out, complete

    def more(self, text: str) -> str | None:
        """Takes the whole of the text if it plainly does not end an array or object that is open: what of it is to be
        shown. None: it has to be read."""
        if self._string and not self._escaped and '"' not in text and "\\" not in text and text.isprintable():
            self._parts.append(text)
            return text
        if _BRACKET(text) and not text.count("}") + text.count("]") < self._depth <= MOST_DEPTH - len(text):
            return None
        return self.read(text, 0)[1]

    @property
    def text(self) -> str:
        """All that has been shown."""
        return "".join(self._parts)

    @property
    def valid(self) -> bool:
        """Whether what has been shown is JSON."""
        return is_json(self.text)


def mended(text: str) -> str | None:
    """A text that is one object, as valid JSON shows it; None: it is none."""
    text = text.strip(WHITE)
    if not text.startswith("{"):
        return None
    value = JsonValue("{")
    end, shown, complete = value.read(text, 0)
    return shown if complete and end == len(text) and is_json(shown) else None


def string(text: str) -> str | None:
    """What a JSON string's text says; None: it is none, or no text that can be written as UTF-8."""
    try:
        said = loads(text)
        said.encode()
    except ValueError:
        return None
    assert isinstance(said, str)
    return said


def closing(text: str) -> str | None:
    """What would complete the beginning of an array or object as JSON; None: nothing this simple would."""
    opened: list[str] = []
    quote = ""
    for found in _STRUCTURE.finditer(text):
        mark = found[0]
        if mark[0] == '"':
            quote = "" if found[1] else '"'
        elif mark in _CLOSE:
            opened.append(_CLOSE[mark])
        elif not opened or opened.pop() != mark:
            return None
    rest = quote + "".join(reversed(opened))
    return rest if is_json(text + rest) else None
