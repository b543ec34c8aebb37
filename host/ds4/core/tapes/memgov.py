"""The wire form of `memgov`, as oracles/memgov/README.md states it, and the verdict answered by the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

from ds4.core import components, memgov
from ds4.core.memgov import CONSUMERS, LARGEST, MODES, Account, Consumer, Governor, Lease, Verdict
from ds4.errors import Ds4Error
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, integer, integers, lines

_ANY = (-LARGEST - 1, LARGEST)
_BYTES = (0, LARGEST)
_KEY = (0, (1 << 31) - 1)


@dataclass(frozen=True, slots=True)
class Op:
    """One line behind the head. word: of `mode` and `observe`."""

    verb: str
    consumer: str = ""
    numbers: tuple[int, ...] = ()
    word: str = ""


@dataclass(frozen=True, slots=True)
class MemgovInput:
    floor: int
    ops: tuple[Op, ...] = ()


Said = tuple[str | int, ...]


def write_op(op: Op) -> bytes:
    words: list[str | int] = [op.verb]
    if op.verb in ("lease", "ask"):
        words += [op.numbers[0], op.consumer, *op.numbers[1:]]
    else:
        words += [word for word in (op.consumer, op.word) if word]
        words += op.numbers
    return " ".join(map(str, words)).encode("ascii") + b"\n"


def write_input(given: MemgovInput) -> bytes:
    return b"memgov %d\n" % given.floor + b"".join(map(write_op, given.ops))


def read_input(tape: bytes) -> MemgovInput:
    """TapeError for what is no tape of memgov."""
    rows = lines(tape)
    head = next(rows, [])
    if head[:1] != [b"memgov"]:
        raise TapeError("the first line gives the floor")
    return MemgovInput(_numbers(head[1:], _BYTES)[0], tuple([_op(words) for words in rows]))


def _op(words: list[bytes]) -> Op:
    verb, *rest = [word.decode("latin-1") for word in words] or [""]
    match verb, rest:
        case "mode", [consumer, mode] if consumer in CONSUMERS and mode in MODES:
            return Op(verb, consumer, (), mode)
        case "limit", [consumer, _] if consumer in CONSUMERS:
            return Op(verb, consumer, _numbers(words[2:], _BYTES))
        case "substrate", [_]:
            return Op(verb, "", _numbers(words[1:], _ANY))
        case "observe", ["available", _]:
            return Op(verb, "", _numbers(words[2:], _BYTES), "available")
        case "observe", ["unsupported" | "error" as word]:
            return Op(verb, "", (), word)
        case "lease" | "ask", [_, consumer, _, _, _] if consumer in CONSUMERS:
            return Op(verb, consumer, _numbers([words[1], *words[3:]], _KEY, _ANY, _ANY, _ANY))
        case "release", [_]:
            return Op(verb, "", _numbers(words[1:], _KEY))
        case "sum", []:
            return Op(verb)
    raise TapeError(f"no line of a governor: {verb[:60]!r}")


def _numbers(words: list[bytes], *ranges: tuple[int, int]) -> tuple[int, ...]:
    values = integers(words) if words else []
    if len(values) != len(ranges) or any(not a <= value <= b for value, (a, b) in zip(values, ranges, strict=True)):
        raise TapeError(f"expected {len(ranges)} numbers in their ranges, found {b' '.join(words)[:80]!r}")
    return tuple(values)


def play(governor: Governor, op: Op) -> list[Said]:
    """What one line says."""
    consumer, numbers = cast(Consumer, op.consumer), op.numbers
    try:
        match op.verb:
            case "mode":
                governor.mode(consumer, cast(Any, op.word))
            case "limit":
                governor.limit(consumer, *numbers)
            case "substrate":
                governor.substrate(*numbers)
            case "observe":
                governor.observe(numbers[0] if numbers else cast(Any, op.word))
            case "lease":
                governor.lease(numbers[0], Lease(consumer, *numbers[1:]))
                return [("ok",)]
            case "release":
                governor.release(*numbers)
                return [("ok",)]
            case "ask":
                key, intent, resident, transient = numbers
                return [_verdict(governor.ask(key, Lease(consumer, intent, resident), transient))]
            case _:
                return [("sum", *governor.sums())]
    except Ds4Error as error:
        return [("error", error.code)]
    return []


def _verdict(verdict: Verdict) -> Said:
    word, required, available, deficit, retry, go = verdict
    return ("verdict", word, required, available, deficit, int(retry), "go" if go else "stop")


def run(given: MemgovInput) -> list[Said]:
    governor = Governor(given.floor)
    return [said for op in given.ops for said in play(governor, op)]


def write_output(said: Sequence[Said]) -> bytes:
    return "".join([" ".join(map(str, one)) + "\n" for one in said]).encode("ascii")


def read_output(tape: bytes) -> list[Said]:
    """TapeError for what is no output of memgov."""
    said = []
    for words in lines(tape):
        if not words or not words[0].isalpha():
            raise TapeError("no line of memgov's output")
        said.append(tuple([integer(w) if w[-1:].isdigit() else w.decode("latin-1") for w in words]))
    return said


def by_tape(tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(tape)))


def by_oracle(account: Account, key: int, wanted: Lease, transient: int = 0) -> Verdict:
    """`ask`, answered by the oracle."""
    seen = account.observation
    ops = [
        *(Op("mode", consumer, (), mode) for consumer, mode in account.modes.items()),
        *(Op("limit", consumer, (nbytes,)) for consumer, nbytes in account.limits.items()),
        Op("substrate", "", (account.substrate,)),
        Op("observe", "", (seen,), "available") if isinstance(seen, int) else Op("observe", "", (), seen),
        *(Op("lease", lease[0], (number, *lease[1:])) for number, lease in account.leases.items()),
        Op("ask", wanted.consumer, (key, wanted.intent, wanted.resident, transient)),
    ]
    _, word, *numbers, act = read_output(oracle("memgov").run(write_input(MemgovInput(account.floor, tuple(ops)))))[-1]
    required, available, deficit, retry = cast("list[int]", numbers)
    return Verdict(cast(Any, word), required, available, deficit, bool(retry), act == "go")


def decide(account: Account, key: int, wanted: Lease, transient: int = 0) -> Verdict:
    """`ask`, by the side that the ledger names."""
    return components.pick("memgov", python=memgov.ask, oracle=by_oracle)(account, key, wanted, transient)
