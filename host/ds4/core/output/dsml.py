"""DSML, the tool calls of DeepSeek V4: `<｜DSML｜tool_calls>` with invokes, and in them parameters, as JSON arguments.

oracles/output/README.md states what is taken, and what is malformed. Beside the published form these are taken: a
first bar that is missing (`<DSML｜`), plain tags, a `string` attribute that is missing, parameters inside a parameter
as an object, and entities in attributes.

A string is taken as it is written, since that is what the prompt asks for; entities are read only in plain tags,
where a model has fallen back to XML. So markup that a tool call writes into a file arrives as it was meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from ds4.core.json_text import WHITE, characters, is_json, quoted
from ds4.core.output.events import ArgumentsDelta, CallEnd, CallStart, Emitter
from ds4.core.output.markers import Markers, Search
from ds4.core.output.reasoning import AnswerParser
from ds4.core.output.tools import MadeCall, Status, Step, calls

_PREFIXES = ("｜DSML｜", "DSML｜", "")
_DSML = _PREFIXES[:2]
MOST_OBJECTS = 16

_OPENERS = Markers([f"{lead}<{prefix}tool_calls>" for lead in ("\n\n", "") for prefix in _PREFIXES])
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}
_ENTITY = re.compile("|".join(_ENTITIES))


def _meant(found: re.Match[str]) -> str:
    return _ENTITIES[found[0]]


_WHITES = frozenset(WHITE)
_NOT_WHITE = re.compile(f"[^{WHITE}]")

Level = Literal["calls", "call", "object"]
_LEVELS: tuple[Level, ...] = ("calls", "call", "object")
Child = Literal["invoke", "parameter"]
_PARTS: Mapping[Level, tuple[Child, str]] = {
    "calls": ("invoke", "tool_calls"),
    "call": ("parameter", "invoke"),
    "object": ("parameter", "parameter"),
}


def _opens(name: str) -> tuple[str, ...]:
    return tuple([f"<{prefix}{name}" for prefix in _PREFIXES])


def _closes(name: str) -> tuple[str, ...]:
    return tuple([f"</{prefix}{name}>" for prefix in _PREFIXES])


_TAGS: Mapping[Level, Markers] = {
    level: Markers(_opens(child) + _closes(own)) for level, (child, own) in _PARTS.items()
}


def _beyond_white(text: str, at: int) -> int:
    found = _NOT_WHITE.search(text, at)
    return len(text) if found is None else found.start()


@dataclass(frozen=True, slots=True)
class _Writing:
    """How a parameter is written, by the prefix of its own tag. closes: its close tags. string, json: markers of its
    value. stands: what a marker stands for. nested: the tags that a parameter inside it begins with.
    """

    closes: tuple[str, ...]
    string: Markers
    json: Markers
    stands: Mapping[str, str]
    nested: Markers


def _writing(prefixes: tuple[str, ...], stands: Mapping[str, str]) -> _Writing:
    closes = tuple([f"</{prefix}parameter>" for prefix in prefixes])
    nested = Markers([f"<{prefix}parameter" for prefix in prefixes])
    return _Writing(closes, Markers((*closes, *stands)), Markers(closes), stands, nested)


_AS_DSML = _writing(_DSML, {"&lt;/｜DSML｜parameter>": "</｜DSML｜parameter>"})
_AS_XML = _writing(("",), _ENTITIES)

# An attribute's head: what each state takes until it changes.
_HEAD_NAME = re.compile(rf'[^{WHITE}>="</]+')
_ATTRIBUTE = re.compile(rf'([^{WHITE}>="</]+)="([^"]*)"')  # whole, as nearly all come
_State = Literal["after", "before", "name", "equals", "value"]


class _Head:
    """A tag's attributes, being read. prefix: how the tag is written."""

    __slots__ = ("attributes", "name", "parts", "prefix", "state", "tag", "twice")

    def __init__(self, tag: Child, prefix: str) -> None:
        self.tag, self.prefix = tag, prefix
        self.state: _State = "after"
        self.name = ""
        self.parts: list[str] = []  # of the attribute's name or value
        self.attributes: dict[str, str] = {}
        self.twice = False

    def read(self, text: str, at: int) -> Step:
        end = len(text)
        while at < end:
            if self.state == "value":
                close = text.find('"', at)
                self.parts.append(text[at : end if close < 0 else close])
                if close < 0:
                    return end, "more"
                self._attribute(self.name, "".join(self.parts))
                self.parts.clear()
                self.state, at = "after", close + 1
                continue
            character = text[at]
            if self.state == "name":
                if (found := _HEAD_NAME.match(text, at)) is not None:
                    self.parts.append(found[0])
                    at = found.end()
                    continue
                if character != "=":
                    return at, "fault"
                self.name = "".join(self.parts)
                self.parts.clear()
                self.state = "equals"
            elif self.state == "equals":
                if character != '"':
                    return at, "fault"
                self.state = "value"
            elif character == ">":
                return at + 1, "complete"
            elif character in WHITE:
                self.state, at = "before", _beyond_white(text, at)
                continue
            elif self.state == "before" and (found := _ATTRIBUTE.match(text, at)) is not None:
                self._attribute(found[1], found[2])
                self.state, at = "after", found.end()
                continue
            elif self.state == "before" and _HEAD_NAME.match(character):
                self.state = "name"
                continue
            else:
                return at, "fault"
            at += 1
        return at, "more"

    def _attribute(self, name: str, value: str) -> None:
        self.twice = self.twice or name in self.attributes
        self.attributes[name] = _ENTITY.sub(_meant, value) if "&" in value else value


class _Value:
    """A parameter's value, being read. kind: open as long as it may turn out an object."""

    __slots__ = ("kind", "markers", "prefix", "shown", "white", "writing")

    def __init__(self, prefix: str, string: str | None) -> None:
        """prefix, string: of the parameter's tag."""
        self.prefix = prefix
        self.writing = _AS_DSML if prefix else _AS_XML
        self.kind: Literal["open", "string", "json"] = "string" if string == "true" else "json" if string else "open"
        self.markers = self.writing.json if self.kind == "json" else self.writing.string
        self.shown: list[str] = []  # of JSON: what was shown
        self.white: list[str] = []  # held until something else follows


class _Block:
    """One block, behind its opener."""

    def __init__(self, prefix: str, first: int) -> None:
        self._prefix = prefix
        self._first = first
        self.calls = first
        self._level: Level = "calls"
        self._names: list[set[str]] = []  # of the parameters of the call, and of each object that is open
        self._head: _Head | None = None
        self._value: _Value | None = None
        self.search: Search | None = None

    def shown(self, text: str) -> ArgumentsDelta:
        return ArgumentsDelta(self.calls - 1, quoted(text)[1:-1])

    def read(self, text: str, at: int, out: Emitter) -> Step:
        status: Status = "again"
        while status == "again":
            if self._value is not None:
                at, status = self._in_value(self._value, text, at, out)
            elif self._head is not None:
                at, status = self._in_head(self._head, text, at, out)
            else:
                at, status = self._between(text, at, out)
        value = self._value
        self.search = value.markers.search if value is not None and value.kind == "string" else None
        return at, status

    def _between(self, text: str, at: int, out: Emitter) -> Step:
        if text[at : at + 1] in _WHITES:
            at = _beyond_white(text, at)
        if at == len(text):
            return at, "more"
        found = _TAGS[self._level].match(text, at)
        if found is None:
            return at, "fault"
        if found.lastindex is None:
            return at, "more"
        tag, end = found[0], found.end()
        child, own = _PARTS[self._level]
        if not tag.startswith("</"):
            self._head = _Head(child, tag[1 : -len(child)])
            return end, "again"
        if own == "tool_calls":
            return end, "complete" if self.calls > self._first else "fault"
        if own == "invoke":
            self._show(out, "}" if self._names[-1] else "{}")
            out.add(CallEnd(self.calls - 1))
            self._level = "calls"
        else:
            self._show(out, "}")
        self._names.pop()
        self._level = _LEVELS[min(len(self._names), 2)]
        return end, "again"

    def _show(self, out: Emitter, text: str) -> None:
        out.arguments(self.calls - 1, text)

    def _in_head(self, head: _Head, text: str, at: int, out: Emitter) -> Step:
        at, status = head.read(text, at)
        if status != "complete":
            return at, status
        self._head = None
        name = head.attributes.get("name")
        if head.twice or name is None:
            return at, "fault"
        if head.tag == "invoke":
            if not name:
                return at, "fault"
            out.add(CallStart(self.calls, name))
            self.calls += 1
            self._names.append(set())
            self._level = "call"
            return at, "again"
        string = head.attributes.get("string")
        if string not in (None, "true", "false") or name in self._names[-1]:
            return at, "fault"
        lead = ", " if self._names[-1] else "{" if len(self._names) == 1 else ""
        self._names[-1].add(name)
        self._show(out, f"{lead}{quoted(name)}: " + ('"' if string == "true" else ""))
        self._value = _Value(head.prefix, string)
        return at, "again"

    def _in_value(self, value: _Value, text: str, at: int, out: Emitter) -> Step:
        if value.kind == "open":
            return self._undecided(value, text, at, out)
        found = value.markers.search(text, at)
        end = len(text) if found is None else found.start()
        if end > at:
            if value.kind == "string":
                self._show(out, characters(text[at:end]))
            else:
                self._json(value, text[at:end], out)
        if found is None or found.lastindex is None:
            return end, "more"
        stands = value.writing.stands.get(found[0])
        if stands is not None:
            self._show(out, characters(stands))
            return found.end(), "again"
        self._value = None
        if value.kind == "string":
            self._show(out, '"')
        elif not value.shown:
            self._show(out, "null")
        elif not is_json("".join(value.shown)):
            return found.end(), "fault"
        return found.end(), "again"

    def _json(self, value: _Value, text: str, out: Emitter) -> None:
        """JSON is shown without white space around it."""
        body = text.strip(WHITE) if not value.shown else text.rstrip(WHITE)
        if not body:
            if value.shown:
                value.white.append(text)
            return
        if value.white:
            body = "".join(value.white) + body
            value.white.clear()
        tail = text[len(text.rstrip(WHITE)) :]
        if tail:
            value.white.append(tail)
        value.shown.append(body)
        self._show(out, body)

    def _undecided(self, value: _Value, text: str, at: int, out: Emitter) -> Step:
        """Parameters inside a parameter are an object; anything else is a string."""
        if (end := _beyond_white(text, at)) > at:
            value.white.append(text[at:end])
            at = end
        if at == len(text):
            return at, "more"
        found = value.writing.nested.match(text, at)
        if found is not None and found.lastindex is None:
            return at, "more"
        if found is not None:
            self._value = None
            if len(self._names) > MOST_OBJECTS:
                return found.end(), "fault"
            self._show(out, "{")
            self._names.append(set())
            self._level = "object"
            self._head = _Head("parameter", found[0][1:-9])
            return found.end(), "again"
        self._show(out, '"' + characters("".join(value.white)))
        value.white.clear()
        value.kind = "string"
        return self._in_value(value, text, at, out)

    # ---- what is missing at the end ----

    def closers(self, rest: str) -> str | None:
        if self._head is not None or self.calls == self._first:
            return None
        parts: list[str] = []
        open_levels = len(self._names)  # the call and its objects; 0 between calls
        if self._value is not None:
            part = self._close_of(self._value, rest)
            if part is None:
                return None
            parts.append(part)
        elif rest:
            names = _closes(_PARTS[self._level][1])
            own = names[_PREFIXES.index(self._prefix)]
            fitting = [name for name in (own, *names) if name.startswith(rest)]
            if not fitting:
                return None
            parts.append(fitting[0][len(rest) :])
            open_levels -= 1
        parts += [f"</{self._prefix}parameter>"] * (open_levels - 1)
        if open_levels > 0:
            parts.append(f"</{self._prefix}invoke>")
        if open_levels >= 0:
            parts.append(f"</{self._prefix}tool_calls>")
        return "\n".join(parts)

    @staticmethod
    def _close_of(value: _Value, rest: str) -> str | None:
        if value.kind == "open":  # only its end can be the beginning of a close tag
            found = value.writing.json.search(rest)
            rest = "" if found is None else found[0]
        if value.kind == "json" and value.shown and not is_json("".join(value.shown)):
            return None
        own = f"</{value.prefix}parameter>"
        fitting = [close for close in (own, *value.writing.closes) if rest and close.startswith(rest)]
        return fitting[0][len(rest) :] if fitting else own


class Dsml:
    """DeepSeek V4's dialect. An answer ends with its first block."""

    openers = _OPENERS
    last = True

    def open(self, opener: str, first: int) -> _Block:
        return _Block(opener.lstrip("\n")[1 : -len("tool_calls>")], first)


DIALECT = Dsml()


class DsmlParser(AnswerParser):
    """The parser of DeepSeek V4's answers. tools: whether any are declared."""

    __slots__ = ()

    def __init__(self, *, thinking: bool, tools: bool) -> None:
        super().__init__(thinking=thinking, dialect=DIALECT if tools else None)


def read_block(text: str) -> list[MadeCall]:
    """The calls of a block's text (what ToolBlock gave); none if it is no whole block."""
    parser = DsmlParser(thinking=False, tools=True)
    events = parser.push(text)
    return calls(events) if parser.mode == "done" else []
