"""What the tests of this room stand on: when a server or a client is dead, silent or astray, they fail, and soon."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import httpx
import pytest
from support import clients, embedded, recorded_server
from support.script import Rule

pytestmark = embedded.needs_engine

RULES = [Rule("Hello", "Hello, wörld!"), Rule("count", "1, 2, 3")]


def ask(url: str, text: str, **more: object) -> httpx.Response:
    body = {"messages": [{"role": "user", "content": text}], **more}
    return httpx.post(url + "/v1/chat/completions", json=body, timeout=20)


def test_a_script_is_followed_and_what_passed_is_on_record(tmp_path: Path) -> None:
    with clients.hermes(tmp_path, RULES) as server:
        whole = ask(server.url, "Hello there").json()
        assert whole["choices"][0]["message"]["content"] == "Hello, wörld!"
        streamed = ask(server.url, "count", stream=True)
        first, second = server.exchanges("/chat/completions")
    assert (first.asked["messages"][0]["content"], second.asked["stream"]) == ("Hello there", True)
    assert first.answer and second.answer == streamed.text, "pieces that go straight to the socket are on record too"
    for exchange in (first, second):
        clients.well_formed(exchange)


def test_a_question_that_nobody_foresaw_is_an_error(tmp_path: Path) -> None:
    with clients.hermes(tmp_path, RULES) as server:
        answer = ask(server.url, "something else")
        assert answer.status_code == 500 and "no rule of the script fits" in answer.text
        with pytest.raises(AssertionError, match="500"):
            clients.well_formed(server.exchanges("/chat/completions")[0])


def test_an_answer_cut_off_is_not_well_formed(tmp_path: Path) -> None:
    with clients.hermes(tmp_path, RULES) as server:
        ask(server.url, "count", stream=True)
        (exchange,) = server.exchanges("/chat/completions")
    exchange.answer = exchange.answer.removesuffix("data: [DONE]\n\n")
    with pytest.raises(AssertionError):
        clients.well_formed(exchange)


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    began = time.monotonic()
    with (
        pytest.raises(AssertionError, match="did not start: .*nowhere"),
        recorded_server.started(tmp_path, None, "-m", str(tmp_path / "nowhere.gguf")),
    ):
        pass
    assert time.monotonic() - began < 30


def test_a_server_that_dies_under_its_clients_fails_the_test(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="the server died"), clients.hermes(tmp_path, RULES) as server:
        server.process.kill()
        server.process.wait(10)


def test_a_client_that_hangs_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    child = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
    with pytest.raises(AssertionError, match=r"was not done after 2 s: \d+") as caught:
        clients.run([sys.executable, "-c", parent], tmp_path, 2)
    pid = int(str(caught.value).partition(" s: ")[2].split()[0])
    for _ in range(200):
        if not running(pid):
            return
        time.sleep(0.02)
    raise AssertionError("what the client started still runs")


def running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_client_sees_nothing_of_this_processs_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "mine")
    code = "import os; print(os.environ.get('OPENAI_API_KEY'), os.environ['HOME'], os.getcwd())"
    done = clients.run([sys.executable, "-c", code], tmp_path, 20)
    assert done.out.split() == ["None", str(tmp_path / "home"), os.path.realpath(tmp_path)]
