"""Fields of which the contract of `request` does not speak: the request modules alone read bodies that have one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ds4.server.surfaces.asked import Surface

_Allowed = Callable[[Any], bool]


def _never(value: Any) -> bool:
    return False


def _false(value: Any) -> bool:
    return value is False


def _free(value: Any) -> bool:
    return value in ({}, {"type": "text"})


def _text(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in (None, "text")


def _auto(value: Any) -> bool:
    return bool(value == "auto")


def _auto_type(value: Any) -> bool:
    if not isinstance(value, dict) or value.get("type") != "auto":
        return False
    single = value.get("disable_parallel_tool_use")
    return single is None or single is False


def _at(data: Any, *path: str) -> Iterator[Any]:
    """The value at a path, if there is one."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    yield data


def _tools(data: Any) -> list[dict[str, Any]]:
    value = data.get("tools")
    return [tool for tool in value if isinstance(tool, dict)] if isinstance(value, list) else []


def _all_tools(data: Any) -> Iterator[dict[str, Any]]:
    for tool in _tools(data):
        yield tool
        yield from _tools(tool)


def _fields(surface: Surface, data: dict[str, Any]) -> Iterator[tuple[str, Iterator[Any], _Allowed]]:
    """Name, values and what they may be, in the contract's order."""
    for name in ("grammar", "regex", "thinking_budget"):
        yield name, _at(data, name), _never
    if surface != "completions":
        yield "reasoning.max_tokens", _at(data, "reasoning", "max_tokens"), _never
    if surface != "messages":
        yield "stream_options.include_progress", _at(data, "stream_options", "include_progress"), _false
    match surface:
        case "chat":
            yield "tool_choice", _at(data, "tool_choice"), _auto
            yield "parallel_tool_calls", _at(data, "parallel_tool_calls"), lambda value: value is True
            yield "response_format", _at(data, "response_format"), _free
            yield "thinking.budget_tokens", _at(data, "thinking", "budget_tokens"), _never
            stricts = (strict for tool in _tools(data) for strict in _at(tool, "function", "strict"))
            yield "tools.strict", stricts, _false
        case "completions":
            yield "response_format", _at(data, "response_format"), _free
        case "messages":
            yield "tool_choice", _at(data, "tool_choice"), _auto_type
            yield "output_config.format", _at(data, "output_config", "format"), lambda value: value == {}
            yield "output_format", _at(data, "output_format"), lambda value: value == {}
            yield "tools.strict", (tool.get("strict") for tool in _tools(data)), _false
        case "responses":
            yield "tool_choice", _at(data, "tool_choice"), _auto
            yield "text.format", _at(data, "text", "format"), _free
            yield "thinking.budget_tokens", _at(data, "thinking", "budget_tokens"), _never
            yield "tools.strict", (tool.get("strict") for tool in _all_tools(data)), _false
            forms = (tool.get("format") for tool in _all_tools(data) if tool.get("type") == "custom")
            yield "tools.format", forms, _text


def outside(surface: Surface, data: dict[str, Any]) -> str | None:
    """The first field of a body that is outside of the contract."""
    for name, values, allowed in _fields(surface, data):
        if any(value is not None and not allowed(value) for value in values):
            return name
    return None
