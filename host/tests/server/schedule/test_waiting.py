"""The waiting room, the route and the registry of tool turns: what their tapes do not say by themselves."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ds4.core.memgov import Account, Lease, ask
from ds4.core.tapes import memgov
from ds4.errors import Ds4Error
from ds4.server.schedule import tapes_admission, tapes_continuation, tapes_route
from ds4.server.schedule.continuation import Registry, Spans
from ds4.server.schedule.route import Ask, Offer, route
from ds4.server.schedule.waiting import Arrival, Room, RoomLimits
from ds4.sys import oracles
from ds4.sys.tape import TapeError

LIMITS = RoomLimits(2, 100, 200)
TAPES: dict[str, Callable[[bytes], bytes]] = {
    "admission": tapes_admission.by_tape,
    "continuation": tapes_continuation.by_tape,
    "memgov": memgov.by_tape,
    "route": tapes_route.by_tape,
}


def _asks(client: bytes, tokens: int = 10) -> Arrival:
    return Arrival(client, "continuous", 1, tokens, tokens, 1)


@pytest.mark.parametrize("name", TAPES)
@pytest.mark.parametrize(
    "tape",
    [b"", b"\n", b"other 1\n", b"%s\n", b"%s 1\n", b"%s x 1 2 3 4 5 6\n", b"%s 1 1 1 1 1 1 1 1", b"%s 0 \n"],
    ids=repr,
)
def test_what_is_no_tape_is_refused(name: str, tape: bytes) -> None:
    if name == "memgov" and tape == b"%s 1\n":
        tape = b"memgov -1\n"
    with pytest.raises(TapeError):
        TAPES[name](tape.replace(b"%s", name.encode()))


def test_a_client_with_many_requests_does_not_hold_up_one_with_a_single_request() -> None:
    room = Room(LIMITS)
    for _ in range(20):
        room.arrive(_asks(b"greedy"), 0)
    running = room.release(0).released
    late, _ = room.arrive(_asks(b"modest"), 0)
    room.leave(running[0], 20)
    assert room.release(0).released == [late]


def test_between_two_busy_clients_the_positions_are_shared_though_one_asks_for_ten_times_as_much() -> None:
    room = Room(RoomLimits(1, 1000, 1000, client_queue=256))
    for _ in range(100):
        room.arrive(_asks(b"long", 100), 0)
        room.arrive(_asks(b"short", 10), 0)
    given: dict[int, int] = {0: 0, 1: 0}
    for _ in range(66):
        (key,) = room.release(0).released
        used = 20 if key % 2 == 0 else 200
        given[key % 2] += used
        room.leave(key, used)
    assert abs(given[0] - given[1]) <= 200


def test_a_room_is_as_empty_as_at_first_once_all_have_gone() -> None:
    room = Room(LIMITS)
    keys = [room.arrive(_asks(b"%d" % i), 0)[0] for i in range(5)]
    running = room.release(0).released
    for key in running:
        room.leave(key, 3)
    for key in keys:
        if key not in running:
            room.cancel(key)
    assert room.standing == Room(LIMITS).standing and room.clients() == []
    with pytest.raises(Ds4Error):
        room.cancel(keys[0])


def test_the_registry_keeps_no_more_records_than_it_may_while_old_ones_are_only_replayed() -> None:
    registry = Registry(Spans(8))
    for i in range(100):
        registry.publish(b"messages", i % 4, i + 1, 10, i, [b"call %d" % i])
    assert len(registry.records) == 8
    assert [record.live for record in registry.records] == [True] * 4 + [False] * 4


def test_the_oracle_answers_as_the_room_does() -> None:
    _needs("admission")
    room, other = Room(LIMITS), tapes_admission.OracleRoom(LIMITS)
    for each in (room, other):
        assert each.arrive(_asks(b"a"), 0) == (1, None)
        assert each.arrive(_asks(b"b"), 1) == (2, None)
        assert each.arrive(_asks(b"b", 99), 1) == (3, None)
        assert each.release(2).released == [1, 2]
        assert each.standing.running == 2 and each.clients()[0] == (b"a", 20, 0, 1)
        assert each.leave(1, 5) == 0 and each.leave(2, 5) == 0
        each.cancel(3)
        assert each.arrive(_asks(b"c"), 3) == (4, None)
        assert each.release(3).released == [4]
        each.stop()
        assert each.arrive(_asks(b"c"), 3) == (5, "stopping")


def test_the_oracle_answers_as_the_registry_does() -> None:
    _needs("continuation")
    for each in (Registry(), tapes_continuation.OracleRegistry()):
        assert each.publish(b"chat", 2, 7, 500, 100, [b"a", b"b"]) == 1
        assert each.resolve(b"chat", 101, [b"b", b"a"]) == ("live", 1, 2)
        assert each.pin(1, 101) == (1, 101 + 60 * 10**9)
        assert each.hold(2, b"chat", 101, []).kind == "held"
        assert each.victim(b"chat", 101, [2, 1], []) == ("take", 1, 0, 0)
        assert each.ranks(101) == [(2, 1)] and each.records[0].pinned(101)
        assert each.unpin(1)[0] == 0
        each.demote(1)
        assert each.resolve(b"chat", 102, [b"b", b"a"]).kind == "replay"


def test_the_oracle_answers_as_route_and_governor_do() -> None:
    _needs("route")
    _needs("memgov")
    offer = Offer(4, 100, 100, 5, 7, 0, 15)
    for given in (Ask("chat", 3, 10, 5), Ask("chat", 8, 10, 5), Ask("completions", 16, 10, 5)):
        assert tapes_route.by_oracle(offer, given) == route(offer, given)
    for seen in (1000, 400, "error"):
        account = Account(100, 5, seen, {"warm": "off"}, {"banks": 700}, {1: Lease("boot", 300, 100, 5)})  # type: ignore[arg-type]
        for wanted in (Lease("banks", 500, 0), Lease("banks", 701, 0), Lease("warm", 9, 0)):
            assert memgov.by_oracle(account, 2, wanted) == ask(account, 2, wanted)


def _needs(name: str) -> None:
    try:
        known = oracles.names()
    except oracles.OracleError:
        known = ()
    if name not in known:
        pytest.skip(f"no oracle of {name} is at hand: parity's tests have them all")
