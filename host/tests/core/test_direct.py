"""A lane asks the engine for exactly the rows that it should, however long the ids and however wide a step."""

from __future__ import annotations

import pytest
from ds4.core.direct import Lane
from ds4.errors import ContextLengthError
from ds4.sys.descriptors import SamplerDesc, SessionDesc
from support.fake_native import TINY, FakeModel, FakeSession, fake_session, hashed


def session(max_rows: int = 4, max_out: int = 3, n_ctx: int = 64) -> FakeSession:
    desc = SessionDesc(n_banks=1, n_ctx=n_ctx, max_rows=max_rows, max_out=max_out, n_threads=1)
    return FakeSession(FakeModel(), desc)


def greedy(prompt: list[int], count: int) -> list[int]:
    """What the fake model says, one token after the other."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(hashed(TINY.n_vocab)(tokens))
    return tokens[len(prompt) :]


@pytest.mark.parametrize("length", [1, 3, 4, 5, 8, 9, 17])
def test_prefill_draws_what_follows_the_last_id_in_steps_of_any_width(length: int) -> None:
    fake = session()
    drawn = Lane(fake).prefill(list(range(length)))
    assert [drawn.token] == greedy(list(range(length)), 1)
    assert fake.banks[0] == list(range(length))
    assert [len(rows) for rows in fake.log] == [4] * (length // 4) + [length % 4] * (length % 4 > 0)
    assert sum(row.output for rows in fake.log for row in rows) == 1


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10])
def test_decode_continues_greedily_and_chains_its_steps(count: int) -> None:
    fake = session()
    lane = Lane(fake)
    first = lane.prefill([1, 2, 3]).token
    seen: list[int] = []
    drawn = lane.decode(first, count, seen.append)
    assert [first, *drawn] == greedy([1, 2, 3], 1 + count)
    assert seen == drawn
    # The first step knows its token; each later one takes it from the step before, without waiting for the host.
    assert [rows[0].token for rows in fake.log[1:]] == [first, *[-1] * (count - 1)][:count]


def test_decode_keeps_two_steps_in_flight() -> None:
    fake = session()
    open_steps: list[int] = []
    fake.on_wait = lambda s: open_steps.append(len(s._open))
    Lane(fake).decode(7, 5)
    assert open_steps == [2, 2, 2, 2, 1]


def test_logits_come_for_every_position_in_order() -> None:
    fake = session()
    rows = list(Lane(fake).logits([5, 6, 7, 8, 9]))
    best = [max(range(256), key=lambda token: (row[token], -token)) for row in rows]
    assert best == [greedy([5, 6, 7, 8, 9][: n + 1], 1)[0] for n in range(5)]
    assert max(len(step) for step in fake.log) == 3  # never more outputs than the session allows


def test_a_single_step_draws_with_its_alternatives() -> None:
    fake = session()
    drawn = Lane(fake).step(5, top=2)
    assert drawn.token == greedy([5], 1)[0]
    assert [token for token, _ in drawn.top()] == [drawn.token, (drawn.token + 1) % 256]
    assert drawn.logprob() == -0.5


def test_what_does_not_fit_the_context_is_refused_before_any_step() -> None:
    fake = session(n_ctx=8)
    lane = Lane(fake)
    lane.prefill([1] * 6)
    steps = len(fake.log)
    for attempt in (lambda: lane.prefill([1] * 3), lambda: list(lane.logits([1] * 3)), lambda: lane.decode(1, 3)):
        with pytest.raises(ContextLengthError, match="expected 8, found 9"):
            attempt()
    assert len(fake.log) == steps


def test_prefill_of_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="nothing to compute"):
        Lane(session()).prefill([])


def test_a_lane_sets_its_bank_s_sampler() -> None:
    fake = fake_session(n_banks=2)
    Lane(fake, bank=1, sampler=SamplerDesc(temperature=1.0, seed=3))
    assert fake.samplers == {1: SamplerDesc(temperature=1.0, seed=3)}
