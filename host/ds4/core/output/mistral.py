"""The tool calls of Mistral's models: `[TOOL_CALLS]`, then an array of objects or, in newer ones, one call by name.

    [TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Lisbon"}, "id": "VvvODy9mT"}]
    [TOOL_CALLS]get_weather[CALL_ID]VvvODy9mT[ARGS]{"city": "Lisbon"}

`[CALL_ID]` with its id may be missing, and `[ARGS]` too; an answer may hold several of the second form.
"""

from __future__ import annotations

import re
from typing import Literal

from ds4.core.output.answer import JsonDialect
from ds4.core.output.events import CallEnd, CallStart, Emitter
from ds4.core.output.json_calls import JsonBlock, skip_white
from ds4.core.output.json_value import JsonValue, closing
from ds4.core.output.markers import Markers
from ds4.core.output.tools import Step

_NAME = re.compile(r'[^\s\[\]{}"]*+').match
_BEHIND = {"name": Markers(("[ARGS]", "[CALL_ID]", "{")), "id": Markers(("[ARGS]", "{")), "arguments": Markers(("{",))}


class _Named:
    """One call by name, behind `[TOOL_CALLS]`. Its end is the end of its arguments."""

    __slots__ = ("_name", "_open", "_place", "_value", "calls")
    sure = True

    def __init__(self, first: int) -> None:
        self.calls = first
        self._place: Literal["name", "id", "arguments"] = "name"
        self._open = True  # the name or id may go on
        self._name: list[str] = []
        self._value: JsonValue | None = None

    def read(self, text: str, at: int, out: Emitter) -> Step:
        while self._value is None:
            if self._open:
                found = _NAME(text, at)
                assert found is not None
                if self._place == "name":
                    self._name.append(found[0])
                at = found.end()
            behind = skip_white(text, at)
            self._open = self._open and behind == at
            if behind == len(text):
                return behind, "more"
            markers = _BEHIND[self._place]
            mark = markers.match(text, behind)
            if mark is None:
                return behind, "fault"
            if mark.lastindex is None:
                return behind, "more"
            if self._place == "name":
                name = "".join(self._name)
                if not name:
                    return behind, "fault"
                out.add(CallStart(self.calls, name))
            at = mark.end()
            self._open = mark[0] == "[CALL_ID]"
            self._place = "id" if self._open else "arguments"
            if mark[0] == "{":
                self._value, at = JsonValue("{"), mark.start()
        end, shown, complete = self._value.read(text, at)
        out.arguments(self.calls, shown)
        if not complete:
            return end, "more"
        if not self._value.valid:
            return end, "fault"
        out.add(CallEnd(self.calls))
        self.calls += 1
        return end, "complete"

    def showing(self) -> JsonValue | None:
        return self._value

    def ends(self) -> bool:
        return False

    def closers(self, rest: str) -> str | None:
        return None if self._value is None else closing(self._value.text)


class _Block:
    """Either form, as the first character says."""

    __slots__ = ("_form", "calls")
    sure = True

    def __init__(self, first: int) -> None:
        self._form: JsonBlock | _Named | None = None
        self.calls = first

    def read(self, text: str, at: int, out: Emitter) -> Step:
        if self._form is None:
            at = skip_white(text, at)
            if at == len(text):
                return at, "more"
            self._form = JsonBlock(self.calls) if text[at] in "[{" else _Named(self.calls)
        step = self._form.read(text, at, out)
        self.calls = self._form.calls
        return step

    def showing(self) -> JsonValue | None:
        return None if self._form is None else self._form.showing()

    def ends(self) -> bool:
        return self._form is not None and self._form.ends()

    def closers(self, rest: str) -> str | None:
        return None if self._form is None else self._form.closers(rest)


MISTRAL = JsonDialect(("[TOOL_CALLS]",), lambda mark, first: _Block(first), ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"))
