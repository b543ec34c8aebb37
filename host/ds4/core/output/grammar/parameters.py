"""A tool's parameters one by one, each with the ways of writing it: as text, or as JSON of a schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ds4.core.output.grammar.rules import ToolRule
from ds4.errors import ChatError

_BASES = ("$defs", "definitions")
_OF_TEXT = frozenset({"type", "enum", "const", "minLength", "maxLength"})
_ABOUT = frozenset({"title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly"})


@dataclass(frozen=True, slots=True)
class Value:
    """JSON of a schema; or, where that is None, text as it is. texts: all that it may be; least, most: characters."""

    schema: Mapping[str, Any] | None = None
    texts: tuple[str, ...] | None = None
    least: int = 0
    most: int | None = None


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    values: tuple[Value, ...]
    required: bool


def parameters(tool: ToolRule) -> list[Parameter] | None:
    """Those that a schema names; None: it names none, and any may be given.

    ChatError for the schema of a strict tool that cannot be taken apart so.
    """
    strict = tool.strict or tool.text is not None
    schema = tool.schema if strict else tool.parameters or {}
    named = schema.get("properties")
    if not isinstance(named, dict):
        named = {}
    needed = schema.get("required")
    needed = [name for name in needed if isinstance(name, str)] if isinstance(needed, list) else []
    if strict:
        _whole(tool, schema, named, needed)
    elif not named:
        return None
    bases = {base: schema[base] for base in _BASES if base in schema}
    return [
        Parameter(name, tuple(_values(one, bases)) if strict else (Value(), Value({})), strict and name in needed)
        for name, one in named.items()
    ]


def _whole(tool: ToolRule, schema: Mapping[str, Any], named: Mapping[str, Any], needed: list[str]) -> None:
    usual = {"type", "properties", "required", "additionalProperties", "$schema", *_BASES, *_ABOUT}
    unusual = sorted(set(schema) - usual)
    found = ", ".join(unusual) if unusual else None
    if schema.get("type", "object") != "object":
        found = f"type {schema['type']!r}"
    if missing := [name for name in needed if name not in named]:
        found = f"'required' names {missing[0]!r}, which is no property"
    if found is not None:
        raise ChatError(
            f"the schema of the strict tool {tool.name!r} cannot be held",
            subject="tools",
            code="tool_schema",
            expected="an object with 'properties', 'required' and 'additionalProperties'",
            found=found[:200],
        )


def _values(schema: Any, bases: Mapping[str, Any]) -> Iterable[Value]:
    """All ways of writing a parameter of this schema."""
    if not isinstance(schema, dict) or not set(schema) - _ABOUT:
        return [Value({} if schema is True or isinstance(schema, dict) else schema), Value()]
    kinds, choices = schema.get("type"), schema.get("anyOf")
    if isinstance(choices, list) and choices and not set(schema) - _ABOUT - {"anyOf"}:
        return [value for choice in choices for value in _values(choice, bases)]
    if isinstance(kinds, list) and "string" in kinds:
        return [value for one in kinds for value in _values({**schema, "type": one}, bases)]
    whole = Value({**bases, **schema})
    if kinds == "string" and not set(schema) - _OF_TEXT - _ABOUT:
        if "const" not in schema and "enum" not in schema:
            return [Value(least=schema.get("minLength", 0), most=schema.get("maxLength"))]
        listed = [schema["const"]] if "const" in schema else schema["enum"]
        texts = tuple([text for text in listed if isinstance(text, str)]) if isinstance(listed, list) else ()
        fits = "const" not in schema or "enum" not in schema
        return [Value(texts=texts)] if texts and fits and not {"minLength", "maxLength"} & set(schema) else [whole]
    if "enum" in schema and kinds is None and isinstance(schema["enum"], list) and "const" not in schema:
        texts = tuple([text for text in schema["enum"] if isinstance(text, str)])
        others = [one for one in schema["enum"] if not isinstance(one, str)]
        return [*([Value(texts=texts)] if texts else ()), *([Value({**schema, "enum": others})] if others else ())]
    return [whole]
