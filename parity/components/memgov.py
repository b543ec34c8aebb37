"""`memgov`: promises and an observation to whether memory may be taken."""

from __future__ import annotations

import random
from collections.abc import Callable

from ds4.core.memgov import CONSUMERS, LARGEST, MODES, Account, Lease, ask
from ds4.core.tapes.memgov import MemgovInput, Op, by_tape, write_input

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

SMALL = (10, 0, 1, 50, 100, 99, 101, 500)
HUGE = (LARGEST, LARGEST - 1, LARGEST // 2, LARGEST // 2 + 1, -1, -LARGEST - 1)


def tape(data: bytes, events: int = 30) -> bytes:
    """Leases come and go and questions are asked about an observation that mostly lies near what is required."""
    choices = Choices(data)
    floor = choices.of((100, 0, 10, LARGEST))
    ops: list[Op] = [Op("observe", "", (choices.of((300, 1000, 150, LARGEST)),), "available")]
    while choices.left and len(ops) < events:
        ops.append(_op(choices))
    return write_input(MemgovInput(floor, tuple(ops)))


def _op(choices: Choices) -> Op:
    kind = choices.below(32)
    consumer = CONSUMERS[choices.below(3)] if kind % 4 else choices.of(CONSUMERS)
    if kind < 12:
        intent, resident = _size(choices), choices.of((0, 10, 0, 1))
        return Op("ask", consumer, (choices.below(4), intent, resident, choices.of((0, 0, 10, _size(choices)))))
    if kind < 20:
        return Op(
            "lease",
            consumer,
            (choices.below(4), _size(choices), choices.of((0, 10, 0, 50)), choices.of((0, 10, _size(choices)))),
        )
    if kind < 22:
        return Op("release", "", (choices.below(5),))
    if kind < 24:
        return Op("sum")
    if kind == 24:
        return Op("mode", consumer, (), choices.of(MODES))
    if kind == 25:
        return Op("limit", consumer, (max(0, _size(choices)),))
    if kind == 26:
        return Op("substrate", "", (_size(choices),))
    if kind == 27 and choices.once_in(4):
        return Op("observe", "", (), choices.of(("error", "unsupported")))
    if kind == 31:
        return Op("mode", consumer, (), "enforce")
    seen = _size(choices) + choices.of((100, 200, 0)) if choices.below(8) else LARGEST
    return Op("observe", "", (min(max(0, seen), LARGEST),), "available")


def _size(choices: Choices) -> int:
    return choices.of(SMALL) if choices.below(12) else choices.of(HUGE)


def soak(rng: random.Random) -> bytes:
    return tape(rng.randbytes(1 << 15), 5000)


def _boot() -> tuple[Callable[[], object], bytes]:
    """What a boot asks: four sizes of bank plans over an account of eight leases."""
    leases = {k: Lease(CONSUMERS[k % 7], 1000 * k, 100 * k, 10) for k in range(8)}
    account = Account(4096, 0, 100_000, leases=leases)
    ops = [
        Op("observe", "", (100_000,), "available"),
        *(Op("lease", lease.consumer, (key, *lease[1:])) for key, lease in leases.items()),
        *(Op("ask", "banks", (9, 5000 * i, 0, 100)) for i in range(4)),
    ]
    return lambda: [ask(account, 9, Lease("banks", 5000 * i, 0), 100) for i in range(4)], write_input(
        MemgovInput(4096, tuple(ops))
    )


COMPONENT = Component(
    name="memgov",
    about="promises of memory and an observation of it to whether more may be taken",
    axes=("performance",),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=30, most=200),
    soak=soak,
    speed=Speed(_boot),
    sources=(
        "host/ds4/core/memgov.py",
        "host/ds4/core/tapes/memgov.py",
        "oracles/memgov/*",
        "parity/components/memgov.py",
        "parity/choices.py",
        "goldens/memgov/*",
    ),
)
