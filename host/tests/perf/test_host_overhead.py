"""The bench of the host runs and counts; how fast it is belongs to no test."""

from __future__ import annotations

from ds4.perf.host_overhead import NativeLoop, null_cost
from ds4.sys.descriptors import Backend
from support import embedded

pytestmark = [embedded.needs_model, embedded.needs_engine]


def test_a_null_round_through_http_counts_processor_time_and_rate() -> None:
    cost, rate = null_cost(embedded.path(), tokens=300, rounds=1)
    assert cost >= 0 and rate > 0


def test_the_native_loop_draws_as_many_tokens_as_asked_again_and_again() -> None:
    loop = NativeLoop(embedded.path(), 1, Backend.NULL)
    try:
        assert loop.generate(50) > 0 and loop.generate(50) > 0
        assert loop.length == 90 + 49
    finally:
        loop.close()
