"""Direct use of the engine: one bank, token ids in and out, on the caller's thread.

For proving and measuring, where text, templates, scheduling and the engine thread would only be in the way. Serving goes
through `core.model`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from ds4.errors import ContextLengthError
from ds4.sys.descriptors import STEPS_IN_FLIGHT, SamplerDesc, SessionDesc
from ds4.sys.native import Row


class Result(Protocol):
    """What a lane reads of a `sys.native.StepResult`."""

    @property
    def tokens(self) -> list[int]: ...
    def logits(self, row: int) -> memoryview[float]: ...
    def logprob(self, row: int) -> float: ...
    def top(self, row: int) -> list[tuple[int, float]]: ...


class Steps(Protocol):
    """What a lane needs of a `sys.native.NativeSession`."""

    @property
    def desc(self) -> SessionDesc: ...
    def submit(self, rows: Sequence[Row]) -> int: ...
    def wait(self, ticket: int) -> Result: ...
    def set_sampler(self, bank: int, desc: SamplerDesc) -> None: ...
    def length(self, bank: int) -> int: ...


class Lane:
    """A bank that continues at its committed length. Drawing is greedy unless sampler says otherwise."""

    def __init__(self, steps: Steps, bank: int = 0, sampler: SamplerDesc | None = None) -> None:
        self._steps, self._bank = steps, bank
        steps.set_sampler(bank, sampler or SamplerDesc())

    def _room(self, tokens: int) -> int:
        """The position to go on at. Raises ContextLengthError where `tokens` more do not fit."""
        length = self._steps.length(self._bank)
        context = self._steps.desc.n_ctx
        if length + tokens > context:
            raise ContextLengthError("the tokens do not fit", subject="context", expected=context, found=length + tokens)
        return length

    def prefill(self, ids: Sequence[int], *, top: int = 0) -> Result:
        """Computes the ids, in steps of the session's width, and returns the result of the last step, whose last row
        alone drew a token: what follows ids[-1]. ids: at least one."""
        if not ids:
            raise ValueError("nothing to compute")
        at, width = self._room(len(ids)), self._steps.desc.max_rows
        tickets: list[int] = []
        for start in range(0, len(ids), width):
            piece = ids[start : start + width]
            last = start + len(piece) == len(ids)
            rows = [Row(self._bank, at + start + i, token) for i, token in enumerate(piece)]
            if last:
                rows[-1] = rows[-1]._replace(output=True, top=top)
            if len(tickets) == STEPS_IN_FLIGHT:
                self._steps.wait(tickets.pop(0))
            tickets.append(self._steps.submit(rows))
        for ticket in tickets[:-1]:
            self._steps.wait(ticket)
        return self._steps.wait(tickets[-1])

    def logits(self, ids: Sequence[int]) -> Iterator[memoryview[float]]:
        """The raw logits of each id's position, float32 [n_vocab], in order, computed as they are asked for."""
        at, width = self._room(len(ids)), min(self._steps.desc.max_rows, self._steps.desc.max_out)
        for start in range(0, len(ids), width):
            piece = ids[start : start + width]
            rows = [Row(self._bank, at + start + i, token, -1, True, True) for i, token in enumerate(piece)]
            result = self._steps.wait(self._steps.submit(rows))
            for row in range(len(piece)):
                yield result.logits(row)

    def decode(self, first: int, count: int, each: Callable[[int], None] | None = None) -> list[int]:
        """Feeds `first` and then each drawn token; returns the `count` tokens drawn. each(token) is called as soon as a
        token is known.

        Steps are chained: a step's token is "what the step before draws", so the engine never waits for the host.
        """
        at = self._room(count)
        drawn: list[int] = []
        tickets: list[int] = []
        for step in range(count):
            token = first if step == 0 else -1
            tickets.append(self._steps.submit([Row(self._bank, at + step, token, -1 if step == 0 else 0, True)]))
            if len(tickets) == STEPS_IN_FLIGHT:
                drawn.append(self._steps.wait(tickets.pop(0)).tokens[0])
                if each:
                    each(drawn[-1])
        for ticket in tickets:
            drawn.append(self._steps.wait(ticket).tokens[0])
            if each:
                each(drawn[-1])
        return drawn
