"""What the engine tells a surface about its request, and the channel from the engine thread to the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ds4.server.errors import ApiError


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A drawn token, its log-probability and the likeliest ones at its place, likeliest first."""

    token: int
    logprob: float
    top: list[tuple[int, float]]


@dataclass(slots=True)
class Delta:
    """More text of a choice, of its answer or of the reasoning before it; logprobs of the tokens behind it where they
    were asked for."""

    choice: int
    text: str
    logprobs: list[TokenLogprob] | None = None
    reasoning: bool = False


@dataclass(slots=True)
class CallDelta:
    """More of a tool call. The first one of a call has its id and its name; arguments: joined, JSON text."""

    choice: int
    index: int
    id: str = ""
    name: str = ""
    arguments: str = ""
    logprobs: list[TokenLogprob] | None = None


@dataclass(slots=True)
class CallsVoid:
    """The calls from index `first` on were none: their text was malformed, and follows as what it is. A stream has told
    of them already."""

    choice: int
    first: int


@dataclass(frozen=True, slots=True)
class Broken:
    """A tool call that nobody can carry out. why: for the model to read; markup: the block, where the calls that it
    makes stand in its place, else "": it was told as text."""

    why: str
    markup: str = ""


@dataclass(slots=True)
class Finished:
    """A choice is complete. cached: prompt tokens that were not computed; times in seconds on the engine's clock;
    stop: the stop string that ended it, if one did. broken: a call of it is none."""

    choice: int
    reason: Literal["stop", "length", "tool_calls"]
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    arrived: float
    first_token: float
    last_token: float
    reasoning_tokens: int = 0
    stop: str | None = None
    broken: Broken | None = None


@dataclass(slots=True)
class Failed:
    """The request came to nothing, all its choices at once."""

    error: ApiError


@dataclass(slots=True)
class KeepAlive:
    """Nothing happened for a while; a stream says so."""


@dataclass(slots=True)
class Progress:
    """A choice's prompt has been read this far. computed: of prompt_tokens, cached ones among them."""

    choice: int
    prompt_tokens: int
    computed: int
    cached: int


@dataclass(slots=True)
class HungUp:
    """The client is gone; whoever renders stops."""


Event = Delta | CallDelta | CallsVoid | Finished | Failed | KeepAlive | Progress | HungUp

_OVERHEAD = 256  # bytes that a rendered event takes beside its text


class Channel:
    """Events of one request, in order, for one reader on the event loop. Only the loop's thread touches it.

    shortcut: where a stream lets text go straight to its socket while its reader has nothing else to do. True means
    that it went; then the reader, and the tasks and layers between it and the socket, need not wake for it.
    """

    __slots__ = ("_events", "_waiter", "backlog", "quiet_since", "shortcut")

    def __init__(self, now: float) -> None:
        self._events: list[Event] = []
        self._waiter: asyncio.Future[None] | None = None
        self.backlog = 0  # bytes that are rendered or wait to be, and that the client has not taken
        self.quiet_since = now
        self.shortcut: Callable[[Delta], bool] | None = None

    @property
    def pending(self) -> list[Event]:
        """What has come and was not taken yet."""
        return self._events

    def put(self, event: Event) -> None:
        waiter = self._waiter
        if type(event) is Delta:
            # The reader waits and nothing is ahead of this event: it may overtake the reader, but no other event.
            if self.shortcut is not None and waiter is not None and not waiter.done() and self.shortcut(event):
                return
            self.backlog += len(event.text) + _OVERHEAD
        elif type(event) is CallDelta:
            self.backlog += len(event.arguments) + _OVERHEAD
        elif type(event) is Progress:
            self.backlog += _OVERHEAD
        self._events.append(event)
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def take(self) -> list[Event]:
        """Everything that has come since the last call; waits for at least one event."""
        if not self._events:
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        events, self._events = self._events, []
        self.backlog = 0
        return events
