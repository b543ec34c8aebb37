"""Requests whose bytes are wrong somewhere, and those of HTTP/1.0: what is whole is answered, the rest is told why."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator

import pytest
from support.live_server import LiveServer

BODY = json.dumps({"prompt": "abc", "max_tokens": 200, "stream": True}).encode()
POST = b"POST /v1/completions HTTP/1.%d\r\nHost: %b\r\nContent-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n\r\n" % len(BODY)
GARBAGE = b"\0\0}}garbage"


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(context=2048) as live:
        yield live


def exchange(server: LiveServer, *pieces: bytes) -> bytes:
    """All that comes back until the server closes."""
    said = b""
    with contextlib.closing(server.connect()) as sock:
        sock.settimeout(10)
        for piece in pieces:
            sock.sendall(piece)
        with contextlib.suppress(ConnectionError):
            while piece := sock.recv(65536):
                said += piece
    server.wait_for(lambda: server.idle)
    return said


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\n",
        b"-2\r\n{}\r\n0\r\n\r\n",
        b"FFFFFFFFFFFFFFFFF1\r\n",
        b"2\n{}\n0\n\n",
        b"2\r\n{}\r\n0\r\nContent-Length: 4\r\n\r\n",
    ],
)
def test_a_body_that_breaks_off_its_framing_is_told_so(server: LiveServer, body: bytes) -> None:
    said = exchange(server, POST % (1, b"localhost") + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert said.startswith(b"HTTP/1.1 400 ") and b'"invalid_http"' in said and said.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize("together", [True, False])
def test_a_whole_request_is_answered_whatever_bytes_follow_it(server: LiveServer, together: bool) -> None:
    """As of a client that counts characters for its length, and sends bytes."""
    request = POST % (1, b"localhost") + LENGTH + BODY
    said = exchange(server, request + GARBAGE) if together else exchange(server, request, GARBAGE, GARBAGE)
    assert said.count(b"HTTP/1.1 200 ") == said.count(b"HTTP/1.1 ") == 1
    assert said.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


def test_garbage_behind_two_requests_cuts_neither(server: LiveServer) -> None:
    said = exchange(server, (POST % (1, b"localhost") + LENGTH + BODY) * 2 + GARBAGE)
    assert said.count(b"HTTP/1.1 200 ") == said.count(b"data: [DONE]") == said.count(b"HTTP/1.1 ") == 2


def test_a_broken_body_behind_a_whole_request_starts_nothing(server: LiveServer) -> None:
    head = POST % (1, b"localhost")
    said = exchange(server, head + LENGTH + BODY + head + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n")
    assert said.count(b"data: [DONE]") == said.count(b"HTTP/1.1 ") == 1


def test_a_stream_over_http_1_0_has_no_chunks_and_ends_with_the_connection(server: LiveServer) -> None:
    said = exchange(server, POST % (0, b"localhost") + LENGTH + BODY)
    head, _, body = said.partition(b"\r\n\r\n")
    assert b"transfer-encoding" not in head.lower() and b"connection: close" in head.lower()
    lines = [line for line in body.split(b"\n") if line]
    assert all(line.startswith((b"data: ", b":")) for line in lines) and lines[-1] == b"data: [DONE]"


def test_an_answer_over_http_1_0_has_its_length(server: LiveServer) -> None:
    said = exchange(server, b"GET /health HTTP/1.0\r\n\r\n")
    head, _, body = said.partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head.lower() and json.loads(body)["status"] == "ok"


@pytest.mark.parametrize("host", [b"[::1]evil.example", b"[::1]:80x", b"[::1]@evil.example", b"localhost/evil"])
def test_a_host_that_only_begins_like_this_machine_is_refused(server: LiveServer, host: bytes) -> None:
    said = exchange(server, b"GET /health HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 403 ")
