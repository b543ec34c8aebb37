"""What the server refuses, and that it always does so in OpenAI's error shape."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ds4.server.limits import Limits
from ds4.server.schedule.admission import QueueLimits
from support.live_server import LiveServer, read_answer

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\n"
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(context=512, limits=Limits(body=1 << 20), origins=("https://app.example",)) as live:
        yield live


def refused(answer: tuple[int, dict[str, Any]], status: int, param: str | None = None, code: str | None = None) -> str:
    found, body = answer
    assert found == status, body
    error = body["error"]
    assert set(error) == {"message", "type", "param", "code"}
    if param is not None:
        assert error["param"] == param
    if code is not None:
        assert error["code"] == code
    return str(error["message"])


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", True),
        ("temperature", "1"),
        ("temperature", -1),
        ("temperature", 1e999),
        ("top_p", 2),
        ("top_p", []),
        ("top_k", 1.5),
        ("min_p", -0.1),
        ("frequency_penalty", 3),
        ("max_tokens", True),
        ("max_tokens", 0),
        ("max_tokens", -5),
        ("max_tokens", 1.5),
        ("max_tokens", "10"),
        ("max_completion_tokens", -(10**40)),
        ("n", 0),
        ("n", 9),
        ("n", 10**30),
        ("seed", 1 << 70),
        ("seed", False),
        ("stop", 5),
        ("stop", ["a"] * 17),
        ("logit_bias", [1]),
        ("logit_bias", {"x": 1}),
        ("logit_bias", {"999999": 1}),
        ("logit_bias", {"1": 101}),
        ("logit_bias", {"1": True}),
        ("stream", "yes"),
        ("stream", 1),
        ("ignore_eos", 0),
        ("cache_prompt", "no"),
        ("logprobs", 3),
        ("model", 7),
        ("messages", None),
        ("messages", []),
        ("messages", "hi"),
        ("response_format", "json"),
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("reasoning_effort", "high"),
        ("thinking", True),
        ("stream_options", True),
    ],
)
def test_a_field_of_the_wrong_type_or_range_is_a_400_that_names_it(server: LiveServer, field: str, value: Any) -> None:
    body = json.dumps({"messages": MESSAGES, "max_tokens": 3, field: value}).replace("Infinity", "1e999").encode()
    status, _, raw = server.send(CHAT, body)
    message = refused((status, json.loads(raw)), 400, param=field)
    assert field in message or "supported" in message


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([5], "messages[0]"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "wizard", "content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": 5}], "messages[0].content"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
        ([{"role": "user", "content": "\ud800"}], "messages[0].content"),
        (
            [*MESSAGES, {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f"}}]}],
            "messages[1].tool_calls",
        ),
        ([*MESSAGES, {"role": "assistant", "tool_calls": [{}]}], "messages[1].tool_calls[0].function.name"),
        ([*MESSAGES, {"role": "assistant", "tool_calls": [1]}], "messages[1].tool_calls[0]"),
    ],
)
def test_a_message_that_cannot_be_used_is_named_by_its_place(server: LiveServer, messages: Any, param: str) -> None:
    refused(server.post(CHAT, {"messages": messages}), 400, param=param)


@pytest.mark.parametrize(
    ("field", "value", "param"),
    [
        ("prompt", None, "prompt"),
        ("prompt", [], "prompt"),
        ("prompt", "", "prompt"),
        ("prompt", [[]], "prompt"),
        ("prompt", [1, "a"], "prompt"),
        ("prompt", ["a", 1], "prompt[1]"),
        ("prompt", [[1], 1], "prompt[1]"),
        ("prompt", [300], "prompt"),
        ("prompt", [True], "prompt"),
        ("prompt", ["a"] * 65, "prompt"),
        ("echo", True, "echo"),
        ("suffix", "x", "suffix"),
        ("best_of", 2, "best_of"),
        ("logprobs", True, "logprobs"),
        ("logprobs", 21, "logprobs"),
        ("stop", [""], "stop[0]"),
    ],
)
def test_a_completion_that_cannot_be_made_is_a_400(server: LiveServer, field: str, value: Any, param: str) -> None:
    refused(server.post(COMPLETIONS, {"prompt": "a", "max_tokens": 2, field: value}), 400, param=param)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b'{"a": NaN}',
        b'{"a": -Infinity}',
        b'{"a": "\xff"}',
        b'{"a": ' + b"1" * 5000 + b"}",
        b'{"a": ' + b"[" * 100 + b"]" * 100 + b"}",
        b"[" * 500_000,
        b'{"a":' * 70 + b"1" + b"}" * 70,
    ],
)
def test_a_body_that_is_no_usable_json_is_a_400(server: LiveServer, raw: bytes) -> None:
    status, _, answer = server.send(CHAT, raw)
    refused((status, json.loads(answer)), 400, code="invalid_json")


def test_brackets_inside_strings_are_not_nesting(server: LiveServer) -> None:
    assert server.post(CHAT, {"messages": [{"role": "user", "content": '[{"\\' * 50}], "max_tokens": 1})[0] == 200


def test_a_prompt_longer_than_the_context_is_told_both_numbers(server: LiveServer) -> None:
    message = refused(
        server.post(COMPLETIONS, {"prompt": [1] * 600}), 400, param="prompt", code="context_length_exceeded"
    )
    assert "512" in message and "600" in message
    refused(
        server.post(CHAT, {"messages": [{"role": "user", "content": "x" * 600}]}),
        400,
        param="messages",
        code="context_length_exceeded",
    )
    assert server.get("/v1/models")[0] == 200


def test_unknown_paths_methods_and_media_types_have_the_same_shape(server: LiveServer) -> None:
    status, _, raw = server.send("/v1/nothing", b"{}")
    refused((status, json.loads(raw)), 404, code="not_found")
    status, headers, raw = server.send(CHAT, b"", "GET")
    refused((status, json.loads(raw)), 405, code="method_not_allowed")
    assert "POST" in headers["allow"]
    status, _, raw = server.send("/health", b"{}")
    refused((status, json.loads(raw)), 405)
    with contextlib.closing(server.connect()) as sock:
        sock.sendall(POST + b"Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}")
        status, _, raw = read_answer(sock)
    refused((status, json.loads(raw)), 415)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/chat/completions", ", but /v1/chat/completions: this client takes its base URL with /v1 at the end"),
        ("/v1/v1/messages", ", but /v1/messages: this client takes its base URL without /v1"),
        ("/v1/v1/nothing", ""),
        ("/nothing", ""),
    ],
)
def test_a_base_url_that_is_wrong_by_v1_is_told_the_right_one(server: LiveServer, path: str, said: str) -> None:
    status, body = server.post(path, {})
    refused((status, body), 404, code="not_found")
    assert body["error"]["message"] == f"There is no {path} here{said}."


def test_a_body_over_the_limit_is_a_413_whether_announced_or_chunked(server: LiveServer) -> None:
    with contextlib.closing(server.connect()) as sock:
        sock.sendall(server.request_bytes(CHAT, b"").replace(b"Content-Length: 0", b"Content-Length: 9999999999"))
        status, headers, raw = read_answer(sock)
    refused((status, json.loads(raw)), 413)
    assert headers["connection"] == "close"
    with contextlib.closing(server.connect()) as sock:
        sock.sendall(
            b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n"
        )
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        for _ in range(17):
            sock.sendall(piece)
        status, _, raw = read_answer(sock)
    refused((status, json.loads(raw)), 413)
    assert server.get("/health")[0] == 200


def test_headers_over_the_limit_are_a_431(server: LiveServer) -> None:
    status, _, raw = server.send(CHAT, b"{}", headers=f"X-Big: {'a' * 70000}\r\n")
    refused((status, json.loads(raw)), 431)
    with contextlib.closing(server.connect()) as sock:
        with contextlib.suppress(OSError):
            sock.sendall(b"GET / HTTP/1.1\r\nX-Endless: " + b"a" * 400_000)
        assert b" 431 " in sock.recv(200)


@pytest.mark.parametrize(
    "raw",
    [
        b"nonsense\r\n\r\n",
        POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        POST + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef",
        POST + b"Content-Length: -5\r\n\r\n",
        b"GET /health HTTP/1.1\r\nHost: localhost\r\nbad header: x\r\n\r\n",
    ],
)
def test_requests_that_are_not_well_formed_http_are_a_400_and_cut(server: LiveServer, raw: bytes) -> None:
    with contextlib.closing(server.connect()) as sock:
        sock.sendall(raw)
        status, _, answer = read_answer(sock)
        refused((status, json.loads(answer)), 400, code="invalid_http")
        assert sock.recv(1) == b""


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "10.0.0.1", "", "[::2]"]
)
def test_a_foreign_host_header_is_refused(server: LiveServer, host: str) -> None:
    with contextlib.closing(server.connect()) as sock:
        sock.sendall(f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        status, _, raw = read_answer(sock)
    refused((status, json.loads(raw)), 403, code="host_not_allowed")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1:8000", "[::1]:80", "127.1.2.3", "localhost."])
def test_this_machines_own_names_are_answered(server: LiveServer, host: str) -> None:
    with contextlib.closing(server.connect()) as sock:
        sock.sendall(f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert read_answer(sock)[0] == 200


def test_two_hosts_or_none_are_a_400(server: LiveServer) -> None:
    for headers in (b"", b"Host: localhost\r\nHost: localhost\r\n"):
        with contextlib.closing(server.connect()) as sock:
            sock.sendall(b"GET /health HTTP/1.1\r\n" + headers + b"\r\n")
            assert read_answer(sock)[0] == 400


def test_an_allowed_host_and_any_host_are_answered() -> None:
    for allowed in ("my.box", "*"):
        with LiveServer(load=False, allow_hosts=(allowed,)) as live, contextlib.closing(live.connect()) as sock:
            sock.sendall(b"GET /ready HTTP/1.1\r\nHost: My.Box:8000\r\n\r\n")
            assert read_answer(sock)[0] == 503


def test_an_allowed_origin_may_read_answers_and_another_may_not(server: LiveServer) -> None:
    _, headers, _ = server.send("/health", b"", "GET", "Origin: https://app.example\r\n")
    assert headers["access-control-allow-origin"] == "https://app.example"
    _, headers, _ = server.send("/health", b"", "GET", "Origin: https://other.example\r\n")
    assert "access-control-allow-origin" not in headers
    preflight = "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
    status, headers, _ = server.send(CHAT, b"", "OPTIONS", preflight)
    assert status == 204 and "POST" in headers["access-control-allow-methods"]
    status, headers, _ = server.send(CHAT, b"", "OPTIONS", preflight.replace("app", "other"))
    assert "access-control-allow-origin" not in headers
    _, headers, _ = server.send(CHAT, {"messages": []}, headers="Origin: https://app.example\r\n")
    assert headers["access-control-allow-origin"] == "https://app.example"


def test_a_web_socket_upgrade_is_turned_down(server: LiveServer) -> None:
    headers = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13\r\n"
    with contextlib.closing(server.connect()) as sock:
        sock.sendall(f"GET /v1/responses HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n".encode())
        assert read_answer(sock)[0] == 426


def test_a_full_queue_is_a_429_with_a_time_to_retry() -> None:
    with LiveServer(banks=1, limits=Limits(queue=QueueLimits(max_queue=1))) as live:
        live.gate.close()
        body = {"prompt": "abc", "max_tokens": 5}
        running = live.open(COMPLETIONS, body)
        live.wait_for(lambda: len(live.engine.scheduler.active) == 1)
        waiting = live.open(COMPLETIONS, body)
        live.wait_for(lambda: live.engine.waiting()[1] == 1)
        status, headers, raw = live.send(COMPLETIONS, body)
        refused((status, json.loads(raw)), 429, code="queue_depth")
        assert json.loads(raw)["error"]["type"] == "rate_limit_error" and int(headers["retry-after"]) > 0
        status, _, raw = live.send(COMPLETIONS, {**body, "stream": True})
        assert status == 429
        assert live.metric('ds4_sheds_total{reason="queue_depth"}') == 2
        live.gate.release()
        assert read_answer(running)[0] == read_answer(waiting)[0] == 200


def test_who_waits_too_long_gets_a_503_buffered_and_an_error_event_streaming() -> None:
    with LiveServer(banks=1, limits=Limits(queue=QueueLimits(max_age=0.05))) as live:
        live.gate.close()
        body = {"prompt": "abc", "max_tokens": 5}
        first = live.open(COMPLETIONS, body)
        live.wait_for(lambda: len(live.engine.scheduler.active) == 1)
        buffered, streaming = live.open(COMPLETIONS, body), live.open(COMPLETIONS, {**body, "stream": True})
        live.wait_for(lambda: live.engine.waiting()[1] == 2)
        time.sleep(0.06)
        live.gate.release()
        status, headers, raw = read_answer(buffered)
        refused((status, json.loads(raw)), 503, code="queue_age")
        assert headers["retry-after"] == "30"
        assert read_answer(first)[0] == 200
        status, _, raw = read_answer(streaming)
        assert status == 200 and b'"code": "queue_age"' in raw and b"[DONE]" not in raw and b"finish" not in raw


def test_too_many_clients_are_sent_away_before_their_bodies_are_read() -> None:
    with LiveServer(limits=Limits(clients=1)) as live:
        live.gate.close()
        running = live.open(COMPLETIONS, {"prompt": "abc", "max_tokens": 2})
        live.wait_for(lambda: len(live.engine.scheduler.active) == 1)
        status, headers, raw = live.send(COMPLETIONS, {"prompt": "abc"})
        refused((status, json.loads(raw)), 503, code="clients")
        assert headers["retry-after"] == "10" and live.get("/health")[0] == 200
        live.gate.release()
        assert read_answer(running)[0] == 200


def test_a_body_that_stops_arriving_is_a_408() -> None:
    with LiveServer(limits=Limits(body_timeout=0.1)) as live, contextlib.closing(live.connect()) as sock:
        sock.sendall(live.request_bytes(CHAT, {"messages": MESSAGES})[:-5])
        status, _, raw = read_answer(sock)
        refused((status, json.loads(raw)), 408)
