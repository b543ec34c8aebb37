"""DeepSeek V4's chat: requests to prompts, answers to events. The seam that server, REPL and agent use; each half is a
component, decided by Python or by its oracle as the promotion ledger says.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

from ds4.core import components
from ds4.core.chat import ChatRequest, Prompt
from ds4.core.constraint.grammar import Grammar
from ds4.core.conversation import conversation, thinking_of
from ds4.core.encoder_dsv4 import DSML, ENDTHINK, THINK, Conversation, encode
from ds4.core.output.dsml import DsmlParser, read_block
from ds4.core.output.events import Parser
from ds4.core.output.grammar.dsml import DSML as DSML_STYLE
from ds4.core.output.grammar.frame import tool_grammar
from ds4.core.output.grammar.rules import ToolRules
from ds4.core.output.tools import CallMemory, MadeCall
from ds4.core.tapes.encoder import by_oracle
from ds4.core.tapes.output import OracleDsmlParser
from ds4.core.tokenizer import Segment
from ds4.errors import ChatError


def prompt(conversation: Conversation) -> list[Segment]:
    """The conversation's prompt, for Tokenizer.encode_segments. EncoderError as `encode`."""
    return components.pick("encoder", python=encode, oracle=by_oracle)(conversation)


def parser(*, thinking: bool, tools: bool) -> Parser:
    """A parser for the answer to a prompt. thinking: whether the prompt ended in reasoning. tools: whether any were
    declared."""
    return components.pick("output", python=DsmlParser, oracle=OracleDsmlParser)(thinking=thinking, tools=tools)


class Dsv4Chat:
    """DeepSeek V4's dialect (see `chat.Dialect`), with the memory of the tool blocks that were sampled."""

    thinks = calls_tools = True
    visible = frozenset({THINK, ENDTHINK, DSML})
    tags = ("", ENDTHINK)
    openers = (f"<{DSML}tool_calls>",)
    tells_format = True

    def __init__(self) -> None:
        self._memory = CallMemory()
        self._lock = threading.Lock()  # requests are rendered on several threads, and blocks come from yet another

    def prompt(self, request: ChatRequest, context: int) -> Prompt:
        if request.variables:
            names = ", ".join(sorted(request.variables))
            raise ChatError("this model's encoding has no such variables", subject=names, code="chat_variable")
        thinking, think_max = thinking_of(request.effort, request.thinking, context)
        with self._lock:
            made = conversation(
                request.messages,
                tools=request.tools,
                response_format=request.response_format,
                thinking=thinking,
                think_max=think_max,
                memory=self._memory,
            )
        last = made.turns[-1] if made.turns else None
        begun = last is not None and last.open
        opens = last is not None and last.role not in ("system", "assistant")
        if request.generation_prompt and not (opens or begun):
            raise ChatError(
                "nothing to answer",
                subject="messages",
                code="chat_last_message",
                expected="a last message of role user or tool, or an assistant's with prefix",
                found="none" if last is None else last.role,
            )
        if opens and not request.generation_prompt:
            message = "this model's encoding opens the answer behind every user's message and tool's result"
            raise ChatError(message, subject="add_generation_prompt", code="chat_generation_prompt")
        # An answer that is begun for the model has done its thinking.
        return Prompt(prompt(made), thinking and opens, request.may_call)

    def parser(self, prompt: Prompt) -> Parser:
        return parser(thinking=prompt.thinking, tools=prompt.tools)

    def grammar(
        self, prompt: Prompt, rules: ToolRules, answer: Grammar | None = None, *, may_think: bool = True
    ) -> Grammar:
        return tool_grammar(DSML_STYLE, rules, thinking=prompt.thinking, tags=self.tags, answer=answer)

    def remember(self, ids: Sequence[str], calls: Sequence[MadeCall], text: str) -> None:
        with self._lock:
            self._memory.put(ids, calls, text)

    def read_block(self, text: str) -> list[MadeCall]:
        return read_block(text)
