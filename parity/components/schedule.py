"""`schedule`: arrivals, steps, hang-ups and the time to the rows of each step."""

from __future__ import annotations

import random
from collections.abc import Callable

from ds4.server.schedule.admission import QueueLimits
from ds4.server.schedule.scheduler import Scheduler
from ds4.server.schedule.sequence import Sequence as Timeline
from ds4.server.schedule.tapes import (
    ELAPSED,
    REASONS,
    TIME,
    TOKEN,
    WEIGHT,
    Hold,
    Op,
    Player,
    ScheduleInput,
    by_tape,
    write_input,
)

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

# Three conversations' tokens: prompts are beginnings of them, so that banks have much, little or nothing to share.
TALK = tuple(tuple((i * step + i // 9) % 6 for i in range(400)) for step in (1, 2, 5))
STOPS = (0, 5)
ELAPSES = (1000, 20_000_000, 1_000_000, 100, 3, 1, 0, -5, 7_777_777, 900_000_000, ELAPSED, -ELAPSED)
LENGTHS = (3, 1, 2, 5, 9, 20, 63, 64, 65, 66, 70, 130, 140)


class Maker:
    """Makes a tape by playing it: what comes next depends on what the scheduler has in flight."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        banks = 1 + choices.below(4)
        if choices.once_in(256):
            banks, rows = 4, 1 + choices.below(3)
        else:
            rows = banks + choices.of((4, 0, 1, 2, 8, 24, 60, 100, 508))
        depth, nbytes = choices.of((8, 2, 5, 0, 300)), choices.of((1000, 60, 1 << 60))
        limits = QueueLimits(depth, nbytes, choices.of((50, TIME, 120, 0)))
        self.given = ScheduleInput(banks, rows, limits, (), self._holds(banks), self._learned())
        self.ops: list[Op] = []
        self.player = Player.of(self.given) if rows >= banks else None
        self.rolling = choices.below(3) == 2
        self.guarding = choices.below(3) == 2
        self.scopes = choices.of((1, 1, 2, 3))
        self.now = self.joining = 0

    def _holds(self, banks: int) -> tuple[Hold, ...]:
        choices, holds = self.choices, []
        for bank in range(banks):
            if choices.below(3) == 2:
                tokens = TALK[choices.below(3)][: choices.of(LENGTHS)]
                unknown = (-1,) if choices.once_in(4) else ()
                holds.append(Hold(bank, choices.below(5), (*tokens, *unknown)))
        return tuple(holds)

    def _learned(self) -> tuple[float | None, float | None]:
        choices = self.choices
        if choices.below(4):
            return None, None
        decode = choices.of((None, 1e7, 1e6, 3.7, 2.0**64))
        return decode, choices.of((None, 1e6, 6e5, 0.1, 2.0**-64, 1e9))

    def tape(self, events: int) -> bytes:
        while self.choices.left and len(self.ops) < events:
            self._event()
        self._do("banks")
        self._do("pace")
        given = self.given
        return write_input(
            ScheduleInput(given.banks, given.rows, given.limits, tuple(self.ops), given.holds, given.learned)
        )

    def _do(self, verb: str, *numbers: int, reason: str = "") -> None:
        op = Op(verb, numbers, reason)
        self.ops.append(op)
        if self.player is not None:
            self.player.play(op)

    def _event(self) -> None:
        choices = self.choices
        self.now += choices.of((1, 0, 0, 1, 0, 2, 1, 12))
        if self.rolling and choices.below(3) == 2:
            self._floor()
        if self.guarding and choices.below(4) == 3:
            self._do("guard", choices.below(self.given.banks), choices.of((1, 0, 2, 3, ELAPSED)))
        if self.scopes > 1 and choices.once_in(16):
            self._do("belongs", choices.below(self.given.banks), choices.below(self.scopes))
        scheduler = self.player.scheduler if self.player is not None else None
        kind = choices.below(64)
        idle = scheduler is not None and not (scheduler.queue or scheduler.active or scheduler.open)
        if kind < 4 or (idle and kind < 40):
            self._arrive()
        elif kind < 32:
            self._do("plan", self.now)
        elif kind < 56:
            self._complete()
        elif kind < 59:
            self._do("finish", choices.below(self.joining + 2), reason=choices.of(REASONS))
        elif kind == 59:
            self._do("abandon")
        elif kind == 60:
            self._do("forget", choices.below(self.given.banks + 1), choices.of((2, 0, 5, -1)))
        elif kind == 61:
            self._do("complete", *(choices.below(3) for _ in range(1 + choices.below(3))))
        elif kind == 62:
            self._do("banks")
        else:
            self._do("plan", choices.of((self.now, 0, TIME)))

    def _arrive(self) -> None:
        """A request: a prompt with some choices, led by the first or not at all; seldom another prompt behind it."""
        choices = self.choices
        for _ in range(1 + choices.once_in(8)):
            prompt = self._prompt()
            reuse, n = int(choices.below(4) > 0), choices.of((1, 1, 2, 3, 1))
            leader = 0
            if self.scopes > 1 and choices.below(3):
                self._do("scope", choices.below(self.scopes))
            for _ in range(n):
                if self.scopes > 1 and choices.once_in(16):
                    self._do("scope", choices.below(self.scopes))
                stops = STOPS[: choices.of((0, 0, 1, 2))]
                chain, top = int(choices.below(8) > 0), choices.of((0, 0, 0, 2, TOKEN))
                nbytes = 0 if leader else choices.of((10, 0, 30, 70, WEIGHT))
                numbers = (choices.of((4, 1, 2, 3, 6, 12, TOKEN)), reuse, leader, chain, top, nbytes, len(stops))
                self._do("seq", *numbers, *stops, *prompt)
                self.joining += 1
                if self.guarding and choices.below(3) == 2:
                    self._do("home", choices.below(self.given.banks))
                if not leader and not choices.once_in(16):
                    leader = self.joining
        if self.rolling and choices.once_in(4):
            self._floor()
        self._do("arrive", self.now)

    def _floor(self) -> None:
        """Near what a bank holds or a prompt shares, where one more or less decides; seldom far from both."""
        choices = self.choices
        bank = choices.below(self.given.banks)
        held = len(self.player.scheduler.banks[bank].tokens) if self.player is not None else 0
        near = choices.of((held, choices.of(LENGTHS), held // 2, choices.of(LENGTHS), 0, TOKEN - 1))
        self._do("floor", bank, max(0, near + choices.of((0, -1, 1, 0, -3))))

    def _prompt(self) -> tuple[int, ...]:
        """A beginning of a conversation, or what a bank holds, with a few tokens more."""
        choices = self.choices
        more = [choices.below(6) for _ in range(choices.below(4))]
        tokens: list[int] = []
        if self.player is not None and choices.below(3) == 2:
            bank = choices.of(self.player.scheduler.banks)
            tokens = [token for token in bank.tokens[: choices.of((400, 2, 70))] if token >= 0]
        else:
            tokens = list(TALK[choices.below(3)][: choices.of(LENGTHS)])
        return (*tokens, *more) or (1,)

    def _complete(self) -> None:
        scheduler = self.player.scheduler if self.player is not None else None
        if scheduler is None or not scheduler.open:
            self._do("plan", self.now)
            return
        step, choices = scheduler.open[0], self.choices
        self._do("complete", choices.of(ELAPSES), *(choices.below(7) for _ in step.outputs))


def tape(data: bytes, events: int = 40) -> bytes:
    return Maker(Choices(data)).tape(events)


def soak(rng: random.Random) -> bytes:
    return tape(rng.randbytes(1 << 16), 5000)


def _turns() -> tuple[Callable[[], object], bytes]:
    """Four requests of 300 prompt tokens on four banks, in chunks; then steps in which all decode, up to 100 tokens."""
    limits = QueueLimits(256, 1 << 30, 600_000_000_000)
    prompts = [[(i * 31 + k) % 9973 for i in range(300)] for k in range(4)]
    seqs = [Op("seq", (100, 1, 0, 1, 0, 1000, 1, 2, *prompt)) for prompt in prompts]
    plain_run = Player.of(ScheduleInput(4, 512, limits))
    ops = [*seqs, Op("arrive", (0,))]
    for op in ops:
        plain_run.play(op)
    outcomes: list[tuple[int, int, list[int]]] = []  # what the engine answers: (rows, elapsed, tokens of its rows)
    while True:
        _play(plain_run, ops, Op("plan", (1,)))
        if not plain_run.scheduler.open:
            break
        _play(plain_run, ops, Op("plan", (1,)))
        step = plain_run.scheduler.open[0]
        elapsed = 20_000_000 + 100_000 * len(step.rows)
        drawn = [100 + i for i in range(len(step.outputs))]
        rows = [-1] * len(step.rows)
        for (row, _), token in zip(step.outputs, drawn, strict=True):
            rows[row] = token
        outcomes.append((len(rows), elapsed, rows))
        _play(plain_run, ops, Op("complete", (elapsed, *drawn)))

    def turns() -> int:
        scheduler = Scheduler(4, 512, limits)
        scheduler.arrive([Timeline(i, p, 100, frozenset({2}), nbytes=1000) for i, p in enumerate(prompts)], 0)
        for _, elapsed, rows in outcomes:
            scheduler.plan(1)
            scheduler.plan(1)
            scheduler.complete(rows, elapsed, 1)
        assert not scheduler.active and not scheduler.queue
        return len(outcomes)

    return turns, write_input(ScheduleInput(4, 512, limits, tuple(ops)))


def _play(player: Player, ops: list[Op], op: Op) -> None:
    ops.append(op)
    player.play(op)


COMPONENT = Component(
    name="schedule",
    about="arrivals, hang-ups, step times and drawn tokens to admissions, placements, rows and finishes",
    axes=("token", "kv", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=60, most=260),
    soak=soak,
    speed=Speed(_turns),
    sources=(
        "host/ds4/server/schedule/admission.py",
        "host/ds4/server/schedule/banks.py",
        "host/ds4/server/schedule/oracle.py",
        "host/ds4/server/schedule/pace.py",
        "host/ds4/server/schedule/scheduler.py",
        "host/ds4/server/schedule/sequence.py",
        "host/ds4/server/schedule/tapes.py",
        "oracles/schedule/*",
        "parity/components/schedule.py",
        "parity/choices.py",
        "goldens/schedule/*",
    ),
)
