"""Chat, whatever the model's way of writing it: requests to prompts, the text of answers to events.

A *dialect* is one such way: `chat_template.TemplateChat`, a template of the model's file, and `chat_dsv4.Dsv4Chat`,
DeepSeek V4's own encoding. Which one a model has follows from its family's contract (`dialects`). Server, command line
and REPL know nothing below this. Events are those of `ds4.core.output.events`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from ds4.core.constraint.grammar import Grammar
from ds4.core.output.events import Parser
from ds4.core.output.grammar.rules import ToolRules
from ds4.core.output.tools import MadeCall
from ds4.core.tokenizer import Segment

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""How much to think, as requests say it."""

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What is asked of a model: messages in OpenAI's form, and the switches that a dialect may have.

    tools: OpenAI's, each with its `function`. response_format: OpenAI's; None or {"type": "text"} is free text.
    thinking, effort: None is the dialect's default; effort is one of EFFORTS. generation_prompt: whether the prompt
    goes up to where the answer begins. variables: of a template, beside the ones above. calls: which calls the answer
    may and must make; None: any of the tools, or none, as the model likes.
    """

    messages: Sequence[Message]
    tools: Sequence[Message] = ()
    response_format: Any = None
    thinking: bool | None = None
    effort: str | None = None
    generation_prompt: bool = True
    variables: Mapping[str, Any] = field(default_factory=dict)
    calls: ToolRules | None = None

    @property
    def names(self) -> frozenset[str]:
        """Of the tools."""
        return frozenset([tool["function"]["name"] for tool in self.tools])

    @property
    def may_call(self) -> bool:
        return bool(self.tools) and (self.calls is None or bool(self.calls.tools))


class Prompt(NamedTuple):
    """segments: for Tokenizer.encode_segments. thinking: the answer begins in reasoning. tools: the answer may call."""

    segments: list[Segment]
    thinking: bool = False
    tools: bool = False

    @property
    def text(self) -> str:
        return "".join([text for text, _ in self.segments])


class Dialect(Protocol):
    """A model's way of writing chats. Safe to use from several threads."""

    @property
    def thinks(self) -> bool:
        """Whether answers can hold reasoning."""
        ...

    @property
    def calls_tools(self) -> bool:
        """Whether answers can call tools."""
        ...

    @property
    def visible(self) -> frozenset[str]:
        """Special tokens that the parser reads: their text must reach it."""
        ...

    @property
    def tags(self) -> tuple[str, str] | None:
        """What an answer may open reasoning with by itself ("": only prompts do), and what ends it."""
        ...

    @property
    def openers(self) -> tuple[str, ...]:
        """What begins a block of tool calls; none where a call looks like any JSON."""
        ...

    @property
    def tells_format(self) -> bool:
        """Whether prompts tell the model of `response_format`; otherwise a request must not have one."""
        ...

    def prompt(self, request: ChatRequest, context: int) -> Prompt:
        """context: positions there are. Raises ChatError for what the dialect does not have; TemplateError,
        EncoderError."""
        ...

    def parser(self, prompt: Prompt) -> Parser:
        """For one answer to the prompt."""
        ...

    def grammar(
        self, prompt: Prompt, rules: ToolRules, answer: Grammar | None = None, *, may_think: bool = True
    ) -> Grammar:
        """What answers to the prompt may be (see `output.grammar`). answer: what one is that calls nothing; None: text.
        may_think: where the model opens reasoning by itself, it may. ChatError for a tool that cannot be held so."""
        ...

    def remember(self, ids: Sequence[str], calls: Sequence[MadeCall], text: str) -> None:
        """The ids that the calls of a sampled tool block were given; a request that comes with these calls again
        is rendered with the very text."""
        ...

    def read_block(self, text: str) -> list[MadeCall]:
        """The calls of a whole tool block's text."""
        ...
