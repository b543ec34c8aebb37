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
from ds4.core.output.grammar.rules import ToolRule, ToolRules
from ds4.server.errors import invalid
from ds4.server.request import Body, wrong_type
from ds4.server.surfaces.chat_tools import name_of, objects
from ds4.server.surfaces.tool_rules import ToolChoice, function_rule, rules, text_rule

INPUT = "input"
_NOTHING: Mapping[str, Any] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool as the client knows it."""

    name: str
    namespace: str | None = None
    custom: bool = False


@dataclass(slots=True)
class Tools:
    """functions: those that the model is told of, in the form of chat completions. known, rules: by the names there.
    calls: which of them the answer may and must make; None: as the model likes."""

    functions: list[dict[str, Any]] = field(default_factory=list)
    known: dict[str, Tool] = field(default_factory=dict)
    rules: list[ToolRule] = field(default_factory=list)
    calls: ToolRules | None = None

    def of(self, name: str) -> Tool:
        """What a call's name means; one that the model made up is a function of that name."""
        return self.known.get(name) or Tool(name)

    def add(self, tool: Tool, rule: ToolRule, path: str, description: str, parameters: Mapping[str, Any]) -> None:
        name = rule.name
        if name in self.known:
            raise invalid(f"'{path}' is a second tool named {name[:64]!r}.", f"{path}.name")
        self.known[name] = tool
        function: dict[str, Any] = {"name": name}
        if description:
            function["description"] = description
        function["parameters"] = dict(parameters)
        self.rules.append(rule)
        self.functions.append({"type": "function", "function": function})


def told(name: str, namespace: str | None) -> str:
    """A tool's name as the model has it."""
    return f"{namespace}.{name}" if namespace else name


def as_arguments(text: str) -> str:
    """A custom tool's input as the arguments of a call."""
    return json.dumps({INPUT: text}, ensure_ascii=False)


def read_tools(body: Body) -> Tools:
    """The tools that the model is told of, whatever tool_choice says; what calls the answer may make, `calls` says."""
    tools = Tools()
    for tool in objects(body, "tools"):
        if tool.text("type") == "namespace":
            _namespace(tool, tools)
        else:
            _tool(tool, tools, None, "")
    tools.calls = rules(tools.rules, _choice(body, tools), parallel=body.boolean("parallel_tool_calls", True))
    return tools


def _namespace(body: Body, tools: Tools) -> None:
    name, about = name_of(body), body.text("description")
    preface = f"[{name}: {about}] " if about else ""
    for tool in objects(body, "tools"):
        before = len(tools.functions)
        _tool(tool, tools, name, preface)
        if len(tools.functions) > before:
            preface = ""  # said once


def _tool(body: Body, tools: Tools, namespace: str | None, preface: str) -> None:
    match body.text("type"):
        case "function":
            name, description = name_of(body), body.text("description") or ""
            schema = body.nested("parameters")
            given: Mapping[str, Any] = _NOTHING if body.get("parameters") is None else schema.data
            rule = function_rule(
                told(name, namespace), given, strict=body.boolean("strict"), param=body.param("parameters")
            )
            tools.add(Tool(name, namespace), rule, body.path, preface + description, given)
        case "custom":
            name, description = name_of(body), body.text("description") or ""
            parameters = {
                "type": "object",
                "properties": {INPUT: {"type": "string", "description": _form(body.nested("format"))}},
                "required": [INPUT],
            }
            rule = text_rule(told(name, namespace), INPUT, body.nested("format"))
            tools.add(Tool(name, namespace, custom=True), rule, body.path, preface + description, parameters)
        case None:
            raise invalid(f"'{body.param('type')}' is required.", body.param("type"), "missing_field")


def _form(body: Body) -> str:
    """What a custom tool's input looks like, in words: a model that is held to a grammar should know of it."""
    if body.get("type") in (None, "text"):
        return "The input, as plain text."
    syntax, definition = body.text("syntax") or "grammar", body.text("definition") or ""
    return f"The input, as plain text of this form ({syntax}):\n{definition}"


def _choice(body: Body, tools: Tools) -> ToolChoice:
    choice = body.get("tool_choice")
    match choice:
        case None | "auto":
            return ToolChoice()
        case "none":
            return ToolChoice(none=True)
        case "required":
            return ToolChoice(must=True)
        case dict():
            return _chosen(Body(choice, "tool_choice"), tools)
        case str():
            message = f"'tool_choice' must be 'auto', 'none', 'required' or an object, not {choice[:40]!r}."
            raise invalid(message, "tool_choice")
    raise wrong_type("tool_choice", "a string or an object", choice)


def _chosen(choice: Body, tools: Tools) -> ToolChoice:
    kind = choice.text("type")
    if kind in ("function", "custom"):
        return ToolChoice(
            must=True, names=(told(name_of(choice), choice.text("namespace")),), param=choice.param("name")
        )
    if kind != "allowed_tools":
        message = "'tool_choice.type' must be 'function', 'custom' or 'allowed_tools': the others are not run here."
        raise invalid(message, "tool_choice.type", "unsupported_parameter")
    mode = choice.text("mode") or "auto"
    if mode not in ("auto", "required"):
        raise invalid("'tool_choice.mode' must be 'auto' or 'required'.", "tool_choice.mode")
    named = [tool for tool in objects(choice, "tools") if tool.text("type") in (None, "function", "custom")]
    names = [told(name_of(tool), tool.text("namespace")) for tool in named]
    return ToolChoice(must=mode == "required", names=names, param=choice.param("tools"), none=not names)


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
