"""The Messages API over HTTP, on a scripted engine: answers event by event, heartbeats, errors in its own shape, and
Anthropic's own client."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import anthropic
import pytest
from ds4.core.chat_dsv4 import Dsv4Chat
from ds4.server.limits import Limits
from ds4.sys.descriptors import Status
from support.fake_native import error
from support.live_server import EOS, LiveServer, more, read_answer
from support.messages_events import MessageStream

MESSAGES = "/v1/messages"
COUNT = "/v1/messages/count_tokens"
HI: Any = [{"role": "user", "content": "hi"}]
D = "｜DSML｜"
TOOL: Any = {"name": "f", "input_schema": {"type": "object", "properties": {"a": {"type": "string"}}}}
THOUGHT = "hm, é</think>"
CALL = (
    f'Look:\n\n<{D}tool_calls>\n<{D}invoke name="f">\n<{D}parameter name="a" string="true">x é y</{D}parameter>\n'
    f"</{D}invoke>\n</{D}tool_calls>"
)


class Script:
    """The engine's rule: behind a prompt of `start` tokens comes the text, byte by byte, and then the end."""

    def __init__(self, text: str) -> None:
        self.text, self.start = text, 0

    def __call__(self, tokens: Sequence[int]) -> int:
        data, at = self.text.encode(), len(tokens) - self.start
        return data[at] if 0 <= at < len(data) else EOS


@pytest.fixture(scope="module")
def script() -> Script:
    return Script("")


@pytest.fixture(scope="module")
def server(script: Script) -> Iterator[LiveServer]:
    with LiveServer(rule=script, dialect=Dsv4Chat()) as live:
        yield live


@pytest.fixture(scope="module")
def plain() -> Iterator[LiveServer]:
    """The alphabet for ever, from a model that only talks."""
    with LiveServer() as live:
        yield live


def body(**more: Any) -> dict[str, Any]:
    return {"model": "m", "max_tokens": 500, "messages": HI, **more}


def answers(server: LiveServer, script: Script, text: str, asked: dict[str, Any]) -> dict[str, Any]:
    """Prepares the engine's answer to this request."""
    counted = {key: value for key, value in asked.items() if key not in ("max_tokens", "stream", "stop_sequences")}
    status, count = server.post(COUNT, counted)
    assert status == 200, count
    script.text, script.start = text, count["input_tokens"]
    return asked


def streamed(server: LiveServer, asked: dict[str, Any]) -> MessageStream:
    status, headers, raw = server.send(MESSAGES, {**asked, "stream": True})
    assert status == 200 and headers["content-type"].startswith("text/event-stream"), raw
    judge = MessageStream()
    judge.feed(raw)
    judge.end()
    return judge


def refused(got: tuple[int, dict[str, str], bytes], status: int, kind: str) -> str:
    """Anthropic's shape of an error; its message."""
    assert got[0] == status
    told = json.loads(got[2])
    assert set(told) == {"type", "error", "request_id"} and told["type"] == "error"
    assert told["error"]["type"] == kind and got[1]["request-id"] == told["request_id"]
    assert told["request_id"].startswith("req_") and len(told["request_id"]) > 30
    message: str = told["error"]["message"]
    return message


def test_an_answer_has_anthropics_shape(server: LiveServer, script: Script) -> None:
    asked = answers(server, script, THOUGHT + CALL, body(tools=[TOOL], thinking={"type": "adaptive"}))
    status, headers, raw = server.send(MESSAGES + "?beta=true", asked, headers="anthropic-version: 2023-06-01\r\n")
    told = json.loads(raw)
    assert status == 200 and headers["request-id"].startswith("req_")
    assert told["id"].startswith("msg_") and told["model"] == "fake" and told["role"] == "assistant"
    thought, text, call = told["content"]
    assert thought == {"type": "thinking", "thinking": "hm, é", "signature": told["id"]}
    assert text == {"type": "text", "text": "Look:"}
    assert call == {"type": "tool_use", "id": call["id"], "name": "f", "input": {"a": "x é y"}}
    assert (told["stop_reason"], told["stop_sequence"]) == ("tool_use", None)
    usage = told["usage"]
    assert usage["input_tokens"] == script.start and usage["cache_read_input_tokens"] == 0
    assert usage["output_tokens"] >= len((THOUGHT + CALL).encode()) and usage["service_tier"] == "standard"


def test_a_stream_says_the_same_as_the_whole_answer(server: LiveServer, script: Script) -> None:
    asked = answers(server, script, THOUGHT + CALL, body(tools=[TOOL], thinking={"type": "adaptive"}))
    whole = server.post(MESSAGES, asked)[1]["content"]
    message = streamed(server, asked).message
    assert message["stop_reason"] == "tool_use"
    for made, told in zip(message["content"], whole, strict=True):
        if made["type"] == "tool_use":
            made["input"] = json.loads(made["input"])
        for name in ("id", "signature"):  # each answer has its own
            made.pop(name, None)
            told.pop(name, None)
        assert made == told


def test_the_clients_types_take_all_of_it(server: LiveServer, script: Script) -> None:
    asked = answers(server, script, THOUGHT + CALL, body(tools=[TOOL], thinking={"type": "adaptive"}))
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{server.port}", api_key="k", max_retries=0) as client:
        names = [event.type for event in client.messages.create(**asked, stream=True)]
        assert names[0] == "message_start" and names[-2:] == ["message_delta", "message_stop"]
        with client.messages.stream(**asked) as events:
            snapshots = [event.snapshot for event in events if event.type == "input_json"]
            final = events.get_final_message()
        assert len(snapshots) > 2 and snapshots[-1] == {"a": "x é y"}
        assert [block.type for block in final.content] == ["thinking", "text", "tool_use"]
        assert final.usage.output_tokens_details is not None and final.usage.output_tokens_details.thinking_tokens > 0
        again = client.messages.create(**asked)
        assert type(again).model_validate(again.to_dict()) == again


def test_a_call_goes_back_into_the_prompt_as_it_was_sampled(server: LiveServer, script: Script) -> None:
    odd = CALL.replace(f"\n</{D}invoke>", f"  </{D}invoke>")
    asked = answers(server, script, odd, body(tools=[TOOL]))
    first = server.post(MESSAGES, asked)[1]
    sampled = script.start + first["usage"]["output_tokens"]
    result = {"type": "tool_result", "tool_use_id": first["content"][-1]["id"], "content": "1"}
    talk = [*HI, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]}]
    asked = answers(server, script, "done", body(tools=[TOOL], messages=talk))
    second = server.post(MESSAGES, asked)[1]
    assert second["content"] == [{"type": "text", "text": "done"}] and second["stop_reason"] == "end_turn"
    assert second["usage"]["cache_read_input_tokens"] >= sampled - 1


@pytest.mark.parametrize("stream", [False, True])
def test_ends_are_named(plain: LiveServer, stream: bool) -> None:
    for changes, reason, stop in (
        ({"max_tokens": 5}, "max_tokens", None),
        ({"stop_sequences": ["zzz", "xyz"]}, "stop_sequence", "xyz"),
        ({"max_tokens": 10**30}, "max_tokens", None),
        ({"max_tokens": 0}, "max_tokens", None),
    ):
        asked = body(**changes)
        told = streamed(plain, asked).message if stream else plain.post(MESSAGES, asked)[1]
        assert (told["stop_reason"], told["stop_sequence"]) == (reason, stop), changes
        assert (told["content"] == []) == (asked["max_tokens"] == 0)


def test_a_prompt_can_be_computed_ahead(plain: LiveServer) -> None:
    asked = body(messages=[{"role": "user", "content": "to be read ahead"}])
    assert plain.post(MESSAGES, {**asked, "max_tokens": 0})[1]["usage"]["output_tokens"] == 0
    told = plain.post(MESSAGES, {**asked, "max_tokens": 3})[1]
    assert told["usage"]["input_tokens"] == 1 and told["usage"]["cache_read_input_tokens"] > 20


def test_what_is_written_to_the_cache_is_told_to_who_marks_it(plain: LiveServer) -> None:
    block = {"type": "text", "text": "mark me", "cache_control": {"type": "ephemeral"}}
    usage = plain.post(MESSAGES, body(max_tokens=1, messages=[{"role": "user", "content": [block]}]))[1]["usage"]
    count = plain.post(COUNT, {"messages": [{"role": "user", "content": "mark me"}]})[1]["input_tokens"]
    assert usage["input_tokens"] == 1
    assert usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"] == count - 1
    assert usage["cache_creation_input_tokens"] > 0


def test_a_silent_stream_pings_by_the_clock() -> None:
    with LiveServer(limits=Limits(keep_alive=0.1)) as live:
        live.gate.close()
        client = live.open(MESSAGES, body(max_tokens=2, stream=True))
        raw = b""
        while raw.count(b"event: ping\n") < 3:
            raw += more(client, raw)
        assert raw.index(b"message_start") < raw.index(b"event: ping")
        live.gate.release()
        while b"message_stop" not in raw:
            raw += more(client, raw)
        client.close()


def test_a_stream_that_hides_its_thoughts_pings_while_it_thinks() -> None:
    script = Script("hm " * 400 + "</think>ok")
    with LiveServer(limits=Limits(keep_alive=0.1), rule=script, dialect=Dsv4Chat()) as live:
        hidden = {"type": "adaptive", "display": "omitted"}
        asked = answers(live, script, script.text, body(thinking=hidden, max_tokens=2000, stream=True))
        live.gate.close()
        client = live.open(MESSAGES, asked)
        raw = b""
        while raw.count(b"event: ping\n") < 3:
            live.gate.let(2)
            raw += more(client, raw)
        live.gate.release()
        rest = b""
        while b"message_stop" not in rest:
            rest += more(client, rest)
        client.close()
        assert b"thinking_delta" not in raw + rest and b"signature_delta" in rest


def test_errors_before_the_answer_are_anthropics(plain: LiveServer) -> None:
    invalid = "invalid_request_error"
    assert "'max_tokens'" in refused(plain.send(MESSAGES, {"messages": HI}), 400, invalid)
    assert "JSON" in refused(plain.send(MESSAGES, b"{"), 400, invalid)
    assert "NaN" in refused(plain.send(MESSAGES, b'{"max_tokens": NaN}'), 400, invalid)
    long = body(messages=[{"role": "user", "content": "x" * 5000}])
    assert refused(plain.send(MESSAGES, long), 400, invalid).startswith("prompt is too long: 5018 tokens > 4095 max")
    assert plain.post(COUNT, long)[1] == {"input_tokens": 5018}
    refused(plain.send(MESSAGES, b"", "GET"), 405, invalid)
    refused(plain.send(MESSAGES + "/batches", {}), 404, "not_found_error")
    foreign = b"POST /v1/messages HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
    with contextlib.closing(plain.connect()) as sock:
        sock.sendall(foreign)
        refused(read_answer(sock), 403, "permission_error")
    status, headers, raw = plain.send("/v1/chat/completions", {"messages": []})
    assert status == 400 and set(json.loads(raw)) == {"error"} and "request-id" not in headers
    assert headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_tokens", -1),
        ("max_tokens", None),
        ("max_tokens", "5"),
        ("max_tokens", 1.5),
        ("max_tokens", True),
        ("temperature", -0.1),
        ("temperature", "hot"),
        ("top_p", 1.1),
        ("top_k", -2),
        ("stop_sequences", [3]),
        ("stop_sequences", [""]),
        ("stop_sequences", {}),
        ("stream", "yes"),
        ("system", 5),
        ("messages", "hi"),
        ("metadata", 5),
        ("metadata", {"user_id": 5}),
        ("model", 5),
        ("thinking", {"type": "enabled", "budget_tokens": 2048}),
        ("tools", [TOOL]),
        ("messages", [*HI, {"role": "assistant", "content": "The"}]),
    ],
)
def test_a_field_that_cannot_be_used_is_a_400_that_names_it(plain: LiveServer, field: str, value: Any) -> None:
    message = refused(plain.send(MESSAGES, body(**{field: value})), 400, "invalid_request_error")
    assert field in message or "this model" in message


def test_what_agents_send_to_every_model_is_taken_by_one_that_only_talks(plain: LiveServer) -> None:
    more = {
        "max_tokens": 4,
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "metadata": {"user_id": "u", "more": 1},
        "tools": [],
        "system": [{"type": "text", "text": "x-anthropic-billing-header: cch=1;"}],
        "temperature": 1,
        "top_k": None,
    }
    assert plain.post(MESSAGES, body(**more))[0] == 200


def test_a_full_queue_and_a_model_that_loads_are_told_in_the_clients_words() -> None:
    with LiveServer(load=False) as live:
        got = live.send(MESSAGES, body())
        refused(got, 503, "overloaded_error")
        assert int(got[1]["retry-after"]) > 0
        refused(live.send(COUNT, body()), 503, "overloaded_error")
    with LiveServer(limits=Limits(body=100)) as live:
        refused(live.send(MESSAGES, body(system="x" * 200)), 413, "request_too_large")


def test_an_engine_that_fails_within_a_stream_is_an_error_event() -> None:
    with LiveServer() as live:
        live.session.fail_next = error(Status.INTERNAL, "the pool is gone")
        assert "pool is gone" in refused(live.send(MESSAGES, body(max_tokens=3)), 500, "api_error")
        live.gate.close()
        client = live.open(MESSAGES, body(max_tokens=100, stream=True))
        live.gate.let(3)
        live.wait_for(lambda: len(live.session.log) >= 5)
        live.session.fail_next = error(Status.INTERNAL, "again")
        live.gate.release()
        status, headers, raw = read_answer(client)
        judge = MessageStream()
        judge.feed(raw)
        judge.end()
        assert status == 200 and judge.error is not None and "again" in judge.error["error"]["message"]
        assert judge.error["request_id"] == headers["request-id"]
        assert judge.message["stop_reason"] is None
        client.close()
        live.wait_for(lambda: live.idle)


def test_the_client_raises_its_own_error_for_one_within_a_stream() -> None:
    with LiveServer() as live:
        with anthropic.Anthropic(base_url=f"http://127.0.0.1:{live.port}", api_key="k", max_retries=0) as client:
            live.gate.close()
            events = client.messages.create(**body(max_tokens=4000), stream=True)
            next(iter(events))
            live.session.fail_next = error(Status.INTERNAL, "again")
            live.gate.release()
            with pytest.raises(anthropic.APIStatusError, match="again") as caught:
                for _ in events:
                    pass
        assert caught.value.type == "api_error"
        live.wait_for(lambda: live.idle)


def test_the_client_finds_the_model(plain: LiveServer) -> None:
    with anthropic.Anthropic(base_url=f"http://127.0.0.1:{plain.port}", api_key="k", max_retries=0) as client:
        (listed,) = client.models.list()
        assert (listed.id, listed.type, listed.display_name) == ("fake", "model", "fake")
        assert type(listed).model_validate(listed.to_dict()).created_at == client.models.retrieve("fake").created_at


@pytest.mark.parametrize("stream", [False, True])
def test_a_hang_up_frees_the_bank(stream: bool) -> None:
    with LiveServer() as live:
        live.gate.close()
        client = live.open(MESSAGES, body(stream=stream))
        live.wait_for(lambda: len(live.engine.scheduler.active) == 1)
        live.gate.let(4)
        client.close()
        live.gate.release()
        live.wait_for(lambda: live.idle)
        assert live.post(MESSAGES, body(max_tokens=2))[0] == 200


def test_a_browser_may_send_the_clients_headers() -> None:
    with LiveServer(origins=("https://app.example",)) as live:
        ask = "Origin: https://app.example\r\nAccess-Control-Request-Method: POST\r\n"
        _, headers, _ = live.send(MESSAGES, b"", "OPTIONS", ask)
        assert {"x-api-key", "anthropic-version"} <= set(headers["access-control-allow-headers"].split(", "))
