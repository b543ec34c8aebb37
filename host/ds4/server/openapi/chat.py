"""/v1/chat/completions: OpenAI's Chat Completions."""

from __future__ import annotations

from typing import Any

from ds4.server import limits
from ds4.server.openapi.operations import events, post
from ds4.server.openapi.sampling import (
    EFFORT,
    MODEL,
    budgets,
    grammars,
    options,
    response_format,
    tool_choice,
    unsupported,
)
from ds4.server.openapi.shapes import (
    Schema,
    array,
    boolean,
    either,
    integer,
    maybe,
    obj,
    one_of,
    only,
    ref,
    string,
    whole,
)

_PART = obj({"type": only("text"), "text": string("What it says.")}, ["type", "text"], "A part of a message.")
_CONTENT = either(string(), array(_PART), about="What is said: text, or parts of text.")
_CALL = obj(
    {
        "id": maybe(string("The call's id, as the answer gave it: its text is replayed exactly.")),
        "type": maybe(only("function")),
        "function": obj(
            {"name": string("Of the function.", minLength=1), "arguments": maybe(string("As JSON text."))}, ["name"]
        ),
    },
    ["function"],
    "A call that the assistant made.",
)
_NAME = {"name": maybe(string("Who speaks, among several of a role."))}

_ASKS = obj(
    {"role": one_of("system", "developer", "user"), "content": _CONTENT, **_NAME},
    ["role", "content"],
    "Instructions, or what a user says.",
)
_RESULT = obj(
    {
        "role": only("tool"),
        "content": _CONTENT,
        "tool_call_id": maybe(string("The call that this is the result of.")),
        **_NAME,
    },
    ["role", "content"],
    "What a tool gave.",
)
_ANSWERED = obj(
    {
        "role": only("assistant"),
        "content": maybe(_CONTENT),
        "tool_calls": maybe(array(_CALL, "Calls that it made.")),
        "reasoning_content": maybe(string("What it thought before.")),
        "reasoning": maybe(string("reasoning_content under another name, which gives way.")),
        "prefix": maybe(boolean("The answer is to go on from here; of the last message only.")),
        **_NAME,
    },
    ["role"],
    "What the model answered.",
)

_TOOL = obj({"type": maybe(only("function")), "function": ref("FunctionDefinition")}, ["function"], "A tool.")
_NAMED = obj({"name": string(minLength=1)}, ["name"])
_CHOICE = tool_choice(
    obj({"type": maybe(only("function")), "function": _NAMED}, ["function"]),
    obj(
        {
            "type": only("allowed_tools"),
            "allowed_tools": maybe(
                obj(
                    {
                        "mode": maybe(one_of("auto", "required")),
                        "tools": maybe(array(obj({"function": _NAMED}, ["function"]))),
                    }
                )
            ),
        },
        ["type"],
    ),
)


def conversation() -> dict[str, Schema]:
    """What makes the prompt; also of /apply-template and /tokenize."""
    return {
        "model": MODEL,
        "messages": array(ref("ChatMessage"), "The conversation.", minItems=1),
        "tools": maybe(array(_TOOL, "What the model may call.")),
        "tool_choice": _CHOICE,
        "parallel_tool_calls": maybe(boolean("An answer may make several calls. Default true.")),
        "functions": unsupported("use tools.", []),
        "function_call": unsupported("use tools.", "none"),
        "thinking": maybe(
            either(
                boolean(),
                obj({"type": one_of("enabled", "disabled"), "budget_tokens": maybe(integer("", 0))}, ["type"]),
                about="Whether to think before answering, and for how many tokens at most.",
            )
        ),
        "enable_thinking": maybe(boolean("thinking under another name.")),
        "think": maybe(boolean("thinking under another name.")),
        "reasoning_effort": EFFORT,
    }


_FINISH = one_of("stop", "length", "tool_calls", about="Why it ended.")
_LOGPROBS = whole({"content": array(ref("TokenLogprob")), "refusal": {"type": "null"}})
_HEAD: dict[str, Schema] = {
    "id": string(pattern="^chatcmpl-"),
    "object": only("chat.completion"),
    "created": integer("Seconds since 1970."),
    "model": string("Which one answered."),
    "system_fingerprint": string("Names weights and build."),
}

SCHEMAS: dict[str, Schema] = {
    "ChatMessage": either(_ASKS, _ANSWERED, _RESULT, about="A message, by its role."),
    "ChatRequest": obj(
        {
            **conversation(),
            **options(),
            **grammars(),
            **budgets(),
            "response_format": response_format(),
            "logprobs": maybe(boolean("Tell each token's log-probability.")),
            "top_logprobs": maybe(
                integer("With logprobs: how many likeliest tokens to tell.", 0, limits.MAX_TOP_LOGPROBS)
            ),
        },
        ["messages"],
    ),
    "ChatCompletion": whole(
        {
            **_HEAD,
            "choices": array(
                whole(
                    {
                        "index": integer("", 0),
                        "message": whole(
                            {
                                "role": only("assistant"),
                                "content": maybe(string("What it says; null where it only calls.")),
                                "refusal": {"type": "null"},
                                "reasoning_content": string("What it thought."),
                                "tool_calls": array(
                                    whole(
                                        {
                                            "id": string("To be sent back with the result."),
                                            "type": only("function"),
                                            "function": whole({"name": string(), "arguments": string("JSON text.")}),
                                        }
                                    )
                                ),
                            },
                            optional=("reasoning_content", "tool_calls"),
                        ),
                        "logprobs": maybe(_LOGPROBS),
                        "finish_reason": _FINISH,
                    }
                ),
            ),
            "usage": ref("Usage"),
            "timings": ref("Timings"),
        }
    ),
    "ChatCompletionChunk": whole(
        {
            **_HEAD,
            "object": only("chat.completion.chunk"),
            "choices": array(
                whole(
                    {
                        "index": integer("", 0),
                        "delta": obj(
                            {
                                "role": only("assistant"),
                                "content": string("More of what it says."),
                                "reasoning_content": string("More of what it thought."),
                                "tool_calls": array(
                                    whole(
                                        {
                                            "index": integer("", 0),
                                            "id": string(),
                                            "type": only("function"),
                                            "function": obj({"name": string(), "arguments": string()}),
                                        },
                                        optional=("id", "type"),
                                    )
                                ),
                            },
                        ),
                        "logprobs": maybe(_LOGPROBS),
                        "finish_reason": maybe(_FINISH),
                    }
                )
            ),
            "usage": maybe(ref("Usage")),
            "timings": ref("Timings"),
            "progress": ref("PromptProgress"),
        },
        optional=("usage", "timings", "progress"),
    ),
}

_WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather somewhere.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
EXAMPLES: dict[str, Any] = {
    "plain": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 16},
    "streamed": {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 1,
        "stop": ["\n\n"],
    },
    "tools": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Weather in Oslo?"}]},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": "call_1",
                        "type": "function",
                        "function": {"name": "weather", "arguments": '{"city": "Oslo"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "call_1", "content": "Rain"},
        ],
        "tools": [_WEATHER],
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "max_completion_tokens": 16,
    },
    "structured": {
        "messages": [{"role": "user", "content": "A colour?"}],
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "colour", "schema": {"enum": ["red", "green"]}, "strict": True},
        },
    },
    "likelihoods": {
        "messages": [{"role": "user", "content": "Hello"}],
        "max_tokens": 4,
        "logprobs": True,
        "top_logprobs": 2,
        "n": 2,
    },
}

PATHS: dict[str, Any] = {
    "/v1/chat/completions": {
        "post": post(
            "createChatCompletion",
            "Answer a conversation",
            "ChatRequest",
            ref("ChatCompletion"),
            tag="chat",
            stream=events(
                "Messages `data: ` with a ChatCompletionChunk each, and [DONE] at the end; comments in between.",
                ["ChatCompletionChunk", "Error"],
                last="[DONE]",
            ),
            examples=EXAMPLES,
        )
    }
}
