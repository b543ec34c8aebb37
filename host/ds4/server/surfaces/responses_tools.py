"""The tools of a Responses request: what the model is told of, and what its calls are to the client.

A custom tool takes text, a function JSON. To the model all are functions, a custom one with the single parameter
`input`; tools of a namespace carry it in their names. Kinds that only OpenAI's servers can run (web_search,
file_search, …) are accepted, since clients offer them to everybody, but the model is not told of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ds4.core.json_text import loads
from ds4.server.errors import invalid
from ds4.server.request import Body, kind, wrong_type

INPUT = "input"
_FORCED = "A tool call cannot be forced yet: 'tool_choice' may be 'auto' or 'none'."


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the client knows it."""

    name: str
    namespace: str | None = None
    custom: bool = False


@dataclass(slots=True)
class Tools:
    """functions: those that the model is told of, in the form of chat completions. known: by the names there."""

    functions: list[dict[str, Any]] = field(default_factory=list)
    known: dict[str, Tool] = field(default_factory=dict)

    def of(self, name: str) -> Tool:
        """What a call's name means; one that the model made up is a function of that name."""
        return self.known.get(name) or Tool(name)

    def add(self, tool: Tool, path: str, description: str | None, parameters: Mapping[str, Any] | None) -> None:
        name = told(tool.name, tool.namespace)
        if name in self.known:
            raise invalid(f"'{path}' is a second tool named {name[:64]!r}.", f"{path}.name")
        self.known[name] = tool
        function: dict[str, Any] = {"name": name}
        if description:
            function["description"] = description
        function["parameters"] = {"type": "object", "properties": {}} if parameters is None else dict(parameters)
        self.functions.append({"type": "function", "function": function})


def told(name: str, namespace: str | None) -> str:
    """A tool's name as the model has it."""
    return f"{namespace}.{name}" if namespace else name


def as_arguments(text: str) -> str:
    """A custom tool's input as the arguments of a call."""
    return json.dumps({INPUT: text}, ensure_ascii=False)


def read_tools(body: Body) -> Tools:
    """The tools that the model may call: none, or some, where tool_choice says so."""
    tools = Tools()
    for tool in objects(body, "tools"):
        if tool.text("type") == "namespace":
            _namespace(tool, tools)
        else:
            _tool(tool, tools, None, "")
    return _chosen(body, tools)


def _namespace(body: Body, tools: Tools) -> None:
    name, about = _name(body), body.text("description")
    preface = f"[{name}: {about}] " if about else ""
    for tool in objects(body, "tools"):
        before = len(tools.functions)
        _tool(tool, tools, name, preface)
        if len(tools.functions) > before:
            preface = ""  # said once


def _tool(body: Body, tools: Tools, namespace: str | None, preface: str) -> None:
    match body.text("type"):
        case "function":
            name, description = _name(body), body.text("description") or ""
            parameters = None if body.get("parameters") is None else body.nested("parameters").data
            tools.add(Tool(name, namespace), body.path, preface + description, parameters)
        case "custom":
            name, description = _name(body), body.text("description") or ""
            parameters = {
                "type": "object",
                "properties": {INPUT: {"type": "string", "description": _form(body.nested("format"))}},
                "required": [INPUT],
            }
            tools.add(Tool(name, namespace, custom=True), body.path, preface + description, parameters)
        case None:
            raise invalid(f"'{body.param('type')}' is required.", body.param("type"), "missing_field")


def _form(body: Body) -> str:
    """What a custom tool's input looks like, in words: the model is told of its grammar, not held to it."""
    if body.get("type") in (None, "text"):
        return "The input, as plain text."
    syntax, definition = body.text("syntax") or "grammar", body.text("definition") or ""
    return f"The input, as plain text of this form ({syntax}):\n{definition}"


def _name(body: Body) -> str:
    name = body.text("name")
    if not name:
        raise invalid(f"'{body.param('name')}' is required.", body.param("name"), "missing_field")
    return name


def _chosen(body: Body, tools: Tools) -> Tools:
    choice = body.get("tool_choice")
    if choice in (None, "auto"):
        return tools
    if choice == "none":
        return Tools(known=tools.known)
    if choice == "required":
        raise invalid(_FORCED, "tool_choice", "unsupported_parameter")
    if not isinstance(choice, dict):
        if not isinstance(choice, str):
            raise wrong_type("tool_choice", "a string or an object", choice)
        raise invalid(f"'tool_choice' must be 'auto' or 'none', not {choice[:40]!r}.", "tool_choice")
    chosen = Body(choice, "tool_choice")
    if chosen.text("type") != "allowed_tools" or chosen.text("mode") == "required":
        raise invalid(_FORCED, "tool_choice", "unsupported_parameter")
    allowed = {(tool.text("name"), tool.text("namespace")) for tool in objects(chosen, "tools")}
    names = {name for name, tool in tools.known.items() if (tool.name, tool.namespace) in allowed}
    return Tools([one for one in tools.functions if one["function"]["name"] in names], tools.known)


def objects(body: Body, name: str) -> list[Body]:
    """An array of objects; absent or null reads as empty."""
    value, path = body.get(name), body.param(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type(path, "an array", value)
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise invalid(f"'{path}[{index}]' must be an object, not {kind(item)}.", f"{path}[{index}]", "invalid_type")
    return [Body(item, f"{path}[{index}]") for index, item in enumerate(value)]


_OPENING = re.compile(r'[ \t\n\r]*\{[ \t\n\r]*"' + INPUT + r'"[ \t\n\r]*:[ \t\n\r]*"')
_PLAIN = re.compile(r'[^"\\]+')
_ESCAPES = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_HIGH = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_UNIT = re.compile(r"\\u[0-9a-fA-F]{4}")


class CustomInput:
    """A custom tool's input out of the arguments {"input": "…"} as they come, without waiting for their end."""

    def __init__(self) -> None:
        self._rest = ""  # not used yet
        self._seen: list[str] = []  # all arguments
        self._within = self._over = False
        self.text: list[str] = []

    def push(self, arguments: str) -> str:
        """More of the input."""
        self._seen.append(arguments)
        self._rest += arguments
        if not self._within:
            opening = _OPENING.match(self._rest)
            if opening is None:
                return ""
            self._within, self._rest = True, self._rest[opening.end() :]
        more = "" if self._over else self._string()
        if more:
            self.text.append(more)
        return more

    def finish(self) -> str:
        """The rest, when no argument follows: arguments of another form are the input themselves."""
        if self._within:
            return ""
        whole = "".join(self._seen)
        try:
            read = loads(whole)
        except ValueError:
            read = None
        more = whole
        if isinstance(read, dict) and isinstance(read.get(INPUT), str):
            more = _SURROGATE.sub("\ufffd", read[INPUT])
        self.text.append(more)
        return more

    def _string(self) -> str:
        out: list[str] = []
        at, rest = 0, self._rest
        while at < len(rest):
            if plain := _PLAIN.match(rest, at):
                out.append(plain.group())
                at = plain.end()
            elif rest[at] == '"':
                self._over, at = True, len(rest)
            elif escape := self._escape(rest, at):
                out.append(escape[0])
                at = escape[1]
            else:
                break  # an escape that has not wholly come
        self._rest = rest[at:]
        return "".join(out)

    @staticmethod
    def _escape(rest: str, at: int) -> tuple[str, int] | None:
        if at + 1 >= len(rest):
            return None
        if rest[at + 1] != "u":
            return _ESCAPES.get(rest[at + 1], rest[at + 1]), at + 2
        if at + 6 > len(rest):
            return None
        if not _UNIT.match(rest, at):
            return "\ufffd", at + 2
        if not _HIGH.match(rest, at):
            unit = chr(int(rest[at + 2 : at + 6], 16))
            return ("\ufffd" if "\udc00" <= unit <= "\udfff" else unit), at + 6
        if len(rest) < at + 12 and "\\u".startswith(rest[at + 6 : at + 8]):
            return None  # its other half may come
        pair = rest[at : at + 12]
        if not _UNIT.match(rest, at + 6) or not 0xDC00 <= int(rest[at + 8 : at + 12], 16) <= 0xDFFF:
            return "\ufffd", at + 6
        return pair.encode().decode("unicode_escape").encode("utf-16", "surrogatepass").decode("utf-16"), at + 12
