"""`continuation`: turns that end with tool calls, and call ids that come back, to which bank is kept and for whom."""

from __future__ import annotations

import random
from collections.abc import Callable

from ds4.server.schedule.continuation import Registry, Spans
from ds4.server.schedule.tapes_continuation import (
    FACT,
    SPAN,
    TIME,
    ContinuationInput,
    Op,
    by_tape,
    play,
    write_input,
)

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

PROTOCOLS = (b"messages", b"responses", b"chat", b"")
LONG = b"c" * 93
IDS = (b"toolu_a", b"toolu_b", b"call_c", b"", LONG + b"d", LONG + b"de", LONG + b"\xc3\xa9", LONG + b"\xe2\x82\xac!")


class Maker:
    """Makes a tape by playing it: which records there are decides what comes next."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        grace = choices.of((10, 5, 0, SPAN))
        ttl = choices.of((30, 8, 0, SPAN))
        self.spans = Spans(
            choices.of((64, 2, 1, 0, 3)),
            grace,
            ttl,
            choices.of((10, 40, 0, SPAN)),
            choices.of((3, 20, 0)),
            choices.of((1, 4, 1000)),
        )
        self.registry = Registry(self.spans)
        self.ops: list[Op] = []
        self.turns: list[tuple[bytes, tuple[bytes, ...]]] = []
        self.now = 0

    def tape(self, events: int) -> bytes:
        while self.choices.left and len(self.ops) < events:
            self._event()
        self._do("records")
        return write_input(ContinuationInput(self.spans, tuple(self.ops)))

    def _do(
        self, verb: str, *numbers: int, protocol: bytes = b"", ids: tuple[bytes, ...] = (), owners: tuple[int, ...] = ()
    ) -> None:
        op = Op(verb, numbers, protocol, ids, owners)
        self.ops.append(op)
        play(self.registry, op)

    def _event(self) -> None:
        choices = self.choices
        self.now += choices.of((1, 0, 0, 2, 0, 4))
        kind = choices.below(32)
        if kind < 9:
            self._publish()
        elif kind < 15:
            protocol, ids = self._turn()
            self._do("resolve", self._time(), protocol=protocol, ids=ids)
        elif kind < 19:
            protocol, ids = self._turn()
            self._do("hold", choices.below(5) - 1, self._time(), protocol=protocol, ids=ids)
        elif kind < 23:
            protocol, ids = self._turn()
            start, count = choices.below(5) - 1, choices.below(4)
            owners = tuple((start + 1 + i) % 5 - 1 for i in range(count))
            self._do("victim", self._time(), protocol=protocol, ids=ids, owners=owners)
        elif kind < 26:
            self._do("pin", self._record(), self._time())
        elif kind == 26:
            self._do("unpin", self._record())
        elif kind == 27:
            self._do("demote", self._record())
        elif kind == 28:
            self._do("moved", choices.below(5) - 1, choices.below(3), choices.of((5, 6, FACT)))
        elif kind == 29:
            self._do("ranks", self._time())
        else:
            self._do("records")

    def _time(self) -> int:
        return self.now if self.choices.below(16) else self.choices.of((0, TIME, self.now + 11))

    def _record(self) -> int:
        records = self.registry.records
        if records and self.choices.below(8):
            return records[self.choices.below(len(records))].number
        return self.choices.of((1, 0, -1, 99))

    def _publish(self) -> None:
        choices = self.choices
        ids = tuple(choices.of(IDS) for _ in range(choices.of((1, 2, 1, 3, 0))))
        protocol = choices.of(PROTOCOLS)
        self.turns.append((protocol, ids))
        generation, frontier = choices.of((1, 2, 1, 0)), choices.of((5, 6, 5, 0))
        self._do("publish", choices.below(5) - 1, generation, frontier, self._time(), protocol=protocol, ids=ids)

    def _turn(self) -> tuple[bytes, tuple[bytes, ...]]:
        """Mostly one that was published, in another order, with one id less or more, or of another protocol."""
        choices = self.choices
        if not self.turns or choices.once_in(8):
            return choices.of(PROTOCOLS), ()
        protocol, ids = self.turns[-1 - choices.below(min(len(self.turns), 6))]
        match choices.below(8):
            case 0:
                ids = ids[::-1]
            case 1:
                ids = ids[1:]
            case 2:
                ids = (*ids, choices.of(IDS))
            case 3:
                protocol = choices.of(PROTOCOLS)
        return protocol, ids


def tape(data: bytes, events: int = 28) -> bytes:
    return Maker(Choices(data)).tape(events)


def soak(rng: random.Random) -> bytes:
    return tape(rng.randbytes(1 << 15), 1500)


def _turns() -> tuple[Callable[[], object], bytes]:
    """Two turns: published, resolved, pinned, placed, unpinned."""
    spans = Spans(64, 60, 300, 60, 5, 1)
    ops: list[Op] = []
    for i in range(2):
        ids = (b"toolu_%d_a" % i, b"toolu_%d_b" % i)
        ops += [
            Op("publish", (i % 4, 1 + i, 100, i), b"messages", ids),
            Op("resolve", (i + 1,), b"messages", ids),
            Op("pin", (i + 1, i + 1)),
            Op("victim", (i + 1,), b"chat", (), (0, 1, 2, 3)),
            Op("unpin", (i + 1,)),
        ]

    def turns() -> None:
        registry = Registry(spans)
        for op in ops:
            play(registry, op)

    return turns, write_input(ContinuationInput(spans, tuple(ops)))


COMPONENT = Component(
    name="continuation",
    about="turns that end with tool calls, and call ids that come back, to which bank is kept and for whom",
    axes=("kv", "wire", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=40, most=170),
    soak=soak,
    speed=Speed(_turns),
    sources=(
        "host/ds4/server/schedule/continuation.py",
        "host/ds4/server/schedule/tapes_continuation.py",
        "oracles/continuation/*",
        "parity/components/continuation.py",
        "parity/choices.py",
        "goldens/continuation/*",
    ),
)
