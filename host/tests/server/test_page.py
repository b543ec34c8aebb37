"""The page's files, the state that it shows, and the progress of long prompts, over HTTP."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ds4.server.limits import Limits
from ds4.server.page import PageFile
from support.live_server import LiveServer, more, read_answer

CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(banks=2, context=4096, rows=64) as live:
        yield live


def asked(text: str, **options: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], "max_tokens": 4, "stream_options": options}


@pytest.mark.parametrize("path", ["/", "/ui/app.js", "/ui/style.css"])
def test_the_page_comes_with_a_policy_that_lets_nothing_foreign_run(server: LiveServer, path: str) -> None:
    status, headers, raw = server.send(path, b"", "GET")
    assert status == 200 and raw
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["form-action"] == "'none'"
    assert headers["x-content-type-options"] == "nosniff"
    assert server.send(path, b"", "HEAD")[0] == 200


def test_the_page_names_only_files_of_its_own_and_has_no_inline_script() -> None:
    files = {name: data.decode() for name, (_, data) in PageFile().files.items()}
    index = files["index.html"]
    assert set(re.findall(r'(?:src|href)="([^"]+)"', index)) == {"data:,", "/ui/style.css", "/ui/app.js"}
    assert not re.search(r"\son\w+=|style=|<style|javascript:", index)
    for name, text in files.items():
        assert "innerHTML" not in text and "insertAdjacentHTML" not in text and "eval(" not in text, name
        if name.endswith(".js"):
            assert set(re.findall(r'from "\./([^"]+)"', text)) <= files.keys(), name


@pytest.mark.parametrize("path", ["/ui/nothing.js", "/ui/../page.py", "/ui/%2e%2e%2fpage.py", "/ui/"])
def test_a_file_that_is_not_the_pages_is_not_found(server: LiveServer, path: str) -> None:
    assert server.get(path)[0] == 404


def test_stats_tell_what_each_bank_does(server: LiveServer) -> None:
    server.gate.close()
    try:
        with contextlib.closing(server.open(CHAT, asked("x" * 300))) as sock:
            server.wait_for(lambda: any(bank.owner for bank in server.engine.scheduler.banks))
            banks = json.loads(server.get("/v1/stats")[1])["banks"]["each"]
            busy = next(bank for bank in banks if bank["state"] == "busy")
            assert busy["owner"]["prompt"] > 300 and busy["tokens"] <= 2 * 64 and busy["owner"]["drawn"] == 0
            server.gate.release()
            assert read_answer(sock)[0] == 200
    finally:
        server.gate.release()
    server.wait_for(lambda: server.idle)
    stats = json.loads(server.get("/v1/stats")[1])
    assert stats["queue"]["running"] == stats["queue"]["waiting"] == 0 and stats["plan"]["context"] == 4096
    warm = stats["banks"]["each"][busy["index"]]
    assert warm["state"] == "warm" and warm["tokens"] > 300 and warm["owner"] is None
    assert stats["tokens"]["generated"] >= 4 and stats["tokens"]["computed"] > 300


def test_a_stream_that_asks_for_it_tells_how_far_its_prompt_is_read(server: LiveServer) -> None:
    *events, _ = server.events(CHAT, asked("p" * 400, include_progress=True))
    told = [event["progress"] for event in events if "progress" in event]
    assert all(event["choices"] == [] for event in events if "progress" in event)
    whole = told[0]["prompt_tokens"]
    counts = [one["computed"] for one in told]
    assert counts == sorted(set(counts)) and counts[-1] == whole and len(counts) == -(-whole // 64)
    first_text = next(
        at for at, event in enumerate(events) if event["choices"] and event["choices"][0]["delta"].get("content")
    )
    assert max(at for at, event in enumerate(events) if "progress" in event) < first_text


def test_progress_counts_what_a_bank_held_already(server: LiveServer) -> None:
    body = asked("q" * 400, include_progress=True)
    server.events(CHAT, body)
    (told,) = [event["progress"] for event in server.events(CHAT, body)[:-1] if "progress" in event]
    assert told["cached"] == told["prompt_tokens"] - 1 and told["computed"] == told["prompt_tokens"]


def test_each_choice_and_prompt_has_its_own_progress(server: LiveServer) -> None:
    body = {"prompt": ["a" * 100, "b" * 200], "max_tokens": 2, "stream_options": {"include_progress": True}}
    told = [event["progress"] for event in server.events("/v1/completions", body)[:-1] if "progress" in event]
    ends = {one["index"]: one["computed"] for one in told}
    assert ends == {0: 100, 1: 200}


@pytest.mark.parametrize("options", [{}, {"include_progress": False}, {"include_progress": None}])
def test_no_stream_tells_of_progress_unasked(server: LiveServer, options: dict[str, Any]) -> None:
    assert not any("progress" in event for event in server.events(CHAT, asked("r" * 300, **options))[:-1])


def test_a_buffered_answer_has_no_use_for_progress(server: LiveServer) -> None:
    status, whole = server.post(CHAT, asked("s" * 300, include_progress=True))
    assert status == 200 and "progress" not in whole


def test_progress_does_not_silence_heartbeats() -> None:
    with LiveServer(rows=32, limits=Limits(keep_alive=0.2)) as live:
        live.gate.close()
        body = {**asked("t" * 2000, include_progress=True), "stream": True}
        with contextlib.closing(live.open(CHAT, body)) as sock:
            raw = b""
            while b": keep-alive" not in raw:
                live.gate.let(1)
                time.sleep(0.02)  # slower than the engine would be: the silence has to last longer than the reading
                raw += more(sock, raw)
            assert b'"progress"' in raw and raw.count(b'"computed"') < 2000 // 32
            live.gate.release()
