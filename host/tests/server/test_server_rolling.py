"""Banks that cannot go back to every position: what cannot be kept is computed anew, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from ds4.core import components
from ds4.errors import SettingsError
from ds4.server.schedule import oracle
from ds4.server.schedule.banks import Bank, place
from support.live_server import LiveServer

COMPLETIONS = "/v1/completions"


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


def test_turns_are_continued_and_branches_further_back_are_computed_anew() -> None:
    with LiveServer(banks=2, rows=16, keeps=32) as server:
        opening = "o" * 100
        first = opening + "a" * 100
        assert cached(server, first) == 0
        assert cached(server, first + "".join(chr(97 + (200 + i) % 26) for i in range(2)) + "next") == 202
        assert cached(server, opening + "b" * 10) == 0, "the opening lies below the floor"
        assert cached(server, opening + "c" * 10) == 100, "what was computed last is near enough"
        assert server.idle


def test_choices_are_copied_from_the_first_ones_bank_while_that_can_go_back() -> None:
    with LiveServer(banks=3, rows=16, keeps=32) as server:
        body: dict[str, Any] = {"prompt": "x" * 90, "max_tokens": 50, "n": 3}
        _, answer = server.post(COMPLETIONS, body)
        assert len({choice["text"] for choice in answer["choices"]}) == 1


def test_a_hang_up_in_prefill_leaves_a_bank_that_serves_the_next() -> None:
    with LiveServer(banks=1, rows=128, keeps=256) as server:
        server.gate.close()
        sock = server.open(COMPLETIONS, {"prompt": "x" * 1000, "max_tokens": 5})
        server.gate.let(2)
        server.wait_for(lambda: len(server.session.log) > 2)
        sock.close()
        server.gate.release()
        server.wait_for(lambda: server.idle)
        assert cached(server, "y" * 50) == 0


def test_the_oracle_of_the_schedule_says_that_it_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = components.choice("schedule")
    monkeypatch.setattr(components, "choice", lambda name: type(choice)(**{**_fields(choice), "side": "oracle"}))
    with pytest.raises(SettingsError, match="DS4_COMPONENT_SCHEDULE"):
        oracle.scheduler(1, 8, rolling=True)


def _fields(choice: Any) -> dict[str, Any]:
    names = getattr(choice, "_fields", None) or choice.__dataclass_fields__
    return {name: getattr(choice, name) for name in names}
