"""The scheduler: which rows the next step computes, and who has finished when a step is back.

    arrive(sequences)          -> None, or why they are turned away
    plan(now)                  -> the next Step, or None: nothing to do, or wait for a step in flight first
    complete(tokens, ns, now)  -> the tokens that the oldest step in flight drew, for those still listening
    finish(sequence, reason)   -> ends one early: a stop string, a hang-up
    abandon()                  -> the steps in flight came to nothing; all is as before them
    forget(bank, length)       -> the engine has lost what the bank holds from there on

Two steps may be in flight. A decoding row of the second is chained: its token is "the output of row r of the step
before", so the engine never waits for the host. When that output turns out to end the answer, the second step's row
was in vain: nobody listens to it, and its bank is free once that step is back. What it fed stays there, for it is true:
the token that ended the answer, which the conversation's next turn repeats. Placement truncates to what is shared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from functools import partial
from itertools import count, repeat
from typing import NamedTuple

from ds4.errors import Ds4Error
from ds4.server.schedule.admission import QueueLimits, Shed
from ds4.server.schedule.banks import UNKNOWN, Bank, place, why_cold
from ds4.server.schedule.pace import Pace
from ds4.server.schedule.sequence import Finish, Sequence

IN_FLIGHT = 2
LONG_STEP = 64
"""Prompt rows from which nothing is submitted behind a step: the gap costs it nothing, and a hang-up is felt sooner."""


class Row(NamedTuple):
    """One row of a step; token -1: the output of row `token_from` of the step submitted before."""

    bank: int
    position: int
    token: int
    token_from: int = -1
    output: bool = False
    logits: bool = False
    top: int = 0


# Prompts are long and steps many: rows are made without Row's own constructor, which would take most of a plan's time.
_row: Callable[[tuple[int, ...]], Row] = partial(tuple.__new__, Row)
_SILENT = tuple(map(repeat, Row(0, 0, 0)[3:]))


def _lacking(sequence: Sequence) -> int:
    """Tokens of its prompt that an admitted sequence has still to compute."""
    assert sequence.bank is not None
    return len(sequence.prompt) - len(sequence.bank.tokens)


class Drawn(NamedTuple):
    """A token drawn for a sequence by row `row` of the completed step; sequence.finish says whether it was the last."""

    sequence: Sequence
    token: int
    row: int


@dataclass(slots=True)
class Step:
    """What to do next: first prepare the banks of `admitted` (their placements), then submit `rows`."""

    rows: list[Row] = field(default_factory=list)
    admitted: list[Sequence] = field(default_factory=list)
    outputs: list[tuple[int, Sequence]] = field(default_factory=list)
    spans: list[tuple[Bank, int]] = field(default_factory=list)  # (bank, its length before this step)
    decoding: int = 0

    @property
    def prompt_rows(self) -> int:
        return len(self.rows) - self.decoding


class Scheduler:
    def __init__(self, n_banks: int, max_rows: int, limits: QueueLimits | None = None) -> None:
        if max_rows < n_banks:
            raise ValueError(f"{max_rows} rows a step cannot serve {n_banks} banks: each decodes one row")
        self.banks = [Bank(index) for index in range(n_banks)]
        self.max_rows = max_rows
        self.limits = limits or QueueLimits()
        self.pace = Pace()
        self.queue: deque[Sequence] = deque()
        self.active: list[Sequence] = []  # in order of admission
        self.open: deque[Step] = deque()
        self.expired: list[Sequence] = []  # waited too long; the caller takes them and tells their clients
        self.queued_bytes = 0
        self.uses = 0

    def arrive(self, sequences: Seq[Sequence], now: float) -> Shed | None:
        """All choices of one request join the queue, or none does."""
        nbytes = sum(s.nbytes for s in sequences)
        if reason := self.limits.refuses(len(self.queue), self.queued_bytes, len(sequences), nbytes):
            return reason
        for sequence in sequences:
            sequence.arrived = now
        self.queue.extend(sequences)
        self.queued_bytes += nbytes
        return None

    def plan(self, now: float) -> Step | None:
        while self.queue and now - self.queue[0].arrived > self.limits.max_age:
            self.expired.append(self.queue[0])
            self.finish(self.queue[0], "queue_age")
        if len(self.open) == IN_FLIGHT or (self.open and self.open[-1].prompt_rows > LONG_STEP):
            return None
        step = Step()
        if not self._admit(step):
            return None
        reading = []
        for sequence in self.active:
            if sequence.prefilled:
                self._decode(step, sequence)
            else:
                reading.append(sequence)
        step.decoding = len(step.rows)
        if reading:
            budget = self.pace.chunk(step.decoding, self.max_rows - step.decoding)
            # Even shares, the shortest rest first, so that what it leaves goes to the others: nobody waits for the
            # whole of somebody else's prompt.
            if len(reading) > 1:
                reading.sort(key=_lacking)
            for readers, sequence in zip(range(len(reading), 0, -1), reading, strict=True):
                if share := -(-(budget - step.prompt_rows) // readers):
                    self._prefill(step, sequence, share)
        if not step.rows:
            return None
        for bank, _ in step.spans:
            bank.open += 1
        self.open.append(step)
        return step

    def _admit(self, step: Step) -> bool:
        """Moves waiting sequences onto free banks, first come first. False: a copy waits for the steps in flight."""
        for sequence in list(self.queue):
            leader = sequence.leader
            if leader is not None and not leader.prefilled and leader.finish is None:
                continue  # its prompt is being computed; the others need not wait for that
            source = leader.bank if leader is not None else None
            placement = place(
                self.banks,
                sequence.prompt,
                reuse=sequence.reuse,
                leader=source,
                home=sequence.home,
                scope=sequence.scope,
            )
            if placement is None:
                break
            if placement.source is not None and placement.source.open:
                # Admitted with step.admitted, these banks may not be changed back: hand them out with this step first.
                return bool(step.admitted)
            self.queue.remove(sequence)
            self.queued_bytes -= sequence.nbytes
            if placement.reuse == "cold":
                sequence.miss = why_cold(self.banks, sequence)
            bank = placement.bank
            holder = placement.source or bank
            bank.tokens, bank.floor = holder.tokens[: placement.keep], holder.floor
            bank.owner, bank.scope, sequence.bank, sequence.placement = sequence, sequence.scope, bank, placement
            self.active.append(sequence)
            step.admitted.append(sequence)
        return True

    def _decode(self, step: Step, sequence: Sequence) -> None:
        asked, bank = sequence.asked, sequence.bank
        assert bank is not None
        if asked == sequence.max_tokens:
            return  # the last one is in flight: known ahead, so nothing is submitted past it
        if asked <= len(sequence.drawn):
            self._row(step, sequence, bank, sequence.drawn[asked - 1], -1)
        elif sequence.chain:
            self._row(step, sequence, bank, UNKNOWN, sequence.last_row)

    def _prefill(self, step: Step, sequence: Sequence, budget: int) -> None:
        bank, prompt = sequence.bank, sequence.prompt
        assert bank is not None
        start = len(bank.tokens)
        end = min(start + budget, len(prompt))
        step.spans.append((bank, start))
        last = len(prompt) - 1
        silent = prompt[start : min(end, last)]
        step.rows += map(_row, zip(repeat(bank.index), count(start), silent, *_SILENT, strict=False))
        bank.tokens += silent
        if end > last:
            self._row(step, sequence, bank, prompt[last], -1, opened=True)

    def _row(self, step: Step, sequence: Sequence, bank: Bank, token: int, source: int, opened: bool = False) -> None:
        """A row that draws the sequence's next token."""
        position, row = len(bank.tokens), len(step.rows)
        if not opened:
            step.spans.append((bank, position))
        sequence.last_row = row
        sequence.asked += 1
        step.outputs.append((row, sequence))
        step.rows.append(_row((bank.index, position, token, source, True, False, sequence.top)))
        bank.tokens.append(token)

    def complete(self, tokens: Seq[int], elapsed_ns: int, now: float) -> list[Drawn]:
        """Takes in the oldest step in flight. tokens[i]: what row i drew."""
        step = self.open.popleft()
        self.pace.learn(step.decoding, step.prompt_rows, elapsed_ns)
        for used, _ in step.spans:
            used.open -= 1
        drawn = []
        for row, sequence in step.outputs:
            bank = sequence.bank
            if sequence.finish is not None or bank is None:
                continue
            token, told = tokens[row], sequence.drawn
            position = len(sequence.prompt) + len(told)
            told.append(token)
            if len(bank.tokens) > position:
                bank.tokens[position] = token  # the chained row in flight has this token
            if token in sequence.stop_ids:
                self.finish(sequence, "stop")
            elif len(told) == sequence.max_tokens:
                self.finish(sequence, "length")
            drawn.append(Drawn(sequence, token, row))
        return drawn

    def finish(self, sequence: Sequence, reason: Finish) -> bool:
        """Ends a sequence wherever it is; its bank keeps its tokens. False if it had ended already."""
        if sequence.finish is not None:
            return False
        sequence.finish = reason
        if sequence.bank is None:
            self.queue.remove(sequence)
            self.queued_bytes -= sequence.nbytes
            return True
        self.uses += 1
        sequence.bank.owner, sequence.bank.used_at = None, self.uses
        self.active.remove(sequence)
        return True

    def abandon(self) -> list[Step]:
        """Forgets the steps in flight, newest first: their rows were not committed. The living draw those again."""
        steps = list(reversed(self.open))
        self.open.clear()
        for step in steps:
            for bank, length in step.spans:
                del bank.tokens[length:]
                bank.open -= 1
        for sequence in self.active:
            sequence.asked = len(sequence.drawn)
        return steps

    def forget(self, index: int, length: int) -> None:
        """The engine holds `length` tokens of a bank at most. Ds4Error (bank, busy, length): there is no such bank, it
        has an owner or rows in flight, which its tokens belong to, or the length is negative."""
        if not 0 <= index < len(self.banks):
            raise Ds4Error("no such bank", expected=f"0..{len(self.banks) - 1}", found=index, code="bank")
        bank = self.banks[index]
        if not bank.free:
            raise Ds4Error("the bank is in use", subject=f"bank {index}", code="busy")
        if length < 0:
            raise Ds4Error(
                "a negative length", subject=f"bank {index}", expected="0 or more", found=length, code="length"
            )
        del bank.tokens[length:]
