"""The continuation registry: which bank the next turn of a tool call belongs on, and how long that bank is kept for it.

An answer that ends with tool calls is continued as soon as its client has run them. The record of its bank is found
again by the call ids that come back; until then it keeps other work off the bank, first for a while because the turn is
likely (grace), then, once it has arrived and waits, because it is certain (pin). A promise about a cache, no more: a
record that is gone costs a prefill, never an answer. oracles/continuation/README.md is the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Seq
from dataclasses import dataclass
from typing import Literal, NamedTuple

from ds4.errors import Ds4Error

SERIAL = -1
"""The owner that all serial turns share; banks are 0 and up."""

ID_BYTES = 94


class Spans(NamedTuple):
    """capacity: records before old ones are dropped. Spans in nanoseconds: grace: how long a bank is kept for a turn
    that is likely; ttl: how long a record is live; pin: how long for a turn that has arrived; shed: what grace is for
    the serial timeline. second: a second in that unit."""

    capacity: int = 64
    grace: int = 60 * 10**9
    ttl: int = 300 * 10**9
    pin: int = 60 * 10**9
    shed: int = 5 * 10**9
    second: int = 10**9


class Turn(NamedTuple):
    """What `resolve` found. cold: nothing; replay: a record that holds no bank any more; live: the turn's own bank;
    conflict: other ids (partial), or the bank has moved on (stale). record, owner: 0 and -1 where there is none."""

    kind: Literal["cold", "live", "replay", "partial", "stale"]
    record: int = 0
    owner: int = -1


class Verdict(NamedTuple):
    """Whether an owner may be taken. free; held: retry after so many seconds; take: this one; yield: this one, which
    was kept for `record`; wait: all are kept for turns that have arrived; none: there is none to take."""

    kind: Literal["free", "held", "take", "yield", "wait", "none"]
    owner: int = -1
    record: int = 0
    retry: int = 0


@dataclass(slots=True, eq=False)
class Record:
    number: int
    protocol: bytes
    owner: int
    generation: int
    frontier: int
    ids: tuple[bytes, ...]
    known: frozenset[bytes]
    published: int
    live: bool = True
    refs: int = 0
    pinned_until: int = 0

    def pinned(self, now: int) -> bool:
        return self.refs > 0 and now < self.pinned_until


def cut(call_id: bytes) -> bytes:
    """At most 94 bytes of an id, whole characters."""
    if len(call_id) <= ID_BYTES:
        return call_id
    end = ID_BYTES
    while call_id[end] & 0xC0 == 0x80:
        end -= 1
    return call_id[:end]


def id_set(call_ids: Iterable[bytes]) -> tuple[bytes, ...]:
    """Each id once, in order of first occurrence."""
    return tuple(dict.fromkeys(map(cut, call_ids)))


class Registry:
    def __init__(self, spans: Spans | None = None) -> None:
        self.spans = spans or Spans()
        self.records: list[Record] = []  # newest first
        self._facts: dict[int, tuple[int, int]] = {}
        self._count = 0

    def publish(
        self, protocol: bytes, owner: int, generation: int, frontier: int, now: int, call_ids: Seq[bytes]
    ) -> int:
        """The record of a turn that has ended on `owner` with these calls; 0 when there is nothing to publish."""
        self._age(now)
        ids = id_set(call_ids)
        if not ids or not generation or not frontier:
            return 0
        for record in self.records:
            if record.owner == owner:
                record.live = False
        self._count += 1
        made = Record(self._count, protocol, owner, generation, frontier, ids, frozenset(ids), now)
        self.records.insert(0, made)
        self._facts[owner] = generation, frontier
        while len(self.records) > self.spans.capacity:
            old = next((r for r in reversed(self.records) if not r.live and not r.refs), None)
            if old is None:
                break
            self.records.remove(old)
        return made.number

    def moved(self, owner: int, generation: int, frontier: int) -> None:
        """The timeline holds something else now."""
        self._facts[owner] = generation, frontier

    def demote(self, number: int) -> None:
        """The record holds no bank any more. Ds4Error (record): there is none."""
        self._find(number).live = False

    def pin(self, number: int, now: int) -> tuple[int, int]:
        """The turn has arrived and waits. (refs, pinned until). Ds4Error (record, replay)."""
        self._age(now)
        record = self._find(number)
        if not record.live:
            raise Ds4Error("the record holds no bank any more", found=number, code="replay")
        record.refs += 1
        record.pinned_until = max(record.pinned_until, now + self.spans.pin)
        return record.refs, record.pinned_until

    def unpin(self, number: int) -> tuple[int, int]:
        """It does not wait any more. Ds4Error (record, refs)."""
        record = self._find(number)
        if not record.refs:
            raise Ds4Error("the record is not pinned", found=number, code="refs")
        record.refs -= 1
        return record.refs, record.pinned_until

    def resolve(self, protocol: bytes, now: int, call_ids: Seq[bytes]) -> Turn:
        """Whose turn these call ids are."""
        self._age(now)
        wanted = frozenset(id_set(call_ids))
        if not wanted:
            return Turn("cold")
        shared = False
        for record in self.records:
            if record.protocol != protocol:
                continue
            if record.known == wanted:
                if not record.live:
                    return Turn("replay", record.number)
                if self._facts.get(record.owner) != (record.generation, record.frontier):
                    return Turn("stale")
                return Turn("live", record.number, record.owner)
            shared = shared or not wanted.isdisjoint(record.known)
        return Turn("partial" if shared else "cold")

    def hold(self, owner: int, protocol: bytes, now: int, call_ids: Seq[bytes]) -> Verdict:
        """Whether a request (that may carry call ids) may take an owner."""
        self._age(now)
        record = self._in_the_way(owner, protocol, now, frozenset(id_set(call_ids)))
        return Verdict("free") if record is None else Verdict("held", owner, record.number, self._retry(record, now))

    def victim(self, protocol: bytes, now: int, owners: Seq[int], call_ids: Seq[bytes]) -> Verdict:
        """Which of the owners, best first, may be overwritten."""
        self._age(now)
        wanted = frozenset(id_set(call_ids))
        if not owners:
            return Verdict("none")
        ways: list[Record] = []
        for owner in owners:
            record = self._in_the_way(owner, protocol, now, wanted)
            if record is None:
                return Verdict("take", owner)
            ways.append(record)
        loose = [record for record in ways if not record.pinned(now)]
        if not loose:
            return Verdict("wait", retry=min(self._retry(record, now) for record in ways))
        oldest = min(loose, key=lambda record: record.number)
        oldest.live = False
        return Verdict("yield", oldest.owner, oldest.number)

    def ranks(self, now: int) -> list[tuple[int, int]]:
        """(owner, record) of each held record, by owner."""
        self._age(now)
        return sorted((r.owner, r.number) for r in self.records if self._held(r, now))

    def _find(self, number: int) -> Record:
        for record in self.records:
            if record.number == number:
                return record
        raise Ds4Error("no such record", found=number, code="record")

    def _age(self, now: int) -> None:
        for record in self.records:
            if record.live and now - record.published >= self.spans.ttl and not record.pinned(now):
                record.live = False

    def _span(self, record: Record) -> int:
        return self.spans.grace if record.owner != SERIAL else min(self.spans.shed, self.spans.grace)

    def _held(self, record: Record, now: int) -> bool:
        return record.live and (record.pinned(now) or now - record.published < self._span(record))

    def _in_the_way(self, owner: int, protocol: bytes, now: int, wanted: frozenset[bytes]) -> Record | None:
        for record in self.records:
            if record.owner == owner and self._held(record, now):
                own = record.protocol == protocol and record.known == wanted
                return None if own else record
        return None

    def _retry(self, record: Record, now: int) -> int:
        """Whole seconds until the record holds nothing any more, at least 1."""
        remaining = record.published + self._span(record) - now
        if record.pinned(now):
            remaining = max(remaining, record.pinned_until - now)
        return max(1, -(-remaining // self.spans.second))

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)
