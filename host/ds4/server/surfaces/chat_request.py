"""Reading a chat completions body: messages, tools, and how to think."""

from __future__ import annotations

from typing import Any

from ds4.core.chat import EFFORTS, ChatRequest
from ds4.server import limits
from ds4.server.errors import ApiError, invalid
from ds4.server.prompts import no_dialect
from ds4.server.request import Body, kind, read_options, text, wrong_type
from ds4.server.surfaces.asked import Asked, Model

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
"""OpenAI's developer messages are its system messages under another name. Not DeepSeek's own role of that name, which
its layout treats as a kind of user's turn, and forgets."""

ALIASES = {"deepseek-chat": False, "deepseek-reasoner": True}
"""Names of a model that say whether it is to think, as DeepSeek's API has them."""

_SWITCHES = ("thinking", "enable_thinking", "think")


def read(body: Body, model: Model) -> Asked:
    """A whole chat completions body."""
    if not model.chats:
        raise no_dialect()
    chat = read_chat(body, thinks=model.thinks)
    options = read_options(body, model.defaults, model.n_vocab).on(model.cache)
    top = body.integer("top_logprobs", 0, limits.MAX_TOP_LOGPROBS)
    wanted = body.boolean("logprobs")
    if top is not None and not wanted:
        raise invalid("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
    return Asked(options, (top or 0) if wanted else None, chat)


def read_chat(body: Body, *, generation_prompt: bool = True, thinks: bool = False) -> ChatRequest:
    """What the body asks of the model's dialect. thinks: whether answers of this model can hold reasoning."""
    model = body.text("model")
    messages = read_messages(body)
    tools = _tools(body)
    _refuse_unsupported(body)
    thinking = _thinking(body)
    if thinking is None and thinks:
        thinking = ALIASES.get(model or "")
    effort = body.text("reasoning_effort")
    if effort is not None and effort not in EFFORTS:
        raise invalid(
            f"'reasoning_effort' must be one of {', '.join(EFFORTS)}, not {effort[:40]!r}.", "reasoning_effort"
        )
    return ChatRequest(messages, tools, thinking=thinking, effort=effort, generation_prompt=generation_prompt)


def read_messages(body: Body) -> list[dict[str, Any]]:
    """The conversation, checked; developer as system. Content of several parts stays so: dialects differ about them."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        raise wrong_type("messages", "an array of messages", messages)
    if not messages:
        raise invalid("'messages' must hold at least one message.", "messages")
    return [_message(item, f"messages[{index}]") for index, item in enumerate(messages)]


def _message(item: object, path: str) -> dict[str, Any]:
    if not isinstance(item, dict):
        raise wrong_type(path, "an object", item)
    message = Body(item, path)
    role = message.text("role")
    if role not in _ROLES:
        raise invalid(f"'{path}.role' must be one of {', '.join(_ROLES)}, not {str(role)[:40]!r}.", f"{path}.role")
    content = message.get("content")
    if content is None and role != "assistant":
        raise invalid(f"'{path}.content' is required for the role {role}.", f"{path}.content")
    read: dict[str, Any] = {"role": _ROLES[role], "content": _content(content, f"{path}.content")}
    if name := message.text("name"):
        read["name"] = name
    if role == "tool" and (answered := message.text("tool_call_id")):
        read["tool_call_id"] = answered
    if role == "assistant":
        if calls := _calls(message):
            read["tool_calls"] = calls
        for field in ("reasoning_content", "reasoning"):
            if reasoning := message.text(field):
                read["reasoning_content"] = reasoning
                break
        if message.boolean("prefix"):
            read["prefix"] = True
    return read


def _content(content: object, path: str) -> str | list[dict[str, str]]:
    """A string, null (nothing said), or text parts."""
    if content is None:
        return ""
    if isinstance(content, str):
        return text(content, path)
    if not isinstance(content, list):
        raise wrong_type(path, "a string or an array of text parts", content)
    parts = []
    for index, item in enumerate(content):
        part = Body(item, f"{path}[{index}]") if isinstance(item, dict) else None
        if part is None:
            raise wrong_type(f"{path}[{index}]", "an object", item)
        if part.get("type") != "text":
            found = part.get("type")
            shown = repr(found[:40]) if isinstance(found, str) else kind(found)
            raise invalid(f"This model reads text only; '{path}[{index}].type' is {shown}.", f"{path}[{index}].type")
        parts.append({"type": "text", "text": text(part.get("text"), f"{path}[{index}].text")})
    return parts[0]["text"] if len(parts) == 1 else parts


def _objects(body: Body, name: str) -> list[Body]:
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type(body.param(name), "an array", value)
    for index, item in enumerate(value):
        if not isinstance(item, dict):
            raise wrong_type(f"{body.param(name)}[{index}]", "an object", item)
    return [Body(item, f"{body.param(name)}[{index}]") for index, item in enumerate(value)]


def _name(function: Body) -> str:
    name = function.text("name")
    if not name:
        raise invalid(f"'{function.param('name')}' is required.", function.param("name"), "missing_field")
    return name


def _calls(message: Body) -> list[dict[str, Any]]:
    """Tool calls that the assistant made."""
    calls = []
    for call in _objects(message, "tool_calls"):
        call.refuse("type", ("function",), "Only calls of functions are known.")
        function = call.nested("function")
        arguments = function.text("arguments")
        calls.append(
            {
                "id": call.text("id") or "",
                "type": "function",
                "function": {"name": _name(function), "arguments": arguments or ""},
            }
        )
    return calls


def _tools(body: Body) -> list[dict[str, Any]]:
    """The tools that the model may call: none where tool_choice says so."""
    tools = []
    body.refuse("functions", ([],), "Functions are not supported by this server; use tools.")
    body.refuse("function_call", ("none",), "Functions are not supported by this server; use tools.")
    for tool in _objects(body, "tools"):
        if tool.get("type") not in (None, "function"):
            raise invalid("Only tools of type 'function' are supported.", tool.param("type"), "unsupported_parameter")
        function = tool.nested("function")
        function.text("description")
        function.nested("parameters")
        _name(function)
        tools.append({"type": "function", "function": dict(function.data)})
    choice = body.get("tool_choice")
    if isinstance(choice, dict) or choice == "required":
        raise _not_yet("tool_choice", "A tool call cannot be forced yet: 'tool_choice' may be 'auto' or 'none'.")
    if choice not in (None, "auto", "none"):
        if not isinstance(choice, str):
            raise wrong_type("tool_choice", "a string or an object", choice)
        raise invalid(f"'tool_choice' must be 'auto' or 'none', not {choice[:40]!r}.", "tool_choice")
    return [] if choice == "none" else tools


def _not_yet(param: str, message: str) -> ApiError:
    return invalid(message, param, "unsupported_parameter")


def _refuse_unsupported(body: Body) -> None:
    if body.get("tools"):
        body.refuse("parallel_tool_calls", (True,), "Answers cannot be held to a single tool call yet.")
    response_format = body.nested("response_format")
    if response_format.get("type") not in (None, "text"):
        raise _not_yet("response_format", "Answers cannot be held to JSON yet: 'response_format' may be 'text'.")


def _thinking(body: Body) -> bool | None:
    """Whether to think, from the names in use: a boolean, or {"type": "enabled" | "disabled"}."""
    for name in _SWITCHES:
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool):
            return value
        if name != "thinking" or not isinstance(value, dict):
            raise wrong_type(name, "a boolean" if name != "thinking" else "a boolean or an object", value)
        chosen = body.nested(name).text("type")
        if chosen not in ("enabled", "disabled"):
            raise invalid(f"'{name}.type' must be 'enabled' or 'disabled'.", f"{name}.type")
        return chosen == "enabled"
    return None
