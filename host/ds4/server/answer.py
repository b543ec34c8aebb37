"""The answer of one choice as events: a dialect's parser, ids for its tool calls, and what a broken tool block becomes.

The same for every surface: a surface only writes the events down in its own protocol.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import Literal

from ds4.core.chat import Dialect, Prompt
from ds4.core.output import events as core
from ds4.core.output.tools import MadeCall
from ds4.server.events import Broken, CallDelta, CallsVoid, Delta

Reason = Literal["stop", "length", "tool_calls"]
Part = Delta | CallDelta | CallsVoid


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """How answers to a chat prompt are read. prefix: of the ids that their tool calls are given. names: of the tools
    that there are; None: whatever is called counts as one."""

    dialect: Dialect
    prompt: Prompt
    prefix: str = "call_"
    names: frozenset[str] | None = None

    @property
    def visible(self) -> frozenset[str]:
        return self.dialect.visible


@dataclass(slots=True)
class _Call:
    id: str
    name: str
    arguments: str = ""


class Reader:
    """Reads one choice's text. Calls are numbered as clients see them: one that turned out none keeps its number, for a
    stream has told of it."""

    def __init__(self, how: ChatAnswer, choice: int) -> None:
        self._dialect, self._prefix, self._choice = how.dialect, how.prefix, choice
        self._parser = how.dialect.parser(how.prompt)
        self._calls: list[_Call] = []
        self._block = 0  # the number of the first call of the block that is open
        self._called = False
        self._names = how.names
        self.broken: Broken | None = None

    @property
    def reasoning(self) -> bool:
        return self._parser.mode == "reasoning"

    @property
    def called(self) -> tuple[str, ...]:
        """Ids of the calls of whole tool blocks."""
        return tuple(call.id for call in self._calls[: self._block]) if self._called else ()

    @property
    def complete(self) -> bool:
        """Whether the answer has ended by itself: what follows is not part of it."""
        return self._parser.mode == "done"

    def push(self, text: str) -> list[Part]:
        return self._read(self._parser.push(text)) if text else []

    def finish(self, reason: Literal["stop", "length"], *, cut: bool = False) -> tuple[list[Part], Reason]:
        """reason: why no token follows. A tool block that the model ended too early is completed where only its closing
        tags are missing; else it is text. One that was cut off, by length or (cut) by a stop string, stays as it is:
        half a command must not become a call."""
        events, finish = self._parser.finish()
        parts = self._read(events)
        if finish.kind == "unterminated" and cut:
            return parts, reason
        if finish.kind == "unterminated" and reason == "stop":
            parts += self._repaired(finish) or self._void(finish.text, "the call was not finished")
        return parts, "tool_calls" if self._called and reason == "stop" else reason

    def _read(self, events: list[core.Event]) -> list[Part]:
        parts: list[Part] = []
        for event in events:
            match event:
                case core.ContentDelta(text):
                    parts.append(Delta(self._choice, text))
                case core.ReasoningDelta(text):
                    parts.append(Delta(self._choice, text, reasoning=True))
                case core.CallStart(_, name):
                    call = _Call(self._prefix + secrets.token_hex(16), name)
                    self._calls.append(call)
                    parts.append(CallDelta(self._choice, len(self._calls) - 1, call.id, name))
                case core.ArgumentsDelta(_, text):
                    parts.append(self._arguments(len(self._calls) - 1, text))
                case core.ToolBlock(text):
                    self._complete(text)
                case core.Void(text):
                    parts += self._void(text, "the markup or the arguments of the call are malformed")
                case core.CallEnd() | core.ReasoningEnd():
                    pass
        return parts

    def _arguments(self, number: int, text: str) -> CallDelta:
        self._calls[number].arguments += text
        return CallDelta(self._choice, number, arguments=text)

    def _complete(self, text: str) -> None:
        block = self._calls[self._block :]
        made = [MadeCall(call.name, call.arguments) for call in block]
        self._dialect.remember([call.id for call in block], made, text)
        self._called = True
        unknown = [call.name for call in block if self._names is not None and call.name not in self._names]
        if unknown and self.broken is None:
            self.broken = Broken(f"there is no tool named {unknown[0][:64]!r}", text)
        self._block = len(self._calls)

    def _void(self, text: str, why: str) -> list[Part]:
        self.broken = self.broken or Broken(why)
        parts: list[Part] = [CallsVoid(self._choice, self._block)] if len(self._calls) > self._block else []
        self._block = len(self._calls)
        return [*parts, Delta(self._choice, text)]

    def _repaired(self, finish: core.Finish) -> list[Part]:
        """The rest of the block's calls; nothing if it cannot be completed."""
        if finish.closers is None:
            return []
        block, text = self._calls[self._block :], finish.text + finish.closers
        made = self._dialect.read_block(text)
        fits = len(made) == len(block) and all(
            full.name == call.name and full.arguments.startswith(call.arguments)
            for full, call in zip(made, block, strict=True)
        )
        if not made or not fits:
            return []
        rest = [full.arguments[len(call.arguments) :] for full, call in zip(made, block, strict=True)]
        parts: list[Part] = [self._arguments(self._block + i, more) for i, more in enumerate(rest)]
        self._complete(text)
        return parts
