"""The wire form of `schedule`, as oracles/schedule/README.md states it, and the scheduler as a function of a tape."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ds4.errors import Ds4Error
from ds4.server.schedule.admission import QueueLimits
from ds4.server.schedule.scheduler import Scheduler, Step
from ds4.server.schedule.sequence import Finish
from ds4.server.schedule.sequence import Sequence as Timeline
from ds4.sys.tape import TapeError, integer, integers, line, lines

TOKEN = (1 << 31) - 1
TIME = 1 << 62
ELAPSED = 1 << 53
WEIGHT = 1 << 40
_KEY = (-(1 << 63), (1 << 63) - 1)
_HEX = re.compile(rb"[0-9A-F]{16}")
REASONS: tuple[Finish, ...] = ("stop", "cancelled", "error")


class Hold(NamedTuple):
    """What a bank holds at the start; -1 for a token that is not known."""

    bank: int
    used_at: int
    tokens: tuple[int, ...]


class Op(NamedTuple):
    """One line: its verb, its numbers, and the reason of a finish."""

    verb: str
    numbers: tuple[int, ...] = ()
    reason: str = ""


Learned = tuple[float | None, float | None]
"""Nanoseconds of a decode step, and of one more prompt token."""


@dataclass(frozen=True, slots=True)
class ScheduleInput:
    """limits.max_age is in the tape's unit of time."""

    banks: int
    rows: int
    limits: QueueLimits
    ops: tuple[Op, ...] = ()
    holds: tuple[Hold, ...] = ()
    learned: Learned = (None, None)


Said = tuple[str | int, ...]
"""One line of the output: its verb and its words."""


# ---- input ----


def write_op(op: Op) -> bytes:
    if op.verb == "finish":
        return b"finish %d %b\n" % (op.numbers[0], op.reason.encode("ascii"))
    return line(op.verb, *op.numbers)


def write_head(given: ScheduleInput) -> bytes:
    limits = given.limits
    head = line("schedule", given.banks, given.rows, limits.max_queue, limits.max_bytes, int(limits.max_age))
    for hold in given.holds:
        head += line("hold", hold.bank, hold.used_at, *hold.tokens)
    if given.learned != (None, None):
        head += line("learned", *map(bits, given.learned))
    return head


def write_input(given: ScheduleInput) -> bytes:
    return write_head(given) + b"".join([write_op(op) for op in given.ops])


def bits(value: float | None) -> str:
    """A double as its 64 bits; - for none."""
    return "-" if value is None else struct.pack(">d", value).hex().upper()


def _double(word: bytes) -> float | None:
    if word == b"-":
        return None
    if _HEX.fullmatch(word) is None:
        raise TapeError(f"no bits of a double: {word[:60]!r}")
    value: float = struct.unpack(">d", bytes.fromhex(word.decode("ascii")))[0]
    if not 2.0**-64 <= value <= 2.0**64:
        raise TapeError(f"no time: {value}")
    return value


def _within(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise TapeError(f"{value} is not within {low}..{high}")
    return value


def _numbers(words: list[bytes], *bounds: tuple[int, int]) -> list[int]:
    if len(words) != len(bounds):
        raise TapeError(f"{len(words)} numbers, not {len(bounds)}")
    if not words:
        return []
    return [_within(value, *bound) for value, bound in zip(integers(words), bounds, strict=True)]


def _tokens(words: list[bytes], low: int = 0) -> list[int]:
    tokens = integers(words) if words else []
    if tokens:
        _within(min(tokens), low, TOKEN)
        _within(max(tokens), low, TOKEN)
    return tokens


def read_input(tape: bytes) -> ScheduleInput:
    """TapeError for what is no tape of schedule."""
    rows = lines(tape)
    head = next(rows, [])
    if head[:1] != [b"schedule"]:
        raise TapeError("the first line gives the banks and limits")
    n_banks, n_rows, *bounds = _numbers(head[1:], (1, 4096), (1, 1 << 20), (0, TOKEN), (0, 1 << 60), (0, TIME))
    holds: dict[int, Hold] = {}
    learned: Learned | None = None
    ops: list[Op] = []
    seqs = arrived = 0
    for words in rows:
        verb = words[0] if words else b""
        if verb == b"hold" and learned is None and not ops and len(words) >= 3:
            bank, used_at = _numbers(words[1:3], (0, n_banks - 1), (0, ELAPSED))
            if bank in holds:
                raise TapeError(f"bank {bank} is held twice")
            holds[bank] = Hold(bank, used_at, tuple(_tokens(words[3:], -1)))
        elif verb == b"learned" and learned is None and not ops and len(words) == 3:
            learned = (_double(words[1]), _double(words[2]))
        else:
            op = _op(verb, words[1:], n_banks, seqs, arrived)
            ops.append(op)
            seqs += op.verb == "seq"
            if op.verb == "arrive":
                arrived = seqs
    limits = QueueLimits(bounds[0], bounds[1], bounds[2])
    return ScheduleInput(n_banks, n_rows, limits, tuple(ops), tuple(holds.values()), learned or (None, None))


def _op(verb: bytes, words: list[bytes], n_banks: int, seqs: int, arrived: int) -> Op:
    """One line behind the head. seqs: how many seq lines stand before it; arrived: how many of those have arrived."""
    match verb:
        case b"seq" if len(words) > 7:
            flags, leader = (0, 1), integer(words[2])
            bounds = ((1, TOKEN), flags, (leader, leader), flags, (0, TOKEN), (0, WEIGHT), (0, len(words) - 8))
            if leader:
                _within(leader, arrived + 1, seqs)
            return Op("seq", (*_numbers(words[:7], *bounds), *_tokens(words[7:])))
        case b"arrive" if seqs > arrived:
            return Op("arrive", tuple(_numbers(words, (0, TIME))))
        case b"plan":
            return Op("plan", tuple(_numbers(words, (0, TIME))))
        case b"complete" if words:
            return Op("complete", (*_numbers(words[:1], (-ELAPSED, ELAPSED)), *_tokens(words[1:])))
        case b"finish" if len(words) == 2 and words[1].decode("latin-1") in REASONS:
            return Op("finish", tuple(_numbers(words[:1], _KEY)), words[1].decode("ascii"))
        case b"forget":
            return Op("forget", tuple(_numbers(words, _KEY, _KEY)))
        case b"floor" | b"belongs":
            return Op(verb.decode("ascii"), tuple(_numbers(words, (0, n_banks - 1), (0, TOKEN))))
        case b"guard":
            return Op("guard", tuple(_numbers(words, (0, n_banks - 1), (0, ELAPSED))))
        case b"home" if seqs > arrived:
            return Op("home", tuple(_numbers(words, (0, n_banks - 1))))
        case b"scope":
            return Op("scope", tuple(_numbers(words, (0, TOKEN))))
        case b"abandon" | b"banks" | b"pace" if not words:
            return Op(verb.decode("ascii"))
    raise TapeError(f"no line of a schedule: {verb[:60]!r}")


# ---- output ----


def write_output(said: Sequence[Said]) -> bytes:
    return b"".join([b" ".join([w.encode() if isinstance(w, str) else b"%d" % w for w in one]) + b"\n" for one in said])


def read_output(tape: bytes) -> list[Said]:
    """TapeError for what is no output of schedule."""
    return [tuple(_said(words)) for words in lines(tape)]


def _said(words: list[bytes]) -> Iterator[str | int]:
    pace = words[:1] == [b"pace"]
    for word in words:
        text = word.decode("ascii", "replace")
        if pace or word[:1].isalpha() or text == "-":
            yield text
        else:
            yield integer(word)


# ---- the replacement as a function of the tape ----


@dataclass(slots=True)
class Player:
    """The scheduler, played: each line's outcome as the lines that it writes."""

    scheduler: Scheduler
    seqs: list[Timeline] = field(default_factory=list)
    arrived: int = 0
    accepted: set[int] = field(default_factory=set)
    scope: int = 0

    @classmethod
    def of(cls, given: ScheduleInput) -> Player:
        scheduler = Scheduler(given.banks, given.rows, given.limits)
        for hold in given.holds:
            bank = scheduler.banks[hold.bank]
            bank.tokens, bank.used_at = list(hold.tokens), hold.used_at
        scheduler.uses = max((hold.used_at for hold in given.holds), default=0)
        scheduler.pace.decode_ns, scheduler.pace.token_ns = given.learned
        return cls(scheduler)

    def play(self, op: Op) -> list[Said]:
        if op.verb == "seq":
            self._seq(op.numbers)
            return []
        match op.verb:
            case "floor":
                bank, floor = op.numbers
                self.scheduler.banks[bank].floor = floor
                return []
            case "guard":
                bank, guard = op.numbers
                self.scheduler.banks[bank].guard = guard
                return []
            case "belongs":
                bank, scope = op.numbers
                self.scheduler.banks[bank].scope = scope
                return []
            case "home":
                self.seqs[-1].home = op.numbers[0]
                return []
            case "scope":
                self.scope = op.numbers[0]
                return []
        try:
            said = self._do(op)
        except Ds4Error as error:
            said = [("error", error.code)]
        scheduler = self.scheduler
        said.append(("state", len(scheduler.active), len(scheduler.queue), scheduler.queued_bytes, len(scheduler.open)))
        return said

    def _seq(self, numbers: tuple[int, ...]) -> None:
        max_tokens, reuse, leader, chain, top, nbytes, n = numbers[:7]
        self.seqs.append(
            Timeline(
                len(self.seqs) + 1,
                list(numbers[7 + n :]),
                max_tokens,
                frozenset(numbers[7 : 7 + n]),
                reuse == 1,
                self.seqs[leader - 1] if leader else None,
                chain == 1,
                top,
                nbytes=nbytes,
                scope=self.scope,
            )
        )

    def _do(self, op: Op) -> list[Said]:
        scheduler, numbers = self.scheduler, op.numbers
        match op.verb:
            case "arrive":
                joining = self.seqs[self.arrived :]
                self.arrived = len(self.seqs)
                if reason := scheduler.arrive(joining, numbers[0]):
                    return [("shed", reason)]
                self.accepted.update(one.key for one in joining)
                return [("queued",)]
            case "plan":
                step = scheduler.plan(numbers[0])
                said: list[Said] = [("expired", one.key) for one in scheduler.expired]
                scheduler.expired.clear()
                return said + ([("none",)] if step is None else _step(step))
            case "complete":
                return self._complete(numbers[0], numbers[1:])
            case "finish":
                known = numbers[0] in self.accepted
                reason_given = next(reason for reason in REASONS if reason == op.reason)
                return [("ended", int(known and scheduler.finish(self.seqs[numbers[0] - 1], reason_given)))]
            case "abandon":
                return [("abandoned", len(scheduler.abandon()))]
            case "forget":
                scheduler.forget(*numbers)
                return [("ok",)]
            case "banks":
                return [
                    ("bank", b.index, 0 if b.owner is None else b.owner.key, b.open, b.used_at, *b.tokens)
                    for b in scheduler.banks
                ]
            case _:
                pace = scheduler.pace
                return [("pace", bits(pace.decode_ns), bits(pace.token_ns))]

    def _complete(self, elapsed: int, tokens: tuple[int, ...]) -> list[Said]:
        if not self.scheduler.open:
            raise Ds4Error("no step is in flight", code="no_step")
        step = self.scheduler.open[0]
        if len(tokens) != len(step.outputs):
            raise Ds4Error("tokens", expected=len(step.outputs), found=len(tokens), code="token_count")
        drew = [-1] * len(step.rows)
        for (row, _), token in zip(step.outputs, tokens, strict=True):
            drew[row] = token
        return [
            ("drew", row, one.key, token, one.finish or "-")
            for one, token, row in self.scheduler.complete(drew, elapsed, 0)
        ]


def _step(step: Step) -> list[Said]:
    said: list[Said] = []
    for one in step.admitted:
        where = one.placement
        assert where is not None
        source = -1 if where.source is None else where.source.index
        said.append(("admit", one.key, where.bank.index, where.keep, where.reuse, source))
    keys = {row: one.key for row, one in step.outputs}
    fill: list[str | int] = []  # a line that is still growing
    for index, row in enumerate(step.rows):
        if fill and (row.output or fill[1] != row.bank):
            said.append(tuple(fill))
            fill = []
        if row.output:
            said.append(("draw", keys[index], row.bank, row.position, row.token, row.token_from, row.top))
        else:
            if not fill:
                fill = ["fill", row.bank, row.position]
            fill.append(row.token)
    if fill:
        said.append(tuple(fill))
    return [*said, ("step", len(step.rows), step.decoding)]


def run(given: ScheduleInput) -> list[Said]:
    if given.rows < given.banks:
        return [("error", "rows")]
    player = Player.of(given)
    return [said for op in given.ops for said in player.play(op)]


def by_tape(tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(tape)))
