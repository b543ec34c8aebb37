"""Conversations as chat templates take them, from what clients send in OpenAI's form.

Templates agree on the form but not on all of it: some write a call's arguments with `tojson` and need an object, some
as they are and need its text; Llama's refuse several calls in one message, Mistral's ids that do not have nine
characters. What a template needs is read from its source (`needs_of`).
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ds4.core.json_text import dumps, loads
from ds4.errors import TemplateError

Message = Mapping[str, Any]

_SHORT = 9  # characters of Mistral's ids
_ALPHABET = string.digits + string.ascii_letters
_ONE_CALL = re.compile(r"""tool_calls['"]?\]?\s*\|\s*length\s*(?:==|!=|>)\s*1\b|\bsingle tool-call""")
_SHORT_IDS = re.compile(rf"\|\s*length\s*!=\s*{_SHORT}\b")
_AS_OBJECT = re.compile(
    r"""arguments['"]?\]?\s*\)?\s*(?:\|\s*(?:tojson|items|dictsort|list)\b|\.items\b|is\s+(?:not\s+)?(?:string|mapping)\b)"""
    r"""|\b(?:function|tool_call|call|tool_calls)['"]?\]?\s*\|\s*tojson\b"""
)
_AS_TEXT = re.compile(r"""arguments['"]?\]?\s*(?:\+|~|-?\}\})""")


@dataclass(frozen=True, slots=True)
class Needs:
    """arguments: what a call's are to be. one_call: whether a message may have one call only. short_ids: whether ids of
    calls must be nine letters and digits."""

    arguments: Literal["object", "text"] = "object"
    one_call: bool = False
    short_ids: bool = False


def needs_of(template_source: str) -> Needs:
    as_text = _AS_TEXT.search(template_source) and not _AS_OBJECT.search(template_source)
    one_call, short_ids = _ONE_CALL.search(template_source), _SHORT_IDS.search(template_source)
    return Needs("text" if as_text else "object", one_call is not None, short_ids is not None)


def template_messages(messages: Sequence[Message], needs: Needs) -> list[dict[str, Any]]:
    """The messages for a template. Contents are text (parts are its pieces; nothing is ""), `tool_calls` is only where
    there are any, each whole; results of tools have the name of the tool; reasoning is `reasoning_content`.

    TemplateError template_message: a call without a name, arguments that are no JSON object, content that is no text,
    a result without the id of its call.
    """
    out: list[dict[str, Any]] = []
    names: dict[str, str] = {}
    for index, message in enumerate(messages):
        read = {key: value for key, value in message.items() if key not in ("tool_calls", "reasoning", "content")}
        read["content"] = _content(message.get("content"), index)
        reasoning = message.get("reasoning_content") or message.get("reasoning")
        read.pop("reasoning_content", None)
        if reasoning:
            read["reasoning_content"] = reasoning
        if message.get("role") == "tool":
            _name_result(read, names, needs, index)
        if calls := message.get("tool_calls"):
            read["tool_calls"] = [_call(call, needs, names, index, number) for number, call in enumerate(calls)]
        out.append(read)
    return _one_by_one(out) if needs.one_call else out


def template_tools(tools: Sequence[Message]) -> list[dict[str, Any]]:
    """The tools for a template: {"type": "function", "function": {"name", "description", "parameters"}}, in that order
    and with nothing missing, as Hugging Face makes them from functions. What else a function has stays behind them."""
    out = []
    for index, tool in enumerate(tools):
        function = tool.get("function")
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise _error("a tool without a function's name", f"tools[{index}]", "function", tool)
        usual = {
            "name": function["name"],
            "description": function.get("description") or "",
            "parameters": function.get("parameters") or {"type": "object", "properties": {}},
        }
        rest = {key: value for key, value in function.items() if key not in usual}
        out.append({"type": "function", "function": {**usual, **rest}})
    return out


def _error(message: str, subject: str, expected: object = None, found: object = None) -> TemplateError:
    return TemplateError(message, subject=subject, code="template_message", expected=expected, found=found)


def _content(value: Any, index: int) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    if isinstance(value, Sequence):
        texts = [part.get("text") if isinstance(part, Mapping) else None for part in value]
        if all(isinstance(text, str) for text in texts):
            return "".join(texts)  # type: ignore[arg-type]  # as has just been looked at
    raise _error("content that is no text", f"messages[{index}].content", "text or parts of text", type(value).__name__)


def _call(call: Any, needs: Needs, names: dict[str, str], index: int, number: int) -> dict[str, Any]:
    where = f"messages[{index}].tool_calls[{number}]"
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name := function.get("name"), str) or not name:
        raise _error("a call without a function's name", where, "function", call)
    call_id = call.get("id")
    call_id = call_id if isinstance(call_id, str) and call_id else f"call_{index}_{number}"
    names[call_id] = name
    arguments = _arguments(function.get("arguments"), f"{where}.function.arguments")
    return {
        "id": short_id(call_id) if needs.short_ids else call_id,
        "type": "function",
        "function": {"name": name, "arguments": arguments if needs.arguments == "object" else dumps(arguments)},
    }


def _arguments(value: Any, where: str) -> Any:
    if isinstance(value, str):
        try:
            value = loads(value) if value.strip() else {}
        except ValueError:
            raise _error("arguments that are no JSON", where, "an object's JSON text", value[:80]) from None
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise _error("arguments that are no object", where, "an object", type(value).__name__)
    return value


def _name_result(read: dict[str, Any], names: Mapping[str, str], needs: Needs, index: int) -> None:
    call_id = read.get("tool_call_id")
    if not isinstance(call_id, str):
        where = f"messages[{index}].tool_call_id"
        raise _error("a result without the id of its call", where, "text", type(call_id).__name__)
    read["name"] = names.get(call_id) or read.get("name") or ""
    if needs.short_ids:
        read["tool_call_id"] = short_id(call_id)


def short_id(call_id: str) -> str:
    """An id of nine letters and digits: the id itself if it is one, else always the same one for it."""
    if len(call_id) == _SHORT and call_id.isascii() and call_id.isalnum():
        return call_id
    number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "surrogatepass")).digest()[:8], "big")
    digits = []
    for _ in range(_SHORT):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def _one_by_one(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each message with several calls as one for each, its result behind it. What was said stays with the first."""
    out: list[dict[str, Any]] = []
    at = 0
    while at < len(messages):
        message = messages[at]
        at += 1
        calls = message.get("tool_calls", ())
        if len(calls) < 2:
            out.append(message)
            continue
        results = []
        while at < len(messages) and messages[at].get("role") == "tool":
            results.append(messages[at])
            at += 1
        first: dict[str, Any] = {**message}
        rest = {"role": message["role"], "content": ""}
        for call in calls:
            out.append({**first, "tool_calls": [call]})
            out += [result for result in results if result["tool_call_id"] == call["id"]]
            first = rest
        known = {call["id"] for call in calls}
        out += [result for result in results if result["tool_call_id"] not in known]
    return out
