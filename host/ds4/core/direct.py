"""Direct use of the engine: one bank, token ids in and out, on the caller's thread.

For proving and measuring, where text, templates, scheduling and the engine thread would only be in the way. Serving
goes through `core.model`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

from ds4.core import bind, expert_tables, inventory
from ds4.core.options import BACKEND, BATCH, KV, NUMERIC, THREADS, WARM
from ds4.core.settings import Settings
from ds4.errors import ContextLengthError
from ds4.sys.cpus import physical_cores
from ds4.sys.descriptors import STEPS_IN_FLIGHT, Backend, GgmlType, Numeric, SamplerDesc, SessionDesc, SessionFlags
from ds4.sys.native import NativeModel, NativeSession, Row

_PLAIN = SessionFlags(0)


class Engine:
    """A model opened for direct use, with sessions of one bank. A context manager."""

    def __init__(self, path: Path, settings: Settings, progress: Callable[[int, int], None] | None = None) -> None:
        """settings: with `core.options.ENGINE_OPTIONS`. Raises ModelFileError, UnsupportedModelError, EngineError."""
        self.inventory = inventory.load(path)
        self.plan = bind.plan(self.inventory)
        expert_tables.check(self.plan)
        self.threads = settings[THREADS] or physical_cores()
        self._settings = settings
        self.model = NativeModel.open(self.plan.desc())
        try:
            bind.match(self.plan, self.model.slots())
            if settings[WARM]:
                self.model.warm(progress)
        except BaseException:
            self.model.close()
            raise

    def session(self, context: int, outputs: int = 1, flags: SessionFlags = _PLAIN) -> NativeSession:
        """A session of `context` positions; outputs: most rows of a step whose logits are wanted."""
        settings = self._settings
        desc = SessionDesc(
            n_banks=1,
            n_ctx=context,
            max_rows=min(settings[BATCH], context),
            max_out=min(outputs, context),
            n_threads=self.threads,
            backend=Backend[settings[BACKEND].upper()],
            numeric=Numeric[settings[NUMERIC].upper()],
            kv_type=GgmlType[settings[KV].upper()],
            flags=flags,
        )
        return NativeSession(self.model, desc)

    def close(self) -> None:
        self.model.close()

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Result(Protocol):
    """What a lane reads of a `sys.native.StepResult`."""

    @property
    def tokens(self) -> list[int]: ...
    def logits(self, row: int) -> memoryview[float]: ...
    def logprob(self, row: int) -> float: ...
    def top(self, row: int) -> list[tuple[int, float]]: ...


class Drawn:
    """A drawn token with what was asked for beside it; valid until the lane has gone two steps further."""

    def __init__(self, result: Result, row: int) -> None:
        self._result, self._row = result, row
        self.token = result.tokens[row]

    def logits(self) -> memoryview[float]:
        return self._result.logits(self._row)

    def logprob(self) -> float:
        return self._result.logprob(self._row)

    def top(self) -> list[tuple[int, float]]:
        """(token, log-probability), the likeliest first."""
        return self._result.top(self._row)


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
            raise ContextLengthError(
                "the tokens do not fit", subject="context", expected=context, found=length + tokens
            )
        return length

    def prefill(self, ids: Sequence[int], *, top: int = 0, logits: bool = False) -> Drawn:
        """Computes the ids, in steps of the session's width, and draws what follows ids[-1]. ids: at least one."""
        if not ids:
            raise ValueError("nothing to compute")
        at, width = self._room(len(ids)), self._steps.desc.max_rows
        tickets: list[int] = []
        for start in range(0, len(ids), width):
            piece = ids[start : start + width]
            last = start + len(piece) == len(ids)
            rows = [Row(self._bank, at + start + i, token) for i, token in enumerate(piece)]
            if last:
                rows[-1] = rows[-1]._replace(output=True, logits=logits, top=top)
            if len(tickets) == STEPS_IN_FLIGHT:
                self._steps.wait(tickets.pop(0))
            tickets.append(self._steps.submit(rows))
        for ticket in tickets[:-1]:
            self._steps.wait(ticket)
        return Drawn(self._steps.wait(tickets[-1]), len(piece) - 1)

    def step(self, token: int, *, top: int = 0) -> Drawn:
        """Computes one token and draws what follows."""
        row = Row(self._bank, self._room(1), token, output=True, top=top)
        return Drawn(self._steps.wait(self._steps.submit([row])), 0)

    def logits(self, ids: Sequence[int]) -> Iterator[memoryview[float]]:
        """The raw logits of each id's position, float32 [n_vocab], in order, computed as they are asked for."""
        for _, result, rows in self._outputs(ids, logits=True):
            for row in range(rows):
                yield result.logits(row)

    def tickets(self, ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Computes the ids in steps whose rows all have output: (ticket, rows) of each step that has just been waited
        for, the next of which is submitted when it is asked for."""
        for ticket, _, rows in self._outputs(ids, logits=False):
            yield ticket, rows

    def _outputs(self, ids: Sequence[int], *, logits: bool) -> Iterator[tuple[int, Result, int]]:
        at, width = self._room(len(ids)), min(self._steps.desc.max_rows, self._steps.desc.max_out)
        for start in range(0, len(ids), width):
            piece = ids[start : start + width]
            rows = [Row(self._bank, at + start + i, token, -1, True, logits) for i, token in enumerate(piece)]
            ticket = self._steps.submit(rows)
            yield ticket, self._steps.wait(ticket), len(piece)

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
