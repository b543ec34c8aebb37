"""The quick measure repeats each test from the same depth."""

from __future__ import annotations

import pytest
from ds4.perf.bandwidth import read_bandwidth
from ds4.perf.quick import Measure, measure
from support.fake_native import fake_session


def test_every_repetition_starts_at_the_depth_and_one_more_run_warms_up() -> None:
    fake = fake_session(n_ctx=64)
    starts: list[int] = []
    truncate = fake.truncate

    def noting(bank: int, length: int) -> None:
        truncate(bank, length)
        starts.append(fake.length(bank))

    fake.truncate = noting  # type: ignore[method-assign]
    found = list(measure(fake, list(range(60)), [("pp", 20), ("tg", 7)], 10, 3))  # type: ignore[arg-type]
    assert starts == [0] + [10] * 8
    assert [(m.name, len(m.seconds)) for m in found] == [("pp20 @ d10", 3), ("tg7 @ d10", 3)]


def test_prompt_and_generation_compute_the_same_positions() -> None:
    fake = fake_session(n_ctx=64)
    list(measure(fake, list(range(60)), [("pp", 20)], 0, 1))  # type: ignore[arg-type]
    assert fake.banks[0] == list(range(20))
    list(measure(fake, list(range(60)), [("tg", 20)], 0, 1))  # type: ignore[arg-type]
    assert len(fake.banks[0]) == 20


def test_rates_are_summed_up_by_median_least_and_most() -> None:
    value = Measure("tg", 100, 0, (1.0, 2.0, 4.0)).dict()
    assert value["tokens_per_second"] == {"median": 50.0, "min": 25.0, "max": 100.0}
    assert (value["test"], value["n_gen"], value["n_prompt"]) == ("tg100", 100, 0)


@pytest.mark.parametrize("threads", [1, 2])
def test_bandwidth_is_measured_and_its_processes_are_gone(threads: int) -> None:
    import os

    # Even one byte a nanosecond is slower than any memory we run on; and every child has been waited for.
    assert read_bandwidth(threads, 8 << 20) > 1e8
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
