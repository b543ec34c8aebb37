from __future__ import annotations

import pytest
from ds4.core.ledger import SessionLedger, SyncPlan, common_prefix
from ds4.errors import ContextLengthError, Ds4Error
from hypothesis import given
from hypothesis import strategies as st

TOKENS = st.lists(st.integers(0, 2), max_size=12)


def holding(tokens: list[int], ctx: int = 16) -> SessionLedger:
    ledger = SessionLedger(ctx)
    if tokens:
        ledger.commit(tokens, ledger.plan(tokens))
    return ledger


def test_a_new_ledger_is_empty_and_of_generation_one() -> None:
    ledger = SessionLedger(8)
    assert (ledger.tokens, ledger.valid, ledger.generation, len(ledger)) == ([], True, 1, 0)
    assert ledger.plan([1, 2]) == SyncPlan(0, True, False)


def test_a_prompt_that_continues_is_extended_without_a_new_generation() -> None:
    ledger = holding([1, 2, 3])
    plan = ledger.plan([1, 2, 3, 4])
    assert plan == SyncPlan(3, False, False)
    ledger.commit([1, 2, 3, 4], plan)
    assert (ledger.tokens, ledger.generation) == ([1, 2, 3, 4], 1)


def test_a_prompt_that_differs_keeps_the_common_prefix_and_bumps() -> None:
    ledger = holding([1, 2, 3])
    plan = ledger.plan([1, 2, 9, 9])
    assert plan == SyncPlan(2, False, True)
    ledger.commit([1, 2, 9, 9], plan)
    assert (ledger.tokens, ledger.generation) == ([1, 2, 9, 9], 2)


def test_the_last_token_of_a_prompt_is_always_evaluated() -> None:
    assert holding([1, 2, 3]).plan([1, 2, 3]) == SyncPlan(2, False, True)
    assert holding([1, 2, 3]).plan([1, 2]) == SyncPlan(1, False, True)
    assert holding([1]).plan([1]) == SyncPlan(0, True, True)


@given(TOKENS, TOKENS.filter(bool))
def test_committing_a_plan_leaves_the_prompt_and_bumps_only_when_something_was_lost(a: list[int], b: list[int]) -> None:
    ledger = holding(a)
    before = ledger.generation
    plan = ledger.plan(b)
    assert a[: plan.start] == b[: plan.start]
    assert 0 <= plan.start < len(b)
    ledger.commit(b, plan)
    assert ledger.tokens == b
    assert ledger.generation == before + (plan.start < len(a))


@given(TOKENS, TOKENS)
def test_the_common_prefix_is_the_longest(a: list[int], b: list[int]) -> None:
    n = common_prefix(a, b)
    assert a[:n] == b[:n]
    assert n == min(len(a), len(b)) or a[n] != b[n]


def test_a_prompt_is_committed_in_chunks() -> None:
    ledger = holding([1, 9])
    prompt = [1, 2, 3, 4]
    plan = ledger.plan(prompt)
    ledger.commit(prompt, plan, upto=1)
    ledger.commit(prompt, upto=3)
    assert ledger.tokens == [1, 2, 3]
    ledger.commit(prompt)
    assert (ledger.tokens, ledger.generation) == (prompt, 2)


def test_a_commit_that_cannot_be_leaves_the_ledger_as_it_was() -> None:
    ledger = holding([1, 2, 3], ctx=4)
    stale = SyncPlan(3, False, True)
    for prompt, plan, upto in (([1, 2], stale, None), ([1, 2, 3], stale, 2), ([1, 2, 3], None, 4), ([1], None, 1)):
        with pytest.raises(Ds4Error) as refused:
            ledger.commit(prompt, plan, upto)
        assert refused.value.code == "commit_range"
    with pytest.raises(ContextLengthError):
        ledger.commit([1, 2, 3, 4, 5], stale)
    assert (ledger.tokens, ledger.generation) == ([1, 2, 3], 1)


def test_a_prompt_longer_than_the_context_names_both_numbers() -> None:
    with pytest.raises(ContextLengthError) as caught:
        SessionLedger(4).plan([0] * 5)
    assert (caught.value.expected, caught.value.found) == ("at most 4 tokens", 5)
    SessionLedger(4).plan([0] * 4)


def test_an_empty_prompt_is_refused() -> None:
    with pytest.raises(Ds4Error, match="empty prompt"):
        SessionLedger(4).plan([])


def test_rewind_clamps_and_bumps_only_if_something_goes() -> None:
    ledger = holding([1, 2, 3])
    assert (ledger.rewind(9), ledger.generation) == (3, 1)
    assert (ledger.rewind(1), ledger.generation, ledger.tokens) == (1, 2, [1])
    assert (ledger.rewind(-5), ledger.generation, ledger.tokens) == (0, 3, [])


def test_an_invalid_ledger_rebuilds_whatever_comes() -> None:
    ledger = holding([1, 2, 3])
    ledger.invalidate()
    assert (ledger.valid, ledger.generation, ledger.tokens) == (False, 2, [])
    plan = ledger.plan([1, 2, 3])
    assert plan == SyncPlan(0, True, True)
    ledger.commit([1, 2, 3], plan)
    assert (ledger.valid, ledger.tokens) == (True, [1, 2, 3])


def test_tokens_are_appended_up_to_the_context() -> None:
    ledger = holding([1], ctx=2)
    ledger.append(2)
    assert ledger.tokens == [1, 2]
    with pytest.raises(ContextLengthError):
        ledger.append(3)


def test_a_snapshot_that_is_longer_than_the_context_is_refused() -> None:
    ledger = SessionLedger(2)
    with pytest.raises(ContextLengthError):
        ledger.adopt([1, 2, 3])
    ledger.adopt([1, 2])
    assert (ledger.tokens, ledger.generation) == ([1, 2], 2)


def test_the_tokens_given_out_are_a_copy() -> None:
    ledger = holding([1, 2])
    ledger.tokens.append(3)
    assert ledger.tokens == [1, 2]
