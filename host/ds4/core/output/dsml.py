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
from dataclasses import dataclass, field
from typing import Literal

from ds4.core.json_text import WHITE, characters, is_json
from ds4.core.output.events import CallEnd, CallStart, Emitter
from ds4.core.output.markers import Markers
from ds4.core.output.reasoning import AnswerParser
from ds4.core.output.tools import MadeCall, Step, calls

_PREFIXES = ("｜DSML｜", "DSML｜", "")
_DSML = _PREFIXES[:2]
MOST_OBJECTS = 16

_OPENERS = Markers([f"{lead}<{prefix}tool_calls>" for lead in ("\n\n", "") for prefix in _PREFIXES])
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}
_ENTITY = re.compile("|".join(_ENTITIES))
_WHITE = re.compile(f"[{WHITE}]*")

Level = Literal["calls", "call", "object"]
_LEVELS: tuple[Level, ...] = ("calls", "call", "object")
_PARTS: Mapping[Level, tuple[str, str]] = {
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
_State = Literal["after", "before", "name", "equals", "value"]


@dataclass(slots=True)
class _Head:
    """A tag's attributes, being read. prefix: how the tag is written."""

    tag: Literal["invoke", "parameter"]
    prefix: str
    state: _State = "after"
    parts: list[str] = field(default_factory=list)  # of the attribute's name or value
    name: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    twice: bool = False

    def read(self, text: str, at: int) -> Step:
        end = len(text)
        while at < end:
            if self.state == "value":
                close = text.find('"', at)
                self.parts.append(text[at : end if close < 0 else close])
                if close < 0:
                    return Step(end, "more")
                self._attribute()
                self.state, at = "after", close + 1
                continue
            character = text[at]
            if self.state == "name":
                found = _HEAD_NAME.match(text, at)
                if found is not None:
                    self.parts.append(found[0])
                    at = found.end()
                    continue
                if character != "=":
                    return Step(at, "fault")
                self.name = "".join(self.parts)
                self.parts.clear()
                self.state = "equals"
            elif self.state == "equals":
                if character != '"':
                    return Step(at, "fault")
                self.state = "value"
            elif character == ">":
                return Step(at + 1, "complete")
            elif character in WHITE:
                found = _WHITE.match(text, at)
                assert found is not None
                self.state, at = "before", found.end()
                continue
            elif self.state == "before" and _HEAD_NAME.match(character):
                self.state = "name"
                continue
            else:
                return Step(at, "fault")
            at += 1
        return Step(at, "more")

    def _attribute(self) -> None:
        value = _ENTITY.sub(lambda found: _ENTITIES[found[0]], "".join(self.parts))
        self.parts.clear()
        self.twice = self.twice or self.name in self.attributes
        self.attributes[self.name] = value


@dataclass(slots=True)
class _Value:
    """A parameter's value, being read. kind: open as long as it may turn out an object."""

    prefix: str
    writing: _Writing
    kind: Literal["open", "string", "json"]
    shown: list[str] = field(default_factory=list)  # of JSON: what was shown
    white: list[str] = field(default_factory=list)  # held until something else follows

    @property
    def markers(self) -> Markers:
        return self.writing.json if self.kind == "json" else self.writing.string


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

    def read(self, text: str, at: int, out: Emitter) -> Step:
        while True:
            if self._value is not None:
                step = self._in_value(self._value, text, at, out)
            elif self._head is not None:
                step = self._in_head(self._head, text, at, out)
            else:
                step = self._between(text, at, out)
            if step.status != "again":
                return step
            at = step.at

    def _between(self, text: str, at: int, out: Emitter) -> Step:
        white = _WHITE.match(text, at)
        assert white is not None
        at = white.end()
        if at == len(text):
            return Step(at, "more")
        tags = _TAGS[self._level]
        found = tags.match(text, at)
        if found is None:
            return Step(at, "more" if tags.begun(text[at : at + 32]) else "fault")
        tag, end = found[0], found.end()
        child, own = _PARTS[self._level]
        if not tag.startswith("</"):
            if child == "invoke":
                self._head = _Head("invoke", tag[1:-6])
            else:
                self._head = _Head("parameter", tag[1:-9])
            return Step(end, "again")
        if own == "tool_calls":
            return Step(end, "complete" if self.calls > self._first else "fault")
        if own == "invoke":
            self._show(out, "}" if self._names[-1] else "{}")
            out.add(CallEnd(self.calls - 1))
            self._level = "calls"
        else:
            self._show(out, "}")
        self._names.pop()
        self._level = _LEVELS[min(len(self._names), 2)]
        return Step(end, "again")

    def _show(self, out: Emitter, text: str) -> None:
        out.arguments(self.calls - 1, text)

    def _in_head(self, head: _Head, text: str, at: int, out: Emitter) -> Step:
        step = head.read(text, at)
        if step.status != "complete":
            return step
        self._head = None
        name = head.attributes.get("name")
        if head.twice or name is None:
            return Step(step.at, "fault")
        if head.tag == "invoke":
            if not name:
                return Step(step.at, "fault")
            out.add(CallStart(self.calls, name))
            self.calls += 1
            self._names.append(set())
            self._level = "call"
            return Step(step.at, "again")
        string = head.attributes.get("string")
        if string not in (None, "true", "false") or name in self._names[-1]:
            return Step(step.at, "fault")
        lead = ", " if self._names[-1] else "{" if len(self._names) == 1 else ""
        self._names[-1].add(name)
        self._show(out, f'{lead}"{characters(name)}": ' + ('"' if string == "true" else ""))
        writing = _AS_DSML if head.prefix else _AS_XML
        kind: Literal["open", "string", "json"] = "open" if string is None else "string" if string == "true" else "json"
        self._value = _Value(head.prefix, writing, kind)
        return Step(step.at, "again")

    def _in_value(self, value: _Value, text: str, at: int, out: Emitter) -> Step:
        if value.kind == "open":
            return self._undecided(value, text, at, out)
        markers = value.markers
        found = markers.find(text, at)
        end = markers.certain(text, at) if found is None else found.start()
        if value.kind == "string":
            self._show(out, characters(text[at:end]))
        else:
            self._json(value, text[at:end], out)
        if found is None:
            return Step(end, "more")
        stands = value.writing.stands.get(found[0])
        if stands is not None:
            self._show(out, characters(stands))
            return Step(found.end(), "again")
        self._value = None
        if value.kind == "string":
            self._show(out, '"')
        elif not value.shown:
            self._show(out, "null")
        elif not is_json("".join(value.shown)):
            return Step(found.end(), "fault")
        return Step(found.end(), "again")

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
        white = _WHITE.match(text, at)
        assert white is not None
        if white[0]:
            value.white.append(white[0])
        at = white.end()
        if at == len(text):
            return Step(at, "more")
        nested = value.writing.nested
        found = nested.match(text, at)
        if found is not None:
            self._value = None
            if len(self._names) > MOST_OBJECTS:
                return Step(found.end(), "fault")
            self._show(out, "{")
            self._names.append(set())
            self._level = "object"
            self._head = _Head("parameter", found[0][1:-9])
            return Step(found.end(), "again")
        if nested.begun(text[at : at + 32]):
            return Step(at, "more")
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
            rest = rest[value.writing.json.certain(rest, 0) :]
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
