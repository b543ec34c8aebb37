"""`route`: what a request asks for, and what the server has, to a lane and why."""

from __future__ import annotations

import random
from collections.abc import Callable

from ds4.server.schedule.route import ALL_FACTS, ALL_NEEDS, SURFACES, Ask, Fact, Need, Offer, route
from ds4.server.schedule.tapes_route import LARGEST, RouteInput, by_tape, write_input

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

# Masks that lanes may have: all, all but what is rare, little, nothing.
MASKS = (
    ALL_NEEDS,
    ALL_NEEDS & ~int(Need.PRIVATE | Need.AUDIO),
    int(Need.STREAMING | Need.SAMPLING | Need.STOP_SCAN),
    0,
)
SIZES = (100, 8, 200, 1, LARGEST)


def tape(data: bytes, asks: int = 12) -> bytes:
    """Some requests to one server: mostly ordinary ones, whose prompts lie about a bank's end."""
    choices = Choices(data)
    offer = _offer(choices)
    given: list[Ask] = []
    while choices.left and len(given) < asks:
        given.append(_ask(choices, offer))
    return write_input(RouteInput(offer, tuple(given)))


def _offer(choices: Choices) -> Offer:
    width = choices.of((4, 1, 2, 0, 1024, 3))
    capacity = choices.of(SIZES)
    reach = capacity if choices.below(2) else choices.of(SIZES)
    return Offer(width, capacity, reach, choices.of((7, 5, 4, 1, 2, 3, 6, 0)), *(_mask(choices) for _ in range(3)))


def _mask(choices: Choices) -> int:
    kind = choices.below(6)
    if kind < 4:
        return MASKS[kind]
    bits = choices.below(256) | choices.below(256) << 8 | choices.below(4) << 16
    return bits if kind == 4 else ALL_NEEDS & ~(1 << choices.below(18)) & ~(1 << choices.below(18))


def _ask(choices: Choices, offer: Offer) -> Ask:
    kind = choices.below(4)
    facts = 0
    if kind < 3:
        for _ in range(choices.below(4)):
            facts |= 1 << choices.below(15)
    else:
        facts = (choices.below(256) | choices.below(256) << 8) & ALL_FACTS
    size = choices.of((offer.capacity, offer.reach))
    prompt = choices.of((size - 1, size, size + 1, 1, 0, size // 2))
    budget = choices.of((16, 0, 1, LARGEST))
    return Ask(choices.of(SURFACES), facts, min(max(prompt, 0), LARGEST), budget, choices.of((1, 1, 2, LARGEST)))


def soak(rng: random.Random) -> bytes:
    return tape(rng.randbytes(1 << 15), 5000)


def _requests() -> tuple[Callable[[], object], bytes]:
    """A request of each of four surfaces to a server of four banks."""
    offer = Offer(4, 8192, 8192, 5, ALL_NEEDS & ~int(Need.PRIVATE), 0, ALL_NEEDS)
    facts = int(Fact.STREAM | Fact.SAMPLING | Fact.TOOLS | Fact.THINKING)
    asks = tuple(Ask(SURFACES[i % 4], facts if i % 4 != 1 else 3, 10 + i, 512) for i in range(4))
    return lambda: [route(offer, ask) for ask in asks], write_input(RouteInput(offer, asks))


COMPONENT = Component(
    name="route",
    about="what a request asks for, and what the server has, to a lane and the reason for it",
    axes=("wire", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=12, most=120),
    soak=soak,
    speed=Speed(_requests),
    sources=(
        "host/ds4/server/schedule/route.py",
        "host/ds4/server/schedule/tapes_route.py",
        "oracles/route/*",
        "parity/components/route.py",
        "parity/choices.py",
        "goldens/route/*",
    ),
)
