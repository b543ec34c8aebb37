"""ds4-mini through the whole server, with OpenAI's own client: thinking, a tool round, the prompt cache, refusals."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest
from support.mini_server import serve

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

SYSTEM = {"role": "system", "content": "You are a helpful assistant."}
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather for a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "description": "Name of the city"}},
            "required": ["city"],
        },
    },
}
CALCULATOR: Any = {
    "type": "function",
    "function": {
        "name": "calculator",
        "description": "Evaluate an arithmetic expression.",
        "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
    },
}
TOOLS = [WEATHER, CALCULATOR]


@pytest.fixture(scope="module", params=["float", "ship"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    yield from serve(request.param)


def ask(client: openai.OpenAI, messages: list[Any], **more: Any) -> Any:
    return client.chat.completions.create(model="ds4-mini", messages=messages, temperature=0, **more)


def user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def streamed(client: openai.OpenAI, messages: list[Any], **more: Any) -> tuple[dict[str, Any], list[Any]]:
    """A stream put together as a message, and its chunks."""
    chunks = list(ask(client, messages, stream=True, stream_options={"include_usage": True}, **more))
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "tool_calls": [], "finish_reason": None}
    for chunk in chunks:
        for choice in chunk.choices:
            message["content"] += choice.delta.content or ""
            message["reasoning_content"] += getattr(choice.delta, "reasoning_content", None) or ""
            message["finish_reason"] = choice.finish_reason or message["finish_reason"]
            for call in choice.delta.tool_calls or []:
                if call.id:
                    assert call.index == len(message["tool_calls"]) and call.function.arguments == ""
                    message["tool_calls"].append({"id": call.id, "name": call.function.name, "arguments": ""})
                else:
                    assert call.function.name is None
                    message["tool_calls"][call.index]["arguments"] += call.function.arguments
    return message, chunks


def cached(answer: Any) -> int:
    return int(answer.usage.prompt_tokens_details.cached_tokens)


def test_it_thinks_apart_from_its_answer_and_counts_that(client: openai.OpenAI) -> None:
    answer = ask(client, [SYSTEM, user("What is the capital of Portugal?")])
    (choice,) = answer.choices
    assert choice.message.reasoning_content == "The capital of Portugal is Lisbon."
    assert choice.message.content == "The capital of Portugal is Lisbon."
    assert choice.finish_reason == "stop" and choice.message.tool_calls is None
    reasoning = answer.usage.completion_tokens_details.reasoning_tokens
    assert 0 < reasoning < answer.usage.completion_tokens


@pytest.mark.parametrize(
    "switch",
    [
        {"reasoning_effort": "none"},
        {"extra_body": {"thinking": {"type": "disabled"}}},
        {"extra_body": {"enable_thinking": False}},
    ],
)
def test_thinking_can_be_switched_off(client: openai.OpenAI, switch: dict[str, Any]) -> None:
    answer = ask(client, [user("Hello!")], **switch)
    assert answer.choices[0].message.content == "Hello! How can I help you?"
    assert not hasattr(answer.choices[0].message, "reasoning_content")
    assert answer.usage.completion_tokens_details.reasoning_tokens == 0


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("stream", [True, False])
def test_a_tool_round_goes_through(client: openai.OpenAI, stream: bool, thinking: bool) -> None:
    switch: dict[str, Any] = {"tools": TOOLS, "extra_body": {"thinking": thinking}}
    city = "Lisbon" if thinking else "Oslo"
    messages: list[Any] = [SYSTEM, user(f"What's the weather in {city}?")]
    if stream:
        message, chunks = streamed(client, messages, **switch)
        (call,) = message["tool_calls"]
        assert message["finish_reason"] == "tool_calls"
        pieces = [d for c in chunks for ch in c.choices for d in ch.delta.tool_calls or []]
        assert len(pieces) > 2, "arguments come as they are generated"
        name, arguments, call_id = call["name"], call["arguments"], call["id"]
        content, reasoning, first = message["content"], message["reasoning_content"], chunks[-1].usage
    else:
        answer = ask(client, messages, **switch)
        (made,) = answer.choices[0].message.tool_calls
        assert answer.choices[0].finish_reason == "tool_calls"
        assert answer.choices[0].message.content is None
        name, arguments, call_id = made.function.name, made.function.arguments, made.id
        content, first = "", answer.usage
        reasoning = getattr(answer.choices[0].message, "reasoning_content", "")
    assert (name, json.loads(arguments)) == ("get_weather", {"city": city})
    assert call_id.startswith("call_") and len(call_id) > 30
    assert bool(reasoning) == thinking and content == ""
    call_back = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [call_back], "reasoning_content": reasoning},
        {
            "role": "tool",
            "tool_call_id": call_id,
            "content": json.dumps({"city": city, "temperature": 21, "condition": "sunny"}),
        },
    ]
    answer = ask(client, messages, **switch)
    assert city in answer.choices[0].message.content and "21" in answer.choices[0].message.content
    assert answer.choices[0].finish_reason == "stop"
    # All that was sampled is found again: the call's exact text too.
    assert cached(answer) >= first.prompt_tokens + first.completion_tokens - 1


def test_a_second_turn_continues_the_first_ones_bank(client: openai.OpenAI) -> None:
    messages: list[Any] = [SYSTEM, user("What is the capital of Spain?")]
    first = ask(client, messages, reasoning_effort="none")
    messages += [{"role": "assistant", "content": first.choices[0].message.content}, user("Hello!")]
    second = ask(client, messages, reasoning_effort="none")
    assert cached(second) >= first.usage.prompt_tokens + first.usage.completion_tokens - 1
    assert second.choices[0].finish_reason == "stop"


def test_a_shared_opening_that_the_state_cannot_go_back_to_is_computed_anew(client: openai.OpenAI) -> None:
    opening = {"role": "system", "content": " ".join(f"Rule {i}: be kind." for i in range(20))}
    long = " ".join(f"word{i}" for i in range(200))
    first = ask(client, [opening, user(f"Copy this: {long}")], max_tokens=2, reasoning_effort="none")
    assert first.usage.prompt_tokens > 700, "further on than twice the rows of a step"
    short: dict[str, Any] = {"max_tokens": 8, "reasoning_effort": "none"}
    other = ask(client, [opening, user("Hello!")], **short)
    fresh = ask(client, [opening, user("Hello!")], **short, extra_body={"cache_prompt": False})
    assert other.choices[0].message.content == fresh.choices[0].message.content
    # What has been computed since is near enough.
    again = ask(client, [opening, user("Who are you?")], **short)
    assert cached(other) < 8 and cached(again) > 64


def test_answers_at_once_are_those_that_come_one_by_one(client: openai.OpenAI, url: str) -> None:
    prompts = ["Hello!", "What is 12 + 30?", "What is the capital of Italy?", "Who are you?"]
    alone = [ask(client, [user(p)]).choices[0].message.content for p in prompts]
    together: dict[int, str] = {}

    def one(index: int) -> None:
        message, _ = streamed(client, [user(prompts[index])])
        together[index] = message["content"]

    threads = [threading.Thread(target=one, args=(i,)) for i in range(len(prompts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [together[i] for i in range(len(prompts))] == alone


def test_a_hang_up_frees_the_bank(client: openai.OpenAI, url: str) -> None:
    for _ in range(4):  # one more than there are banks
        stream = ask(client, [user("Hello!")], stream=True, max_tokens=1500, extra_body={"ignore_eos": True})
        next(iter(stream))
        stream.close()
    assert ask(client, [user("Hello!")], reasoning_effort="none").choices[0].message.content
    metrics = httpx.get(url.removesuffix("/v1") + "/metrics").text
    running = [line for line in metrics.splitlines() if "running" in line and not line.startswith("#")]
    assert running and all(line.endswith(" 0.0") for line in running), running


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}, "tools": TOOLS}, "tool_choice.function.name"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"parallel_tool_calls": 0, "tools": TOOLS}, "parallel_tool_calls"),
        ({"tools": [{"type": "function", "function": {"description": "nameless"}}]}, "tools[0].function.name"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"reasoning_effort": "extreme"}, "reasoning_effort"),
        ({"extra_body": {"thinking": {"type": "perhaps"}}}, "thinking.type"),
    ],
)
def test_what_it_does_not_do_is_a_400_that_names_the_field(
    client: openai.OpenAI, more: dict[str, Any], param: str
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, [user("Hello!")], **more)
    assert caught.value.param == param


def test_a_conversation_with_nothing_to_answer_is_refused(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError, match="nothing to answer"):
        ask(client, [user("Hello!"), {"role": "assistant", "content": "Hi."}])


def test_the_prompt_is_the_same_though_no_tool_may_be_called(client: openai.OpenAI) -> None:
    answer = ask(client, [user("Hello!")], tools=TOOLS, tool_choice="none", reasoning_effort="none")
    free = ask(client, [user("Hello!")], tools=TOOLS, reasoning_effort="none")
    assert answer.usage.prompt_tokens == free.usage.prompt_tokens
    assert not answer.choices[0].message.tool_calls


def test_the_prompt_can_be_looked_at(url: str) -> None:
    body = {"messages": [SYSTEM, user("Hi <think>")], "tools": [WEATHER], "thinking": False}
    root = url.removesuffix("/v1")
    text = httpx.post(root + "/apply-template", json=body).json()["prompt"]
    assert text.startswith("<｜begin▁of▁sentence｜>You are a helpful assistant.\n\n## Tools\n")
    assert text.endswith("<｜User｜>Hi <think><｜Assistant｜></think>")
    ids = httpx.post(root + "/tokenize", json=body).json()["tokens"]
    assert ids[0] == 0 and ids[-2:] == [4, 6]
    assert ids.count(5) == text.count("<think>") - 1, "what a user writes is no markup"


def test_a_prefix_is_continued_without_thinking(client: openai.OpenAI) -> None:
    opened: Any = {"role": "assistant", "content": "Hello! How", "prefix": True}
    answer = ask(client, [user("Hello!"), opened], reasoning_effort="none")
    assert answer.choices[0].message.content == " can I help you?"
