"""Banks that cannot go back to every position: what cannot be kept is computed anew, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from ds4.server.schedule import oracle, tapes
from ds4.server.schedule.banks import Bank, place
from ds4.server.schedule.scheduler import Scheduler
from ds4.server.schedule.sequence import Sequence
from support.live_server import LiveServer
from support.oracles import standing_in

COMPLETIONS = "/v1/completions"


@pytest.fixture(params=["python", "oracle"])
def side(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Who decides: the scheduler itself, or the oracle's tape."""
    monkeypatch.setenv("DS4_COMPONENT_SCHEDULE", request.param)
    monkeypatch.setattr(oracle, "oracle", standing_in(tapes.by_tape))
    return str(request.param)


def cached(server: LiveServer, prompt: str, tokens: int = 3) -> int:
    status, answer = server.post(COMPLETIONS, {"prompt": prompt, "max_tokens": tokens})
    assert status == 200, answer
    assert answer["choices"][0]["text"] == "".join(chr(97 + (len(prompt) + i) % 26) for i in range(tokens))
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_a_prefix_below_the_floor_is_not_kept() -> None:
    bank = Bank(0, list(range(100)), floor=60)
    found = place([bank], [*range(50), 7, 7], reuse=True)
    assert found is not None and (found.keep, found.reuse) == (0, "cold")
    found = place([bank], [*range(80), 7, 7], reuse=True)
    assert found is not None and (found.keep, found.reuse) == (80, "partial")


def test_a_prefix_below_the_floor_is_not_copied() -> None:
    source, empty = Bank(0, list(range(300)), floor=200), Bank(1)
    found = place([source, empty], [*range(150), 7], reuse=True)
    assert found is not None and (found.bank, found.keep, found.source) == (empty, 0, None)
    found = place([source, empty], [*range(250), 7, 7], reuse=True)
    assert found is not None and found.keep == 250


def test_a_copy_can_go_back_no_further_than_its_source_for_the_next_one_in_the_queue() -> None:
    """Both are admitted by one plan, before anybody could ask the engine how far back the copy can go."""
    scheduler = Scheduler(3, 512)
    scheduler.banks[0].tokens, scheduler.banks[0].floor = list(range(600)), 200
    first, second = Sequence(1, [*range(250), 7, 7], 4), Sequence(2, [*range(100), 7, 7], 4)
    scheduler.arrive([first, second], 0)
    step = scheduler.plan(0)
    assert step is not None and step.admitted == [first, second]
    assert first.placement is not None and second.placement is not None
    assert (first.placement.reuse, first.placement.keep) == ("fork", 250)
    assert (second.placement.reuse, second.placement.keep) == ("cold", 0)


def test_turns_are_continued_and_branches_further_back_are_computed_anew(side: str) -> None:
    with LiveServer(banks=2, rows=16, keeps=32) as server:
        assert type(server.engine.scheduler).__name__ == {"python": "Scheduler", "oracle": "OracleScheduler"}[side]
        opening = "o" * 100
        first = opening + "a" * 100
        assert cached(server, first) == 0
        assert cached(server, first + "".join(chr(97 + (200 + i) % 26) for i in range(2)) + "next") == 202
        assert cached(server, opening + "b" * 10) == 0, "the opening lies below the floor"
        assert cached(server, opening + "c" * 10) == 100, "what was computed last is near enough"
        assert server.idle


def test_choices_are_copied_from_the_first_ones_bank_while_that_can_go_back(side: str) -> None:
    with LiveServer(banks=3, rows=16, keeps=32) as server:
        body: dict[str, Any] = {"prompt": "x" * 90, "max_tokens": 50, "n": 3}
        _, answer = server.post(COMPLETIONS, body)
        assert len({choice["text"] for choice in answer["choices"]}) == 1


def test_a_hang_up_in_prefill_leaves_a_bank_that_serves_the_next(side: str) -> None:
    with LiveServer(banks=1, rows=128, keeps=256) as server:
        server.gate.close()
        sock = server.open(COMPLETIONS, {"prompt": "x" * 1000, "max_tokens": 5})
        server.gate.let(2)
        server.wait_for(lambda: len(server.session.log) > 2)
        sock.close()
        server.gate.release()
        server.wait_for(lambda: server.idle)
        assert cached(server, "y" * 50) == 0
