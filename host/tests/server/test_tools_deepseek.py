"""Forced, forbidden and strict calls of ds4-mini with the official clients, and the budget of its thinking."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from support.mini_server import serve

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
WEATHER: Any = {"name": "get_weather", "description": "Get the weather for a city.", "strict": True}
FREE: Any = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
CALCULATOR: Any = {"name": "calculator", "description": "Evaluate an arithmetic expression."}
CHAT: Any = [
    {"type": "function", "function": {**WEATHER, "parameters": SCHEMA}},
    {"type": "function", "function": {**CALCULATOR, "parameters": FREE}},
]
MESSAGES: Any = [{**WEATHER, "input_schema": SCHEMA}, {**CALCULATOR, "input_schema": FREE}]
RESPONSES: Any = [
    {"type": "function", **WEATHER, "parameters": SCHEMA},
    {"type": "function", **CALCULATOR, "parameters": FREE},
]
QUESTION = "What is the weather in Lisbon?"
WAYS = pytest.mark.parametrize("stream", [False, True], ids=["buffered", "streamed"])
Made = list[tuple[str, dict[str, Any]]]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    yield from serve("float")


def chat(client: openai.OpenAI, stream: bool, **more: Any) -> Made:
    how: Any = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "tools": CHAT, "seed": 1, **more}
    how["max_completion_tokens"] = 700
    if not stream:
        message = client.chat.completions.create(**how).choices[0].message
        return [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]
    made: dict[int, list[str]] = {}
    for chunk in client.chat.completions.create(**how, stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            parts = made.setdefault(call.index, [call.function.name, ""])
            parts[1] += call.function.arguments or ""
    return [(name, json.loads(arguments)) for name, arguments in made.values()]


def messages(client: anthropic.Anthropic, stream: bool, **more: Any) -> Made:
    how: Any = {"model": "m", "messages": [{"role": "user", "content": QUESTION}], "tools": MESSAGES, "max_tokens": 700}
    how |= {"extra_body": {"seed": 1}, **more}
    if stream:
        with client.messages.stream(**how) as events:
            answer = events.get_final_message()
    else:
        answer = client.messages.create(**how)
    return [(block.name, dict(block.input)) for block in answer.content if block.type == "tool_use"]


def responses(client: openai.OpenAI, stream: bool, **more: Any) -> Made:
    how: Any = {"model": "m", "input": QUESTION, "tools": RESPONSES, "max_output_tokens": 700, **more}
    how["extra_body"] = {"seed": 1}
    if stream:
        answer = list(client.responses.create(**how, stream=True))[-1].response
    else:
        answer = client.responses.create(**how)
    return [(item.name, json.loads(item.arguments)) for item in answer.output if item.type == "function_call"]


def strict(made: Made) -> None:
    assert made
    for name, arguments in made:
        assert name in ("get_weather", "calculator")
        if name == "get_weather":
            assert set(arguments) == {"city", "days"}
            assert isinstance(arguments["city"], str) and type(arguments["days"]) is int


@WAYS
def test_a_call_that_is_required_comes_and_obeys_its_schema(
    client: openai.OpenAI, claude: anthropic.Anthropic, stream: bool
) -> None:
    strict(chat(client, stream, tool_choice="required"))
    strict(messages(claude, stream, tool_choice={"type": "any"}))
    strict(responses(client, stream, tool_choice="required"))


@WAYS
def test_the_tool_that_is_named_is_called_whatever_the_question(
    client: openai.OpenAI, claude: anthropic.Anthropic, stream: bool
) -> None:
    named = {"type": "function", "function": {"name": "calculator"}}
    chosen = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [named]}}
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "calculator"}]}
    for made in (
        chat(client, stream, tool_choice=named),
        chat(client, stream, tool_choice=chosen),
        messages(claude, stream, tool_choice={"type": "tool", "name": "calculator"}),
        responses(client, stream, tool_choice={"type": "function", "name": "calculator"}),
        responses(client, stream, tool_choice=allowed),
    ):
        assert made and {name for name, _ in made} == {"calculator"}


@WAYS
def test_one_call_at_most_or_none(client: openai.OpenAI, claude: anthropic.Anthropic, stream: bool) -> None:
    one = {"type": "any", "disable_parallel_tool_use": True}
    assert len(chat(client, stream, tool_choice="required", parallel_tool_calls=False)) == 1
    assert len(messages(claude, stream, tool_choice=one)) == 1
    assert len(responses(client, stream, tool_choice="required", parallel_tool_calls=False)) == 1
    assert not chat(client, stream, tool_choice="none")
    assert not messages(claude, stream, tool_choice={"type": "none"})
    assert not responses(client, stream, tool_choice="none")


@pytest.mark.parametrize(
    ("syntax", "definition"), [("regex", "[A-Z]{2,8}!"), ("lark", 'start: "GO" MORE\nMORE: /[A-Z]{1,5}!/')]
)
def test_a_custom_tools_grammar_is_honoured(client: openai.OpenAI, syntax: str, definition: str) -> None:
    form = {"type": "grammar", "syntax": syntax, "definition": definition}
    tool: Any = {"type": "custom", "name": "shout", "description": "Shouts.", "format": form}
    choice: Any = {"type": "custom", "name": "shout"}
    how: Any = {"tools": [tool], "tool_choice": choice, "parallel_tool_calls": False}
    answer = client.responses.create(model="m", input=QUESTION, **how)
    (call,) = [item for item in answer.output if item.type == "custom_tool_call"]
    assert call.input.endswith("!") and call.input[:-1].isupper() and len(call.input) <= 9
    form["definition"] = "start: ("
    with pytest.raises(openai.BadRequestError) as caught:
        client.responses.create(model="m", input=QUESTION, **how)
    assert caught.value.param == "tools[0].format.definition"


@pytest.mark.parametrize("most", [0, 3, 100_000])
def test_thinking_ends_with_its_budget_and_the_answer_follows(
    client: openai.OpenAI, claude: anthropic.Anthropic, most: int
) -> None:
    how: Any = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 300}
    for more in ({"thinking_budget": most}, {"reasoning": {"max_tokens": most}}):
        answer = client.chat.completions.create(model="m", **how, temperature=0, extra_body={"thinking": True, **more})
        assert answer.choices[0].message.content
        used = answer.usage.completion_tokens_details.reasoning_tokens
        assert used <= most + 1  # with the token that ends it
        assert most < 100 or used > 4
    budget: Any = {"type": "enabled", "budget_tokens": most}
    said = claude.messages.create(model="m", thinking=budget, **how, extra_body={"temperature": 0})
    assert said.content[-1].type == "text" and said.content[-1].text
