"""What the official SDKs offer beside plain calls: raw answers, ids of requests, helpers of streams, runners of tools,
several calls at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from support.mini_server import serve

SUM: Any = [{"role": "user", "content": "What is 12 + 30?"}]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    yield from serve("float", "--temp", "0")


def test_each_answer_has_the_id_of_its_request(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    raw = client.chat.completions.with_raw_response.create(model="x", messages=SUM, max_tokens=2)
    with pytest.raises(openai.NotFoundError) as refused:
        client.models.retrieve("nothing")
    with client.chat.completions.with_streaming_response.create(model="x", messages=SUM, max_tokens=2) as streamed:
        names = [raw.request_id, raw.parse()._request_id, refused.value.request_id, streamed.request_id]
    names += [
        client.responses.create(model="x", input="hi", max_output_tokens=2)._request_id,
        client.embeddings.create(model="x", input="hi")._request_id,
        client.models.list()._request_id,
        claude.messages.create(model="x", messages=SUM, max_tokens=2)._request_id,
    ]
    assert all(name is not None and name.startswith("req_") for name in names), names
    assert len(set(names)) == len(names) - 1, "that of the raw answer and of what is parsed from it are one"


def test_models_are_listed_and_described_alike(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    (listed,) = client.models.list()
    assert client.models.retrieve(listed.id) == listed
    assert [model.id for model in claude.models.list()] == [listed.id] == [claude.models.retrieve(listed.id).id]


def test_helpers_of_streams_gather_the_whole_answer(client: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    with client.responses.stream(model="x", input="What is 12 + 30?") as responding:
        kinds = [event.type for event in responding]
        response = responding.get_final_response()
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed" and "42" in response.output_text
    with client.chat.completions.stream(model="x", messages=SUM) as chatting:
        chunks = [event.chunk for event in chatting if event.type == "chunk"]
        said = chatting.get_final_completion().choices[0]
    told = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert (said.finish_reason, said.message.content) == ("stop", told) and "42" in told
    with claude.messages.stream(model="x", max_tokens=200, messages=SUM) as writing:
        text = "".join(writing.text_stream)
        assert writing.get_final_text() == text and "42" in text and writing.request_id is not None
        assert writing.get_final_message().stop_reason == "end_turn"


def test_beta_calls_are_answered_like_others(claude: anthropic.Anthropic) -> None:
    betas: Any = ["prompt-caching-2024-07-31", "interleaved-thinking-2025-05-14"]
    message = claude.beta.messages.create(model="x", max_tokens=200, messages=SUM, betas=betas)
    plain = claude.messages.create(model="x", max_tokens=200, messages=SUM)
    assert [block.type for block in message.content] == ["text"]
    assert message.content[0].model_dump()["text"] == plain.content[0].model_dump()["text"]
    counted = claude.beta.messages.count_tokens(model="x", messages=SUM)
    assert counted.input_tokens == claude.messages.count_tokens(model="x", messages=SUM).input_tokens


def test_anthropics_runner_calls_a_tool_and_goes_on(claude: anthropic.Anthropic) -> None:
    asked: list[tuple[int, int]] = []

    def add(a: int, b: int) -> str:
        """Adds two numbers.

        Args:
            a: the first
            b: the second
        """
        asked.append((a, b))
        return str(a + b)

    for streams in (False, True):
        more: Any = {"stream": True} if streams else {}
        runner = claude.beta.messages.tool_runner(
            model="x", max_tokens=300, tools=[anthropic.beta_tool(add)], messages=SUM, max_iterations=3, **more
        )
        turns = [turn.get_final_message() if streams else turn for turn in runner]
        assert [turn.stop_reason for turn in turns] == ["tool_use", "end_turn"]
    assert asked == [(12, 30), (12, 30)]


def test_thinking_can_be_sent_back_as_it_came(claude: anthropic.Anthropic) -> None:
    thinking: Any = {"type": "enabled", "budget_tokens": 100}
    first = claude.messages.create(model="x", max_tokens=300, thinking=thinking, messages=SUM)
    assert [block.type for block in first.content] == ["thinking", "text"]
    turns: Any = [*SUM, {"role": "assistant", "content": first.content}, {"role": "user", "content": "And 5 + 6?"}]
    second = claude.messages.create(model="x", max_tokens=300, thinking=thinking, messages=turns)
    assert second.content[-1].type == "text" and second.stop_reason == "end_turn"


def test_a_client_that_gives_up_leaves_the_server_to_others(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APITimeoutError):
        client.with_options(timeout=0.001).chat.completions.create(model="x", messages=SUM)
    answer = client.chat.completions.create(model="x", messages=SUM).choices[0]
    assert answer.finish_reason == "stop"


def test_asynchronous_clients_ask_many_things_at_once(url: str) -> None:
    async def ask() -> list[str]:
        async with openai.AsyncOpenAI(base_url=url, api_key="none") as chats:
            async with anthropic.AsyncAnthropic(base_url=url.removesuffix("/v1"), api_key="none") as messages:
                chat = [chats.chat.completions.create(model="x", messages=SUM) for _ in range(4)]
                claude = [messages.messages.create(model="x", max_tokens=200, messages=SUM) for _ in range(4)]
                answers = [answer.choices[0].message.content or "" for answer in await asyncio.gather(*chat)]
                answers += [answer.content[0].model_dump()["text"] for answer in await asyncio.gather(*claude)]
                async with chats.responses.stream(model="x", input="What is 12 + 30?") as stream:
                    answers.append((await stream.get_final_response()).output_text)
        return answers

    answers = asyncio.run(ask())
    assert len(answers) == 9 and all("42" in answer for answer in answers), answers
