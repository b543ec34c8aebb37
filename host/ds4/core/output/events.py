"""What an answer is made of, for those who show it: events, the same for every model's way of writing.

A parser takes the text of one answer in pieces and gives events; the surfaces of the server, the REPL and the agent
turn them into their own shape. Parsers differ by family (how reasoning is marked, how tools are called), the events
do not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

Mode = Literal["reasoning", "content", "block", "done"]
"""Where the text stands: in reasoning, in the answer proper, inside a tool block, behind the end."""


# One of these is made for each token. Nobody changes one, but a frozen dataclass takes twice the time to make.


@dataclass(unsafe_hash=True, slots=True)
class ReasoningDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ReasoningEnd:
    """The model is done thinking."""


@dataclass(unsafe_hash=True, slots=True)
class ContentDelta:
    text: str


@dataclass(frozen=True, slots=True)
class CallStart:
    """index: counts the calls of the answer, from 0. Ids are the surface's to mint."""

    index: int
    name: str


@dataclass(unsafe_hash=True, slots=True)
class ArgumentsDelta:
    """A piece of the call's arguments; joined they are JSON text, once the call has ended."""

    index: int
    text: str


@dataclass(frozen=True, slots=True)
class CallEnd:
    index: int


@dataclass(frozen=True, slots=True)
class Void:
    """A tool block turned out malformed. text: all of it, exactly; it is content, and the calls that it seemed to
    make since the last ToolBlock are none."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolBlock:
    """A tool block is complete. text: exactly what the model wrote, for the history (see `tools.CallMemory`)."""

    text: str


Event = ReasoningDelta | ReasoningEnd | ContentDelta | CallStart | ArgumentsDelta | CallEnd | Void | ToolBlock

Kind = Literal["stop", "reasoning", "tool_calls", "unterminated"]


@dataclass(frozen=True, slots=True)
class Finish:
    """How the text ended.

    stop: in content. reasoning: while thinking. tool_calls: with complete calls. unterminated: inside a tool block.
    text: of an unterminated block, all of it. closers: what would complete it if it were pushed instead of the end;
    None: nothing would.
    """

    kind: Kind
    text: str = ""
    closers: str | None = None


class Parser(Protocol):
    """What every family's parser is."""

    @property
    def mode(self) -> Mode: ...

    def push(self, text: str) -> list[Event]:
        """The events that have become certain. Neighbouring deltas are joined."""
        ...

    def finish(self) -> tuple[list[Event], Finish]:
        """At the end of the text. No push may follow."""
        ...


class Emitter:
    """Collects the events of one push; neighbouring deltas of one kind become one."""

    __slots__ = ("_index", "_kind", "_out", "_parts")

    def __init__(self) -> None:
        self._out: list[Event] = []
        self._parts: list[str] = []  # of the delta that may still grow
        self._kind: type[ReasoningDelta] | type[ContentDelta] | type[ArgumentsDelta] = ContentDelta
        self._index = 0

    def _text(self, kind: type[ReasoningDelta] | type[ContentDelta], text: str) -> None:
        if text:
            if kind is not self._kind:
                self._close()
                self._kind = kind
            self._parts.append(text)

    def reasoning(self, text: str) -> None:
        self._text(ReasoningDelta, text)

    def content(self, text: str) -> None:
        self._text(ContentDelta, text)

    def arguments(self, index: int, text: str) -> None:
        if text:
            if self._kind is not ArgumentsDelta or index != self._index:
                self._close()
                self._kind, self._index = ArgumentsDelta, index
            self._parts.append(text)

    def add(self, event: Event) -> None:
        self._close()
        self._out.append(event)

    def _close(self) -> None:
        if self._parts:
            text = "".join(self._parts)
            self._parts.clear()
            if self._kind is ArgumentsDelta:
                self._out.append(ArgumentsDelta(self._index, text))
            else:
                self._out.append(ReasoningDelta(text) if self._kind is ReasoningDelta else ContentDelta(text))

    def take(self) -> list[Event]:
        if self._parts:
            self._close()
        out, self._out = self._out, []
        return out


def joined(events: Iterable[Event]) -> list[Event]:
    """The same with neighbouring deltas joined: what does not depend on where the text was cut."""
    emitter = Emitter()
    for event in events:
        if isinstance(event, ReasoningDelta):
            emitter.reasoning(event.text)
        elif isinstance(event, ContentDelta):
            emitter.content(event.text)
        elif isinstance(event, ArgumentsDelta):
            emitter.arguments(event.index, event.text)
        else:
            emitter.add(event)
    return emitter.take()
