"""Reading a chat completions body: messages, tools, and how to think."""

from __future__ import annotations

from typing import Any

from ds4.core.chat import EFFORTS, ChatRequest
from ds4.core.json_kinds import kind
from ds4.server import limits
from ds4.server.constraints import openai_format
from ds4.server.errors import invalid
from ds4.server.prompts import no_dialect
from ds4.server.request import Body, read_options, text, wrong_type
from ds4.server.surfaces.asked import Asked, ModelFacts
from ds4.server.surfaces.chat_tools import name_of, objects, read_tools
from ds4.server.surfaces.thinking_budget import read_thought

_ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}
"""OpenAI's developer messages are its system messages under another name. Not DeepSeek's own role of that name, which
its layout treats as a kind of user's turn, and forgets."""

ALIASES = {"deepseek-chat": False, "deepseek-reasoner": True}
"""Names of a model that say whether it is to think, as DeepSeek's API has them."""

_SWITCHES = ("thinking", "enable_thinking", "think")


def read(body: Body, model: ModelFacts) -> Asked:
    """A whole chat completions body."""
    if not model.chats:
        raise no_dialect()
    asked = openai_format(body)
    chat = read_chat(body, thinks=model.thinks)
    options = read_options(body, model.defaults, model.n_vocab).on(model.cache)
    top = body.integer("top_logprobs", 0, limits.MAX_TOP_LOGPROBS)
    wanted = body.boolean("logprobs")
    if top is not None and not wanted:
        raise invalid("'top_logprobs' needs 'logprobs' to be true.", "top_logprobs")
    return Asked(options, (top or 0) if wanted else None, chat, format=asked, thought=read_thought(body))


def read_chat(body: Body, *, generation_prompt: bool = True, thinks: bool = False) -> ChatRequest:
    """What the body asks of the model's dialect. thinks: whether answers of this model can hold reasoning."""
    model = body.text("model")
    messages = read_messages(body)
    tools, calls = read_tools(body)
    thinking = _thinking(body)
    if thinking is None and thinks:
        thinking = ALIASES.get(model or "")
    effort = body.text("reasoning_effort")
    if effort is not None and effort not in EFFORTS:
        raise invalid(
            f"'reasoning_effort' must be one of {', '.join(EFFORTS)}, not {effort[:40]!r}.", "reasoning_effort"
        )
    return ChatRequest(
        messages,
        tools,
        thinking=thinking,
        effort=effort,
        generation_prompt=generation_prompt,
        calls=calls,
    )


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


def _calls(message: Body) -> list[dict[str, Any]]:
    """Tool calls that the assistant made."""
    calls = []
    for call in objects(message, "tool_calls"):
        call.refuse("type", ("function",), "Only calls of functions are known.")
        function = call.nested("function")
        arguments = function.text("arguments")
        calls.append(
            {
                "id": call.text("id") or "",
                "type": "function",
                "function": {"name": name_of(function), "arguments": arguments or ""},
            }
        )
    return calls


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
