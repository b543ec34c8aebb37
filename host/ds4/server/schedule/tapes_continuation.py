"""The wire form of `continuation`, as oracles/continuation/README.md states it, and the registry answered by it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ds4.core import components
from ds4.errors import Ds4Error
from ds4.server.schedule.continuation import Record, Registry, Spans, Turn, Verdict
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, escape, integer, integers, lines, text

SPAN = 1 << 60
TIME = 1 << 62
FACT = 1 << 53
_HEAD = ((0, 65536), (0, SPAN), (0, SPAN), (0, SPAN), (0, SPAN), (1, SPAN))
_NUMBER = (-(1 << 63), (1 << 63) - 1)
_OWNER = (-1, 65535)
_NOW = (0, TIME)
# Of each verb: whether a protocol stands first or (hold) second, and the numbers before the ids, which follow or not.
_SHAPES: dict[str, tuple[int, tuple[tuple[int, int], ...], bool]] = {
    "publish": (0, (_OWNER, (0, FACT), (0, FACT), _NOW), True),
    "moved": (-1, (_OWNER, (0, FACT), (0, FACT)), False),
    "demote": (-1, (_NUMBER,), False),
    "pin": (-1, (_NUMBER, _NOW), False),
    "unpin": (-1, (_NUMBER,), False),
    "resolve": (0, (_NOW,), True),
    "hold": (1, (_OWNER, _NOW), True),
    "victim": (0, (_NOW, (0, 65536)), True),
    "ranks": (-1, (_NOW,), False),
    "records": (-1, (), False),
}


@dataclass(frozen=True, slots=True)
class Op:
    """One line behind the head. owners: of `victim`."""

    verb: str
    numbers: tuple[int, ...] = ()
    protocol: bytes = b""
    ids: tuple[bytes, ...] = ()
    owners: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ContinuationInput:
    spans: Spans
    ops: tuple[Op, ...] = ()


Said = tuple[str | int | bytes, ...]


def write_head(spans: Spans) -> bytes:
    return b"continuation %d %d %d %d %d %d\n" % spans


def write_op(op: Op) -> bytes:
    place, _, _ = _SHAPES[op.verb]
    words = [b"%d" % number for number in op.numbers]
    if op.verb == "victim":
        words += [b"%d" % len(op.owners), *(b"%d" % owner for owner in op.owners)]
    if place >= 0:
        words.insert(place, escape(op.protocol))
    return b" ".join([op.verb.encode(), *words, *map(escape, op.ids)]) + b"\n"


def write_input(given: ContinuationInput) -> bytes:
    return write_head(given.spans) + b"".join(map(write_op, given.ops))


def read_input(tape: bytes) -> ContinuationInput:
    """TapeError for what is no tape of continuation."""
    rows = lines(tape)
    head = next(rows, [])
    if head[:1] != [b"continuation"]:
        raise TapeError("the first line gives the spans")
    return ContinuationInput(Spans(*_numbers(head[1:], _HEAD)), tuple([_op(words) for words in rows]))


def _op(words: list[bytes]) -> Op:
    verb = words[0].decode("latin-1") if words else ""
    if verb not in _SHAPES:
        raise TapeError(f"no line of a registry: {verb[:60]!r}")
    place, ranges, more = _SHAPES[verb]
    rest = words[1:]
    protocol = b""
    if place >= 0:
        if len(rest) <= place:
            raise TapeError("no protocol")
        protocol = _text(rest.pop(place))
    numbers = _numbers(rest[: len(ranges)], ranges)
    rest = rest[len(ranges) :]
    owners: list[int] = []
    if verb == "victim":
        count = numbers.pop()
        owners = _numbers(rest[:count], [_OWNER] * count)
        rest = rest[count:]
        if len(set(owners)) < count:
            raise TapeError("an owner twice")
    if rest and not more:
        raise TapeError(f"too many words for {verb}")
    return Op(verb, tuple(numbers), protocol, tuple([_text(word) for word in rest]), tuple(owners))


def _text(word: bytes) -> bytes:
    try:
        return text(word).encode()
    except UnicodeEncodeError:
        raise TapeError(f"not text: {word[:60]!r}") from None


def _numbers(words: list[bytes], ranges: Sequence[tuple[int, int]]) -> list[int]:
    values = integers(words) if words else []
    if len(values) != len(ranges) or any(not a <= value <= b for value, (a, b) in zip(values, ranges, strict=True)):
        raise TapeError(f"expected {len(ranges)} numbers in their ranges, found {b' '.join(words)[:80]!r}")
    return values


def play(registry: Registry, op: Op) -> list[Said]:
    """What one line says."""
    try:
        return _do(registry, op)
    except Ds4Error as error:
        return [("error", error.code)]


def _do(registry: Registry, op: Op) -> list[Said]:
    numbers, protocol, ids = op.numbers, op.protocol, op.ids
    match op.verb:
        case "publish":
            owner, generation, frontier, now = numbers
            number = registry.publish(protocol, owner, generation, frontier, now, ids)
            return [("published", number, len(registry.records)) if number else ("none",)]
        case "moved":
            registry.moved(*numbers)
            return [("ok",)]
        case "demote":
            registry.demote(*numbers)
            return [("ok",)]
        case "pin":
            return [("pinned", *registry.pin(*numbers))]
        case "unpin":
            return [("pinned", *registry.unpin(*numbers))]
        case "resolve":
            return [_turn(registry.resolve(protocol, numbers[0], ids))]
        case "hold":
            return [_verdict(registry.hold(numbers[0], protocol, numbers[1], ids))]
        case "victim":
            return [_verdict(registry.victim(protocol, numbers[0], op.owners, ids))]
        case "ranks":
            return [*(("rank", *rank) for rank in registry.ranks(*numbers)), ("end",)]
        case _:
            return [*map(_record, registry.records), ("end",)]


def _turn(turn: Turn) -> Said:
    match turn.kind:
        case "live":
            return ("live", turn.record, turn.owner)
        case "replay":
            return ("replay", turn.record)
        case "cold":
            return ("cold",)
        case _:
            return ("conflict", turn.kind)


def _verdict(verdict: Verdict) -> Said:
    match verdict.kind:
        case "held":
            return ("held", verdict.record, verdict.retry)
        case "take":
            return ("take", verdict.owner)
        case "yield":
            return ("yield", verdict.owner, verdict.record)
        case "wait":
            return ("wait", verdict.retry)
        case _:
            return (verdict.kind,)


def _record(r: Record) -> Said:
    state = "live" if r.live else "replay"
    facts = (r.owner, r.generation, r.frontier, r.published, r.refs, r.pinned_until)
    return ("record", r.number, state, r.protocol, *facts, *r.ids)


def run(given: ContinuationInput) -> list[Said]:
    registry = Registry(given.spans)
    return [said for op in given.ops for said in play(registry, op)]


def write_output(said: Iterable[Said]) -> bytes:
    return b"".join(
        [
            b" ".join([escape(w) if isinstance(w, bytes) else str(w).encode("ascii") for w in one]) + b"\n"
            for one in said
        ]
    )


_WORDS = {"error": 1, "conflict": 1}


def read_output(tape: bytes) -> list[Said]:
    """TapeError for what is no output of continuation."""
    return [_said(words) for words in lines(tape)]


def _said(words: list[bytes]) -> Said:
    verb = words[0].decode("latin-1") if words else ""
    if verb == "record" and len(words) > 10:
        facts = integers(words[4:10])
        return (verb, integer(words[1]), words[2].decode("latin-1"), _text(words[3]), *facts, *map(_text, words[10:]))
    if verb in _WORDS and len(words) == 2:
        return (verb, words[1].decode("latin-1"))
    if not verb.isalpha():
        raise TapeError("no line of continuation's output")
    return (verb, *[integer(word) for word in words[1:]])


def by_tape(tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(tape)))


class OracleRegistry(Registry):
    """Registry, answered by the oracle. Every call plays the tape so far again, so it grows with the process's turns:
    for trials, not for years."""

    def __init__(self, spans: Spans | None = None) -> None:
        super().__init__(spans)
        self._tape = write_head(self.spans)
        self._lines = 0

    def publish(
        self, protocol: bytes, owner: int, generation: int, frontier: int, now: int, call_ids: Sequence[bytes]
    ) -> int:
        said = self._play(Op("publish", (owner, generation, frontier, now), protocol, tuple(call_ids)))[0]
        return int(cast(int, said[1])) if said[0] == "published" else 0

    def moved(self, owner: int, generation: int, frontier: int) -> None:
        self._play(Op("moved", (owner, generation, frontier)))

    def demote(self, number: int) -> None:
        self._play(Op("demote", (number,)))

    def pin(self, number: int, now: int) -> tuple[int, int]:
        return cast("tuple[int, int]", self._play(Op("pin", (number, now)))[0][1:])

    def unpin(self, number: int) -> tuple[int, int]:
        return cast("tuple[int, int]", self._play(Op("unpin", (number,)))[0][1:])

    def resolve(self, protocol: bytes, now: int, call_ids: Sequence[bytes]) -> Turn:
        match self._play(Op("resolve", (now,), protocol, tuple(call_ids)))[0]:
            case ("conflict", kind):
                return Turn(cast(Any, kind))
            case (kind, *rest):
                return Turn(cast(Any, kind), *cast("list[int]", rest))
        raise TapeError("no outcome of resolve")

    def hold(self, owner: int, protocol: bytes, now: int, call_ids: Sequence[bytes]) -> Verdict:
        said = self._play(Op("hold", (owner, now), protocol, tuple(call_ids)))[0]
        return Verdict("free") if said[0] == "free" else Verdict("held", owner, *cast("tuple[int, ...]", said[1:]))

    def victim(self, protocol: bytes, now: int, owners: Sequence[int], call_ids: Sequence[bytes]) -> Verdict:
        kind, *rest = self._play(Op("victim", (now,), protocol, tuple(call_ids), tuple(owners)))[0]
        if kind == "wait":
            return Verdict("wait", retry=cast(int, rest[0]))
        return Verdict(cast(Any, kind), *cast("list[int]", rest))

    def ranks(self, now: int) -> list[tuple[int, int]]:
        return [cast("tuple[int, int]", one[1:]) for one in self._play(Op("ranks", (now,)))[:-1]]

    def _play(self, op: Op) -> list[Said]:
        self._tape += write_op(op)
        written = oracle("continuation").run(self._tape + b"records\n").splitlines(keepends=True)[self._lines :]
        said = read_output(b"".join(written))
        end = len(said) - 1  # the records, which the caller may look at, stand at the end
        while end and said[end - 1][0] == "record":
            end -= 1
        self.records = [_remade(one) for one in said[end:-1]]
        said = said[:end]
        self._lines += end
        if said[0][0] == "error":
            raise Ds4Error("refused by the oracle", code=str(said[0][1]))
        return said


def _remade(said: Said) -> Record:
    number, state, protocol, owner, generation, frontier, published, refs, pinned_until, *ids = cast(Any, said[1:])
    facts = (number, protocol, owner, generation, frontier, tuple(ids), frozenset(ids), published)
    return Record(*facts, state == "live", refs, pinned_until)


def registry(spans: Spans | None = None) -> Registry:
    """The one that the ledger names."""
    return components.pick("continuation", python=Registry, oracle=OracleRegistry)(spans)
