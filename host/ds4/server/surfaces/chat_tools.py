"""The tools of a chat completions body, and which of them the answer may and must call."""

from __future__ import annotations

from typing import Any

from ds4.core.output.grammar.rules import ToolRules
from ds4.server.errors import invalid
from ds4.server.request import Body, wrong_type
from ds4.server.surfaces.tool_rules import ToolChoice, function_rule, rules


def objects(body: Body, name: str) -> list[Body]:
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type(body.param(name), "an array", value)
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise wrong_type(f"{body.param(name)}[{index}]", "an object", item)
    return [Body(item, f"{body.param(name)}[{index}]") for index, item in enumerate(value)]


def name_of(function: Body) -> str:
    name = function.text("name")
    if not name:
        raise invalid(f"'{function.param('name')}' is required.", function.param("name"), "missing_field")
    return name


def read_tools(body: Body) -> tuple[list[dict[str, Any]], ToolRules | None]:
    """The tools that the model is told of, whatever tool_choice says: a prompt that changed with it would not be found
    in the cache again. What calls the answer may make, the rules say."""
    body.refuse("functions", ([],), "Functions are not supported by this server; use tools.")
    body.refuse("function_call", ("none",), "Functions are not supported by this server; use tools.")
    tools, told = [], []
    for tool in objects(body, "tools"):
        if tool.get("type") not in (None, "function"):
            raise invalid("Only tools of type 'function' are supported.", tool.param("type"), "unsupported_parameter")
        function = tool.nested("function")
        function.text("description")
        schema, strict = function.nested("parameters"), function.boolean("strict")
        tools.append(function_rule(name_of(function), schema.data, strict=strict, param=schema.path))
        told.append({"type": "function", "function": dict(function.data)})
    return told, rules(tools, _choice(body), parallel=body.boolean("parallel_tool_calls", True))


def _choice(body: Body) -> ToolChoice:
    choice = body.get("tool_choice")
    match choice:
        case None | "auto":
            return ToolChoice()
        case "none":
            return ToolChoice(none=True)
        case "required":
            return ToolChoice(must=True)
        case dict():
            return _chosen(Body(choice, "tool_choice"))
        case str():
            message = f"'tool_choice' must be 'auto', 'none', 'required' or an object, not {choice[:40]!r}."
            raise invalid(message, "tool_choice")
    raise wrong_type("tool_choice", "a string or an object", choice)


def _chosen(choice: Body) -> ToolChoice:
    kind = choice.text("type")
    if kind in (None, "function"):
        function = choice.nested("function")
        return ToolChoice(must=True, names=(name_of(function),), param=function.param("name"))
    if kind != "allowed_tools":
        raise invalid("'tool_choice.type' must be 'function' or 'allowed_tools'.", "tool_choice.type")
    allowed = choice.nested("allowed_tools")
    mode = allowed.text("mode") or "auto"
    if mode not in ("auto", "required"):
        raise invalid(f"'{allowed.param('mode')}' must be 'auto' or 'required'.", allowed.param("mode"))
    names = [name_of(tool.nested("function")) for tool in objects(allowed, "tools")]
    return ToolChoice(must=mode == "required", names=names, param=allowed.param("tools"), none=not names)
