"""Clients that hang up, read slowly, or send in pieces: raw sockets against a whole server."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import time
from typing import Any

import openai
import pytest
from ds4.server import protocol
from ds4.server.limits import Limits
from ds4.server.protocol import Protocol
from ds4.sys.descriptors import Status
from support.fake_native import error
from support.live_server import LiveServer, chunks, letters, more, read_answer, sse_data, text_of

COMPLETIONS = "/v1/completions"


def hang_up(sock: socket.socket, how: str) -> None:
    if how == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_hang_up_in_the_queue_takes_the_request_out_of_it(stream: bool, how: str) -> None:
    with LiveServer(banks=1) as live:
        live.gate.close()
        body = {"prompt": "abc", "max_tokens": 5}
        running = live.open(COMPLETIONS, body)
        live.wait_for(lambda: len(live.engine.scheduler.active) == 1)
        waiting = live.open(COMPLETIONS, {**body, "stream": stream})
        live.wait_for(lambda: live.engine.waiting()[1] == 1)
        hang_up(waiting, how)
        live.wait_for(lambda: not live.engine.waiting()[1], 1.0)
        live.gate.release()
        assert read_answer(running)[0] == 200
        live.wait_for(lambda: live.idle)
        assert live.metric("ds4_cancelled_requests_total") == 1
        assert len({row.bank for rows in live.session.log for row in rows}) == 1


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_hang_up_in_prefill_stops_the_prefill_and_frees_the_bank(stream: bool, how: str) -> None:
    with LiveServer(banks=1, rows=100) as live:
        live.gate.close()
        client = live.open(COMPLETIONS, {"prompt": "x" * 3000, "max_tokens": 5, "stream": stream})
        live.wait_for(lambda: len(live.session.log) == 1)
        hang_up(client, how)
        # The gate stays closed: the step ends because it is cancelled, not because it is done.
        live.wait_for(lambda: live.idle, 1.0)
        assert live.session.cancels == 1
        assert len(live.session.log) == 1
        assert live.session.length(0) == len(live.engine.scheduler.banks[0].tokens) == 0


def test_a_hang_up_in_prefill_does_not_cancel_others_in_the_same_step() -> None:
    with LiveServer(banks=2, rows=256) as live:
        live.gate.close()
        body = {"prompt": "x" * 100, "max_tokens": 5}
        warm = live.open(COMPLETIONS, {**body, "prompt": "a"})
        live.wait_for(lambda: len(live.session.log) >= 1)
        stays = live.open(COMPLETIONS, body)
        live.wait_for(lambda: live.engine.waiting()[1] == 1)
        live.gate.let(1)
        live.wait_for(lambda: len(live.engine.scheduler.active) == 2)
        hang_up(warm, "close")
        live.wait_for(lambda: live.metric("ds4_cancelled_requests_total") == 1)
        assert live.session.cancels == 0
        live.gate.release()
        assert read_answer(stays)[0] == 200
        live.wait_for(lambda: live.idle)


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_hang_up_in_decode_frees_the_bank_within_the_steps_in_flight(stream: bool, how: str) -> None:
    with LiveServer(banks=1) as live:
        live.gate.close()
        client = live.open(COMPLETIONS, {"prompt": "abc", "max_tokens": 4000, "stream": stream})
        live.gate.let(10)
        live.wait_for(lambda: len(live.session.log) == 12)
        hang_up(client, how)
        live.wait_for(lambda: not live.engine.scheduler.active, 1.0)
        live.gate.release()
        live.wait_for(lambda: live.idle, 1.0)
        assert len(live.session.log) == 12
        status, answer = live.post(COMPLETIONS, {"prompt": "abc", "max_tokens": 2})
        assert status == 200 and answer["usage"]["completion_tokens"] == 2


def test_a_hang_up_with_several_choices_frees_all_their_banks() -> None:
    with LiveServer(banks=4) as live:
        live.gate.close()
        client = live.open(COMPLETIONS, {"prompt": "abc", "n": 6, "max_tokens": 4000})
        live.gate.let(6)
        live.wait_for(lambda: len(live.engine.scheduler.active) == 4)
        client.close()
        live.wait_for(lambda: not live.engine.scheduler.active and not live.engine.waiting()[1], 1.0)
        live.gate.release()
        live.wait_for(lambda: live.idle, 1.0)


def test_a_hang_up_before_the_body_is_whole_leaves_nothing_behind() -> None:
    with LiveServer() as live:
        sock = live.connect()
        sock.sendall(live.request_bytes(COMPLETIONS, {"prompt": "abc"})[:-4])
        live.wait_for(lambda: live.service.metrics.clients == 1)
        sock.close()
        live.wait_for(lambda: live.service.metrics.clients == 0)
        assert live.idle


def test_waves_of_hang_ups_leave_the_server_whole() -> None:
    with LiveServer(banks=3, rows=64) as live:
        for wave in range(6):
            clients = [
                live.open(COMPLETIONS, {"prompt": "y" * (40 * i + 1), "max_tokens": 3000, "stream": i % 2 == 0})
                for i in range(8)
            ]
            time.sleep(0.01 * wave)
            for client in clients:
                client.close()
        live.wait_for(lambda: live.idle)
        status, answer = live.post(COMPLETIONS, {"prompt": "abc", "max_tokens": 6})
        assert status == 200 and answer["choices"][0]["text"] == "defghi"
        assert [live.session.length(b.index) == len(b.tokens) for b in live.engine.scheduler.banks] == [True] * 3


def test_a_slow_reader_is_dropped_and_nobody_waits_for_it() -> None:
    with LiveServer(banks=2, context=60_000, limits=Limits(backlog=100_000)) as live:
        slow = live.connect(receive_buffer=4096)
        body = {"prompt": "abc", "max_tokens": 50_000, "stream": True}
        slow.sendall(live.request_bytes(COMPLETIONS, body))
        began = time.monotonic()
        for _ in range(5):
            assert live.post(COMPLETIONS, {"prompt": "q", "max_tokens": 20})[0] == 200
        assert time.monotonic() - began < 5
        live.wait_for(lambda: live.metric('ds4_sheds_total{reason="slow_reader"}') == 1, 20)
        live.wait_for(lambda: live.idle)
        slow.close()


def test_a_request_may_come_byte_by_byte() -> None:
    with LiveServer() as live, contextlib.closing(live.connect()) as sock:
        for byte in live.request_bytes(COMPLETIONS, {"prompt": "abc", "max_tokens": 2}):
            sock.send(bytes([byte]))
        status, _, raw = read_answer(sock)
        assert status == 200 and json.loads(raw)["choices"][0]["text"] == "de"


def test_one_connection_serves_request_after_request() -> None:
    with LiveServer() as live, contextlib.closing(live.connect()) as sock:
        for stream in (False, True, False):
            sock.sendall(live.request_bytes(COMPLETIONS, {"prompt": "abc", "max_tokens": 2, "stream": stream}))
            status, _, raw = read_answer(sock)
            assert status == 200
            text = text_of(list(sse_data(raw))) if stream else json.loads(raw)["choices"][0]["text"]
            assert text == "de"
        live.wait_for(lambda: live.idle)


def test_a_silent_stream_says_that_it_is_alive_by_the_clock() -> None:
    with LiveServer(limits=Limits(keep_alive=0.1)) as live:
        live.gate.close()
        client = live.open(COMPLETIONS, {"prompt": "abc", "max_tokens": 2, "stream": True})
        raw = b""
        while raw.count(b": keep-alive\n\n") < 3:
            raw += more(client, raw)
        live.gate.release()
        while b"[DONE]" not in raw:
            raw += more(client, raw)
        client.close()


def test_an_engine_that_fails_a_step_is_reported_and_serves_on() -> None:
    with LiveServer() as live:
        live.session.fail_next = error(Status.INTERNAL, "the pool is gone")
        status, answer = live.post(COMPLETIONS, {"prompt": "abc", "max_tokens": 3})
        assert status == 500 and "the pool is gone" in answer["error"]["message"]
        assert answer["error"]["type"] == "server_error"
        live.gate.close()
        client = live.open(COMPLETIONS, {"prompt": "abc", "max_tokens": 100, "stream": True})
        live.gate.let(3)
        live.wait_for(lambda: len(live.session.log) >= 5)
        live.session.fail_next = error(Status.INTERNAL, "again")
        live.gate.release()
        status, _, raw = read_answer(client)
        events: list[Any] = list(sse_data(raw))
        assert status == 200 and "again" in events[-1]["error"]["message"]
        assert all(event["choices"][0]["finish_reason"] is None for event in events[:-1])
        live.wait_for(lambda: live.idle)
        assert live.post(COMPLETIONS, {"prompt": "abc", "max_tokens": 3})[1]["choices"][0]["text"] == "def"


def test_the_official_sdk_raises_what_goes_wrong_in_a_stream() -> None:
    with LiveServer() as live:
        live.gate.close()
        client = openai.OpenAI(base_url=f"http://127.0.0.1:{live.port}/v1", api_key="x", max_retries=0)
        stream = client.chat.completions.create(
            model="x", messages=[{"role": "user", "content": "hi"}], max_tokens=50, stream=True
        )
        live.gate.let(3)
        live.wait_for(lambda: len(live.session.log) >= 5)
        live.session.fail_next = error(Status.INTERNAL, "out of luck")
        live.gate.release()
        with pytest.raises(openai.APIError, match="out of luck"):
            list(stream)


def test_two_clients_get_their_own_words_while_sharing_steps() -> None:
    with LiveServer(banks=4) as live:
        clients = [
            live.open(COMPLETIONS, {"prompt": "z" * (i + 1), "max_tokens": 200, "stream": True}) for i in range(8)
        ]
        for i, client in enumerate(clients):
            _, _, raw = read_answer(client)
            expected = "".join(chr(letters([0] * (i + 1 + k))) for k in range(200))
            assert text_of(list(sse_data(raw))) == expected
        live.wait_for(lambda: live.idle)


def test_a_token_goes_to_its_socket_without_waking_the_streams_task(monkeypatch: pytest.MonkeyPatch) -> None:
    pushed: list[bool] = []
    push = Protocol.push

    def counted(self: Protocol, data: bytes) -> bool:
        pushed.append(push(self, data))
        return pushed[-1]

    monkeypatch.setattr(Protocol, "push", counted)
    with LiveServer() as live:
        live.gate.close()
        client = live.open(COMPLETIONS, {"prompt": "z" * 26, "max_tokens": 20, "stream": True})
        raw = client.recv(4096)
        for i in range(10):  # one token at a time, each read before the next is drawn
            live.gate.let(1)
            while raw.count(b'"text"') <= i:
                raw += more(client, raw)
        assert pushed and all(pushed)
        live.gate.release()
        while b"[DONE]" not in raw:
            raw += more(client, raw)
        assert text_of(list(sse_data(b"".join(chunks(raw.partition(b"\r\n\r\n")[2]))))) == "abcdefghijklmnopqrst"


@pytest.mark.parametrize("how", ["close", "reset"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_hang_up_is_noticed_behind_pipelined_requests(stream: bool, how: str) -> None:
    with LiveServer(banks=1) as live:
        live.gate.close()
        body = {"prompt": "abc", "max_tokens": 500, "stream": stream}
        client = live.open(COMPLETIONS, body)
        client.sendall(live.request_bytes("/health", b"", "GET") + live.request_bytes(COMPLETIONS, body))
        live.wait_for(lambda: len(live.engine.scheduler.active) == 1)
        client.sendall(live.request_bytes("/health", b"", "GET")[:20])
        hang_up(client, how)
        live.wait_for(lambda: not live.engine.scheduler.active, 1.0)
        live.gate.release()
        live.wait_for(lambda: live.idle)
        assert live.metric("ds4_cancelled_requests_total") == 1
        assert live.metric("ds4_clients") == 1  # the one that asks


def test_pipelined_requests_are_answered_in_order_however_they_are_cut() -> None:
    with LiveServer(banks=1) as live:
        sent = b"".join(
            live.request_bytes(COMPLETIONS, {"prompt": "a" * count, "max_tokens": 2}) for count in (1, 2000, 3)
        ) + live.request_bytes(COMPLETIONS, {"prompt": "aaaa", "max_tokens": 2}, headers="Connection: close\r\n")
        for cuts in ((), (10,), (150, 400, 2300), tuple(range(100, len(sent), 100))):
            with contextlib.closing(live.connect()) as sock:
                for start, end in zip((0, *cuts), (*cuts, len(sent)), strict=True):
                    sock.sendall(sent[start:end])
                    time.sleep(0.001)
                got = b""
                while piece := sock.recv(65536):
                    got += piece
            assert re.findall(rb'"prompt_tokens":(\d+)', got) == [b"1", b"2000", b"3", b"4"]


def test_what_is_sent_ahead_of_an_answer_is_bounded() -> None:
    with LiveServer(banks=1) as live:
        live.gate.close()
        client = live.open(COMPLETIONS, {"prompt": "abc", "max_tokens": 2})
        live.wait_for(lambda: len(live.engine.scheduler.active) == 1)
        ahead = live.request_bytes("/health", b"", "GET")
        client.settimeout(0.5)
        with pytest.raises(TimeoutError):
            client.sendall(ahead * ((64 << 20) // len(ahead)))
        client.close()


def test_a_head_that_does_not_arrive_ends_the_connection_the_second_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.1)
    with LiveServer(banks=1) as live:
        silent, begun = live.connect(), live.connect()
        again = live.open(COMPLETIONS, {"prompt": "abc", "max_tokens": 2})
        assert read_answer(again)[0] == 200
        begun.sendall(b"GET /health HT")
        again.sendall(b"\r\nGET")
        for sock in (silent, begun, again):
            assert sock.recv(100) == b""


def test_a_request_that_takes_long_outlives_the_patience_for_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "HEAD_SECONDS", 0.05)
    with LiveServer(banks=1) as live:
        live.gate.close()
        client = live.open(COMPLETIONS, {"prompt": "abc", "max_tokens": 2})
        time.sleep(0.2)
        client.sendall(b"GET /health")
        time.sleep(0.2)
        live.gate.release()
        assert read_answer(client)[0] == 200
