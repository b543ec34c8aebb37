"""ds4-mini through the whole server, with Anthropic's own client: thinking, a tool round, the cache, refusals."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import pytest
from support.messages_events import MessageStream
from support.mini_server import serve

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

MARK = {"cache_control": {"type": "ephemeral"}}
SYSTEM = "You are a helpful assistant."
WEATHER: Any = {
    "name": "get_weather",
    "description": "Get the weather for a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Name of the city"}},
        "required": ["city"],
    },
}
CALCULATOR: Any = {
    "name": "calculator",
    "description": "Evaluate an arithmetic expression.",
    "input_schema": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
}
TOOLS = [WEATHER, CALCULATOR]
ADAPTIVE: Any = {"type": "adaptive"}


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    for url in serve("ship"):
        yield url.removesuffix("/v1")


@pytest.fixture
def client(root: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=root, api_key="none", max_retries=0, timeout=60) as made:
        yield made


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def ask(client: anthropic.Anthropic, messages: list[Any], *, stream: bool = False, **more: Any) -> Any:
    # The client's newest types have no temperature any more; its API still has.
    asked: dict[str, Any] = {"model": "ds4-mini", "max_tokens": 200, "extra_body": {"temperature": 0}, **more}
    asked["messages"] = messages
    if not stream:
        return client.messages.create(**asked)
    with client.messages.stream(**asked) as events:
        return events.get_final_message()


def said(answer: Any) -> list[tuple[str, Any]]:
    key = {"text": "text", "thinking": "thinking", "tool_use": "input"}
    return [(block.type, getattr(block, key[block.type])) for block in answer.content]


def prompt_of(answer: Any) -> int:
    usage = answer.usage
    return int(usage.input_tokens + usage.cache_creation_input_tokens + usage.cache_read_input_tokens)


@pytest.mark.parametrize("stream", [False, True])
def test_it_thinks_where_that_is_asked_for_and_nowhere_else(client: anthropic.Anthropic, stream: bool) -> None:
    messages = [user("What is the capital of Portugal?")]
    for thinking in (ADAPTIVE, {"type": "enabled", "budget_tokens": 1024}):
        answer = ask(client, messages, stream=stream, system=SYSTEM, thinking=thinking)
        line = "The capital of Portugal is Lisbon."
        assert said(answer) == [("thinking", line), ("text", line)] and answer.content[0].signature
        assert answer.stop_reason == "end_turn" and answer.stop_sequence is None
        assert 0 < answer.usage.output_tokens_details.thinking_tokens < answer.usage.output_tokens
    for quiet in ({}, {"thinking": {"type": "disabled"}}):
        answer = ask(client, [user("Hello!")], stream=stream, **quiet)
        assert said(answer) == [("text", "Hello! How can I help you?")]


@pytest.mark.parametrize("display", ["summarized", "omitted", None])
@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_round_goes_through(client: anthropic.Anthropic, stream: bool, display: str | None) -> None:
    thinking = display is not None
    more: dict[str, Any] = {"tools": TOOLS, "system": SYSTEM, "stream": stream}
    if thinking:
        more["thinking"] = {**ADAPTIVE, "display": display}
    city = "Lisbon" if thinking else "Oslo"
    messages: list[Any] = [user(f"What's the weather in {city}?")]
    first = ask(client, messages, **more)
    assert first.stop_reason == "tool_use"
    *thoughts, call = first.content
    assert (call.type, call.name, call.input) == ("tool_use", "get_weather", {"city": city})
    assert call.id.startswith("toolu_") and len(call.id) > 30
    assert [block.type for block in thoughts] == (["thinking"] if thinking else [])
    assert all(bool(block.thinking) == (display == "summarized") and block.signature for block in thoughts)
    result = json.dumps({"city": city, "temperature": 21, "condition": "sunny"})
    # As agents do: blocks where there was a string, and marks of the cache that move on.
    content = [{"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": result}], **MARK}]
    messages = [user([{"type": "text", "text": messages[0]["content"], **MARK}])]
    messages += [{"role": "assistant", "content": first.content}, user(content)]
    second = ask(client, messages, **more)
    assert second.stop_reason == "end_turn"
    text = second.content[-1].text
    assert city in text and "21" in text
    # All that was sampled is found again: the call's exact text too, and the thought, shown or not.
    assert second.usage.cache_read_input_tokens >= prompt_of(first) + first.usage.output_tokens - 1


def test_raw_events_keep_to_the_protocol_and_arguments_come_as_they_are_generated(root: str) -> None:
    body = {"model": "m", "max_tokens": 200, "temperature": 0, "stream": True, "tools": TOOLS, "thinking": ADAPTIVE}
    raw = httpx.post(
        root + "/v1/messages?beta=true",
        json={**body, "messages": [user("What's the weather in Lisbon?")]},
        headers={"x-api-key": "k"},
        timeout=60,
    )
    assert raw.headers["content-type"].startswith("text/event-stream") and raw.headers["request-id"].startswith("req_")
    judge = MessageStream()
    for at in range(0, len(raw.content), 7):
        judge.feed(raw.content[at : at + 7])
    message = judge.end()
    assert [block["type"] for block in message["content"]] == ["thinking", "tool_use"]
    assert raw.text.count("input_json_delta") > 2


def test_attribution_that_changes_with_each_request_costs_nothing(client: anthropic.Anthropic) -> None:
    def system(number: int) -> list[Any]:
        line = f"x-anthropic-billing-header: cc_version=2.1.{number}; cch={number:05x};"
        return [{"type": "text", "text": line}, {"type": "text", "text": SYSTEM, **MARK}]

    messages: list[Any] = [user("What is the capital of Spain?")]
    first = ask(client, messages, system=system(1))
    assert first.usage.cache_creation_input_tokens > 0
    messages += [{"role": "assistant", "content": first.content}, user("Hello!")]
    second = ask(client, messages, system=system(2))
    assert second.usage.cache_read_input_tokens >= prompt_of(first) + first.usage.output_tokens - 1
    assert said(ask(client, messages, system=SYSTEM)) == said(second)


def test_tokens_are_counted_as_the_answer_counts_them(client: anthropic.Anthropic) -> None:
    body: dict[str, Any] = {"system": SYSTEM, "tools": TOOLS, "thinking": ADAPTIVE, "messages": [user("Hello!")]}
    hello: Any = user("Hello!")
    counted = client.messages.count_tokens(model="ds4-mini", **body)
    assert counted.input_tokens == prompt_of(ask(client, **body))
    assert client.messages.count_tokens(model="m", messages=[hello]).input_tokens < counted.input_tokens


def test_a_begun_answer_is_gone_on_with(client: anthropic.Anthropic) -> None:
    answer = ask(client, [user("Hello!"), {"role": "assistant", "content": "Hello! How"}])
    assert said(answer) == [("text", " can I help you?")]


def test_a_stop_sequence_is_named(client: anthropic.Anthropic) -> None:
    for stream in (False, True):
        answer = ask(client, [user("Hello!")], stream=stream, stop_sequences=["zzz", " help"])
        assert said(answer) == [("text", "Hello! How can I")]
        assert (answer.stop_reason, answer.stop_sequence) == ("stop_sequence", " help")


def test_an_answer_that_is_cut_off_in_a_call_is_no_call(client: anthropic.Anthropic) -> None:
    messages = [user("What's the weather in Oslo?")]
    whole = ask(client, messages, tools=TOOLS)
    for less in range(1, whole.usage.output_tokens):
        answer = ask(client, messages, tools=TOOLS, max_tokens=whole.usage.output_tokens - less)
        assert answer.stop_reason == "max_tokens"
        if answer.content and answer.content[-1].type == "tool_use" and not answer.content[-1].input:
            return
    raise AssertionError("no cut was within the call's arguments")


def test_errors_are_the_clients_own(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="none of .tools.") as caught:
        ask(client, [user("Hello!")], tools=TOOLS, tool_choice={"type": "tool", "name": "none_such"})
    assert caught.value.type == "invalid_request_error" and caught.value.error_code == "invalid_value"
    assert caught.value.request_id is not None and caught.value.request_id.startswith("req_")
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 2047 maximum"):
        ask(client, [user("word " * 4000)])
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
    with pytest.raises(anthropic.BadRequestError, match="reads text only"):
        ask(client, [user([image])])


def test_a_hang_up_frees_the_bank(client: anthropic.Anthropic, root: str) -> None:
    for _ in range(4):  # one more than there are banks
        more: dict[str, Any] = {"max_tokens": 1500, "extra_body": {"ignore_eos": True}}
        events = client.messages.create(
            model="m", messages=[{"role": "user", "content": "Hello!"}], stream=True, **more
        )
        next(iter(events))
        events.close()
    assert ask(client, [user("Hello!")]).content[0].text
    metrics = httpx.get(root + "/metrics").text
    running = [line for line in metrics.splitlines() if "running" in line and not line.startswith("#")]
    assert running and all(line.endswith(" 0.0") for line in running), running
