"""Structured answers of real weights through the official SDKs: at a temperature at which this model talks nonsense,
every answer is JSON of its schema, unless its budget cuts it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal

import anthropic
import httpx
import openai
import pytest
from pydantic import BaseModel, Field
from support import embedded
from support.json_validity import obeys
from support.mini_server import serve

pytestmark = [embedded.needs_model, embedded.needs_engine]

QUESTION: Any = [{"role": "user", "content": "Describe a cat as JSON."}]
HOT = 1.5


class Cat(BaseModel):
    name: str = Field(max_length=16)
    age: int = Field(ge=0, le=30)
    colours: list[Literal["black", "white", "red"]] = Field(max_length=3)


SCHEMA: dict[str, Any] = {**Cat.model_json_schema(), "additionalProperties": False}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Float mode: what a bank draws does not depend on its neighbours."""
    yield from serve("float", "-m", os.path.abspath(embedded.path()), "-c", "1024", "--max-seqs", "4")


def test_openais_parse_gives_a_model(client: openai.OpenAI) -> None:
    done = client.chat.completions.parse(
        model="x", messages=QUESTION, response_format=Cat, temperature=HOT, seed=1, max_tokens=300
    )
    assert isinstance(done.choices[0].message.parsed, Cat)
    assert done.choices[0].finish_reason == "stop"


def test_openais_stream_parses_what_it_gathers(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model="x", messages=QUESTION, response_format=Cat, temperature=HOT, seed=2, max_tokens=300
    ) as stream:
        kinds = {event.type for event in stream}
        parsed = stream.get_final_completion().choices[0].message.parsed
    assert isinstance(parsed, Cat) and "content.delta" in kinds


def test_responses_parse_gives_a_model(client: openai.OpenAI) -> None:
    done = client.responses.parse(
        model="x", input="Describe a cat.", text_format=Cat, temperature=HOT, max_output_tokens=300
    )
    assert isinstance(done.output_parsed, Cat)
    assert done.text is not None and done.text.format is not None and done.text.format.type == "json_schema"


def test_responses_stream_parses_what_it_gathers(client: openai.OpenAI) -> None:
    with client.responses.stream(
        model="x", input="Describe a cat.", text_format=Cat, temperature=HOT, max_output_tokens=300
    ) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_response().output_parsed, Cat)


def test_anthropics_output_config_holds_the_answer_to_its_schema(claude: anthropic.Anthropic) -> None:
    asked: Any = {"format": {"type": "json_schema", "schema": SCHEMA}}
    done = claude.messages.create(
        model="x", max_tokens=300, messages=QUESTION, output_config=asked, extra_body={"temperature": HOT}
    )
    assert done.stop_reason == "end_turn" and done.content[0].type == "text"
    assert obeys(json.loads(done.content[0].text), SCHEMA)


def test_anthropics_stream_is_held_too(claude: anthropic.Anthropic) -> None:
    body: Any = {"temperature": HOT, "output_format": {"type": "json_schema", "schema": SCHEMA}}
    with claude.messages.stream(model="x", max_tokens=300, messages=QUESTION, extra_body=body) as stream:
        text = "".join(stream.text_stream)
    assert obeys(json.loads(text), SCHEMA)


def test_completions_stream_is_held_too(client: openai.OpenAI) -> None:
    form = {"type": "json_schema", "json_schema": {"schema": SCHEMA}}
    stream = client.completions.create(
        model="x", prompt="A cat: ", stream=True, temperature=HOT, max_tokens=300, extra_body={"response_format": form}
    )
    assert obeys(json.loads("".join(chunk.choices[0].text for chunk in stream)), SCHEMA)


@pytest.mark.parametrize("more", [{"temperature": 0.0}, {"temperature": HOT, "n": 2}, {"logit_bias": {"28": 100}}])
def test_other_ways_to_draw_stay_inside_the_grammar(client: openai.OpenAI, more: dict[str, Any]) -> None:
    done = client.chat.completions.create(
        model="x", messages=QUESTION, response_format={"type": "json_object"}, max_tokens=40, logprobs=True, **more
    )
    for choice in done.choices:
        text = choice.message.content or ""
        assert text.lstrip().startswith("{")
        assert choice.logprobs is not None and choice.logprobs.content
        if choice.finish_reason == "stop":
            assert isinstance(json.loads(text), dict)


def test_a_seed_repeats_a_structured_answer(client: openai.OpenAI) -> None:
    ask: Any = {"messages": QUESTION, "response_format": {"type": "json_object"}, "max_tokens": 30, "temperature": HOT}
    first, again, other = (
        client.chat.completions.create(model="x", seed=seed, **ask).choices[0].message.content for seed in (7, 7, 8)
    )
    assert first == again != other


def test_answers_beside_a_constrained_one_are_the_same_to_the_bit(client: openai.OpenAI) -> None:
    def free(index: int) -> Any:
        done = client.completions.create(
            model="x", prompt=f"Story {index}:", temperature=HOT, seed=index, max_tokens=12, logprobs=2,
            extra_body={"cache_prompt": False},
        )  # fmt: skip
        return done.choices[0].text, done.choices[0].logprobs

    def held(_: int) -> Any:
        return client.completions.create(
            model="x", prompt="Digits:", temperature=HOT, max_tokens=24, extra_body={"regex": "[0-9]{60}"}
        )

    alone = [free(index) for index in range(3)]
    with ThreadPoolExecutor(4) as pool:
        beside = pool.submit(held, 0)
        together = list(pool.map(free, range(3)))
        beside.result()
    assert together == alone


@pytest.fixture(scope="module")
def mini() -> Iterator[str]:
    yield from serve("float")


@pytest.mark.parametrize("streams", [False, True])
def test_reasoning_comes_first_and_then_the_schema(mini: str, streams: bool) -> None:
    schema = {**SCHEMA, "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
    form: Any = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema, "strict": True}}
    with openai.OpenAI(base_url=mini, api_key="none", max_retries=0) as client:
        ask: Any = {"model": "ds4-mini", "messages": [{"role": "user", "content": "What is 2+2?"}], "temperature": 0}
        ask |= {"response_format": form, "reasoning_effort": "high", "max_tokens": 1200}
        if streams:
            parts = [chunk.choices[0].delta for chunk in client.chat.completions.create(stream=True, **ask)]
            text = "".join(part.content or "" for part in parts)
            thought = "".join(getattr(part, "reasoning_content", None) or "" for part in parts)
        else:
            message = client.chat.completions.create(**ask).choices[0].message
            text, thought = message.content or "", getattr(message, "reasoning_content", "")
    assert thought and json.loads(text) in ({"ok": True}, {"ok": False})


def test_with_tools_an_answer_is_calls_or_the_schema(mini: str) -> None:
    tool = {"type": "function", "function": {"name": "get_weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}  # fmt: skip
    ask = {"messages": [{"role": "user", "content": "What is the weather in Paris?"}], "tools": [tool]}
    ask |= {"temperature": 0, "response_format": {"type": "json_object"}, "reasoning_effort": "none", "max_tokens": 300}
    answer = httpx.post(f"{mini}/chat/completions", json=ask, timeout=60).json()
    choice = answer["choices"][0]
    if choice["finish_reason"] == "tool_calls":
        assert choice["message"]["tool_calls"]
    else:
        assert choice["message"]["content"].lstrip().startswith(("{", "<｜DSML｜tool_calls>"))


def test_the_model_is_told_of_the_schema_where_its_layout_has_a_place_for_it(mini: str) -> None:
    ask = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 8, "reasoning_effort": "none"}
    told = {**ask, "response_format": {"type": "json_object"}}
    plain, longer = (
        httpx.post(f"{mini}/chat/completions", json=body, timeout=60).json()["usage"]["prompt_tokens"]
        for body in (ask, told)
    )
    assert longer > plain
