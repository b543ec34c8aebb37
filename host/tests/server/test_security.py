"""What has hurt other servers over HTTP, each as a case: smuggling, bombs, giants, rebinding, depth, names of files."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ds4.server import protocol
from ds4.server.limits import Limits
from support.live_server import LiveServer, read_answer

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"
HOST = b"Host: localhost\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(context=2048, limits=Limits(body=1 << 20), origins=("https://app.example",)) as live:
        yield live


@pytest.fixture(autouse=True)
def unharmed(server: LiveServer) -> Iterator[None]:
    """Whatever a case did, the server answers the next request and has all its banks."""
    yield
    status, answer = server.post(COMPLETIONS, {"prompt": "ab", "max_tokens": 2})
    assert (status, answer["choices"][0]["text"]) == (200, "cd")
    server.wait_for(lambda: server.idle)


def exchange(server: LiveServer, raw: bytes, seconds: float = 5.0) -> bytes:
    """All that comes back for raw bytes until the server closes or falls silent."""
    said = b""
    with contextlib.closing(server.connect()) as sock:
        sock.settimeout(seconds)
        with contextlib.suppress(ConnectionError):
            sock.sendall(raw)
        with contextlib.suppress(TimeoutError, ConnectionError):
            while piece := sock.recv(65536):
                said += piece
    return said


# ---- HTTP ----


@pytest.mark.parametrize(
    "headers",
    [
        b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n",
        b"Content-Length: 5\r\nContent-Length: 6\r\n",
        b"Content-Length: +5\r\n",
        b"Content-Length: 5, 5\r\n",
        b"Content-Length: -1\r\n",
        b"Content-Length: 0x5\r\n",
        b"Content-Length: 18446744073709551621\r\n",
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: chunked, identity\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Transfer-Encoding:\x0bchunked\r\n",
        b"X: y\r\n Transfer-Encoding: chunked\r\n",
        b"X: y\nTransfer-Encoding: chunked\r\n",
    ],
)
def test_a_body_whose_end_is_disputed_smuggles_no_second_request(server: LiveServer, headers: bytes) -> None:
    """Front ends and servers that see different ends let a body's rest be taken for a request of somebody else."""
    hidden = b"GET /v1/models HTTP/1.1\r\n" + HOST + b"\r\n"
    raw = b"POST /tokenize HTTP/1.1\r\n" + HOST + headers + b"\r\n0\r\n\r\n" + hidden
    said = exchange(server, raw, 0.5)
    assert b'"object": "list"' not in said and b'"data"' not in said
    assert said.count(b"HTTP/1.1 ") <= 1
    assert not said or b" 4" in said[:16] or b" 5" in said[:16]


def test_a_giant_header_is_refused_and_not_collected(server: LiveServer) -> None:
    said = exchange(server, b"GET /health HTTP/1.1\r\n" + HOST + b"X: " + b"a" * (1 << 20) + b"\r\n\r\n")
    assert b" 431 " in said[:32] or said == b""
    said = exchange(server, b"GET /health HTTP/1.1\r\n" + HOST + b"X: " + b"a" * (100 << 10) + b"\r\n\r\n")
    assert b" 431 " in said[:32]
    many = b"".join(b"X-%d: y\r\n" % i for i in range(20000))
    said = exchange(server, b"GET /health HTTP/1.1\r\n" + HOST + many + b"\r\n")
    assert b" 431 " in said[:32] or said == b""


def test_a_giant_body_is_refused_by_its_length_and_by_its_chunks(server: LiveServer) -> None:
    head = b"POST /v1/completions HTTP/1.1\r\n" + HOST
    assert b" 413 " in exchange(server, head + b"Content-Length: 1099511627776\r\n\r\n{", 0.5)
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"
    assert b" 413 " in exchange(server, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 20)


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "br", "deflate", "gzip, gzip", "GZIP", "x-unknown"])
def test_compressed_bodies_are_not_unpacked(server: LiveServer, encoding: str) -> None:
    bomb = gzip.compress(b" " * (64 << 20), 1)
    status, _, raw = server.send(COMPLETIONS, bomb, "POST", f"Content-Encoding: {encoding}\r\n")
    assert status == 415 and json.loads(raw)["error"]["code"] == "unsupported_encoding"


def test_a_client_that_takes_compressed_answers_gets_a_plain_one(server: LiveServer) -> None:
    status, headers, raw = server.send(COMPLETIONS, {"prompt": "a"}, headers="Accept-Encoding: zstd, gzip\r\n")
    assert status == 200 and "content-encoding" not in headers and json.loads(raw)["choices"]


def test_a_head_that_trickles_in_is_given_up(server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.3)
    with contextlib.closing(server.connect()) as sock:
        began = time.monotonic()
        sock.sendall(b"GET /health HTTP/1.1\r\n")
        with contextlib.suppress(ConnectionError):
            for letter in b"Host: localhost and much more":
                sock.sendall(bytes([letter]))
                time.sleep(0.05)
        with contextlib.suppress(ConnectionError):
            assert sock.recv(100) == b""
        assert time.monotonic() - began < 5


def test_a_body_that_never_comes_is_given_up() -> None:
    with LiveServer(limits=Limits(body_timeout=0.2)) as live, contextlib.closing(live.connect()) as sock:
        sock.sendall(b"POST /v1/completions HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\n{")
        assert read_answer(sock)[0] == 408


def test_a_websocket_is_told_at_once_that_there_is_none(server: LiveServer) -> None:
    """Codex tries one first and goes on over HTTP when it is refused."""
    upgrade = b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
    upgrade += b"dGhlIHNhbXBsZSBub25jZQ==\r\n"
    for path in (b"/v1/responses", b"/v1/realtime"):
        began = time.monotonic()
        with contextlib.closing(server.connect()) as sock:
            sock.sendall(b"GET " + path + b" HTTP/1.1\r\n" + HOST + upgrade + b"\r\n")
            assert read_answer(sock, "GET")[0] in (404, 405, 426)
        assert time.monotonic() - began < 2


@pytest.mark.parametrize("method", ["HEAD", "OPTIONS", "PUT", "PATCH", "TRACE", "CONNECT"])
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/responses", "/v1/models", "/nothing"])
def test_every_method_has_an_answer_on_every_path(server: LiveServer, method: str, path: str) -> None:
    target = "localhost:1" if method == "CONNECT" else path
    with contextlib.closing(server.connect()) as sock:
        sock.sendall(f"{method} {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
        sock.settimeout(5)
        head = sock.recv(4096)
    assert head.startswith(b"HTTP/1.1 ") and head[9:12] in (b"200", b"204", b"400", b"404", b"405")


def test_messages_are_answered_with_a_query(server: LiveServer) -> None:
    body = {"model": "x", "max_tokens": 3, "messages": [{"role": "user", "content": "hi"}]}
    status, answer = server.post("/v1/messages?beta=true", body)
    assert status == 200 and answer["type"] == "message"


# ---- browsers ----


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("localhost:8000", 200),
        ("LOCALHOST.", 200),
        ("127.0.0.1:1", 200),
        ("127.9.9.9", 200),
        ("[::1]", 200),
        ("[::1]:8000", 200),
        ("evil.example", 403),
        ("evil.example:8000", 403),
        ("localhost.evil.example", 403),
        ("evil.example@localhost", 403),
        ("127.0.0.1.nip.io", 403),
        ("[::ffff:8.8.8.8]:80", 403),
        ("0.0.0.0:8000", 403),
        ("192.168.1.5", 403),
        ("[fe80::1%25eth0]", 403),
        ("2130706433", 403),
        ("", 403),
        ("[", 403),
        ("localhost, evil.example", 403),
    ],
)
def test_a_page_that_was_rebound_to_this_machine_is_refused_by_its_host(
    server: LiveServer, host: str, status: int
) -> None:
    with contextlib.closing(server.connect()) as sock:
        sock.sendall(f"GET /v1/models HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert read_answer(sock, "GET")[0] == status


def test_a_target_with_a_host_of_its_own_does_not_get_round_the_check(server: LiveServer) -> None:
    said = exchange(server, b"GET http://localhost/v1/models HTTP/1.1\r\nHost: evil.example\r\n\r\n", 0.5)
    assert b" 403 " in said[:32]


def test_a_preflight_of_an_allowed_page_is_answered_with_what_it_asks_for(server: LiveServer) -> None:
    asked = "x-stainless-os, authorization, content-type"
    status, headers, _ = server.send(
        CHAT,
        b"",
        "OPTIONS",
        "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
        f"Access-Control-Request-Headers: {asked}\r\nAccess-Control-Request-Private-Network: true\r\n",
    )
    assert status == 204
    assert headers["access-control-allow-origin"] == "https://app.example"
    assert headers["access-control-allow-headers"] == asked
    assert "POST" in headers["access-control-allow-methods"]
    assert headers["access-control-allow-private-network"] == "true"
    assert "access-control-allow-credentials" not in headers


def test_a_page_of_another_origin_gets_nothing_and_caches_know_why(server: LiveServer) -> None:
    for origin in ("https://evil.example", "https://app.example.evil.example", "http://app.example", "null"):
        status, headers, _ = server.send("/v1/models", b"", "GET", f"Origin: {origin}\r\n")
        assert status == 200 and headers["vary"] == "origin"
        assert not [name for name in headers if name.startswith("access-control")]
        status, headers, _ = server.send(
            CHAT, b"", "OPTIONS", f"Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\n"
        )
        assert not [name for name in headers if name.startswith("access-control")]


def test_a_form_of_a_foreign_page_starts_nothing(server: LiveServer) -> None:
    """What a browser sends without asking first is no JSON by its media type."""
    for media in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
        raw = server.request_bytes(COMPLETIONS, {"prompt": "a"}).replace(b"application/json", media.encode())
        with contextlib.closing(server.connect()) as sock:
            sock.sendall(raw)
            assert read_answer(sock)[0] == 415


# ---- JSON and fields ----


@pytest.mark.parametrize("path", [CHAT, COMPLETIONS, "/v1/messages", "/v1/responses", "/tokenize", "/apply-template"])
@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":['])
def test_deep_json_is_a_400_whatever_the_surface(server: LiveServer, path: str, opening: bytes) -> None:
    status, _, raw = server.send(path, opening * 100_000)
    assert status == 400 and b"error" in raw
    closing = {b"[": b"]", b'{"a":': b"}", b'[{"a":[': b"]}]"}[opening]
    status, _, _ = server.send(path, b'{"messages":' + opening * 5000 + b"1" + closing * 5000 + b"}")
    assert status == 400


@pytest.mark.parametrize(
    "raw",
    [
        b'{"prompt": "a", "max_tokens": 1e400}',
        b'{"prompt": "a", "max_tokens": NaN}',
        b'{"prompt": "a", "temperature": Infinity}',
        b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}",
        b'{"prompt": [1, -1]}',
        b'{"prompt": [18446744073709551616]}',
        b'{"prompt": "a", "n": 16384}',
        b'{"prompt": "a", "n": -1}',
        b'{"prompt": "a", "best_of": 100000}',
        b'{"prompt": "\\ud800"}',
        b"\xff\xfe{}",
        b"\xef\xbb\xbf[]",
        b"{} {}",
        b"null",
        b"",
    ],
)
def test_numbers_and_texts_that_broke_others_are_refused(server: LiveServer, raw: bytes) -> None:
    status, _, answer = server.send(COMPLETIONS, raw)
    assert 400 <= status < 500, answer
    json.loads(answer)


def test_values_meant_for_the_template_reach_no_template(server: LiveServer) -> None:
    """Others hand them all on, where they overwrite the template's names or keep it busy for ever."""
    body: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
    hostile = {"messages": [], "tokenize": True, "chat_template": "{{ 1/0 }}", "documents": [{}] * 1000, "raise": 1}
    plain = server.post(CHAT, body)
    kept = server.post(CHAT, {**body, "chat_template_kwargs": hostile, "chat_template": "{% for i in range(9**9) %}"})
    assert kept[0] in (200, 400)
    if kept[0] == 200:
        assert kept[1]["usage"]["prompt_tokens"] == plain[1]["usage"]["prompt_tokens"]


@pytest.mark.parametrize(
    "content",
    ["{{ cycler.__init__.__globals__ }}", "{% for i in range(10**9) %}x{% endfor %}", "{{ ''.__class__.__mro__ }}"],
)
def test_a_message_that_looks_like_a_template_is_text(server: LiveServer, content: str) -> None:
    _, answer = server.post("/apply-template", {"messages": [{"role": "user", "content": content}]})
    assert content in answer["prompt"]


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "/etc/passwd", "..%2f..%2fetc%2fpasswd", "file:///etc/passwd", "x\x00y", "a" * 10_000]
)
def test_a_models_name_opens_no_file(server: LiveServer, name: str) -> None:
    status, answer = server.post(COMPLETIONS, {"model": name, "prompt": "a", "max_tokens": 1})
    assert status in (200, 400, 404)
    if status == 200:
        assert answer["choices"][0]["finish_reason"] == "length"
    quoted = name.replace("\x00", "%00")
    status, _, raw = server.send(f"/v1/models/{quoted}", b"", "GET")
    assert status == 404 and b"root:" not in raw


def test_an_image_by_url_or_path_is_fetched_by_nobody(server: LiveServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bait:
        bait.setblocking(False)
        port = bait.getsockname()[1]
        for url in (f"http://127.0.0.1:{port}/x.png", "file:///etc/passwd", f"http:\\\\127.0.0.1:{port}\\x"):
            part = {"type": "image_url", "image_url": {"url": url}}
            status, _ = server.post(CHAT, {"messages": [{"role": "user", "content": [part]}]})
            assert status == 400
        with pytest.raises(BlockingIOError):
            bait.accept()


def test_an_error_does_not_tell_of_the_inside(server: LiveServer) -> None:
    for raw in (b"{", b'{"messages": 5}', b'{"messages": [{"role": "user", "content": {"a": 1}}]}'):
        _, _, answer = server.send(CHAT, raw)
        for word in (b"Traceback", b".py", b" at 0x", b"/home", b"site-packages"):
            assert word not in answer
