"""The dialect of models whose file brings a chat template: the template writes the prompts, and what stands in it says
how answers mark reasoning and call tools (`output.dialects`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ds4.core.chat import ChatRequest, Prompt
from ds4.core.constraint.grammar import Grammar
from ds4.core.output.dialects import Dialect as AnswerDialect
from ds4.core.output.dialects import detect
from ds4.core.output.events import ContentDelta, Event, Finish, Mode, Parser
from ds4.core.output.grammar.frame import tool_grammar
from ds4.core.output.grammar.rules import ToolRules
from ds4.core.output.grammar.styles import style
from ds4.core.output.tools import MadeCall
from ds4.core.template import ChatTemplate
from ds4.core.template_messages import needs_of, template_messages, template_tools
from ds4.errors import ChatError

_SWITCH = "enable_thinking"
"""The variable by which templates are told whether the model is to think."""


class PlainParser:
    """All is content."""

    __slots__ = ()
    mode: Mode = "content"

    def push(self, text: str) -> list[Event]:
        return [ContentDelta(text)] if text else []

    def finish(self) -> tuple[list[Event], Finish]:
        return [], Finish("stop")


class TemplateChat:
    """See `chat.Dialect`. answers: how answers are read; None: as the template shows."""

    tells_format = False  # a template has no word for it

    def __init__(self, template: ChatTemplate, answers: AnswerDialect | None = None) -> None:
        self.template = template
        self._answers = answers or detect(template.source)
        self._needs = needs_of(template.source)
        self.thinks = self._answers.tags is not None
        self.calls_tools = self._answers.calls is not None
        self.visible = self._answers.visible
        tags, calls = self._answers.tags, self._answers.calls
        self.tags = None if tags is None else (tags.opening, tags.closing)
        self.openers = calls.marks if calls is not None and not calls.bare else ()

    def prompt(self, request: ChatRequest, context: int) -> Prompt:
        self._refuse(request)
        variables = {**self._thinking(request), **request.variables}
        tools = template_tools(request.tools if self.calls_tools else ())
        segments = self.template.render(
            template_messages(request.messages, self._needs),
            add_generation_prompt=request.generation_prompt,
            tools=tools or None,
            **variables,
        )
        tags = self._answers.tags
        # What the request typed opens nothing: the end has to be the template's.
        end = "".join([text for text, special in segments[-2:] if special]) if segments and segments[-1].special else ""
        begun = tags is not None and request.generation_prompt and tags.opened_by(end)
        return Prompt(segments, begun, request.may_call)

    def _refuse(self, request: ChatRequest) -> None:
        """ChatError for what this model's chats do not have."""
        if request.response_format not in (None, {"type": "text"}):
            raise ChatError("this model's chats have free text only", subject="response_format", code="chat_format")
        if request.messages and request.messages[-1].get("prefix"):
            raise ChatError("this model's chats cannot go on with an answer", subject="messages", code="chat_prefix")
        if self.calls_tools:
            return
        if request.may_call:
            raise ChatError("this model's chats have no tools", subject="tools", code="chat_tools")
        for index, message in enumerate(request.messages):
            if message.get("tool_calls"):
                subject = f"messages[{index}].tool_calls"
                raise ChatError("this model's chats have no tool calls", subject=subject, code="chat_tools")

    def _thinking(self, request: ChatRequest) -> dict[str, Any]:
        """The template's variable for what is asked. Templates know no degrees: any effort is to think."""
        effort = request.effort
        wanted = request.thinking if request.thinking is not None else None if effort is None else effort != "none"
        subject = "thinking" if request.thinking is not None else "reasoning_effort"
        if wanted and not self.thinks:
            raise ChatError("this model does not think before it answers", subject=subject, code="chat_thinking")
        if wanted is None or not self.thinks:
            return {}
        if not wanted and _SWITCH not in self.template.source:
            message = "this model's template cannot keep it from thinking"
            raise ChatError(message, subject=subject, code="chat_thinking")
        return {_SWITCH: wanted}

    def parser(self, prompt: Prompt) -> Parser:
        if self._answers.tags is None and not prompt.tools:
            return PlainParser()
        return self._answers.parser(thinking=prompt.thinking, tools=prompt.tools)

    def grammar(
        self, prompt: Prompt, rules: ToolRules, answer: Grammar | None = None, *, may_think: bool = True
    ) -> Grammar:
        how = style(self._answers.tools, self.visible)
        thinking = prompt.thinking
        return tool_grammar(how, rules, thinking=thinking, tags=self.tags, answer=answer, may_think=may_think)

    def remember(self, ids: Sequence[str], calls: Sequence[MadeCall], text: str) -> None:
        """Nothing: templates write the calls that come back anew, from their arguments."""

    def read_block(self, text: str) -> list[MadeCall]:
        return self._answers.read_block(text)
