"""Messages as OpenAI's chat requests have them, as turns for an encoder of a model's own layout.

What an encoder's layout has no place for is settled here, as DwarfStar's C server does: several system messages
become one, at the beginning; request-wide tools and the response format belong to it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ds4.core.chat import EFFORTS
from ds4.core.encoder_dsv4 import Call, Conversation, Turn
from ds4.core.json_text import dumps
from ds4.core.output.tools import CallMemory, MadeCall
from ds4.errors import EncoderError

THINK_MAX_CONTEXT = 393_216
"""The least context for Think Max; below it, it is ordinary thinking."""

_TEXT_PARTS = ("text", "input_text", "output_text")
Message = Mapping[str, Any]


def thinking_of(effort: str | None, thinking: bool | None, context: int) -> tuple[bool, bool]:
    """(thinking, think_max) of a request. effort, thinking: as the request has them; the default is to think.
    thinking=False wins over any effort."""
    if effort is not None and effort not in EFFORTS:
        expected = ", ".join(EFFORTS)
        raise EncoderError(
            "unknown", subject="reasoning_effort", code="encoder_effort", expected=expected, found=effort
        )
    on = effort != "none" if thinking is None else thinking and effort != "none"
    return on, on and effort == "max" and context >= THINK_MAX_CONTEXT


def conversation(
    messages: Sequence[Message],
    *,
    tools: Sequence[Message] = (),
    response_format: Any = None,
    thinking: bool = True,
    think_max: bool = False,
    drop_thinking: bool = True,
    memory: CallMemory | None = None,
) -> Conversation:
    """tools: OpenAI's, each with its `function`. response_format: what the model is told to adhere to; {"type":
    "text"} is nothing. memory: blocks of calls that are to be written as they were sampled.

    EncoderError encoder_message, encoder_content, encoder_tool: something is not of the form that it must have. Roles
    are the encoder's to refuse.
    """
    turns = [_turn(message, index, memory) for index, message in enumerate(_listed(messages, "messages"))]
    system = [turn.content for turn in turns if turn.role == "system" and turn.content]
    functions = tuple([_function(tool, index) for index, tool in enumerate(_listed(tools, "tools"))])
    if isinstance(response_format, Mapping) and response_format.get("type") == "text":
        response_format = None
    rest = [turn for turn in turns if turn.role != "system"]
    if system or functions or response_format or len(rest) < len(turns):
        rest.insert(0, Turn("system", "\n\n".join(system), tools=functions, format=response_format))
    return Conversation(tuple(rest), thinking, think_max, drop_thinking)


def _listed(value: Any, what: str, turn: int | None = None) -> Sequence[Any]:
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return value
    found = type(value).__name__
    code = "encoder_tool" if what == "tools" else "encoder_message"
    subject = what if turn is None else None
    raise EncoderError(f"{what} is no list", code=code, turn=turn, subject=subject, expected="a list", found=found)


def _function(tool: Message, index: int) -> Any:
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        found = type(tool).__name__ if function is None else type(function).__name__  # not the value: it may be large
        raise EncoderError(
            "no function with a name", subject=f"tools[{index}]", code="encoder_tool", expected="function", found=found
        )
    return function


def _turn(message: Message, index: int, memory: CallMemory | None) -> Turn:
    if not isinstance(message, Mapping) or not isinstance(role := message.get("role"), str):
        raise EncoderError("no message with a role", code="encoder_message", turn=index)
    content = _content(message.get("content"), role, index)
    if role == "tool":
        return Turn(role, content, id=_optional(message, "tool_call_id", index))
    if role != "assistant":
        return Turn(role, content)
    calls = tuple([_call(call, index) for call in _calls(message, index)])
    replay = None
    if memory is not None and calls:
        made = [MadeCall(call.name, call.arguments) for call in calls]
        replay = memory.replay([call.id for call in calls], made)
    reasoning = _optional(message, "reasoning_content", index) or _optional(message, "reasoning", index)
    return Turn(role, content, reasoning=reasoning, calls=calls, replay=replay, open=message.get("prefix") is True)


def _optional(message: Message, key: str, index: int) -> str:
    value = message.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        found = type(value).__name__
        raise EncoderError(f"{key} is no text", code="encoder_message", turn=index, expected="a string", found=found)
    return value


def _calls(message: Message, index: int) -> Sequence[Any]:
    value = message.get("tool_calls")
    return () if value is None else _listed(value, "tool_calls", index)


def _call(call: Any, index: int) -> Call:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(name := function.get("name"), str):
        raise EncoderError("a tool call without a function's name", code="encoder_message", turn=index)
    arguments = function.get("arguments", "")
    if not isinstance(arguments, str):
        arguments = _json(arguments, index)
    return Call(_optional(call, "id", index), name, arguments)


def _json(value: Any, index: int) -> str:
    try:
        return dumps(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise EncoderError(f"a call's arguments are no JSON: {error}", code="encoder_value", turn=index) from None


def _content(value: Any, role: str, index: int) -> str | None:
    """Text, or parts: those of an answer are its pieces, others are paragraphs."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, Sequence):
        found = type(value).__name__
        raise EncoderError("no content", code="encoder_content", turn=index, expected="text or parts", found=found)
    return ("" if role == "assistant" else "\n\n").join([_part(part, role, index) for part in value])


def _part(part: Any, role: str, index: int) -> str:
    kind = part.get("type") if isinstance(part, Mapping) else None
    text = part.get("text") if isinstance(part, Mapping) else None
    if kind in _TEXT_PARTS and isinstance(text, str):
        return text
    if role == "tool" and isinstance(kind, str) and kind not in _TEXT_PARTS:
        return f"[Unsupported {kind}]"  # as the published encoder has it: the call was made, its text still counts
    raise EncoderError("not a text part", code="encoder_content", turn=index, expected="text", found=kind)
