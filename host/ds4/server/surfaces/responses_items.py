"""Responses items as messages in the form of chat completions: one turn of an assistant is one message, however many
items (reasoning, text, calls) it came in.
"""

from __future__ import annotations

import base64
from typing import Any

from ds4.core.json_kinds import kind
from ds4.server.errors import ApiError, invalid
from ds4.server.request import Body, base64_text, text, wrong_type
from ds4.server.surfaces.chat_tools import objects
from ds4.server.surfaces.responses_tools import as_arguments, told

Item = dict[str, Any]

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_TEXTS = ("input_text", "output_text", "text", "refusal")
_MARK = "ds4:"

# What others ran or decided; it has no place in the text that this server's models read.
_WITHOUT_TEXT = frozenset(
    """additional_tools apply_patch_call apply_patch_call_output code_interpreter_call compaction compaction_trigger
    computer_call computer_call_output file_search_call image_generation_call local_shell_call local_shell_call_output
    mcp_approval_request mcp_approval_response mcp_call mcp_list_tools program program_output shell_call
    shell_call_output tool_search_call tool_search_output web_search_call""".split()
)


def seal(reasoning: str) -> str:
    """Reasoning for clients that keep none in the clear and send back what they do not understand. No secret."""
    return _MARK + base64.b64encode(reasoning.encode()).decode()


def unseal(sealed: str) -> str | None:
    """None: another server's."""
    if not sealed.startswith(_MARK):
        return None
    try:
        return base64_text(sealed[len(_MARK) :])
    except ValueError:
        return None


def read_input(body: Body) -> list[Item]:
    """The request's own items: a string is a user's message."""
    value = body.get("input")
    if value is None:
        return []
    if isinstance(value, str):
        content = [{"type": "input_text", "text": text(value, "input")}]
        return [{"type": "message", "role": "user", "content": content}]
    if not isinstance(value, list):
        raise wrong_type("input", "a string or an array of items", value)
    return [_typed(item) for item in objects(body, "input")]


def _typed(body: Body) -> Item:
    """An item that says what it is: some may leave that out."""
    item, name = dict(body.data), body.text("type")
    if name is None:
        name = "message" if item.get("role") is not None else "item_reference" if item.get("id") is not None else None
        if name is None:
            raise invalid(f"'{body.param('type')}' is required.", body.param("type"), "missing_field")
        item["type"] = name
    return item


def references(items: list[Item]) -> list[str]:
    """The ids that item references name."""
    return [text(item.get("id"), f"input[{i}].id") for i, item in enumerate(items) if item["type"] == "item_reference"]


def messages(items: list[Item], own: int) -> list[dict[str, Any]]:
    """The conversation of checked items. own: the first item of this request; the ones before are remembered."""
    talk = _Talk()
    for index, item in enumerate(items):
        path = f"input[{index - own}]" if index >= own else "previous_response_id"
        talk.add(Body(item, path), path)
    return talk.close()


class _Talk:
    def __init__(self) -> None:
        self._messages: list[dict[str, Any]] = []
        self._turn: dict[str, Any] | None = None  # of the assistant, that may go on
        self._calls: set[str] = set()

    def close(self) -> list[dict[str, Any]]:
        if self._turn is not None:
            self._messages.append(self._turn)
            self._turn = None
        return self._messages

    def _say(self, message: dict[str, Any]) -> None:
        self.close()
        self._messages.append(message)

    def _part(self, *after: str) -> dict[str, Any]:
        """The assistant's turn, or a new one if it has a part that must not come before the one that is added."""
        if self._turn is not None and any(self._turn.get(name) for name in after):
            self.close()
        if self._turn is None:
            self._turn = {"role": "assistant", "content": ""}
        return self._turn

    def add(self, item: Body, path: str) -> None:
        match item.text("type"):
            case "message":
                self._message(item, path)
            case "reasoning":
                if reasoning := _reasoning(item):
                    turn = self._part("content", "tool_calls")
                    turn["reasoning_content"] = turn.get("reasoning_content", "") + reasoning
            case "function_call":
                self._call(item, item.text("arguments") or "")
            case "custom_tool_call":
                self._call(item, as_arguments(item.text("input") or ""))
            case "function_call_output" | "custom_tool_call_output":
                self._output(item)
            case other if other not in _WITHOUT_TEXT:
                raise invalid(f"'{path}.type' is {str(other)[:40]!r}, which is no item known here.", f"{path}.type")

    def _message(self, item: Body, path: str) -> None:
        role = item.text("role")
        if role not in _ROLES:
            known = ", ".join(_ROLES)
            raise invalid(f"'{path}.role' must be one of {known}, not {str(role)[:40]!r}.", f"{path}.role")
        parts = _texts(item, "content")
        if _ROLES[role] != "assistant":
            shown = parts[0] if len(parts) == 1 else [{"type": "text", "text": part} for part in parts]
            self._say({"role": _ROLES[role], "content": shown})
        elif said := "".join(parts):
            self._part("content", "tool_calls")["content"] = said

    def _call(self, item: Body, arguments: str) -> None:
        name, call_id = _required(item, "name"), _required(item, "call_id")
        function = {"name": told(name, item.text("namespace")), "arguments": arguments}
        self._part().setdefault("tool_calls", []).append({"id": call_id, "type": "function", "function": function})
        self._calls.add(call_id)

    def _output(self, item: Body) -> None:
        call_id = _required(item, "call_id")
        if call_id not in self._calls:
            raise invalid(f"No tool call found for the output with call_id {call_id[:64]!r}.", item.param("call_id"))
        parts = _texts(item, "output")
        self._say({"role": "tool", "tool_call_id": call_id, "content": "\n\n".join(parts)})


def _required(item: Body, name: str) -> str:
    value = item.text(name)
    if not value:
        raise invalid(f"'{item.param(name)}' is required.", item.param(name), "missing_field")
    return value


def _texts(item: Body, name: str) -> list[str]:
    """A string or parts of text."""
    value, path = item.get(name), item.param(name)
    if isinstance(value, str):
        return [text(value, path)]
    if value is None:
        raise invalid(f"'{path}' is required.", path, "missing_field")
    return [_text(part) for part in objects(item, name)]


def _text(part: Body) -> str:
    found = part.get("type")
    if found not in _TEXTS:
        shown = repr(found[:40]) if isinstance(found, str) else kind(found)
        raise invalid(f"This model reads text only; '{part.param('type')}' is {shown}.", part.param("type"))
    name = "refusal" if found == "refusal" else "text"
    return text(part.get(name), part.param(name))


def _reasoning(item: Body) -> str:
    """What was thought: its text, or else what was sealed, or else what its summary says."""
    if content := "".join(part.text("text") or "" for part in objects(item, "content")):
        return content
    if (sealed := item.text("encrypted_content")) and (thought := unseal(sealed)):
        return thought
    return "\n\n".join(part.text("text") or "" for part in objects(item, "summary"))


def not_found(id: str, index: int) -> ApiError:
    """An item reference to nothing."""
    return ApiError(404, f"Item with id {id[:80]!r} not found.", code="not_found", param=f"input[{index}].id")
