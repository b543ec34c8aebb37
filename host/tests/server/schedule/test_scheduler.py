"""The scheduler on made-up tapes of arrivals, steps and hang-ups."""

from __future__ import annotations

import random

import pytest
from ds4.errors import Ds4Error
from ds4.server.schedule.admission import QueueLimits
from ds4.server.schedule.banks import shared_prefix
from ds4.server.schedule.scheduler import LONG_STEP, Scheduler
from ds4.server.schedule.sequence import Sequence
from hypothesis import given, settings
from hypothesis import strategies as st
from support.schedule_simulator import VOCAB, Engine, expected, sequence


def make(banks: int = 2, rows: int = 16, limits: QueueLimits | None = None) -> Engine:
    return Engine(Scheduler(banks, rows, limits or QueueLimits()))


def test_one_sequence_draws_what_it_would_draw_alone() -> None:
    engine = make()
    one = sequence(1, [1, 2, 3])
    assert engine.scheduler.arrive([one], 0) is None
    engine.drain()
    assert engine.drawn[1] == expected([1, 2, 3], 8)
    assert one.finish == "length"
    assert [bank.free for bank in engine.scheduler.banks] == [True, True]


def test_a_second_step_is_chained_to_the_first_before_its_token_is_known() -> None:
    engine = make()
    engine.scheduler.arrive([sequence(1, [1, 2, 3])], 0)
    first, second = engine.scheduler.plan(0), None
    assert first is not None
    engine.submit(first)
    second = engine.scheduler.plan(0)
    assert second is not None
    assert [(row.token, row.token_from) for row in second.rows] == [(-1, 2)]
    engine.submit(second)
    assert engine.scheduler.plan(0) is None


def test_nothing_is_submitted_past_the_last_token() -> None:
    engine = make()
    engine.scheduler.arrive([sequence(1, [1, 2], max_tokens=1)], 0)
    engine.drain()
    assert [len(step.rows) for step in engine.steps] == [2]


def test_a_sequence_that_must_look_first_is_not_chained() -> None:
    engine = make()
    engine.scheduler.arrive([sequence(1, [1, 2], max_tokens=4, chain=False)], 0)
    engine.drain()
    assert all(row.token >= 0 for step in engine.steps for row in step.rows)
    assert engine.drawn[1] == expected([1, 2], 4)


def test_a_stop_token_ends_an_answer_and_its_speculative_row_goes_unheard() -> None:
    engine = make()
    full = expected([5, 6], 8)
    stops = frozenset({full[2]})
    one = sequence(1, [5, 6], stop_ids=stops)
    engine.scheduler.arrive([one], 0)
    engine.drain()
    assert engine.drawn[1] == expected([5, 6], 8, stops)
    assert one.finish == "stop"
    engine.check_banks()


def test_the_next_turn_of_a_conversation_computes_its_new_part_only() -> None:
    engine = make()
    engine.scheduler.arrive([sequence(1, [1, 2, 3])], 0)
    engine.drain()
    history = [1, 2, 3, *engine.drawn[1]]
    again = sequence(2, [*history, 9, 9])
    engine.scheduler.arrive([again], 0)
    engine.drain()
    assert again.placement is not None
    # The last drawn token was never fed, so the bank holds one less.
    assert (again.placement.reuse, again.placement.keep) == ("exact", len(history) - 1)
    assert engine.drawn[2] == expected(again.prompt, 8)


def test_the_same_prompt_again_still_computes_its_last_token() -> None:
    engine = make()
    engine.scheduler.arrive([sequence(1, [1, 2, 3], max_tokens=1)], 0)
    engine.drain()
    again = sequence(2, [1, 2, 3])
    engine.scheduler.arrive([again], 0)
    engine.drain()
    assert again.placement is not None and again.placement.keep == 2
    assert engine.drawn[2] == expected([1, 2, 3], 8)


def test_a_side_call_with_the_same_opening_does_not_evict_the_main_conversation() -> None:
    engine = make(banks=3, rows=512)
    main = list(range(40)) * 10
    engine.scheduler.arrive([sequence(1, main)], 0)
    engine.drain()
    title = sequence(2, [*main[:100], 7, 7])
    engine.scheduler.arrive([title], 0)
    engine.drain()
    assert title.placement is not None and (title.placement.reuse, title.placement.keep) == ("fork", 100)
    turn = sequence(3, [*main, *engine.drawn[1], 3])
    engine.scheduler.arrive([turn], 0)
    engine.drain()
    assert turn.placement is not None and turn.placement.reuse == "exact"
    assert engine.drawn[2] == expected(title.prompt, 8) and engine.drawn[3] == expected(turn.prompt, 8)


def test_a_prefix_is_copied_from_a_bank_that_is_busy() -> None:
    engine = make(banks=2, rows=512)
    prompt = list(range(45)) * 3
    engine.scheduler.arrive([sequence(1, prompt, max_tokens=200)], 0)
    for _ in range(5):
        engine.turn()
    other = sequence(2, [*prompt, 1, 2], max_tokens=5)
    engine.scheduler.arrive([other], 0)
    engine.drain()
    assert other.placement is not None and other.placement.reuse == "fork"
    assert other.placement.keep >= len(prompt)
    assert engine.drawn[2] == expected(other.prompt, 5)
    assert engine.drawn[1] == expected(prompt, 200)


def test_choices_of_one_request_share_one_prefill_even_without_the_prompt_cache() -> None:
    engine = make(banks=4, rows=64)
    prompt = list(range(30))
    leader = sequence(1, prompt, reuse=False)
    rest = [sequence(key, prompt, reuse=False, leader=leader) for key in (2, 3, 4)]
    engine.scheduler.arrive([leader, *rest], 0)
    engine.drain()
    computed = sum(1 for step in engine.steps for row in step.rows if row.position < len(prompt))
    assert computed == len(prompt) + 3
    assert all(engine.drawn[key] == expected(prompt, 8) for key in (1, 2, 3, 4))


def test_without_the_prompt_cache_nothing_is_shared() -> None:
    engine = make()
    for key in (1, 2):
        one = sequence(key, [1, 2, 3], reuse=False)
        engine.scheduler.arrive([one], 0)
        engine.drain()
        assert one.placement is not None and one.placement.reuse == "cold"


def test_a_long_prompt_does_not_stall_those_who_decode() -> None:
    engine = make(banks=2, rows=512)
    engine.scheduler.arrive([sequence(1, [1], max_tokens=60)], 0)
    for _ in range(10):
        engine.turn(elapsed_ns=10_000_000)
    engine.scheduler.arrive([sequence(2, [3] * 400, max_tokens=2)], 0)
    before = len(engine.steps)
    engine.drain(decode_ns=10_000_000, token_ns=400_000)
    mixed = [step for step in engine.steps[before:] if step.decoding and step.prompt_rows]
    assert len(mixed) > 5
    assert all(step.prompt_rows <= 40 for step in mixed)


def test_chunks_grow_to_what_a_decode_step_costs_and_no_further() -> None:
    scheduler = Scheduler(2, 512)
    pace = scheduler.pace
    assert pace.chunk(0, 512) == 512
    for _ in range(20):
        pace.learn(4, 0, 20_000_000)
        pace.learn(0, 500, 500_000_000)
    assert pace.chunk(4, 508) == pytest.approx(20, abs=1)
    for _ in range(20):
        pace.learn(4, 20, 25_000_000)  # rows beside a decode step turn out cheap
    assert 50 < pace.chunk(4, 508) <= 80


def test_nothing_follows_a_long_prefill_so_that_a_hang_up_is_felt() -> None:
    engine = make(banks=1, rows=512)
    engine.scheduler.arrive([sequence(1, [2] * 1000)], 0)
    step = engine.scheduler.plan(0)
    assert step is not None and step.prompt_rows > LONG_STEP
    engine.submit(step)
    assert engine.scheduler.plan(0) is None


def test_a_cancelled_step_is_drawn_again_for_those_who_stay() -> None:
    engine = make(banks=2)
    engine.scheduler.arrive([sequence(1, [1, 2, 3]), sequence(2, [4, 5])], 0)
    for turn in range(12):
        engine.turn()
        if turn in (0, 3, 7):
            engine.cancel()
            engine.check_banks()
    engine.drain()
    assert engine.drawn[1] == expected([1, 2, 3], 8)
    assert engine.drawn[2] == expected([4, 5], 8)


def test_a_hang_up_frees_its_bank_once_the_steps_in_flight_are_back() -> None:
    engine = make(banks=1)
    one = sequence(1, [1, 2, 3], max_tokens=1000)
    engine.scheduler.arrive([one, sequence(2, [7])], 0)
    for _ in range(4):
        engine.turn()
    assert engine.scheduler.finish(one, "cancelled")
    assert not engine.scheduler.finish(one, "cancelled")
    planned = len(engine.steps)
    engine.turn()
    engine.turn()
    assert any(row.bank == 0 and row.position == 0 for step in engine.steps[planned:] for row in step.rows)
    engine.drain()
    assert engine.drawn[2] == expected([7], 8)


def test_the_queue_refuses_by_depth_and_by_bytes_and_takes_the_first_of_any_size() -> None:
    scheduler = Scheduler(1, 16, QueueLimits(max_queue=2, max_bytes=100))
    assert scheduler.arrive([sequence(1, [1], nbytes=1000)], 0) is None
    assert scheduler.arrive([sequence(2, [1], nbytes=1)], 0) == "queue_bytes"
    scheduler.plan(0)
    assert scheduler.arrive([sequence(3, [1], nbytes=60)], 0) is None
    assert scheduler.arrive([sequence(4, [1], nbytes=60)], 0) == "queue_bytes"
    assert scheduler.arrive([sequence(5, [1]), sequence(6, [1])], 0) == "queue_depth"
    assert scheduler.queued_bytes == 60


def test_who_waits_too_long_is_told_and_leaves_the_queue() -> None:
    scheduler = Scheduler(1, 16, QueueLimits(max_age=10))
    first, second = sequence(1, [1], max_tokens=1000), sequence(2, [1])
    scheduler.arrive([first], 0)
    scheduler.plan(0)
    scheduler.arrive([second], 1)
    scheduler.plan(5)
    scheduler.plan(12)
    assert scheduler.expired == [second] and second.finish == "queue_age"
    assert not scheduler.queue and first.finish is None


def test_a_bank_forgets_what_the_engine_lost_and_only_when_nobody_uses_it() -> None:
    engine = make(banks=2)
    one = sequence(1, [1, 2, 3], max_tokens=2)
    engine.scheduler.arrive([one], 0)
    engine.turn()
    for index, length, code in ((2, 0, "bank"), (-1, 0, "bank"), (0, 0, "busy"), (1, -1, "length")):
        with pytest.raises(Ds4Error) as refused:
            engine.scheduler.forget(index, length)
        assert refused.value.code == code
    engine.scheduler.finish(one, "cancelled")
    with pytest.raises(Ds4Error):
        engine.scheduler.forget(0, 0)  # its rows are still in flight
    engine.drain()
    engine.scheduler.forget(0, 9)
    assert len(engine.scheduler.banks[0].tokens) > 1
    engine.scheduler.forget(0, 1)
    assert engine.scheduler.banks[0].tokens == [1]


def test_more_banks_than_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="each decodes one row"):
        Scheduler(8, 4)


@given(st.lists(st.integers(0, 1), max_size=300), st.lists(st.integers(0, 1), max_size=300), st.integers(0, 300))
def test_the_shared_prefix_is_as_long_as_counting_says(a: list[int], b: list[int], same: int) -> None:
    b = a[:same] + b
    counted = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert shared_prefix(a, b) == counted


prompts = st.lists(st.integers(0, 5), min_size=1, max_size=40)


@settings(max_examples=150, deadline=None)
@given(
    banks=st.integers(1, 4),
    rows=st.integers(4, 24),
    arrivals=st.lists(
        st.tuples(prompts, st.integers(1, 12), st.booleans(), st.integers(1, 3)), min_size=1, max_size=12
    ),
    seed=st.integers(0, 2**32),
)
def test_every_request_finishes_once_with_its_own_tokens_whatever_happens_around_it(
    banks: int, rows: int, arrivals: list[tuple[list[int], int, bool, int]], seed: int
) -> None:
    """Random arrivals, choices, hang-ups and cancelled steps: no bank leaks, and the living draw what they would draw
    alone."""
    chance = random.Random(seed)
    engine = make(banks, rows, QueueLimits(max_queue=1000))
    stops = frozenset(range(0, VOCAB, 9))
    waiting = list(arrivals)
    everyone: list[Sequence] = []
    gone: set[int] = set()
    for _ in range(3000):
        if waiting and chance.random() < 0.3:
            prompt, max_tokens, reuse, n = waiting.pop()
            leader: Sequence | None = None
            choices = []
            for _ in range(n):
                one = sequence(len(everyone) + 1, prompt, max_tokens, stop_ids=stops, reuse=reuse, leader=leader)
                leader = leader or one
                choices.append(one)
                everyone.append(one)
            assert engine.scheduler.arrive(choices, 0) is None
        if everyone and chance.random() < 0.05:
            victim = chance.choice(everyone)
            if engine.scheduler.finish(victim, "cancelled"):
                gone.add(victim.key)
        if chance.random() < 0.05:
            engine.cancel()
        moved = engine.turn(elapsed_ns=chance.randrange(1, 10**8))
        engine.check_banks()
        if not moved and not waiting:
            break
    assert not waiting and not engine.scheduler.queue and not engine.scheduler.active and not engine.flight
    assert all(bank.free for bank in engine.scheduler.banks)
    for one in everyone:
        assert one.finish is not None
        alone = expected(one.prompt, one.max_tokens, stops)
        drawn = engine.drawn.get(one.key, [])
        assert drawn == (alone[: len(drawn)] if one.key in gone else alone)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(1, 200), min_size=2, max_size=20), st.integers(1, 3))
def test_requests_get_banks_in_the_order_in_which_they_came(lengths: list[int], banks: int) -> None:
    engine = make(banks, 32, QueueLimits(max_queue=100))
    engine.scheduler.arrive([sequence(i, [i] * length, 3) for i, length in enumerate(lengths)], 0)
    engine.drain()
    order = [one.key for step in engine.steps for one in step.admitted]
    assert order == list(range(len(lengths)))
