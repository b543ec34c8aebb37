"""The steps that an answer of `wire` is made in, and the order in which they can come, as oracles/wire/README.md states
it.
"""

from __future__ import annotations

from typing import Literal, cast

from ds4.server.events import CallDelta, CallsVoid, Delta, Event, Failed, Finished, KeepAlive, TokenLogprob
from ds4.server.surfaces.messages_render import MessagesFacts
from ds4.server.surfaces.rendering import AnswerFacts
from ds4.server.surfaces.responses_answer import ResponseFacts
from ds4.sys.tape import TapeError

Facts = AnswerFacts | MessagesFacts | ResponseFacts
Said = Literal["open", "close", "whole", "cancel", "unstored"]
Step = Event | Said
"""What comes in: an event of the engine's, or what the surface asks for by itself."""


def bad(why: str) -> TapeError:
    return TapeError(f"no tape of wire: {why}")


class Order:
    """Whether steps come in an order that there is, as far as one can tell before anything is written."""

    def __init__(self, surface: bytes, streamed: bool, facts: Facts) -> None:
        self.surface, self.streamed, self.facts = surface, streamed, facts
        self.choices = facts.choices if isinstance(facts, AnswerFacts) else 1
        self.ended = [False] * self.choices
        self.calls = [0] * self.choices
        self.call: list[int | None] = [None] * self.choices
        self.opened, self.failed, self.cancelled, self.closed = not streamed, False, False, False
        self.reads = not isinstance(facts, AnswerFacts) or facts.reads

    @property
    def over(self) -> bool:
        return self.failed or self.cancelled or all(self.ended)

    def check(self, step: Step) -> None:
        if isinstance(step, str):
            good = self._asked(step)
        elif self.over or not self.opened:
            good = False
        elif isinstance(step, KeepAlive):
            good = self.streamed
        elif isinstance(step, Failed):
            good = self.failed = True
        else:
            good = self._told(cast("Delta | CallDelta | CallsVoid | Finished", step))
        if not good:
            raise bad(f"{step!r} where it cannot be")

    def _asked(self, step: Said) -> bool:
        responses = self.surface == b"responses"
        match step:
            case "open":
                good = self.streamed and not self.opened
                self.opened = True
            case "close":
                good = self.streamed and self.over and not self.closed
                self.closed = True
            case "cancel":
                good = responses and self.opened and not self.over
                self.cancelled = True
            case "unstored":
                good = responses and self.over and not self.closed
            case "whole":
                good = self.opened if responses else not self.streamed and self.over and not self.failed
        return good

    def _told(self, step: Delta | CallDelta | CallsVoid | Finished) -> bool:
        choice = step.choice
        if choice >= self.choices or self.ended[choice]:
            return False
        match step:
            case Finished():
                self.ended[choice] = True
                return step.cached_tokens <= step.prompt_tokens
            case Delta():
                self.call[choice] = None
                return (self.reads or not step.reasoning) and self._logprobs(step.logprobs)
            case CallsVoid():
                last, self.call[choice] = self.call[choice], None
                return last is not None and step.first <= last
        return self.reads and self._called(step) and self._logprobs(step.logprobs)

    def _called(self, step: CallDelta) -> bool:
        choice, index = step.choice, step.index
        if index == self.calls[choice]:
            self.calls[choice] += 1
            self.call[choice] = index
            return bool(step.id)
        known = index < self.calls[choice] and not step.id and not step.name
        return known and (not step.arguments or index == self.call[choice])

    def _logprobs(self, entries: list[TokenLogprob] | None) -> bool:
        match self.facts:
            case AnswerFacts(logprobs=wanted):
                return wanted == (entries is not None)
            case MessagesFacts():
                return entries is None
        return True
