"""The wire form of `route`, as oracles/route/README.md states it, and the function answered by the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ds4.server.schedule.route import (
    ALL_FACTS,
    ALL_NEEDS,
    LANES,
    SURFACES,
    Ask,
    NoRoute,
    Offer,
    Route,
    route,
)
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, integers, lines

LARGEST = (1 << 31) - 1
_OFFER = ((0, 1024), (1, LARGEST), (1, LARGEST), (0, 7), (0, ALL_NEEDS), (0, ALL_NEEDS), (0, ALL_NEEDS))
_ASK = ((0, ALL_FACTS), (0, LARGEST), (0, LARGEST), (1, LARGEST))


@dataclass(frozen=True, slots=True)
class RouteInput:
    offer: Offer
    asks: tuple[Ask, ...]


def write_input(given: RouteInput) -> bytes:
    head = b"route %d %d %d %d %d %d %d\n" % given.offer
    return head + b"".join([b"ask %b %d %d %d %d\n" % (ask[0].encode(), *ask[1:]) for ask in given.asks])


def read_input(tape: bytes) -> RouteInput:
    """TapeError for what is no tape of route."""
    rows = lines(tape)
    head = next(rows, [])
    if head[:1] != [b"route"]:
        raise TapeError("the first line says what the server has")
    return RouteInput(Offer(*_numbers(head[1:], _OFFER)), tuple([_ask(words) for words in rows]))


def _ask(words: list[bytes]) -> Ask:
    surface = words[1].decode("latin-1") if words[:1] == [b"ask"] and len(words) > 1 else ""
    if surface not in SURFACES:
        raise TapeError("no request of a surface")
    return Ask(surface, *_numbers(words[2:], _ASK))


def _numbers(words: list[bytes], ranges: Sequence[tuple[int, int]]) -> list[int]:
    values = integers(words)
    if len(values) != len(ranges) or any(not a <= value <= b for value, (a, b) in zip(values, ranges, strict=True)):
        raise TapeError(f"expected {len(ranges)} numbers in their ranges, found {b' '.join(words)[:80]!r}")
    return values


def write_output(result: Sequence[Route | NoRoute]) -> bytes:
    rows = []
    for one in result:
        if isinstance(one, Route):
            rows.append(f"lane {one.lane} {one.reason} {one.subject} {one.needs}\n")
        else:
            rows.append(f"refuse {one.status} {one.reason} {one.subject}\n")
    return "".join(rows).encode("ascii")


def read_output(tape: bytes) -> list[Route | NoRoute]:
    """TapeError for what is no output of route."""
    return [_outcome([word.decode("latin-1") for word in words]) for words in lines(tape)]


def _outcome(words: list[str]) -> Route | NoRoute:
    match words:
        case ["lane", lane, reason, subject, needs] if lane in LANES:
            return Route(lane, reason, subject, int(needs))
        case ["refuse", status, reason, subject]:
            return NoRoute(int(status), reason, subject)
    raise TapeError("neither a lane nor a refusal")


def run(given: RouteInput) -> list[Route | NoRoute]:
    return [route(given.offer, ask) for ask in given.asks]


def by_tape(tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(tape)))


def by_oracle(offer: Offer, ask: Ask) -> Route | NoRoute:
    """`route`, answered by the oracle."""
    return read_output(oracle("route").run(write_input(RouteInput(offer, (ask,)))))[0]
