"""One vector of a prompt's final states: what an embedding is made of."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, Protocol

from ds4.server.schedule.banks import Bank
from ds4.server.schedule.scheduler import Step

if TYPE_CHECKING:
    from ds4.server.job import Choice

Pooling = Literal["mean", "last"]


class EmbedSession(Protocol):
    d_model: int

    def embed(self, ticket: int, row: int, count: int, into: array[float]) -> None: ...


class Pool:
    """Gathers the states of one prompt of `length` tokens, step by step: their mean, or the last one."""

    __slots__ = ("_kind", "_length", "_sum")

    def __init__(self, kind: Pooling, length: int) -> None:
        self._kind, self._length = kind, length
        self._sum: array[float] = array("d")

    def take(self, session: EmbedSession, ticket: int, row: int, start: int, end: int) -> None:
        """The step's rows from `row` on are positions start..end - 1 of the prompt."""
        end = min(end, self._length)
        first = start if self._kind == "mean" else max(start, self._length - 1)
        if first < end:
            if not self._sum:
                self._sum = array("d", bytes(8 * session.d_model))
            session.embed(ticket, row + first - start, end - first, self._sum)

    def vector(self) -> list[float]:
        """Of length 1; all zeros where the states are."""
        # The mean's divisor goes away with the length, and so it never enters.
        norm = math.sqrt(math.fsum(x * x for x in self._sum))
        return [x / norm for x in self._sum] if norm > 0 else list(self._sum)


def pools_of(step: Step, choices: Mapping[int, Choice]) -> Iterator[tuple[Bank, int, Pool]]:
    """The banks of a step whose prompts want their states, their lengths before it, and where the states go. choices:
    by key, those that somebody listens to."""
    for bank, start in step.spans:
        owner = bank.owner  # a hang-up may take it away meanwhile
        choice = choices.get(owner.key) if owner is not None else None
        if choice is not None and (pools := choice.job.request.pools) is not None:
            yield bank, start, pools[choice.index]


def take_states(step: Step, choices: Mapping[int, Choice], session: EmbedSession, ticket: int) -> None:
    """Takes in the states of a step behind which none is in flight: its rows are all that the banks have gained."""
    for bank, start, pool in pools_of(step, choices):
        first = next(at for at, row in enumerate(step.rows) if row[0] == bank.index)
        pool.take(session, ticket, first, start, len(bank.tokens))
