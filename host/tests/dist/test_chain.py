from __future__ import annotations

import pytest
from ds4.dist.chain import START, chain
from ds4.errors import FrameError
from hypothesis import given
from hypothesis import strategies as st

TOKENS = st.lists(st.integers(0, 2**32 - 1), max_size=9)


def test_a_published_vector_of_fnv_comes_out() -> None:
    assert chain([0x626F6F66], 14695981039346656037) == 0xDD120E790C2512AF  # "foob"


def test_no_tokens_are_the_start() -> None:
    assert chain([]) == START == 1469598103934665603


@given(TOKENS, TOKENS)
def test_a_chain_is_continued_where_it_ended(first: list[int], second: list[int]) -> None:
    assert chain(second, chain(first)) == chain([*first, *second])


@pytest.mark.parametrize("token", [-1, 2**32])
def test_an_id_that_is_no_u32_is_named(token: int) -> None:
    with pytest.raises(FrameError) as error:
        chain([1, token])
    assert (error.value.code, error.value.found) == ("frame_range", token)
