"""Answers written by the oracle of `wire`: what the ledger chooses while `wire` is not promoted.

The tape so far is kept, and every call plays it again and takes its last line: an answer costs time that grows with its
square, so thousands of tokens are felt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from ds4.server.events import CallDelta, Delta, Event, Failed, Finished
from ds4.server.surfaces.messages_render import MessagesFacts
from ds4.server.surfaces.rendering import AnswerFacts, TokenBytes
from ds4.server.surfaces.responses_answer import ResponseFacts
from ds4.server.surfaces.wire_steps import Step
from ds4.server.surfaces.wire_tapes import Given, read_output, write_head, write_step
from ds4.sys.oracles import oracle


class _Replay(ABC):
    quick = False

    def __init__(self, choices: int, streamed: bool, token_bytes: TokenBytes) -> None:
        self._token_bytes, self._streamed, self._missing = token_bytes, streamed, choices
        self._steps = b""
        self._over = False

    @abstractmethod
    def _head(self) -> bytes: ...

    def _play(self, step: Step, *, keep: bool = True) -> bytes:
        steps = self._steps + write_step(step, self._token_bytes)
        ((_, data),) = read_output(oracle("wire").run(self._head() + steps))[-1:]
        if keep:
            self._steps = steps
        return data

    @property
    def ended(self) -> bool:
        return self._over or not self._missing

    def opening(self) -> bytes:
        return self._play("open")

    def take(self, event: Event) -> bytes:
        if type(event) is Finished:
            self._missing -= 1
        self._over = self._over or type(event) is Failed
        return self._play(event)

    def at_once(self, event: Delta) -> bytes | None:
        return None

    def closing(self) -> bytes:
        return self._play("close")

    def whole(self) -> bytes:
        return self._play("whole", keep=False)


class OracleWriting(_Replay):
    """Writing, by the oracle; but for responses."""

    def __init__(
        self, surface: str, facts: AnswerFacts | MessagesFacts, streamed: bool, token_bytes: TokenBytes
    ) -> None:
        choices = facts.choices if isinstance(facts, AnswerFacts) else 1
        super().__init__(choices, streamed, token_bytes)
        self._written = write_head(surface, streamed, facts)

    def _head(self) -> bytes:
        return self._written


class OracleResponse(_Replay):
    """ResponseAnswer's interface, by the oracle."""

    def __init__(self, facts: ResponseFacts, streamed: bool, token_bytes: TokenBytes) -> None:
        super().__init__(1, streamed, token_bytes)
        self._facts = facts
        self._items = 0  # that there may be: one for each piece of the answer
        self._finished = 0

    def _head(self) -> bytes:
        facts, outside = self._facts, self._facts.outside
        suffixes = [outside.suffix(number) for number in range(self._items)]
        given = Given(suffixes, self._finished)
        told = (facts.members, facts.tools, facts.queued, facts.summary, facts.sealed, facts.parallel, given)
        return write_head("responses", self._streamed, ResponseFacts(*told))

    def take(self, event: Event) -> bytes:
        if self.ended:
            return b""  # it was cancelled while this was under way
        self._items += type(event) in (Delta, CallDelta)
        if type(event) is Finished:
            self._finished = self._facts.outside.finished()
        return super().take(event)

    def said(self, event: Delta) -> None:
        raise AssertionError("nothing is said past the oracle")

    def cancel(self) -> None:
        self._over = True
        self._play("cancel")

    def not_stored(self) -> None:
        self._play("unstored")
