"""Which of many models are loaded: the policy alone, on a clock of the test's own."""

from __future__ import annotations

import random

from ds4.server.fleet import Berth, Failure, Fleet, Load, Unload


def loaded(fleet: Fleet, name: str, now: float) -> None:
    """As if somebody had wished for it, and left."""
    fleet.wish(name, now)
    assert fleet.plan(now) == [Load(name)]
    fleet.loaded(name, now)
    fleet.unwish(name)


def hold(fleet: Fleet, name: str, now: float) -> Berth:
    berth = fleet.take(name, now)
    assert isinstance(berth, Berth)
    return berth


def test_one_load_serves_all_who_wait_for_it() -> None:
    fleet = Fleet(2)
    assert fleet.take("a", 0) is None
    for _ in range(3):
        fleet.wish("a", 0)
    assert fleet.plan(0) == [Load("a")] and fleet.plan(0) == []
    assert fleet.take("a", 1) is None, "it is loading"
    fleet.loaded("a", 2)
    assert [hold(fleet, "a", 2).holds for _ in range(3)] == [1, 2, 3]


def test_the_least_recently_used_idle_model_makes_room() -> None:
    fleet = Fleet(2)
    loaded(fleet, "a", 0)
    loaded(fleet, "b", 1)
    fleet.give_back(hold(fleet, "a", 2), 3)
    fleet.wish("c", 4)
    assert fleet.plan(4) == [Unload("b", "evicted")]
    assert fleet.plan(4) == [], "its place is not free before it has left"
    fleet.left("b")
    assert fleet.plan(5) == [Load("c")]


def test_a_held_model_is_not_unloaded() -> None:
    fleet = Fleet(2, patience=10)
    loaded(fleet, "a", 0)
    loaded(fleet, "b", 1)
    held = hold(fleet, "a", 2)
    fleet.wish("c", 3)
    assert fleet.plan(3) == [Unload("b", "evicted")], "though a was used longer ago"
    fleet.left("b")
    fleet.plan(3)
    fleet.loaded("c", 4)
    other = hold(fleet, "c", 4)
    fleet.unwish("c")
    fleet.wish("b", 5)
    assert fleet.plan(5) == [] and fleet.due(5) == 10
    fleet.give_back(held, 6)
    assert fleet.plan(6) == [Unload("a", "evicted")] and other.holds == 1


def test_after_a_while_the_oldest_busy_model_takes_no_new_requests_and_its_own_wait_behind() -> None:
    fleet = Fleet(2, patience=5)
    loaded(fleet, "a", 0)
    loaded(fleet, "b", 0)
    first, second = hold(fleet, "a", 1), hold(fleet, "b", 2)
    fleet.wish("c", 3)
    assert fleet.plan(7.9) == [] and isinstance(third := fleet.take("a", 7.9), Berth)
    fleet.give_back(third, 7.9)
    assert fleet.plan(8) == [] and fleet.take("b", 8) is None, "b was used before a"
    fleet.wish("b", 8)
    fleet.give_back(second, 9)
    assert fleet.plan(9) == [Unload("b", "evicted")]
    fleet.left("b")
    assert fleet.plan(10) == [Load("c")]
    fleet.loaded("c", 11)
    fleet.unwish("c")
    fleet.give_back(first, 12)
    assert fleet.plan(12) == [Unload("c", "evicted")], "b's requests have waited since 8; c was used at 11"


def test_a_model_opens_again_when_those_for_whom_it_closed_are_gone() -> None:
    fleet = Fleet(1, patience=5)
    loaded(fleet, "a", 0)
    hold(fleet, "a", 0)
    fleet.wish("b", 0)
    fleet.plan(5)
    assert fleet.take("a", 5) is None
    fleet.unwish("b")
    fleet.plan(6)
    assert isinstance(fleet.take("a", 6), Berth)


def test_a_failure_is_told_for_a_while_and_then_tried_again() -> None:
    fleet = Fleet(2, retry=30)
    fleet.wish("a", 0)
    fleet.plan(0)
    fleet.failed("a", ValueError("damaged"), 1)
    assert fleet.plan(1) == [], "those who wait have not heard of it yet"
    told = fleet.take("a", 30.9)
    assert isinstance(told, Failure) and str(told.error) == "damaged"
    assert fleet.take("a", 31) is None
    assert fleet.plan(31) == [Load("a")]
    fleet.loaded("a", 32)
    assert not fleet.failures and fleet.loads == {("a", "failed"): 1, ("a", "loaded"): 1}


def test_a_load_without_memory_lets_an_idle_model_go_and_tries_again() -> None:
    fleet = Fleet(3)
    loaded(fleet, "a", 0)
    fleet.wish("b", 1)
    assert fleet.plan(1) == [Load("b")]
    assert fleet.cramped("b")
    assert fleet.plan(1) == [Unload("a", "evicted")], "though there is a place"
    fleet.left("a")
    assert fleet.plan(2) == [Load("b")]
    assert not fleet.cramped("b"), "nothing is left that could go"


def test_a_model_without_requests_leaves_after_its_time() -> None:
    fleet = Fleet(2, idle=60)
    loaded(fleet, "a", 0)
    held = hold(fleet, "a", 10)
    assert fleet.plan(1000) == [] and fleet.due(1000) is None
    fleet.give_back(held, 1000)
    assert fleet.due(1001) == 59 and fleet.plan(1059) == []
    assert fleet.plan(1060) == [Unload("a", "idle")]


def test_without_that_option_it_stays() -> None:
    fleet = Fleet(2)
    loaded(fleet, "a", 0)
    assert fleet.plan(1e9) == [] and fleet.due(1e9) is None


def test_who_asks_may_unload_only_what_nobody_holds() -> None:
    fleet = Fleet(2)
    loaded(fleet, "a", 0)
    held = hold(fleet, "a", 1)
    assert fleet.ask_to_leave("a", 2) is None and fleet.ask_to_leave("b", 2) is None
    fleet.give_back(held, 3)
    assert fleet.ask_to_leave("a", 3) == Unload("a", "asked")
    assert fleet.take("a", 3) is None


def test_random_walks_never_exceed_the_places_nor_unload_what_is_held_nor_starve() -> None:
    rng = random.Random(7)
    for most in (1, 2, 3):
        fleet, now = Fleet(most, idle=rng.choice([0, 20]), patience=5), 0.0
        waiting: list[tuple[str, float]] = []
        held: list[tuple[float, Berth]] = []
        under_way: list[Load | Unload] = []
        for _ in range(4000):
            now += rng.random()
            if rng.random() < 0.3 and len(waiting) < 20:
                name = rng.choice("abcde")
                fleet.wish(name, now)
                waiting.append((name, now))
            for done in [action for action in under_way if rng.random() < 0.5]:
                under_way.remove(done)
                if isinstance(done, Unload):
                    fleet.left(done.name)
                elif rng.random() < 0.1 and fleet.cramped(done.name):
                    pass
                elif done.name in fleet.berths:
                    fleet.loaded(done.name, now)
            for name, since in list(waiting):
                if isinstance(berth := fleet.take(name, now), Berth):
                    fleet.unwish(name)
                    waiting.remove((name, since))
                    held.append((now + rng.random() * 8, berth))
            for until, berth in [one for one in held if one[0] <= now]:
                held.remove((until, berth))
                fleet.give_back(berth, now)
            for action in fleet.plan(now):
                if isinstance(action, Unload):
                    assert all(berth.name != action.name for _, berth in held)
                under_way.append(action)
            assert len(fleet.berths) <= most
            assert all(now - since < 120 for _, since in waiting), "somebody waits for ever"
