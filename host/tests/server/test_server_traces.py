"""Traces of a server: what they hold, who may read them, how many there are."""

from __future__ import annotations

import contextlib
import errno
import json
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ds4.core.trace import Trace, decode
from ds4.errors import SettingsError
from ds4.server.tracing import SUFFIX, TraceLimits, Tracer
from support.live_server import LiveServer

CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}


@pytest.fixture
def server(tmp_path: Path) -> Iterator[LiveServer]:
    with LiveServer() as live:
        live.service.tracer = Tracer(tmp_path / "traces", "float", "f32")
        yield live


def traces(server: LiveServer, count: int) -> list[Trace]:
    assert server.service.tracer is not None
    folder = server.service.tracer.folder
    server.wait_for(lambda: len(list(folder.glob("*" + SUFFIX))) == count)
    return [decode(path.read_bytes()) for path in sorted(folder.glob("*" + SUFFIX))]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", CHAT),
        ("/v1/completions", {"prompt": ["ab", "c"], "max_tokens": 5, "n": 2, "stop": ["zz"]}),
        ("/v1/messages", {**CHAT, "model": "m"}),
        ("/v1/responses", {"input": "hi", "max_output_tokens": 16, "model": "m", "store": False}),
    ],
)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_trace_has_the_body_the_tokens_and_the_bytes(
    server: LiveServer, path: str, body: dict[str, Any], streamed: bool
) -> None:
    _, _, raw = server.send(path, {**body, "stream": streamed})
    (trace,) = traces(server, 1)
    assert trace.surface == path and trace.body == {**body, "stream": streamed} and trace.outcome == "finished"
    assert trace.wire == raw.decode()
    for index, choice in enumerate(trace.choices):
        assert len(trace.drawn(index)) >= 5 and bytes(choice.prompt)
    if path == "/v1/completions":
        assert [bytes(choice.prompt) for choice in trace.choices] == [b"ab", b"ab", b"c", b"c"]
        assert len({choice.seed for choice in trace.choices}) == 4 and trace.choices[0].stop == ["zz"]


def test_a_response_in_the_background_leaves_a_trace_with_the_response_as_it_was_kept(server: LiveServer) -> None:
    body = {"input": "hi", "max_output_tokens": 16, "background": True}
    id = server.post("/v1/responses", body)[1]["id"]
    (trace,) = traces(server, 1)
    assert trace.surface == "/v1/responses" and trace.body == body and trace.outcome == "finished"
    assert json.loads(trace.wire) == json.loads(server.get(f"/v1/responses/{id}")[1])
    assert json.loads(trace.wire)["status"] == "incomplete" and len(trace.drawn(0)) == 16


def test_a_response_in_the_background_that_is_cancelled_leaves_a_trace_that_says_so(server: LiveServer) -> None:
    server.gate.close()
    body = {"input": "hi", "max_output_tokens": 3000, "background": True}
    id = server.post("/v1/responses", body)[1]["id"]
    server.wait_for(lambda: bool(server.engine.scheduler.active))
    assert server.post(f"/v1/responses/{id}/cancel", {})[1]["status"] == "cancelled"
    server.gate.release()
    (trace,) = traces(server, 1)
    assert trace.outcome == "gone" and json.loads(trace.wire)["status"] == "cancelled"


def test_a_choice_says_whether_it_was_held_to_a_grammar(server: LiveServer) -> None:
    for more in ({}, {"regex": "[a-z]{3}"}):
        assert server.post("/v1/completions", {"prompt": "a", "max_tokens": 5, **more})[0] == 200
    assert sorted(one.choices[0].held for one in traces(server, 2)) == [False, True]


def test_a_trace_is_its_owners_alone_and_has_no_keys(server: LiveServer) -> None:
    body = {**CHAT, "api_key": "sk-1", "metadata": {"Authorization": "Bearer sk-2"}, "tools": [{"x-api-key": "sk-3"}]}
    server.send("/v1/completions", {**body, "prompt": "a"}, headers="Authorization: Bearer sk-4\r\n")
    traces(server, 1)
    assert server.service.tracer is not None
    (path,) = server.service.tracer.folder.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert b"sk-" not in path.read_bytes()


def test_a_client_that_hangs_up_leaves_a_trace_that_says_so(server: LiveServer) -> None:
    server.gate.close()
    with contextlib.closing(server.open("/v1/completions", {"prompt": "a", "max_tokens": 50, "stream": True})):
        server.wait_for(lambda: bool(server.engine.scheduler.active))
    server.wait_for(lambda: not server.engine.scheduler.active)
    server.gate.release()
    assert traces(server, 1)[0].outcome == "gone"


def test_what_is_refused_leaves_none(server: LiveServer) -> None:
    assert server.post("/v1/completions", {"prompt": 7})[0] == 400
    server.post("/v1/completions", {"prompt": "a", "max_tokens": 1})
    assert len(traces(server, 1)) == 1


def test_the_oldest_go_first(tmp_path: Path) -> None:
    with LiveServer() as live:
        live.service.tracer = Tracer(tmp_path, "float", "f32", TraceLimits(count=3))
        for letter in "abcdef":
            live.post("/v1/completions", {"prompt": letter, "max_tokens": 1})
            live.wait_for(lambda: letter in {one.body["prompt"] for one in read(tmp_path)})  # noqa: B023
        live.wait_for(lambda: [one.body["prompt"] for one in read(tmp_path)] == ["d", "e", "f"])
        live.service.tracer = Tracer(tmp_path, "float", "f32", TraceLimits(size=1))
        live.post("/v1/completions", {"prompt": "g", "max_tokens": 1})
        live.wait_for(lambda: [one.body["prompt"] for one in read(tmp_path)] == ["g"])


def read(folder: Path) -> list[Trace]:
    found = []
    for path in sorted(folder.glob("*" + SUFFIX)):
        with contextlib.suppress(FileNotFoundError):
            found.append(decode(path.read_bytes()))
    return found


def test_a_folder_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SettingsError, match="--trace"):
        Tracer(tmp_path / "file", "float", "f32")


def test_a_trace_that_finds_no_room_leaves_nothing_behind(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[Path] = []

    def full(path: Path, target: Path) -> None:
        tried.append(path)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    status, _, _ = server.send("/v1/completions", {"prompt": "a", "max_tokens": 2})
    assert status == 200 and server.service.tracer is not None
    folder = server.service.tracer.folder
    server.wait_for(lambda: bool(tried) and not list(folder.iterdir()))
