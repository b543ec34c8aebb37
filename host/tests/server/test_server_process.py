"""`ds4-server` as a process, with the embedded model: the official SDK, signals, ports, plans."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
from support import commands, embedded
from support.live_server import read_answer, sse_data, text_of
from support.server_process import Process, started

pytestmark = [embedded.needs_model, embedded.needs_engine]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """Float mode: what a bank draws does not depend on its neighbours."""
    home = tmp_path_factory.mktemp("home")
    with started(home, "--numeric", "float", "-c", "2048", "--max-seqs", "4", "-t", "2") as process:
        yield process


QUESTION: Any = [{"role": "user", "content": "What is the capital of France?"}]


def test_the_official_sdk_chats(server: Process) -> None:
    client = server.client()
    assert [model.id for model in client.models.list()] == ["SmolLM2-135M-Instruct.Q4_1"]
    answer = client.chat.completions.create(model="x", messages=QUESTION, temperature=0, max_tokens=20)
    assert answer.choices[0].message.content == "The capital of France is Paris."
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None and (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (37, 8)


def test_the_official_sdk_streams_token_by_token(server: Process) -> None:
    stream = server.client().chat.completions.create(
        model="x",
        messages=QUESTION,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        logprobs=True,
        top_logprobs=3,
    )
    chunks = list(stream)
    deltas = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(deltas) == "The capital of France is Paris." and len([d for d in deltas if d]) == 7
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 8
    first = next(chunk for chunk in chunks if chunk.choices and chunk.choices[0].logprobs)
    logprobs = first.choices[0].logprobs
    assert logprobs is not None and logprobs.content is not None
    assert logprobs.content[0].logprob == max(top.logprob for top in logprobs.content[0].top_logprobs)


def test_the_official_sdk_sees_typed_errors(server: Process) -> None:
    client = server.client()
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="x", prompt=[1] * 3000)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nothing")


def test_answers_do_not_depend_on_who_else_is_served(server: Process) -> None:
    client = server.client()

    def ask(i: int) -> str:
        answer = client.completions.create(
            model="x",
            prompt=f"Here are {i + 2} facts about the number {i}:",
            max_tokens=8 + i,
            temperature=0.9,
            seed=i,
            extra_body={"cache_prompt": i % 2 == 0},
        )
        return answer.choices[0].text

    alone = [ask(i) for i in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(ask, range(6)))
    assert together == alone


def test_choices_differ_by_seed_and_repeat_with_it(server: Process) -> None:
    def ask() -> list[str]:
        answer = server.client().completions.create(
            model="x", prompt="My favourite animal is the", n=4, seed=5, temperature=1.5, max_tokens=12
        )
        return [choice.text for choice in answer.choices]

    first = ask()
    assert len(set(first)) > 1
    assert ask() == first


def test_the_next_turn_is_served_from_its_bank(server: Process) -> None:
    client = server.client()
    answer = client.chat.completions.create(model="x", messages=QUESTION, temperature=0, max_tokens=20)
    said = answer.choices[0].message.content
    turn = [*QUESTION, {"role": "assistant", "content": said}, {"role": "user", "content": "And of Spain?"}]
    again = client.chat.completions.create(model="x", messages=turn, temperature=0, max_tokens=5)
    assert again.usage is not None and again.usage.prompt_tokens_details is not None
    # Prompt, answer and the token that ended it: that one is part of the next prompt as well.
    assert again.usage.prompt_tokens_details.cached_tokens == 37 + 8


def test_idle_costs_no_processor_time(server: Process) -> None:
    def ticks() -> int:
        fields = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(1.0)
    assert (ticks() - before) / os.sysconf("SC_CLK_TCK") < 0.1


def test_the_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    server = Process(tmp_path, "-c", "8192", "-t", "1")
    running = server.open({"prompt": "abc", "max_tokens": 8000, "stream": True, "ignore_eos": True})
    running.recv(4096)
    server.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert server.process.poll() is None
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(10) == 0
    assert time.monotonic() - began < 5
    raw = b""
    while piece := running.recv(65536):
        raw += piece
    assert b"[DONE]" not in raw


def test_the_null_engine_serves_too(tmp_path: Path) -> None:
    with started(tmp_path, "--backend", "null") as server:
        status, _, raw = read_answer(
            server.open({"prompt": "abc", "max_tokens": 50, "ignore_eos": True, "stream": True})
        )
        assert status == 200
        events = list(sse_data(raw))
        assert events[-1] == "[DONE]" and text_of(events)


def test_a_port_that_is_taken_is_said_and_is_a_usage_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = commands.run("ds4.server", "--port", str(port), "-m", os.path.abspath(embedded.path()), home=tmp_path)
    assert done.returncode == 2
    assert f"port {port} on 127.0.0.1" in done.stderr and "--port" in done.stderr


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--cors-origin", "app.example"), "--cors-origin: cannot use this value (expected an origin such as "),
        (("--cors-origin", "https://app.example/page"), "expected an origin such as https://app.example, or *"),
        (("--allow-host", "https://app.example"), "--allow-host: cannot use this value (expected a host's name "),
        (("--host", "name.invalid"), "--host name.invalid: is no address to listen on: "),
        (("--state-dir", "file"), "file: cannot keep responses: that is no folder"),
        (("--trace", "file"), "file: cannot be written to: that is no folder"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_what_could_never_work_is_said_before_anything_is_served(
    argv: tuple[str, str], said: str, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    model = os.path.abspath(embedded.path())
    done = commands.run("ds4.server", "--port", "0", "-m", model, *argv, home=tmp_path)
    assert done.returncode == 2 and said in done.stderr.splitlines()[-1], done.stderr
    assert "Errno" not in done.stderr and "ready in" not in done.stderr


def test_a_plan_is_printed_without_opening_the_engine(tmp_path: Path) -> None:
    model = os.path.abspath(embedded.path())
    done = commands.run(
        "ds4.server", "--check-config", "-c", "1024", "--max-seqs", "2", "-m", model, home=tmp_path, DS4_LIBRARY="/none"
    )
    assert done.returncode == 0
    plan = json.loads(done.stdout)
    assert plan["effective"]["context"] == 1024 and plan["effective"]["banks"] == 2
    assert plan["settings"]["ctx"] == {"value": 1024, "source": "-c"}
    done = commands.run("ds4.server", "--check-config", "-c", "2000000000", "-m", model, home=tmp_path)
    assert done.returncode == 2 and "do not fit" in done.stderr
    assert json.loads(done.stdout)["issues"][0]["code"] == "memory_plan"
    done = commands.run("ds4.server", "-m", str(tmp_path / "none.gguf"), home=tmp_path)
    assert done.returncode == 2


def test_an_engine_that_cannot_be_loaded_ends_the_server_with_the_reason(tmp_path: Path) -> None:
    model = os.path.abspath(embedded.path())
    done = commands.run("ds4.server", "--port", "0", "-m", model, home=tmp_path, DS4_LIBRARY=str(tmp_path / "none.so"))
    assert done.returncode == 1
    assert "none.so" in done.stderr and "Traceback" not in done.stderr


def test_help_is_for_people(tmp_path: Path) -> None:
    done = commands.run("ds4.server", "--help", home=tmp_path)
    assert done.returncode == 0
    for section in ("HTTP:", "Model:", "Serving:", "Engine:", "Limits:"):
        assert section in done.stdout
