"""The scheduler answered by its oracle: what `ds4.core.components` chooses while `schedule` is not promoted.

The tape so far is kept, and every call plays it again; whenever nobody waits or runs, the tape begins anew with what
the banks hold. So a busy stretch costs time that grows with its square: thousands of steps without a pause are felt.
The same sequences, banks and steps are handed out as by Scheduler. Whoever knows the floor of a bank assigns it, at any
time and from any thread; the next call's lines begin with those that have changed.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Iterator
from collections.abc import Sequence as Seq
from dataclasses import replace
from typing import Any, NoReturn, cast

from ds4.core import components
from ds4.errors import Ds4Error
from ds4.server.schedule.admission import QueueLimits, Shed
from ds4.server.schedule.banks import Placement, Reuse
from ds4.server.schedule.scheduler import Drawn, Row, Scheduler, Step
from ds4.server.schedule.sequence import Finish, Sequence
from ds4.server.schedule.tapes import (
    Hold,
    Op,
    Said,
    ScheduleInput,
    by_tape,
    read_output,
    write_head,
    write_op,
)
from ds4.sys.oracles import oracle

log = logging.getLogger("ds4.components")
UNBOUNDED = QueueLimits((1 << 31) - 1, 1 << 60, 4e9)
"""Of a scheduler behind a waiting room."""

_BANKS = write_op(Op("banks"))


def scheduler(n_banks: int, max_rows: int, limits: QueueLimits | None = None) -> Scheduler:
    """The one that the ledger chooses. Sequences are changed by whoever schedules them, so a candidate's shadow does
    not follow call by call: it plays the oracle's tape before that is begun anew."""
    chosen = components.choice("schedule")
    if chosen.side == "python":
        return Scheduler(n_banks, max_rows, limits)
    return OracleScheduler(n_banks, max_rows, limits, shadowed=chosen.state == "candidate")


def _time(seconds: float) -> int:
    return max(0, round(seconds * 1e9))


class OracleScheduler(Scheduler):
    """Scheduler's interface; only banks, queue, active and open are kept here, as the oracle says they are."""

    def __init__(
        self, n_banks: int, max_rows: int, limits: QueueLimits | None = None, *, shadowed: bool = False
    ) -> None:
        super().__init__(n_banks, max_rows, limits)
        self._given = ScheduleInput(
            n_banks, max_rows, replace(self.limits, max_age=min(_time(self.limits.max_age), 1 << 62))
        )
        self._shadowed, self._rounds = shadowed, 0
        self._keys: dict[int, Sequence] = {}  # the oracle's key to a sequence
        self._named: dict[Sequence, int] = {}
        self._floors = [0] * n_banks  # of the banks, as the tape says them
        self._guards = [0] * n_banks
        self._scopes = [0] * n_banks
        self._scope = 0  # of the sequences that the tape says next
        self._tape = bytearray(write_head(self._given))
        self._read = self._events = 0  # bytes of output that the tape has led to so far, and its lines

    # ---- the tape -------------------------------------------------------------------------------------------------

    def _play(self, op: Op, *, before: bytes = b"") -> list[Said]:
        """One more line: its outcome without the state. Banks are brought up to date."""
        self._tape += self._risen() + before + write_op(op)
        said = read_output(oracle("schedule").run(self._tape + _BANKS)[self._read :])
        at = next(i for i, one in enumerate(said) if one[0] == "state")
        outcome, state = said[:at], said[at]
        self._read += sum(len(_line(one)) for one in said[: at + 1])
        self._events += 1
        self.queued_bytes = cast(int, state[3])
        for one in said[at + 1 : -1]:
            numbers: Any = one[1:]
            index, owner, steps, used_at, *tokens = numbers
            bank = self.banks[index]
            bank.owner = self._keys[owner] if owner else None
            bank.open, bank.used_at, bank.tokens = steps, used_at, tokens
        if outcome and outcome[0][0] == "error":
            _refuse(cast(str, outcome[0][1]))
        return outcome

    def _risen(self) -> bytes:
        """Lines for the floors, guards and scopes that the tape does not say yet."""
        lines = b""
        for bank in self.banks:
            floor = bank.floor
            if floor != self._floors[bank.index]:
                self._floors[bank.index] = floor
                lines += write_op(Op("floor", (bank.index, floor)))
            if bank.guard != self._guards[bank.index]:
                self._guards[bank.index] = bank.guard
                lines += write_op(Op("guard", (bank.index, bank.guard)))
            if bank.scope != self._scopes[bank.index]:
                self._scopes[bank.index] = bank.scope
                lines += write_op(Op("belongs", (bank.index, bank.scope)))
        return lines

    def _settle(self) -> None:
        """Begins the tape anew when no sequence and no step is left."""
        if self.queue or self.active or self.open or self._events < 64:
            return
        if self._shadowed:
            self._shadow()
        pace = read_output(oracle("schedule").run(self._tape + b"pace\n")[self._read :])[0]
        holds = tuple([Hold(bank.index, bank.used_at, tuple(bank.tokens)) for bank in self.banks])
        decode, token = (None if bits == "-" else _double(cast(str, bits)) for bits in pace[1:])
        self._keys.clear()
        self._named.clear()
        self._floors, self._guards = [0] * len(self.banks), [0] * len(self.banks)
        self._scopes = [0] * len(self.banks)
        self._scope = 0
        self._tape = bytearray(write_head(replace(self._given, holds=holds, learned=(decode, token))))
        self._read = self._events = 0

    def _shadow(self) -> None:
        """The replacement on the same tape, one time in SAMPLE."""
        self._rounds += 1
        if self._rounds % components.SAMPLE == 1:
            tape = bytes(self._tape)
            same = by_tape(tape) == oracle("schedule").run(tape)
            components.seen["schedule" if same else "schedule differences"] += 1
            if not same:
                log.warning("component schedule: the replacement differs on a tape of %d lines", tape.count(b"\n"))

    # ---- Scheduler's calls ----------------------------------------------------------------------------------------

    def arrive(self, sequences: Seq[Sequence], now: float) -> Shed | None:
        lines = b""
        for sequence in sequences:
            key = len(self._keys) + 1
            self._keys[key], self._named[sequence] = sequence, key
            if sequence.scope != self._scope:
                self._scope = sequence.scope
                lines += write_op(Op("scope", (sequence.scope,)))
            leader = self._named[sequence.leader] if sequence.leader is not None else 0
            stops, prompt = sorted(sequence.stop_ids), sequence.prompt
            flags = (int(sequence.reuse), leader, int(sequence.chain), sequence.top, sequence.nbytes)
            lines += write_op(Op("seq", (sequence.max_tokens, *flags, len(stops), *stops, *prompt)))
            if sequence.home >= 0:
                lines += write_op(Op("home", (sequence.home,)))
        verdict = self._play(Op("arrive", (_time(now),)), before=lines)[0]
        if verdict[0] == "shed":
            self._settle()
            return cast(Shed, verdict[1])
        for sequence in sequences:
            sequence.arrived = now
        self.queue.extend(sequences)
        return None

    def plan(self, now: float) -> Step | None:
        if not self.queue and not self.active:
            return None  # nothing to plan for, and nothing to be said about it
        step = Step()
        for verb, *words in self._play(Op("plan", (_time(now),))):
            match verb:
                case "expired":
                    self.expired.append(self._end(self._keys[cast(int, words[0])], "queue_age"))
                case "admit":
                    self._admitted(step, *cast("tuple[int, int, int, Reuse, int]", tuple(words)))
                case "fill":
                    bank, position, *tokens = cast("list[int]", words)
                    self._span(step, bank, position)
                    step.rows += [Row(bank, position + i, token) for i, token in enumerate(tokens)]
                case "draw":
                    self._drawing(step, *cast("list[int]", words))
                case "step":
                    step.decoding = cast(int, words[1])
        if not step.rows:
            return None
        self.open.append(step)
        return step

    def _admitted(self, step: Step, key: int, bank: int, keep: int, reuse: Reuse, source: int) -> None:
        sequence = self._keys[key]
        shared = self.banks[source] if source >= 0 else None
        if shared is not None:
            self.banks[bank].floor = self._floors[bank] = self._floors[source]
        self.banks[bank].scope = self._scopes[bank] = sequence.scope
        sequence.bank, sequence.placement = self.banks[bank], Placement(self.banks[bank], keep, reuse, shared)
        self.queue.remove(sequence)
        self.active.append(sequence)
        step.admitted.append(sequence)

    def _span(self, step: Step, bank: int, position: int) -> None:
        if all(used.index != bank for used, _ in step.spans):
            step.spans.append((self.banks[bank], position))

    def _drawing(self, step: Step, key: int, bank: int, position: int, token: int, source: int, top: int) -> None:
        sequence = self._keys[key]
        self._span(step, bank, position)
        sequence.last_row = len(step.rows)
        sequence.asked += 1
        step.outputs.append((len(step.rows), sequence))
        step.rows.append(Row(bank, position, token, source, True, False, top))

    def complete(self, tokens: Seq[int], elapsed_ns: int, now: float) -> list[Drawn]:
        step = self.open.popleft()
        numbers = (elapsed_ns, *(tokens[row] for row, _ in step.outputs))
        drawn = []
        for _, row, key, token, finish in cast("Iterator[tuple[str, int, int, int, str]]", self._outcome(numbers)):
            sequence = self._keys[key]
            sequence.drawn.append(token)
            if finish != "-":
                self._end(sequence, cast(Finish, finish))
            drawn.append(Drawn(sequence, token, row))
        self._settle()
        return drawn

    def _outcome(self, numbers: tuple[int, ...]) -> list[Said]:
        return self._play(Op("complete", numbers))

    def finish(self, sequence: Sequence, reason: Finish) -> bool:
        if sequence.finish is not None:
            return False
        self._play(Op("finish", (self._named[sequence],), reason))
        self._end(sequence, reason)
        self._settle()
        return True

    def _end(self, sequence: Sequence, reason: Finish) -> Sequence:
        sequence.finish = reason
        (self.queue if sequence.bank is None else self.active).remove(sequence)
        return sequence

    def abandon(self) -> list[Step]:
        steps = list(reversed(self.open))
        self._play(Op("abandon"))
        self.open.clear()
        for sequence in self.active:
            sequence.asked = len(sequence.drawn)
        self._settle()
        return steps

    def forget(self, index: int, length: int) -> None:
        self._play(Op("forget", (index, length)))


def _line(said: Said) -> bytes:
    return b" ".join([str(word).encode("ascii") for word in said]) + b"\n"


def _double(bits: str) -> float:
    value: float = struct.unpack(">d", bytes.fromhex(bits))[0]
    return value


def _refuse(code: str) -> NoReturn:
    raise Ds4Error("the scheduler refuses", code=code)
