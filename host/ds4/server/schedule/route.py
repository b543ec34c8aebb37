"""The route: which lane answers a request, and why. A pure function of what it asks for and what the server has.

*continuous* is the normal lane: a request joins whenever a bank is free. *static* requests start together and nobody
joins midway; a *serial* one has the engine for itself. A lane is described by the needs that it can meet.
oracles/route/README.md is the contract.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import Literal, NamedTuple

from ds4.core import components

Surface = Literal["chat", "completions", "messages", "responses", "embeddings"]
Lane = Literal["continuous", "static", "serial"]
SURFACES: tuple[Surface, ...] = ("chat", "completions", "messages", "responses", "embeddings")
LANES: tuple[Lane, ...] = ("continuous", "static", "serial")


class Fact(IntFlag):
    """What a request says."""

    STREAM = 1 << 0
    SAMPLING = 1 << 1
    THINKING = 1 << 2
    STOPS = 1 << 3
    TOOLS = 1 << 4
    TOKEN_IDS = 1 << 5
    LOGPROBS = 1 << 6
    GRAMMAR = 1 << 7
    STORE = 1 << 8
    LIVE = 1 << 9  # it continues a turn that a bank is kept for
    IMAGE = 1 << 10
    AUDIO = 1 << 11
    PRIVATE = 1 << 12  # nobody else's rows may share its steps
    CACHED = 1 << 13
    USAGE = 1 << 14


class Need(IntFlag):
    """What a lane has to be able to do for a request."""

    STREAMING = 1 << 0
    SAMPLING = 1 << 1
    THINKING = 1 << 2
    STOP_SCAN = 1 << 3
    TOOL_SCAN = 1 << 4
    TOKEN_IDS = 1 << 5
    LOGPROBS = 1 << 6
    GRAMMAR = 1 << 7
    PUBLISH = 1 << 8
    RECOVERY = 1 << 9
    DURABLE = 1 << 10
    PREFILL_ONLY = 1 << 11
    BANK_FRONTIER = 1 << 12
    IMAGE = 1 << 13
    AUDIO = 1 << 14
    EMBEDDING = 1 << 15
    CHOICES = 1 << 16
    PRIVATE = 1 << 17


ALL_FACTS = (1 << len(Fact)) - 1
ALL_NEEDS = (1 << len(Need)) - 1
FACT_NAMES = tuple((fact.name or "").lower() for fact in Fact)
NEED_NAMES = tuple((need.name or "").lower() for need in Need)

# Plain integers: operations of IntFlag cost a microsecond each.
_SAME = tuple(
    (int(fact), int(need))
    for fact, need in (
        (Fact.STREAM, Need.STREAMING),
        (Fact.SAMPLING, Need.SAMPLING),
        (Fact.THINKING, Need.THINKING),
        (Fact.STOPS, Need.STOP_SCAN),
        (Fact.TOOLS, Need.TOOL_SCAN),
        (Fact.TOKEN_IDS, Need.TOKEN_IDS),
        (Fact.LOGPROBS, Need.LOGPROBS),
        (Fact.GRAMMAR, Need.GRAMMAR),
        (Fact.LIVE, Need.BANK_FRONTIER),
        (Fact.IMAGE, Need.IMAGE),
        (Fact.AUDIO, Need.AUDIO),
        (Fact.PRIVATE, Need.PRIVATE),
    )
)
_STREAM, _TOOLS, _STORE = int(Fact.STREAM), int(Fact.TOOLS), int(Fact.STORE)
_PUBLISH, _RECOVERY, _DURABLE = int(Need.PUBLISH), int(Need.RECOVERY), int(Need.DURABLE)
_PREFILL_ONLY, _EMBEDDING, _CHOICES = int(Need.PREFILL_ONLY), int(Need.EMBEDDING), int(Need.CHOICES)
_BANK_FRONTIER = int(Need.BANK_FRONTIER)

_COMPLETIONS = Fact.THINKING | Fact.TOOLS | Fact.STORE | Fact.LIVE | Fact.IMAGE | Fact.AUDIO
_LACKS: dict[str, int] = {
    "completions": int(_COMPLETIONS),
    "embeddings": int(_COMPLETIONS | Fact.STREAM | Fact.SAMPLING | Fact.STOPS | Fact.LOGPROBS | Fact.GRAMMAR),
}


class Offer(NamedTuple):
    """What the server has. width: banks, 0: only the serial lane; capacity: positions of a bank; reach: of the serial
    lane's timeline; open: lanes offered (1 continuous, 2 static, 4 serial); the rest: the needs that each meets."""

    width: int
    capacity: int
    reach: int
    open: int
    continuous: int
    static: int
    serial: int


class Ask(NamedTuple):
    """What a request wants. facts: a sum of Fact; budget: most tokens of an answer; choices: answers."""

    surface: Surface
    facts: int
    prompt: int
    budget: int
    choices: int = 1


@dataclass(frozen=True, slots=True)
class Route:
    """The lane, why this one (subject: the need in question, or -), and all needs of the request."""

    lane: Lane
    reason: str
    subject: str
    needs: int


@dataclass(frozen=True, slots=True)
class NoRoute:
    """No lane can answer. status: HTTP's; subject: the fact or need in question, or -."""

    status: int
    reason: str
    subject: str


def needs_of(ask: Ask) -> int:
    """The needs, as a sum, that follow from a request's facts."""
    facts, surface = ask.facts, ask.surface
    needs = 0
    for fact, need in _SAME:
        if facts & fact:
            needs |= need
    if facts & _TOOLS:
        if surface in ("messages", "responses"):
            needs |= _PUBLISH
        if not facts & _STREAM:
            needs |= _RECOVERY
    if facts & _STORE and surface == "responses":
        needs |= _DURABLE
    if surface == "embeddings":
        needs |= _EMBEDDING
    elif not ask.budget:
        needs |= _PREFILL_ONLY
    if ask.choices > 1:
        needs |= _CHOICES
    return needs


def route(offer: Offer, ask: Ask) -> Route | NoRoute:
    """The lane that answers a request."""
    width, opened = offer.width, offer.open
    lanes: list[tuple[Lane, int, int]] = []  # (lane, the needs it meets, its size) of those that are usable
    if opened & 1 and width >= 1:
        lanes.append(("continuous", offer.continuous, offer.capacity))
    if opened & 2 and width >= 2:
        lanes.append(("static", offer.static, offer.capacity))
    if opened & 4:
        lanes.append(("serial", offer.serial, offer.reach))
    if not lanes:
        return NoRoute(503, "no_lane", "-")
    if not ask.prompt:
        return NoRoute(400, "prompt_empty", "-")
    if lacking := ask.facts & _LACKS.get(ask.surface, 0):
        return NoRoute(400, "surface", _lowest(lacking, FACT_NAMES))
    needs = needs_of(ask)
    met = 0
    for _, meets, _ in lanes:
        met |= meets
    if unmet := needs & ~met:
        return NoRoute(400, "need", _lowest(unmet, NEED_NAMES))
    room = ask.prompt if not ask.budget or needs & _EMBEDDING else ask.prompt + 1
    if all(room > size for _, _, size in lanes):
        return NoRoute(400, "prompt_too_long", "-")
    for lane, meets, size in lanes:
        if not needs & ~meets and room <= size:
            if lane == "continuous":
                return Route(lane, "continuation" if needs & _BANK_FRONTIER else "continuous", "-", needs)
            return Route(lane, *_passed_over(offer, needs), needs)
    unmet = needs & ~lanes[0][1]
    return NoRoute(400, "no_common_lane", _lowest(unmet, NEED_NAMES) if unmet else "-")


def _passed_over(offer: Offer, needs: int) -> tuple[str, str]:
    """Why not the continuous lane."""
    if not offer.width:
        return "width_zero", "-"
    if not offer.open & 1:
        return "continuous_off", "-"
    if unmet := needs & ~offer.continuous:
        return "need", _lowest(unmet, NEED_NAMES)
    return "prompt_bounds", "-"


def _lowest(bits: int, names: tuple[str, ...]) -> str:
    return names[(bits & -bits).bit_length() - 1]


def decide(offer: Offer, ask: Ask) -> Route | NoRoute:
    """`route`, by the side that the ledger names."""
    from ds4.server.schedule.tapes_route import by_oracle

    return components.pick("route", python=route, oracle=by_oracle)(offer, ask)
