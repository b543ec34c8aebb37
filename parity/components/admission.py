"""`admission`: arrivals, turns and ends to who is turned away and whose turn it is."""

from __future__ import annotations

import random
from collections.abc import Callable

from ds4.server.schedule.route import LANES
from ds4.server.schedule.tapes_admission import INT, TIME, AdmissionInput, Op, by_tape, play, write_input
from ds4.server.schedule.waiting import Arrival, Room, RoomLimits

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

CLIENTS = (b"a", b"b", b"c", b"", b"10.0.0.1", b"key \xff%")


class Maker:
    """Makes a tape by playing it: who may end depends on who runs."""

    def __init__(self, choices: Choices) -> None:
        self.choices = choices
        slots, capacity = choices.of((2, 1, 3, 8, 1024)), choices.of((50, 10, 1, INT))
        budget = choices.of((slots * capacity, 1 << 53, 60, capacity, 1))
        self.limits = RoomLimits(
            slots,
            capacity,
            min(budget, 1 << 53),
            choices.of((8, 3, 256, 1, 0)),
            choices.of((1000, 30, 1 << 60, 0)),
            choices.of((4, 2, 256, 0)),
            choices.of((30, TIME, 5, 0)),
            choices.of((4, 0, INT)),
        )
        self.room = Room(self.limits)
        self.ops: list[Op] = []
        self.running: dict[int, int] = {}
        self.sizes: dict[int, int] = {}
        self.now = self.keys = 0

    def tape(self, events: int) -> bytes:
        while self.choices.left and len(self.ops) < events:
            self._event()
        self._do(Op("clients"))
        return write_input(AdmissionInput(self.limits, tuple(self.ops)))

    def _do(self, op: Op) -> None:
        self.ops.append(op)
        for said in play(self.room, op):
            if said[0] == "release":
                key = said[1]
                assert isinstance(key, int)
                self.running[key] = self.sizes[key]
            elif said[0] == "left" and said[1] == 0:
                del self.running[op.numbers[0]]

    def _event(self) -> None:
        choices = self.choices
        self.now += choices.of((1, 0, 0, 2, 0, 7))
        kind = choices.below(32)
        if kind < 13:
            self._arrive()
        elif kind < 21:
            self._do(Op("release", (self.now,)))
        elif kind < 27:
            self._leave()
        elif kind < 29:
            self._do(Op("cancel", (choices.below(self.keys + 2),)))
        elif kind == 29:
            self._do(Op("clients"))
        elif kind == 30:
            self._do(Op("connect", (choices.of((0, 3, 4, 5, INT)),)))
        elif choices.once_in(8):
            self._do(Op("stop"))
        else:
            self._do(Op("release", (choices.of((self.now, 0, TIME)),)))

    def _arrive(self) -> None:
        choices = self.choices
        self.keys += 1
        capacity = self.limits.capacity
        prompt = choices.of((5, 1, 9, 0, capacity, min(INT, capacity + 1), INT))
        tokens = choices.of((5, 0, 20, capacity, INT))
        lane = LANES[choices.of((0, 0, 0, 0, 0, 1, 1, 2))]
        sequences = choices.of((1, 1, 1, 2, 3, 9, 65536))
        nbytes, patience = choices.of((5, 0, 20, 1 << 40)), choices.of((0, 0, 0, 3, TIME))
        self.sizes[self.keys] = sequences
        given = Arrival(choices.of(CLIENTS), lane, sequences, prompt, tokens, nbytes, patience)
        self._do(Op("arrive", (self.now,), given))

    def _leave(self) -> None:
        choices = self.choices
        running = list(self.running)
        key = running[choices.below(len(running))] if running and choices.below(16) else choices.of((0, 1, -1, 2))
        self._do(Op("leave", (key, choices.of((3, 10, 0, 40, INT)))))


def tape(data: bytes, events: int = 28) -> bytes:
    return Maker(Choices(data)).tape(events)


def soak(rng: random.Random) -> bytes:
    return tape(rng.randbytes(1 << 16), 5000)


def _crowd() -> tuple[Callable[[], object], bytes]:
    """A request comes to a line in which three clients wait, has its turn, and ends."""
    limits = RoomLimits(1, 8192, 8192)
    ops: list[Op] = []
    room, running = Room(limits), list[int]()
    for i in range(4):
        given = Arrival(b"client %d" % (i % 3), "continuous", 1, 100 + i, 200, 1000)
        ops.append(Op("arrive", (i,), given))
        room.arrive(given, i)
    while room.standing.clients:
        ops.append(Op("release", (1000,)))
        running += room.release(1000).released
        ops.append(Op("leave", (running[0], 150)))
        room.leave(running.pop(0), 150)

    def crowd() -> None:
        room = Room(limits)
        for op in ops:
            if op.given is not None:
                room.arrive(op.given, op.numbers[0])
            elif op.verb == "release":
                room.release(1000)
            else:
                room.leave(*op.numbers)

    return crowd, write_input(AdmissionInput(limits, tuple(ops)))


COMPONENT = Component(
    name="admission",
    about="arrivals, turns and ends of requests to who is turned away and whose turn it is",
    axes=("wire", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=40, most=180),
    soak=soak,
    speed=Speed(_crowd),
    sources=(
        "host/ds4/server/schedule/admission.py",
        "host/ds4/server/schedule/waiting.py",
        "host/ds4/server/schedule/tapes_admission.py",
        "oracles/admission/*",
        "parity/components/admission.py",
        "parity/choices.py",
        "goldens/admission/*",
    ),
)
