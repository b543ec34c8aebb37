"""Which calls an answer may and must make, whatever a surface calls that: the choice, and the tools it is about."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ds4.core.constraint import grammar
from ds4.core.output.grammar.rules import TextForm, ToolRule, ToolRules
from ds4.errors import ConstraintError
from ds4.server import limits
from ds4.server.errors import ApiError, invalid
from ds4.server.request import Body


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """none: no call. must: at least one. names: of the tools that may be called; None: all of them. param: the field
    that says so."""

    none: bool = False
    must: bool = False
    names: Collection[str] | None = None
    param: str = "tool_choice"


def rules(tools: Sequence[ToolRule], choice: ToolChoice, *, parallel: bool = True) -> ToolRules | None:
    """None: nothing that a grammar would have to hold. parallel: an answer may make several calls."""
    if choice.names is not None:
        known = {tool.name for tool in tools}
        if unknown := [name for name in choice.names if name not in known]:
            raise invalid(f"'{choice.param}' names {unknown[0][:64]!r}, which is none of 'tools'.", choice.param)
    if choice.must and not tools:
        raise invalid(f"'{choice.param}' asks for a call, but there are no 'tools'.", choice.param)
    if not tools:
        return None
    if choice.none:
        return ToolRules(())
    allowed = [tool for tool in tools if choice.names is None or tool.name in choice.names]
    if choice.must and not allowed:
        raise invalid(f"'{choice.param}' asks for a call, but allows no tool.", choice.param)
    held = any(tool.strict or tool.form is not None for tool in allowed)
    if choice.must or not parallel or len(allowed) < len(tools) or held:
        return ToolRules(allowed, must=choice.must, single=not parallel)
    return None


def function_rule(name: str, parameters: Mapping[str, Any], *, strict: bool, param: str) -> ToolRule:
    """A tool that takes JSON. param: the field of the schema, which a strict tool has to have a good one in."""
    if strict:
        try:
            grammar.json_schema(parameters)
        except ConstraintError as error:
            raise refused(error, param) from error
    return ToolRule(name, parameters, strict)


def text_rule(name: str, parameter: str, form: Body) -> ToolRule:
    """A tool that takes text, in a parameter of that name. form: the text's `format`."""
    kind = form.text("type")
    if kind in (None, "text"):
        return ToolRule(name, text=parameter)
    if kind != "grammar":
        raise invalid(f"'{form.param('type')}' must be 'text' or 'grammar', not {kind[:40]!r}.", form.param("type"))
    syntax, definition = form.text("syntax"), form.text("definition")
    if definition is None:
        raise invalid(f"'{form.param('definition')}' is required.", form.param("definition"), "missing_field")
    try:
        match syntax:
            case "lark":
                grammar.lark(definition)
                return ToolRule(name, text=parameter, form=TextForm("lark", definition))
            case "regex":
                grammar.regex(definition)
                return ToolRule(name, text=parameter, form=TextForm("regex", definition))
    except ConstraintError as error:
        raise refused(error, form.param("definition")) from error
    raise invalid(f"'{form.param('syntax')}' must be 'lark' or 'regex'.", form.param("syntax"))


def held(tools: object, path: str = "tools") -> list[tuple[str, object]]:
    """The tools, of any surface and not looked at yet, whose reading compiles something, each with its place and with
    what it is made of. That takes milliseconds, a hostile one's a second."""
    found: list[tuple[str, object]] = []
    for index, tool in enumerate(tools if isinstance(tools, list) else ()):
        if isinstance(tool, dict):
            place, function = f"{path}[{index}]", tool.get("function")
            inner = function if isinstance(function, dict) else {}
            if tool.get("strict") or inner.get("strict") or tool.get("format"):
                forms = [tool.get("format"), tool.get("parameters"), tool.get("input_schema"), inner.get("parameters")]
                found.append((place, [form for form in forms if form is not None]))
            found += held(tool.get("tools"), f"{place}.tools")
    return found


def check_held(tools: Sequence[tuple[str, object]]) -> None:
    """ApiError for more, or more of them, than one request may have compiled."""
    if len(tools) > limits.MAX_HELD_TOOLS:
        message = (
            f"Strict tools and tools with a grammar may be {limits.MAX_HELD_TOOLS} in a request, not {len(tools)}."
        )
        raise invalid(message, "tools", "too_many_grammars")
    size = 0
    for place, made_of in tools:
        size += _characters(made_of, limits.MAX_HELD_CHARS)
        if size > limits.MAX_HELD_CHARS:
            message = (
                f"Schemas and grammars of strict and custom tools may have {limits.MAX_HELD_CHARS} characters in a "
                f"request; with '{place}' they come to {size} or more."
            )
            raise invalid(message, place, "grammars_too_large")


def _characters(value: object, most: int) -> int:
    """About as many as the JSON of a value has; counted until they are more than `most`."""
    count, todo = 0, [value]
    while todo and count <= most:
        match todo.pop():
            case str() as text:
                count += len(text) + 2
            case dict() as members:
                count += 2 + sum(map(len, members)) + 4 * len(members)
                todo += members.values()
            case list() as items:
                count += 2 + 2 * len(items)
                todo += items
            case other:
                count += len(repr(other))
    return count


def refused(error: ConstraintError, param: str) -> ApiError:
    """A schema or grammar that answers cannot be held to, told with the field that has it."""
    return invalid(f"'{param}' cannot be used: {error}.", param, f"invalid_{error.code}")
