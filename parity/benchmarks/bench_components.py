"""One typical request of each component, by its replacement and by its oracle, under pytest-benchmark.

DS4_BENCH_COMPONENTS: names to measure, with commas between; all when it is not set.
"""

import os
from collections.abc import Callable

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from parity.component import Component, split
from parity.registry import chosen
from parity.runner import sides

NAMES = [name for name in os.environ.get("DS4_BENCH_COMPONENTS", "").split(",") if name]
COMPONENTS = chosen(NAMES)


@pytest.mark.parametrize("side", ["oracle", "replacement"])
@pytest.mark.parametrize("component", COMPONENTS, ids=[c.name for c in COMPONENTS])
def test_a_request(benchmark: BenchmarkFixture, component: Component, side: str) -> None:
    replacement, value = component.speed.prepare()
    setup, tape = split(value)
    theirs = sides(component).of(setup)[0]
    call: Callable[[], object] = replacement if side == "replacement" else lambda: theirs(tape)
    benchmark.group = component.name
    benchmark(call)
