"""One answer on its way to the client: the engine's events become bytes, of a stream or of one body.

A function of the events alone: what the outside gives (ids, times) comes with the facts. Whoever streams says
`opening`, then `take` for each event until `ended`, then `closing`; whoever does not, `take` until `ended` and then
`whole`.
"""

from __future__ import annotations

from typing import Protocol

from ds4.server.events import CallDelta, CallsVoid, Delta, Event, Failed, Finished, KeepAlive
from ds4.server.surfaces.rendering import Answer, Renderer


class Writing(Protocol):
    """ended: nothing follows but `closing` or `whole`. quick: `at_once` may be asked."""

    quick: bool

    @property
    def ended(self) -> bool: ...
    def opening(self) -> bytes: ...
    def take(self, event: Event) -> bytes:
        """What a stream says of an event; of an answer that is not streamed, the body of an error."""
        ...

    def at_once(self, event: Delta) -> bytes | None:
        """What `take` would give for text that goes on, said already if the caller says so; None: not to be had so."""
        ...

    def closing(self) -> bytes: ...
    def whole(self) -> bytes: ...


class Rendered:
    """Writing by a renderer."""

    quick = True

    def __init__(self, renderer: Renderer, choices: int, streamed: bool) -> None:
        self._renderer, self._streamed, self._missing = renderer, streamed, choices
        self._answers = [] if streamed else [Answer() for _ in range(choices)]
        self._ends: list[Finished] = []
        self._failed = False

    @property
    def ended(self) -> bool:
        return self._failed or not self._missing

    def opening(self) -> bytes:
        return self._renderer.opening()

    def take(self, event: Event) -> bytes:
        if type(event) is Failed:
            self._failed = True
            return self._renderer.failed(event.error) if self._streamed else self._renderer.error(event.error)
        return self._say(event) if self._streamed else self._keep(event)

    def _say(self, event: Event) -> bytes:
        if type(event) is Delta:
            return self._renderer.delta(event)
        if type(event) is CallDelta:
            return self._renderer.call(event)
        if type(event) is Finished:
            self._finish(event)
            return self._renderer.finished(event)
        return self._renderer.heartbeat() if type(event) is KeepAlive else b""

    def _keep(self, event: Event) -> bytes:
        match event:
            case Delta() | CallDelta() | CallsVoid():
                self._answers[event.choice].add(event)
            case Finished():
                self._answers[event.choice].finished = event
                self._finish(event)
        return b""

    def _finish(self, event: Finished) -> None:
        self._ends.append(event)
        self._missing -= 1

    def at_once(self, event: Delta) -> bytes | None:
        return self._renderer.at_once(event)

    def closing(self) -> bytes:
        if self._failed:
            return b""
        return self._renderer.closing(sorted(self._ends, key=lambda end: end.choice))

    def whole(self) -> bytes:
        return self._renderer.buffered(self._answers)
