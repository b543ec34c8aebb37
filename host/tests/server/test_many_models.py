"""`ds4-server --models-max 2` as a process: switching by name, eviction, damaged files, hang-ups, leftovers."""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anthropic
import httpx
import openai
import psutil
import pytest
from ds4.core import catalog
from ds4.errors import SettingsError
from support import embedded
from support.mini_server import started

pytestmark = embedded.needs_engine
QUESTION: Any = [{"role": "user", "content": "Say hello."}]


class Many:
    """A server of ds4-mini and copies of it, and of the embedded model where there is one."""

    def __init__(self, process: psutil.Process, url: str) -> None:
        self.process, self.url = process, url.removesuffix("/v1")
        self.client = httpx.Client(timeout=60)

    def post(self, path: str, **body: Any) -> tuple[int, Any]:
        answer = self.client.post(self.url + path, json=body)
        return answer.status_code, answer.json()

    def say(self, model: str) -> str:
        status, body = self.post("/v1/completions", model=model, prompt="hello", max_tokens=4, temperature=0)
        assert status == 200, body
        assert body["model"] == model
        return str(body["choices"][0]["text"])

    def states(self) -> dict[str, str]:
        data = httpx.get(self.url + "/v1/models", timeout=60).json()["data"]
        assert all(one["loaded"] == (one["state"] == "loaded") for one in data)
        return {one["id"]: one["state"] for one in data}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    try:
        source = catalog.embedded_path("ds4-mini")
    except SettingsError as error:
        pytest.skip(str(error))
    path = tmp_path_factory.mktemp("models")
    for name in ("one", "two", "three"):
        shutil.copy(source, path / f"{name}.gguf")
    (path / "damaged.gguf").write_bytes(source.read_bytes()[:100_000])
    return path


@contextlib.contextmanager
def serving(folder: Path, *more: str) -> Iterator[Many]:
    argv = ("--model-dir", str(folder), "--models-max", "2", "-c", "3000", *more)
    with started("ship", *argv) as (process, url):
        yield Many(psutil.Process(process.pid), url)


@pytest.fixture(scope="module")
def many(folder: Path) -> Iterator[Many]:
    with serving(folder) as server:
        yield server


def test_the_least_recently_used_of_three_makes_room(many: Many) -> None:
    expected = many.say("one")
    assert many.say("two") == expected
    many.say("one")
    many.say("three")
    states = many.states()
    assert {name for name, state in states.items() if state == "loaded"} == {"one", "three"}
    assert states["two"] == states["ds4-mini"] == "unloaded" and "damaged" not in states


def test_an_unknown_model_is_named_with_those_there_are_on_each_surface(many: Many) -> None:
    with pytest.raises(openai.NotFoundError, match="'two'") as caught:
        openai.OpenAI(base_url=many.url + "/v1", api_key="x").chat.completions.create(model="no", messages=QUESTION)
    assert caught.value.code == "model_not_found" and caught.value.param == "model"
    with pytest.raises(anthropic.NotFoundError, match="'two'"):
        anthropic.Anthropic(base_url=many.url, api_key="x").messages.create(model="no", max_tokens=4, messages=QUESTION)
    for path in ("/v1/responses", "/v1/embeddings", "/tokenize", "/v1/messages/count_tokens", "/v1/models/load"):
        assert many.post(path, model="no", input="x", content="x", messages=QUESTION)[0] == 404, path
    assert httpx.get(many.url + "/v1/models/no").status_code == 404


def test_no_name_and_deepseeks_aliases_mean_the_default(many: Many) -> None:
    for model in (None, "", "deepseek-chat", "deepseek-reasoner", "DS4-MINI"):
        status, body = many.post("/v1/chat/completions", model=model, messages=QUESTION, max_tokens=2)
        assert (status, body["model"]) == (200, "ds4-mini")


def test_a_damaged_file_is_told_and_the_others_go_on(many: Many, folder: Path) -> None:
    many.say("one")
    for _ in range(2):
        answer = httpx.post(many.url + "/v1/completions", json={"model": "damaged", "prompt": "x"}, timeout=60)
        assert answer.status_code == 503 and int(answer.headers["retry-after"]) > 0
        assert answer.json()["error"]["code"] == "load_failed" and str(folder) not in answer.text
    assert 'ds4_model_loads_total{model="damaged",outcome="failed"} 1.0' in httpx.get(many.url + "/metrics").text
    assert many.say("one")


def test_models_are_loaded_and_unloaded_by_hand(many: Many) -> None:
    status, body = many.post("/v1/models/load", model="two")
    assert status == 200 and body["success"] and body["model"]["loaded"]
    for _ in range(2):
        status, body = many.post("/v1/models/unload", model="two")
        assert status == 200 and body["model"]["state"] == "unloaded"
    assert many.post("/v1/models/load")[0] == 400


def test_a_model_that_answers_is_not_unloaded(many: Many) -> None:
    body = {"model": "one", "prompt": "a", "max_tokens": 2500, "ignore_eos": True, "stream": True}
    with httpx.stream("POST", many.url + "/v1/completions", json=body, timeout=60) as answer:
        next(lines := answer.iter_lines())
        status, refusal = many.post("/v1/models/unload", model="one")
        assert (status, refusal["error"]["code"]) == (409, "model_in_use")
        many.say("two")
        many.say("three")
        assert [line for line in lines if line][-1] == "data: [DONE]"


def test_a_client_that_hangs_up_while_its_model_loads_leaves_nothing_behind(many: Many) -> None:
    raw = json.dumps({"model": "two", "prompt": "x", "max_tokens": 4}).encode()
    many.post("/v1/models/unload", model="two")
    host, port = many.url.removeprefix("http://").split(":")
    for _ in range(5):
        with socket.create_connection((host, int(port))) as sock:
            head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            sock.sendall(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        stats = httpx.get(many.url + "/v1/stats").json()
        if stats["requests"]["http_open"] <= 1 and not any(one["requests"] for one in stats["models"]):
            break
        time.sleep(0.02)
    else:
        raise AssertionError(stats)
    assert many.say("two")


@embedded.needs_model
def test_concurrent_requests_on_two_surfaces_get_the_model_they_name(many: Many) -> None:
    def chat(model: str) -> str:
        body = {"model": model, "messages": QUESTION, "max_tokens": 6, "temperature": 0}
        status, answer = many.post("/v1/chat/completions", **body)
        assert (status, answer["model"]) == (200, model), answer
        return str(answer["choices"][0]["message"])

    def message(model: str) -> str:
        body = {"model": model, "messages": QUESTION, "max_tokens": 6, "temperature": 0}
        status, answer = many.post("/v1/messages", **body)
        assert (status, answer["model"]) == (200, model), answer
        return str(answer["content"])

    models = ["ds4-mini", "one", catalog.DEFAULT_MODEL] * 4
    with ThreadPoolExecutor(6) as pool:
        chats, messages = list(pool.map(chat, models)), list(pool.map(message, models))
    for answers in (chats, messages):
        assert answers[0] != answers[2]
        assert len(set(answers[2::3])) == 1, "the same model answers the same"


def test_twenty_switches_leave_no_thread_file_or_memory_behind(many: Many) -> None:
    for name in ("one", "two", "three", "ds4-mini") * 2:
        many.say(name)
    process = many.process
    threads, files, memory = process.num_threads(), process.num_fds(), process.memory_info().rss
    for name in ("one", "two", "three", "ds4-mini") * 5:
        many.say(name)
    assert process.num_threads() <= threads + 2
    assert process.num_fds() <= files + 2
    assert process.memory_info().rss <= memory + (24 << 20)


def test_an_idle_model_leaves_and_comes_back(folder: Path) -> None:
    with serving(folder, "--model-idle", "0.5") as server:
        text = server.say("ds4-mini")
        loaded = server.process.memory_info().rss
        deadline = time.monotonic() + 20
        while "loaded" in server.states().values():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert server.process.memory_info().rss < loaded
        assert httpx.get(server.url + "/ready").status_code == 200
        assert server.say("ds4-mini") == text
