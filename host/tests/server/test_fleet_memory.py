"""Whether another model fits beside those that are loaded: the account, with memory of the test's own."""

from __future__ import annotations

import threading

import pytest
from ds4.core.memory_plan import WORKING, MemoryPlan, MemoryPlanError
from ds4.server.fleet_memory import FleetMemory

MIB = 1 << 20


class Machine:
    def __init__(self, available: int) -> None:
        self.available, self.taken = available, 100 * MIB

    def memory(self) -> FleetMemory:
        return FleetMemory(lambda: self.available, lambda: self.taken)


def plan(weights: int, cache: int, floor: int = 0) -> MemoryPlan:
    return MemoryPlan(512, 1, 1, cache * MIB, weights * MIB, 0, (), floor * MIB, 512)


def test_what_a_model_was_promised_is_missing_from_the_room() -> None:
    memory = Machine(4096 * MIB).memory()
    memory.admit("a", plan(1000, 500))
    assert memory.promised("a") == 1500 * MIB + WORKING
    assert memory.room() == 4096 * MIB - memory.promised("a")
    memory.release("a")
    assert memory.room() == 4096 * MIB and memory.promised("a") == 0


def test_what_it_has_taken_of_that_is_not_counted_twice() -> None:
    machine = Machine(4096 * MIB)
    memory = machine.memory()
    memory.admit("a", plan(1000, 500))
    before = memory.room()
    machine.available -= 300 * MIB
    machine.taken += 300 * MIB
    assert memory.room() == before


def test_weights_stay_promised_since_the_system_counts_their_pages_as_available() -> None:
    machine = Machine(4096 * MIB)
    memory = machine.memory()
    memory.admit("a", plan(1000, 0))
    machine.taken += 4000 * MIB
    assert memory.room() == 3096 * MIB


def test_a_model_that_does_not_fit_is_refused_with_both_sizes() -> None:
    memory = Machine(3000 * MIB).memory()
    memory.admit("a", plan(1500, 100))
    with pytest.raises(MemoryPlanError, match=r"at most 3000 MiB.*found 3\d\d\d MiB, of which 200 MiB stay free"):
        memory.admit("b", plan(1000, 100, floor=200))
    assert memory.promised("b") == 0
    memory.release("a")
    memory.admit("b", plan(1000, 100, floor=200))


def test_a_model_may_go_while_another_one_is_planned() -> None:
    machine = Machine(4096 * MIB)
    gone: list[threading.Thread] = []

    def looked_at() -> int:
        """The system is asked in the middle of an account: another thread lets a model go just then."""
        if not gone:
            gone.append(threading.Thread(target=lambda: memory.release("a")))
            gone[0].start()
            gone[0].join(0.2)
        return machine.available

    memory = machine.memory()
    memory.admit("a", plan(1000, 500))
    memory.admit("b", plan(500, 500))
    whole = memory.room()
    memory._available = looked_at
    assert memory.room() == whole, "an account that begins with a model ends with it"
    gone[0].join()
    assert memory.promised("a") == 0 and memory.promised("b") == 1000 * MIB + WORKING
    assert memory.room() == 4096 * MIB - memory.promised("b")
