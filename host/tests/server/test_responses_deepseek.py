"""ds4-mini through the Responses surface, with OpenAI's own client: thinking, tool rounds, what is kept."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from support.mini_server import serve, started
from support.responses_automaton import check, parse

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

WEATHER: Any = {
    "type": "function",
    "name": "get_weather",
    "description": "Get the weather for a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "Name of the city"}},
        "required": ["city"],
    },
}
CALCULATOR: Any = {
    "type": "function",
    "name": "calculator",
    "description": "Evaluate an arithmetic expression.",
    "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]},
}
TOOLS = [WEATHER, CALCULATOR]
SYSTEM = "You are a helpful assistant."
RESULT = json.dumps({"city": "Lisbon", "temperature": 21, "condition": "sunny"})


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    yield from serve("float", "--state-dir", str(tmp_path_factory.mktemp("state")))


def ask(client: openai.OpenAI, said: Any, *, stream: bool = False, **more: Any) -> Any:
    """The response, sent whole or streamed through the client's own accumulation."""
    how: dict[str, Any] = {"model": "ds4-mini", "input": said, "instructions": SYSTEM, "temperature": 0, **more}
    if not stream:
        return client.responses.create(**how)
    with client.responses.stream(**how) as told:
        return told.get_final_response()


def raw(url: str, **body: Any) -> dict[str, Any]:
    """A streamed response by the automaton."""
    body = {"instructions": SYSTEM, "temperature": 0, "stream": True, **body}
    return check(parse(httpx.post(url + "/responses", json=body, timeout=60).content))


def test_it_thinks_apart_from_its_answer_and_counts_that(client: openai.OpenAI) -> None:
    answer = ask(client, "What is the capital of Portugal?")
    thought, said = answer.output
    assert (thought.type, said.type, answer.status) == ("reasoning", "message", "completed")
    assert thought.content[0].text == answer.output_text == "The capital of Portugal is Lisbon."
    assert 0 < answer.usage.output_tokens_details.reasoning_tokens < answer.usage.output_tokens
    summed = ask(client, "What is the capital of Portugal?", reasoning={"summary": "auto"}, stream=True)
    assert summed.output[0].summary[0].text == thought.content[0].text and not summed.output[0].content
    silent = ask(client, "Hello!", reasoning={"effort": "none"})
    assert [item.type for item in silent.output] == ["message"]
    assert silent.usage.output_tokens_details.reasoning_tokens == 0


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_round_goes_through(client: openai.OpenAI, stream: bool, kept: bool) -> None:
    more: dict[str, Any] = {"tools": TOOLS, "stream": stream, "store": kept}
    question: Any = [{"role": "user", "content": "What's the weather in Lisbon?"}]
    first = ask(client, question, **more)
    call = next(item for item in first.output if item.type == "function_call")
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Lisbon"})
    assert call.call_id.startswith("call_") and call.id.startswith("fc_") and first.status == "completed"
    result = {"type": "function_call_output", "call_id": call.call_id, "output": RESULT}
    if kept:
        second = ask(client, [result], previous_response_id=first.id, **more)
    else:
        back = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output]
        second = ask(client, [*question, *back, result], **more)
    assert "Lisbon" in second.output_text and "21" in second.output_text
    # All that was sampled is found again: what was thought, and the call's exact text.
    cached = second.usage.input_tokens_details.cached_tokens
    assert cached >= first.usage.input_tokens + first.usage.output_tokens - 1
    if kept:
        assert client.responses.retrieve(second.id).output_text == second.output_text


def test_sealed_reasoning_is_enough_for_a_client_that_keeps_nothing_else(client: openai.OpenAI) -> None:
    more: dict[str, Any] = {"tools": TOOLS, "store": False, "include": ["reasoning.encrypted_content"]}
    question: Any = [{"role": "user", "content": "What's the weather in Lisbon?"}]
    first = ask(client, question, **more)
    back = [item.model_dump(exclude_none=True, exclude={"content"}) for item in first.output]
    call = next(item for item in first.output if item.type == "function_call")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": RESULT}
    second = ask(client, [*question, *back, result], **more)
    cached = second.usage.input_tokens_details.cached_tokens
    assert cached >= first.usage.input_tokens + first.usage.output_tokens - 1


def test_a_custom_tool_takes_the_text_that_the_model_wrote(client: openai.OpenAI, url: str) -> None:
    custom = {"type": "custom", "name": "get_weather", "description": "Get the weather for a city."}
    response = raw(url, input="What's the weather in Lisbon?", tools=[custom, CALCULATOR])
    call = response["output"][-1]
    assert (call["type"], call["name"], call["status"]) == ("custom_tool_call", "get_weather", "completed")
    assert call["id"].startswith("ctc_") and "Lisbon" in call["input"]
    result: Any = [{"type": "custom_tool_call_output", "call_id": call["call_id"], "output": RESULT}]
    second = ask(client, result, previous_response_id=response["id"], tools=[custom, CALCULATOR])
    assert second.status == "completed" and second.usage.input_tokens_details.cached_tokens > 0


@pytest.mark.parametrize("most", range(1, 60, 4))
def test_an_answer_that_is_cut_anywhere_is_a_right_stream(url: str, most: int) -> None:
    response = raw(url, input="What's the weather in Lisbon?", tools=TOOLS, max_output_tokens=most)
    assert response["usage"]["output_tokens"] <= most
    assert response["status"] in ("incomplete", "completed")
    assert (response["status"] == "completed") == (response["output"][-1]["status"] == "completed")


def test_a_conversation_is_continued_on_its_bank(client: openai.OpenAI) -> None:
    quiet: dict[str, Any] = {"reasoning": {"effort": "none"}}
    first = ask(client, "What is the capital of Spain?", **quiet)
    second = ask(client, "Hello!", previous_response_id=first.id, **quiet)
    cached = second.usage.input_tokens_details.cached_tokens
    assert cached >= first.usage.input_tokens + first.usage.output_tokens - 1


def test_the_prompt_is_the_same_whichever_tools_may_be_called(client: openai.OpenAI) -> None:
    bare = ask(client, "Hello!").usage.input_tokens
    whole = ask(client, "Hello!", tools=TOOLS).usage.input_tokens
    assert ask(client, "Hello!", tools=TOOLS, tool_choice="none").usage.input_tokens == whole > bare
    assert ask(client, "Hello!", tools=[{"type": "web_search"}]).usage.input_tokens == bare
    chosen: Any = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "get_weather"}]}
    some = ask(client, "Hello!", tools=TOOLS, tool_choice=chosen).usage.input_tokens
    assert some == whole


def test_a_hang_up_frees_the_bank(client: openai.OpenAI, url: str) -> None:
    for _ in range(4):  # one more than there are banks
        how: dict[str, Any] = {"stream": True, "max_output_tokens": 1500, "extra_body": {"ignore_eos": True}}
        stream = client.responses.create(model="ds4-mini", input="Hello!", **how)
        created = next(iter(stream))
        stream.close()
    assert ask(client, "Hello!", reasoning={"effort": "none"}).output_text
    metrics = httpx.get(url.removesuffix("/v1") + "/metrics").text
    running = [line for line in metrics.splitlines() if "running" in line and not line.startswith("#")]
    assert running and all(line.endswith(" 0.0") for line in running), running
    assert client.responses.retrieve(created.response.id).status == "cancelled"


def test_a_server_that_is_killed_serves_again_what_it_kept(tmp_path: Path) -> None:
    with (
        started("float", "--state-dir", str(tmp_path)) as (process, url),
        openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client,
    ):
        first = ask(client, "Hello!")
        endless: dict[str, Any] = {"stream": True, "extra_body": {"ignore_eos": True}}
        stream = client.responses.create(model="ds4-mini", input="Hello!", **endless)
        cut = next(iter(stream)).response.id
        process.kill()
        process.wait(20)
    with (
        started("float", "--state-dir", str(tmp_path)) as (_, url),
        openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client,
    ):
        assert client.responses.retrieve(first.id).output_text == first.output_text
        ended = client.responses.retrieve(cut)
        assert ended.status == "failed" and ended.error is not None and ended.error.code == "server_error"
        second = ask(client, "Hello!", previous_response_id=first.id)
        assert second.status == "completed"
