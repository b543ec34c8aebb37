"""What the server tells of itself: counters, the names of dashboards, statistics, the line of a request."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from ds4.server.limits import Limits
from ds4.server.ops import logs
from ds4.server.ops.account import SURFACES, surface_of
from ds4.server.ops.banks import BankCounts
from ds4.server.schedule.admission import QueueLimits
from ds4.server.schedule.banks import Bank, why_cold
from ds4.server.schedule.sequence import Sequence
from support.live_server import LiveServer

COMPLETIONS = "/v1/completions"


@pytest.fixture
def server() -> Iterator[LiveServer]:
    with LiveServer(banks=2) as live:
        yield live


def stats(server: LiveServer) -> dict[str, Any]:
    status, raw = server.get("/v1/stats")
    assert status == 200
    found: dict[str, Any] = json.loads(raw)
    return found


def counted(server: LiveServer) -> dict[str, float]:
    lines = server.get("/metrics")[1].decode().splitlines()
    return {name: float(value) for name, _, value in (x.rpartition(" ") for x in lines if not x.startswith("#"))}


def test_the_sections_are_there_before_the_model_is() -> None:
    with LiveServer(load=False) as live:
        found = stats(live)
        assert found["state"] == "loading" and found["model"] is found["banks"] is found["last_request"] is None
        assert found["memory"]["rss_bytes"] > 1 << 20
        assert counted(live)['ds4_state{state="loading"}'] == 1


def test_the_last_request_is_traced_from_queue_to_finish(server: LiveServer) -> None:
    prompt = "x" * 100
    server.post(COMPLETIONS, {"prompt": prompt, "max_tokens": 5})
    last = stats(server)["last_request"]
    assert (last["surface"], last["lane"], last["reuse"], last["miss"]) == (
        "completions",
        "continuous",
        "cold",
        "empty",
    )
    assert (last["prompt_tokens"], last["cached_tokens"], last["computed_tokens"]) == (100, 0, 100)
    assert (last["completion_tokens"], last["finish"], last["error"]) == (5, "length", None)
    assert last["ttft_ms"] >= last["queue_ms"] >= 0 and last["prefill_tok_s"] > 0 and last["decode_tok_s"] > 0
    server.post(COMPLETIONS, {"prompt": prompt, "max_tokens": 5})
    last = stats(server)["last_request"]
    assert (last["reuse"], last["miss"], last["cached_tokens"]) == ("partial", None, 99)
    server.post(COMPLETIONS, {"prompt": "y", "max_tokens": 1, "cache_prompt": False})
    assert stats(server)["last_request"]["miss"] == "disabled"
    server.post(COMPLETIONS, {"prompt": "zebra", "max_tokens": 1})
    assert stats(server)["last_request"]["miss"] == "different"


def test_several_choices_are_one_request(server: LiveServer) -> None:
    server.post(COMPLETIONS, {"prompt": "abc", "max_tokens": 4, "n": 2})
    last = stats(server)["last_request"]
    assert last["completion_tokens"] == 8 and last["finish"] == "length"


def test_counts_stand_in_sections(server: LiveServer) -> None:
    server.post(COMPLETIONS, {"prompt": "abc", "max_tokens": 4})
    server.post(COMPLETIONS, {"prompt": 5})
    server.wait_for(lambda: server.service.metrics.requests.total() == 2)
    found = stats(server)
    assert found["requests"]["by_surface"]["completions"] == {
        "ok": 1, "refused": 1, "shed": 0, "cancelled": 0, "failed": 0
    }  # fmt: skip
    assert found["banks"] == {
        "busy": 0, "held": 0, "warm": 1, "empty": 1, "tokens": 6, "warm_tokens": 6, "usage": 0.000732,
        "each": [
            {"index": 0, "state": "warm", "tokens": 6, "owner": None},
            {"index": 1, "state": "empty", "tokens": 0, "owner": None},
        ],
    }  # fmt: skip
    assert found["lobby"]["credit_held"] == found["lobby"]["waiting_requests"] == 0
    assert found["lobby"]["credit_budget"] == 2 * 4096
    assert found["prefix"] == {
        "cached_tokens": 0, "computed_tokens": 3, "reuse": {"cold": 1}, "misses": {"empty": 1}
    }  # fmt: skip
    assert found["queue"]["running"] == found["queue"]["waiting"] == 0
    assert found["routes"] == [
        {"surface": "completions", "lane": "continuous", "reason": "continuous", "count": 1}
    ]  # fmt: skip
    assert found["plan"]["context"] == 4096 and found["plan"]["banks"] == 2
    assert found["tokens"] == {"generated": 4, "computed": 3, "cached": 0} and found["speed"]["decode_tok_s"] > 0


def test_every_bank_is_counted_by_what_it_does() -> None:
    banks = [Bank(i) for i in range(4)]
    banks[0].owner, banks[0].open, banks[0].tokens = Sequence(1, [1, 2], 3), 1, [1, 2]
    banks[1].open, banks[1].tokens = 1, [1, 2, 3]
    banks[2].tokens = [1]
    counts = BankCounts.of(banks)
    assert counts.states() == {"busy": 1, "held": 1, "warm": 1, "empty": 1}
    assert (counts.tokens, counts.warm_tokens, counts.usage(6)) == (6, 1, 0.25)


def test_why_a_placement_is_cold_is_told() -> None:
    def why(bank: Bank, **more: Any) -> str:
        return why_cold([bank, Bank(1)], Sequence(1, list(range(100)), 4, **more))

    alike = list(range(80))
    assert why(Bank(0)) == "empty"
    assert why(Bank(0, [7, 8])) == "different"
    assert why(Bank(0, [*range(10), *range(500)])) == "different", "too little to be worth it"
    assert why(Bank(0, alike, scope=1)) == "scope"
    assert why(Bank(0, [*alike, 5], floor=81)) == "floor"
    assert why(Bank(0, alike), reuse=False) == "disabled"


def test_a_request_that_is_turned_away_is_told_of_with_its_reason() -> None:
    with LiveServer(banks=1, limits=Limits(queue=QueueLimits(max_queue=1))) as live:
        live.gate.close()
        held = [live.open(COMPLETIONS, {"prompt": "abc", "max_tokens": 3})]
        live.wait_for(lambda: live.engine.waiting() == (1, 0))
        held.append(live.open(COMPLETIONS, {"prompt": "abc", "max_tokens": 3}))
        live.wait_for(lambda: live.engine.waiting() == (1, 1))
        assert live.send(COMPLETIONS, {"prompt": "abc"})[0] == 429
        live.wait_for(lambda: live.service.metrics.requests["completions", "shed"] == 1)
        found = stats(live)
        assert found["sheds"] == {"queue_depth": 1} and found["last_request"]["error"] == "queue_depth"
        assert found["requests"]["by_surface"]["completions"]["shed"] == 1
        assert (found["queue"]["running"], found["queue"]["waiting"]) == (1, 1)
        live.gate.release()
        for sock in held:
            sock.close()


def test_a_client_that_hangs_up_is_counted_as_such(server: LiveServer) -> None:
    server.gate.close()
    sock = server.open(COMPLETIONS, {"prompt": "abc", "max_tokens": 300, "stream": True})
    server.wait_for(lambda: server.engine.waiting()[0] == 1)
    sock.close()
    server.wait_for(lambda: server.service.metrics.cancelled == 1)
    server.gate.release()
    server.wait_for(lambda: server.service.metrics.requests["completions", "cancelled"] == 1)
    assert stats(server)["last_request"]["finish"] == "cancelled"


def test_dashboards_find_the_names_they_know(server: LiveServer) -> None:
    for _ in range(2):
        server.post(COMPLETIONS, {"prompt": "abc" * 40, "max_tokens": 4})
    server.wait_for(lambda: server.service.metrics.requests.total() == 2)
    found = counted(server)
    assert found["llamacpp:prompt_tokens_total"] == 121
    assert found["llamacpp:tokens_predicted_total"] == 8
    assert found["llamacpp:requests_processing"] == found["llamacpp:requests_deferred"] == 0
    assert found["llamacpp:n_busy_slots_per_decode"] == 1
    model = '{model_name="fake"}'
    assert found["vllm:num_requests_running" + model] == found["vllm:num_requests_waiting" + model] == 0
    assert 0 < found["vllm:kv_cache_usage_perc" + model] < 1
    assert found["vllm:prefix_cache_queries_total" + model] == 240
    assert found["vllm:prefix_cache_hits_total" + model] == 119
    assert found["vllm:time_to_first_token_seconds_count" + model] == 2
    assert found["vllm:time_per_output_token_seconds_count" + model] == 6
    assert found["ds4_prompt_cached_tokens_total"] == 119 and found["ds4_prompt_computed_tokens_total"] == 121
    assert found['ds4_banks{state="warm"}'] == 1 and found["ds4_kv_warm_tokens"] > 120
    assert found['ds4_requests_total{outcome="ok",surface="completions"}'] == 2


def test_paths_that_clients_make_up_make_no_new_series(server: LiveServer) -> None:
    for i in range(20):
        server.get(f"/made/up/{i}")
        server.get(f"/v1/models/made-up-{i}")
    assert "made" not in server.get("/metrics")[1].decode()
    assert surface_of("/v1/completions/x") == "completions" and surface_of("/v1/completionsx") == "other"
    assert {surface_of(p) for p in ("/", "/x", "/v1", "/tokenize", "/v1/stats", "/v1/messages/count_tokens")} <= set(
        SURFACES
    )


# ---- the log --------------------------------------------------------------------------------------------------------


@pytest.fixture
def log() -> Iterator[StringIO]:
    names = ("ds4.server", "ds4.components", "uvicorn.error", "asyncio", "ds4.requests")
    before = [(lg, lg.level, lg.handlers, lg.propagate) for lg in map(logging.getLogger, names)]
    yield StringIO()
    for logger, level, handlers, propagate in before:
        logger.setLevel(level)
        logger.handlers, logger.propagate = handlers, propagate


def test_each_request_leaves_one_line_of_json_without_its_text(server: LiveServer, log: StringIO) -> None:
    logs.configure("json", "info", each_request=True, stream=log)
    server.post(COMPLETIONS, {"prompt": "my secret prompt", "max_tokens": 5})
    server.wait_for(lambda: log.getvalue().endswith("\n"))
    line = json.loads(log.getvalue())
    assert (line["event"], line["level"], line["status"], line["outcome"]) == ("request", "info", 200, "ok")
    assert (line["method"], line["path"], line["surface"]) == ("POST", COMPLETIONS, "completions")
    assert line["request_id"].startswith("req_") and line["id"].startswith("cmpl-")
    assert (line["prompt_tokens"], line["completion_tokens"], line["finish"]) == (16, 5, "length")
    assert line["duration_ms"] >= line["ttft_ms"] > 0 and line["ts"].endswith("Z")
    assert "secret" not in log.getvalue() and "qrstu" not in log.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_path_cannot_forge_a_line(server: LiveServer, log: StringIO, form: logs.Format) -> None:
    logs.configure(form, "info", each_request=True, stream=log)
    server.get("/x%0d%0a2026-01-01%20INFO%20forged%1b[2J%E2%80%A8%C2%85y")
    server.wait_for(lambda: log.getvalue().endswith("\n"))
    text = log.getvalue()
    assert len(text.splitlines()) == 1 and "\x1b" not in text
    if form == "json":
        assert json.loads(text)["path"] == "/x\r\n2026-01-01 INFO forged\x1b[2J\u2028\x85y"


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_message_or_an_exception_cannot_forge_a_line(log: StringIO, form: logs.Format) -> None:
    logs.configure(form, "warning", each_request=False, stream=log)
    try:
        raise ValueError("bad\n2026-01-01 INFO forged")
    except ValueError:
        logging.getLogger("ds4.server").error("%s failed", "a\nb", exc_info=True)
    logging.getLogger("ds4.server").info("below the level")
    lines = log.getvalue().splitlines()
    assert not any(line.startswith("2026-01-01 INFO") for line in lines) and "below" not in log.getvalue()
    assert len(lines) == 1 if form == "json" else all(line.startswith("    ") for line in lines[1:])


def test_no_line_is_written_for_requests_unless_they_are_asked_for(server: LiveServer, log: StringIO) -> None:
    logs.configure("text", "debug", each_request=False, stream=log)
    server.get("/health")
    assert log.getvalue() == ""
