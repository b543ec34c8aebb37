from __future__ import annotations

import math
from typing import Any

import pytest
from ds4.core.sampling import MOST_BIASED, Sampling
from ds4.errors import SamplingError


def test_the_default_is_greedy_and_changes_nothing() -> None:
    desc = Sampling(seed=1).desc(0)
    assert (desc.temperature, desc.top_p, desc.top_k, desc.min_p) == (0.0, 1.0, 0, 0.0)
    assert (desc.repetition_penalty, desc.frequency_penalty, desc.presence_penalty) == (1.0, 0.0, 0.0)
    assert Sampling().greedy


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("temperature", math.inf),
        ("temperature", "hot"),
        ("temperature", True),
        ("top_p", 0.0),
        ("top_p", 1.01),
        ("top_p", 1e-320),  # 0 in the engine's float32
        ("min_p", 1.0),
        ("min_p", 0.99999999999),
        ("temperature", 10**400),
        ("min_p", -0.1),
        ("top_k", -1),
        ("top_k", 1.5),
        ("top_k", True),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 1e-50),
        ("frequency_penalty", 2.1),
        ("presence_penalty", -2.1),
        ("seed", 2**64),
        ("seed", "lucky"),
        ("logit_bias", [1, 2]),
        ("logit_bias", {-1: 1.0}),
        ("logit_bias", {"5": 1.0}),
        ("logit_bias", {5: 101.0}),
        ("logit_bias", {5: math.nan}),
        ("logit_bias", dict.fromkeys(range(MOST_BIASED + 1), 0.0)),
    ],
)
def test_a_value_out_of_range_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(SamplingError) as caught:
        Sampling(**{name: value})
    assert caught.value.subject is not None and caught.value.subject.startswith(name)


@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature", 2), ("top_p", 1), ("min_p", 0), ("top_k", 0), ("seed", -1), ("frequency_penalty", -2)],
)
def test_the_ends_of_the_ranges_are_allowed(name: str, value: Any) -> None:
    Sampling(**{name: value})


def test_a_given_seed_wins_and_a_missing_one_is_drawn_anew() -> None:
    assert Sampling(seed=7).desc(3, seed=9).seed == 7
    assert Sampling().desc(3, seed=9).seed == 9
    assert Sampling(seed=-1).desc(0).seed == 2**64 - 1
    assert Sampling(temperature=1.0).desc(0).seed != Sampling(temperature=1.0).desc(0).seed


def test_the_first_output_position_and_the_biases_reach_the_engine() -> None:
    desc = Sampling(logit_bias={3: -100.0, 1: 2.5}, seed=0).desc(17)
    assert desc.output_from == 17
    assert desc.bias == ((3, -100.0), (1, 2.5))


def test_a_bias_on_a_token_that_does_not_exist_is_refused() -> None:
    Sampling(logit_bias={9: 1.0}).check_vocabulary(10)
    with pytest.raises(SamplingError, match=r"0\.\.9"):
        Sampling(logit_bias={10: 1.0}).check_vocabulary(10)
