"""What /v1/models says that a model takes follows from what is read, and from what its dialect can do."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from ds4.server.openapi import chat, completions
from ds4.server.surfaces.supported import parameters
from support.live_server import LiveServer

ALWAYS = {
    *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "n", "max_tokens", "max_completion_tokens", "stream"),
    *("logit_bias", "logprobs", "response_format", "grammar", "regex", "ignore_eos", "cache_prompt"),
}
TOOLS = {"tools", "tool_choice", "parallel_tool_calls"}
THINKING = {"thinking", "enable_thinking", "think", "thinking_budget", "reasoning", "reasoning_effort"}


@pytest.mark.parametrize("thinks", [False, True])
@pytest.mark.parametrize("calls", [False, True])
def test_tools_and_thinking_are_told_of_models_that_can(thinks: bool, calls: bool) -> None:
    dialect: Any = SimpleNamespace(thinks=thinks, calls_tools=calls)
    told = set(parameters(dialect))
    assert told >= ALWAYS | {"top_logprobs"}
    assert told & TOOLS == (TOOLS if calls else set())
    assert told & THINKING == (THINKING if thinks else set())
    assert not told & {"model", "messages", "prompt", "functions", "function_call", "echo", "suffix"}


def test_a_model_without_chats_has_no_fields_of_chats() -> None:
    told = set(parameters(None))
    assert told >= ALWAYS and not told & (TOOLS | THINKING | {"top_logprobs"})


def test_each_field_that_is_read_is_told_or_is_no_parameter() -> None:
    dialect: Any = SimpleNamespace(thinks=True, calls_tools=True)
    fields = set(chat.SCHEMAS["ChatRequest"]["properties"]) | set(
        completions.SCHEMAS["CompletionRequest"]["properties"]
    )
    refused = {"functions", "function_call", "echo", "suffix"}
    assert fields - set(parameters(dialect)) == {"model", "messages", "prompt"} | refused


def test_the_list_of_models_has_it() -> None:
    with LiveServer() as server:
        (model,) = json.loads(server.get("/v1/models")[1])["data"]
    assert "temperature" in model["supported_parameters"] and "tools" not in model["supported_parameters"]
