"""Tool calls as JSON objects, `{"name": ..., "arguments": {...}}`, one or an array of them: what the dialects of
Hermes, Llama 3 and Mistral have in common.

Taken are members in any order, `parameters` for `arguments`, members beside them (`id`, `type`), arguments that are
left out or null (an empty object), and arguments that are a string with an object's text in it. All else is malformed.
"""

from __future__ import annotations

import re
from typing import Literal

from ds4.core.json_text import WHITE
from ds4.core.output.events import CallEnd, CallStart, Emitter
from ds4.core.output.json_value import JsonValue, closing, mended, string
from ds4.core.output.tools import Step

_ARGUMENTS = ("arguments", "parameters")
_USUAL = frozenset({"name", "type", "id", "call_id", *_ARGUMENTS})
_WHITE = re.compile(f"[{WHITE}]*+").match

_Place = Literal["first", "key", "colon", "value", "in", "next", "another"]


def skip_white(text: str, at: int) -> int:
    found = _WHITE(text, at)
    assert found is not None
    return found.end()


class CallObject:
    """One call's object, behind its `{`. bare: nothing but the object says that it is a call; it is one with a name and
    arguments, and until then (`begun`) no event is given and no unusual member allowed."""

    __slots__ = ("_arguments", "_bare", "_held", "_index", "_key", "_name", "_place", "_value", "begun")

    def __init__(self, index: int, *, bare: bool = False) -> None:
        self._index = index
        self._bare = bare
        self._place: _Place = "first"
        self._key = ""
        self._value: JsonValue | None = None
        self._name: str | None = None
        self._arguments: Literal["none", "object", "other"] = "none"
        self._held: list[str] = []  # arguments that came before the name
        self.begun = False

    def read(self, text: str, at: int, out: Emitter) -> Step:
        while True:
            if self._value is not None:
                end, shown, complete = self._value.read(text, at)
                if shown and self._place == "in" and self._key in _ARGUMENTS and self._arguments == "object":
                    self._show(out, shown)
                if not complete:
                    return end, "more"
                value, self._value = self._value, None
                if not self._took(value, out):
                    return end, "fault"
                at = end
                continue
            at = skip_white(text, at)
            if at == len(text):
                return at, "more"
            status = self._between(text[at], out)
            if status == "fault":
                return at, "fault"
            at += self._value is None  # a value's first character is its own
            if status == "complete":
                return at, "complete"

    def _between(self, character: str, out: Emitter) -> Literal["again", "complete", "fault"]:
        place = self._place
        if place in ("first", "another") and character == '"':
            self._value, self._place = JsonValue(character), "key"
        elif place == "colon" and character == ":":
            self._place = "value"
        elif place == "value":
            return "again" if self._begins(character, out) else "fault"
        elif place == "next" and character == ",":
            self._place = "another"
        elif place == "next" and character == "}":
            return self._ends(out)
        else:
            return "fault"
        return "again"

    def _begins(self, character: str, out: Emitter) -> bool:
        """A member's value begins with a character."""
        if self._key == "name" and (self._name is not None or character != '"'):
            return False
        if self._key in _ARGUMENTS:
            if self._arguments != "none" or character not in '{"n':
                return False
            self._arguments = "object" if character == "{" else "other"
            self._begin(out)
        self._value, self._place = JsonValue(character), "in"
        return True

    def _took(self, value: JsonValue, out: Emitter) -> bool:
        """A key or a member's value is complete."""
        if self._place == "key":
            key = string(value.text)
            self._key, self._place = key or "", "colon"
            return key is not None and (self.begun or not self._bare or key in _USUAL)
        self._place = "next"
        if not value.valid:
            return False
        if self._key == "name":
            self._name = string(value.text)
            self._begin(out)
            return bool(self._name)
        if self._key in _ARGUMENTS and self._arguments == "other":
            shown = "{}" if value.text == "null" else mended(string(value.text) or "")
            if shown is None:
                return False
            self._show(out, shown)
        return True

    def _begin(self, out: Emitter) -> None:
        if self.begun or not self._name or (self._bare and self._arguments == "none"):
            return
        self.begun = True
        out.add(CallStart(self._index, self._name))
        out.arguments(self._index, "".join(self._held))
        self._held.clear()

    def _show(self, out: Emitter, text: str) -> None:
        if self.begun:
            out.arguments(self._index, text)
        else:
            self._held.append(text)

    def _ends(self, out: Emitter) -> Literal["complete", "fault"]:
        if not self.begun:
            return "fault"
        if self._arguments == "none":
            out.arguments(self._index, "{}")
        out.add(CallEnd(self._index))
        return "complete"

    def showing(self) -> JsonValue | None:
        """The arguments, while they are being shown."""
        if not self.begun or self._place != "in" or self._key not in _ARGUMENTS or self._arguments != "object":
            return None
        return self._value

    def closers(self) -> str | None:
        """What would complete the object."""
        if not self.begun:
            return None
        if self._value is None:
            return "}" if self._place == "next" else None
        shown = self.showing()
        rest = None if shown is None else closing(shown.text)
        return None if rest is None else rest + "}"


class JsonBlock:
    """Calls behind an opener: one object, an array of objects or, where there is a closer, several objects.

    closer: the text behind them; empty: none, the block ends with its object or array. Where it is missing the block
    ends in front of what stands in its place: the calls are whole. bare: the opener is the `{` of a bare object.
    """

    __slots__ = ("_array", "_closer", "_first", "_object", "_place", "calls", "sure")

    def __init__(self, first: int, *, closer: str = "", bare: bool = False) -> None:
        self._first = self.calls = first
        self._closer = closer
        self._place: Literal["value", "element", "after", "closer"] = "value"
        self._array = False
        self._object = CallObject(first, bare=True) if bare else None
        self.sure = not bare

    def read(self, text: str, at: int, out: Emitter) -> Step:
        while True:
            if self._object is not None:
                at, status = self._object.read(text, at, out)
                self.sure = self.sure or self._object.begun
                if status != "complete":
                    return at, status
                self._object = None
                self.calls += 1
                self._place = "after" if self._array else "closer"
            if self._place == "closer" and not self._closer:
                return at, "complete"
            at = skip_white(text, at)
            if at == len(text):
                return at, "more"
            character = text[at]
            if character == "{" and self._place != "after":
                self._object = CallObject(self.calls)
            elif self._place == "value" and character == "[":
                self._array, self._place = True, "element"
            elif self._place == "after" and character in ",]":
                self._array = character == ","
                self._place = "element" if self._array else "closer"
            elif self._place == "closer":
                return self._closes(text, at)
            else:
                return at, "fault"
            at += 1

    def _closes(self, text: str, at: int) -> Step:
        if text.startswith(self._closer, at):
            return at + len(self._closer), "complete"
        return at, "more" if self._closer.startswith(text[at : at + len(self._closer)]) else "complete"

    def showing(self) -> JsonValue | None:
        return None if self._object is None else self._object.showing()

    def ends(self) -> bool:
        """Whether the answer may end here: only closers are missing."""
        return self._object is None and self.calls > self._first and self._place in ("after", "closer")

    def closers(self, rest: str) -> str | None:
        closer = "\n" + self._closer if self._closer else ""
        if self._object is not None:
            own = self._object.closers()
            return None if own is None else own + ("]" if self._array else "") + closer
        if not self.ends():
            return None
        return "]" + closer if self._place == "after" else self._closer[len(rest) :]
