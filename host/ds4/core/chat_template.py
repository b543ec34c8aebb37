"""The dialect of models whose file brings a chat template. Answers are content; the thinking marks and tool calls of
the families that write their templates so are dialects of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from ds4.core.chat import ChatRequest, Message, Prompt
from ds4.core.output.events import ContentDelta, Event, Finish, Mode, Parser
from ds4.core.output.tools import MadeCall
from ds4.core.template import ChatTemplate
from ds4.errors import ChatError


class PlainParser:
    """All is content."""

    __slots__ = ()
    mode: Mode = "content"

    def push(self, text: str) -> list[Event]:
        return [ContentDelta(text)] if text else []

    def finish(self) -> tuple[list[Event], Finish]:
        return [], Finish("stop")


class TemplateChat:
    """See `chat.Dialect`."""

    thinks = calls_tools = False
    visible: frozenset[str] = frozenset()

    def __init__(self, template: ChatTemplate) -> None:
        self.template = template

    def prompt(self, request: ChatRequest, context: int) -> Prompt:
        if request.tools:
            raise ChatError("this model's chats have no tools", subject="tools", code="chat_tools")
        if request.thinking or request.effort not in (None, "none"):
            subject = "thinking" if request.thinking else "reasoning_effort"
            raise ChatError("this model does not think before it answers", subject=subject, code="chat_thinking")
        if request.response_format not in (None, {"type": "text"}):
            raise ChatError("this model's chats have free text only", subject="response_format", code="chat_format")
        if request.messages and request.messages[-1].get("prefix"):
            raise ChatError("this model's chats cannot go on with an answer", subject="messages", code="chat_prefix")
        for index, message in enumerate(request.messages):
            if message.get("tool_calls"):
                subject = f"messages[{index}].tool_calls"
                raise ChatError("this model's chats have no tool calls", subject=subject, code="chat_tools")
        return Prompt(
            self.template.render(
                [_plain(message) for message in request.messages],
                add_generation_prompt=request.generation_prompt,
                **request.variables,
            )
        )

    def parser(self, prompt: Prompt) -> Parser:
        return PlainParser()

    def remember(self, ids: Sequence[str], calls: Sequence[MadeCall], text: str) -> None:
        raise AssertionError("no answer of this dialect calls a tool")

    def read_block(self, text: str) -> list[MadeCall]:
        return []


def _plain(message: Message) -> Message:
    """Templates take content as one text: parts are its pieces."""
    content = message.get("content")
    if not isinstance(content, list):
        return message
    return {**message, "content": "".join([part["text"] for part in content])}
