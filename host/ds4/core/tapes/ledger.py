"""The wire form of `ledger`, as oracles/ledger/README.md states it, and the session ledger answered by the oracle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ds4.core.ledger import SessionLedger, SyncPlan
from ds4.errors import ContextLengthError, Ds4Error
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, integer, integers, line, lines

LARGEST = (1 << 31) - 1
_WIDE = 1 << 63


@dataclass(frozen=True, slots=True)
class Op:
    """One line: its verb, the numbers that come first, and its tokens."""

    verb: str
    numbers: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class LedgerInput:
    ctx: int
    ops: tuple[Op, ...]


@dataclass(frozen=True, slots=True)
class State:
    """After a line that changes something."""

    valid: bool
    generation: int
    length: int


@dataclass(frozen=True, slots=True)
class Refused:
    code: str


Outcome = SyncPlan | State | Refused | tuple[int, ...]
"""One for each line; a tuple: the tokens held."""

# verb: the bounds of its numbers, and whether tokens follow
_VERBS: dict[str, tuple[tuple[tuple[int, int], ...], bool]] = {
    "plan": ((), True),
    "commit": (((0, LARGEST), (0, 1), (-_WIDE, _WIDE - 1)), True),
    "extend": (((-_WIDE, _WIDE - 1),), True),
    "append": (((0, LARGEST),), False),
    "rewind": (((-_WIDE, _WIDE - 1),), False),
    "invalidate": ((), False),
    "adopt": ((), True),
    "tokens": ((), False),
}


def write_op(op: Op) -> bytes:
    return line(op.verb, *op.numbers, *op.tokens)


def write_input(given: LedgerInput) -> bytes:
    return line("ctx", given.ctx) + b"".join([write_op(op) for op in given.ops])


def read_input(tape: bytes) -> LedgerInput:
    """TapeError for what is no tape of ledger."""
    rows = lines(tape)
    head = next(rows, [])
    if len(head) != 2 or head[0] != b"ctx":
        raise TapeError("the first line gives the context")
    return LedgerInput(_within(integer(head[1]), 1, LARGEST), tuple([_op(words) for words in rows]))


def _within(value: int, low: int, high: int) -> int:
    if not low <= value <= high:
        raise TapeError(f"{value} is not within {low}..{high}")
    return value


def _op(words: list[bytes]) -> Op:
    verb = words[0].decode("latin-1") if words else ""
    bounds, more = _VERBS.get(verb, ((), False))
    count = len(bounds)
    if verb not in _VERBS or len(words) - 1 < count or (not more and len(words) - 1 > count):
        raise TapeError(f"no line of a ledger: {verb[:60]!r}")
    values = integers(words[1:]) if words[1:] else []
    numbers = tuple([_within(value, *bound) for value, bound in zip(values[:count], bounds, strict=True)])
    tokens = tuple(values[count:])
    if tokens:
        _within(min(tokens), 0, LARGEST)
        _within(max(tokens), 0, LARGEST)
    return Op(verb, numbers, tokens)


_EFFECTS: dict[str, Callable[[SessionLedger, tuple[int, ...], Sequence[int]], object]] = {
    "commit": lambda ledger, n, prompt: ledger.commit(prompt, SyncPlan(n[0], n[0] == 0, n[1] == 1), n[2]),
    "extend": lambda ledger, n, prompt: ledger.commit(prompt, None, n[0]),
    "append": lambda ledger, n, _: ledger.append(n[0]),
    "rewind": lambda ledger, n, _: ledger.rewind(n[0]),
    "invalidate": lambda ledger, n, _: ledger.invalidate(),
    "adopt": lambda ledger, n, tokens: ledger.adopt(tokens),
}


def step(ledger: SessionLedger, op: Op) -> Outcome:
    """Does what one line says."""
    try:
        if op.verb == "plan":
            return ledger.plan(list(op.tokens))
        if op.verb == "tokens":
            return tuple(ledger.tokens)
        _EFFECTS[op.verb](ledger, op.numbers, op.tokens)
        return State(ledger.valid, ledger.generation, len(ledger))
    except Ds4Error as error:
        return Refused(error.code)


def run(given: LedgerInput) -> list[Outcome]:
    ledger = SessionLedger(given.ctx)
    return [step(ledger, op) for op in given.ops]


def write_output(result: Sequence[Outcome]) -> bytes:
    return b"".join([_written(one) for one in result])


def _written(one: Outcome) -> bytes:
    match one:
        case SyncPlan():
            return b"plan %d %d %d\n" % (one.start, one.rebuild, one.bump)
        case State():
            return b"ok %d %d %d\n" % (one.valid, one.generation, one.length)
        case Refused():
            return line("error", one.code)
        case _:
            return line("tokens", *one)


def read_output(tape: bytes) -> list[Outcome]:
    """TapeError for what is no output of ledger."""
    return [_outcome(words) for words in lines(tape)]


def _outcome(words: list[bytes]) -> Outcome:
    verb, rest = (words[0], words[1:]) if words else (b"", [])
    if verb == b"error" and len(rest) == 1:
        return Refused(rest[0].decode("ascii"))
    values = [integer(word) for word in rest]
    if verb == b"plan" and len(values) == 3:
        return SyncPlan(values[0], bool(values[1]), bool(values[2]))
    if verb == b"ok" and len(values) == 3:
        return State(bool(values[0]), values[1], values[2])
    if verb == b"tokens":
        return tuple(values)
    raise TapeError("no outcome of a ledger")


def by_tape(tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(tape)))


# ---- answered by the oracle ----


class OracleSessionLedger(SessionLedger):
    """SessionLedger, answered by the oracle: the tape so far is kept, and every call plays it again."""

    def __init__(self, ctx: int) -> None:
        super().__init__(ctx)
        self._tape = line("ctx", ctx)

    @property
    def tokens(self) -> list[int]:
        held = self._ask(Op("tokens"))
        assert isinstance(held, tuple)
        return list(held)

    def __len__(self) -> int:
        return self._length

    _length = 0

    def _ask(self, op: Op) -> Outcome:
        """The outcome of one more line, which is not kept."""
        return _outcome(oracle("ledger").run(self._tape + write_op(op))[:-1].rpartition(b"\n")[2].split(b" "))

    def _do(self, op: Op, subject: str, found: int) -> None:
        outcome = self._ask(op)
        if isinstance(outcome, Refused):
            self._refuse(outcome.code, subject, found)
        assert isinstance(outcome, State)
        self.valid, self.generation, self._length = outcome.valid, outcome.generation, outcome.length
        self._tape += write_op(op)

    def _refuse(self, code: str, subject: str, found: int) -> NoReturn:
        if code == ContextLengthError.code:
            raise ContextLengthError(f"the {subject} does not fit", expected=f"at most {self.ctx} tokens", found=found)
        if code == "prompt_empty":
            raise Ds4Error("an empty prompt", code=code)
        raise Ds4Error("out of range", subject=subject, found=found, code=code)

    def plan(self, prompt: Sequence[int]) -> SyncPlan:
        outcome = self._ask(Op("plan", (), tuple(prompt)))
        if isinstance(outcome, Refused):
            self._refuse(outcome.code, "prompt", len(prompt))
        assert isinstance(outcome, SyncPlan)
        return outcome

    def commit(self, prompt: Sequence[int], plan: SyncPlan | None = None, upto: int | None = None) -> None:
        end = len(prompt) if upto is None else upto
        # What is beyond the end does not matter, but that there are as many tokens does.
        op = Op("extend", (end,)) if plan is None else Op("commit", (plan.start, int(plan.bump), end))
        self._do(Op(op.verb, op.numbers, tuple(prompt)), "prompt", end)

    def append(self, token: int) -> None:
        self._do(Op("append", (token,)), "token", self.ctx + 1)

    def rewind(self, length: int) -> int:
        self._do(Op("rewind", (length,)), "length", length)
        return self._length

    def invalidate(self) -> None:
        self._do(Op("invalidate"), "bank", 0)

    def adopt(self, tokens: Sequence[int]) -> None:
        self._do(Op("adopt", (), tuple(tokens)), "snapshot", len(tokens))
