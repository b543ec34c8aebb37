"""/v1/messages and /v1/messages/count_tokens: Anthropic's Messages."""

from __future__ import annotations

from typing import Any

from ds4.server.openapi.common import STRICT
from ds4.server.openapi.operations import events, post
from ds4.server.openapi.sampling import EFFORT, MODEL, budget, budgets, drawing, flat_format, grammars, stops, switches
from ds4.server.openapi.shapes import (
    Schema,
    anything,
    array,
    boolean,
    either,
    integer,
    mapping,
    maybe,
    obj,
    one_of,
    only,
    ref,
    string,
    whole,
)

_CACHE = {"cache_control": anything("Marks what is to be cached; where any is, usage tells what was written.")}
_TEXT = obj({"type": only("text"), "text": string("What it says."), **_CACHE}, ["type", "text"], "Text.")
_FOUND = obj(
    {
        "type": only("search_result"),
        "title": maybe(string()),
        "source": maybe(string()),
        "content": maybe(either(string(), array(_TEXT))),
        **_CACHE,
    },
    ["type"],
    "Something found.",
)
_DOCUMENT = obj(
    {
        "type": only("document"),
        "title": maybe(string()),
        "context": maybe(string()),
        "source": either(
            obj({"type": only("text"), "data": string("The document.")}, ["type", "data"]),
            obj({"type": only("content"), "content": maybe(either(string(), array(_TEXT)))}, ["type"]),
        ),
        **_CACHE,
    },
    ["type", "source"],
    "A document that is text.",
)
_REFERENCE = obj({"type": only("tool_reference"), "tool_name": maybe(string())}, ["type"])
_OTHER = obj({"type": string("Another kind: it is named in its place.")}, ["type"])
_RESULT = obj(
    {
        "type": only("tool_result"),
        "tool_use_id": string("The call that this is the result of.", minLength=1),
        "content": maybe(either(string(), array(either(_TEXT, _FOUND, _DOCUMENT, _REFERENCE, _OTHER)))),
        "is_error": maybe(boolean("The tool failed.")),
        **_CACHE,
    },
    ["type", "tool_use_id"],
    "What a tool gave.",
)
_USE = obj(
    {
        "type": only("tool_use"),
        "id": maybe(string("As the answer gave it: the call's text is replayed exactly.")),
        "name": string(minLength=1),
        "input": maybe(mapping(about="The arguments.")),
        **_CACHE,
    },
    ["type", "name"],
    "A call that the model made.",
)
_THOUGHT = obj(
    {
        "type": only("thinking"),
        "thinking": maybe(string("What was thought.")),
        "signature": maybe(string("As the answer gave it; a thought that was not shown is in it.")),
    },
    ["type"],
    "What the model thought.",
)
_REDACTED = obj({"type": only("redacted_thinking")}, ["type"], "Another model's thought: it is passed over.")

_SAID = either(string(), array(either(_TEXT, _FOUND, _DOCUMENT, _RESULT)), about="Text, or blocks.")
_ANSWERED = either(string(), array(either(_TEXT, _THOUGHT, _REDACTED, _USE)), about="Text, or blocks.")
_SYSTEM = either(string(), array(_TEXT), about="Text, or blocks of text.")

_TOOL = obj(
    {
        "type": maybe(string("custom; others need an input_schema to be known here.")),
        "name": string(minLength=1),
        "description": maybe(string("What it does, for the model.")),
        "input_schema": mapping(about="A JSON schema of the arguments."),
        "strict": STRICT,
        **_CACHE,
    },
    ["name", "input_schema"],
    "A tool.",
)
_CHOICE = obj(
    {
        "type": one_of("auto", "any", "tool", "none"),
        "name": anything("With tool: which, as a string."),
        "disable_parallel_tool_use": maybe(boolean("One call in an answer at most.")),
    },
    ["type"],
    "Whether tools may or must be called, and which.",
)


def _talk() -> dict[str, Schema]:
    """What makes the prompt; all that counting reads."""
    return {
        "model": MODEL,
        "messages": array(ref("MessageParam"), "The talk; an answer at its end is gone on from.", minItems=1),
        "system": maybe(_SYSTEM),
        "tools": maybe(array(_TOOL, "What the model may call.")),
        "tool_choice": maybe(_CHOICE),
        "thinking": maybe(
            obj(
                {
                    "type": one_of("enabled", "disabled", "adaptive", "between_tools"),
                    "budget_tokens": budget("Most tokens to think for.", 0),
                    "display": maybe(one_of("summarized", "omitted", about="omitted: thoughts are not shown.")),
                },
                ["type"],
                "Whether to think before answering.",
            )
        ),
        "reasoning_effort": EFFORT,
        "output_config": maybe(obj({"effort": EFFORT, "format": _format()}, about="How to answer.")),
        "output_format": _format(),
        "mcp_servers": {"enum": [[], None], "description": "Not supported: the client has to call MCP servers."},
        **grammars(),
        **budgets(),
    }


def _format() -> Schema:
    return flat_format()


_USAGE = whole(
    {
        "input_tokens": integer("Computed, and not kept.", 0),
        "cache_creation_input_tokens": integer("Computed and kept.", 0),
        "cache_read_input_tokens": integer("Not computed again.", 0),
        "output_tokens": integer("Drawn.", 0),
        "output_tokens_details": whole({"thinking_tokens": integer("Spent on thinking.", 0)}),
        "service_tier": only("standard"),
    },
    optional=("output_tokens_details", "service_tier"),
)
_STOP = one_of("end_turn", "max_tokens", "stop_sequence", "tool_use", about="Why it ended.")
_BLOCK = either(
    whole({"type": only("text"), "text": string()}),
    whole({"type": only("thinking"), "thinking": string(), "signature": string()}),
    whole({"type": only("tool_use"), "id": string(pattern="^toolu_"), "name": string(), "input": mapping()}),
)


def _message(stop: Schema) -> Schema:
    return whole(
        {
            "id": string(pattern="^msg_"),
            "type": only("message"),
            "role": only("assistant"),
            "model": string("Which one answered."),
            "content": array(_BLOCK, "What it says, thought and calls, in that order."),
            "stop_reason": stop,
            "stop_sequence": maybe(string("Which of stop_sequences ended it.")),
            "usage": _USAGE,
        }
    )


_DELTA = either(
    whole({"type": only("text_delta"), "text": string()}),
    whole({"type": only("thinking_delta"), "thinking": string()}),
    whole({"type": only("signature_delta"), "signature": string()}),
    whole({"type": only("input_json_delta"), "partial_json": string()}),
)

SCHEMAS: dict[str, Schema] = {
    "MessageParam": either(
        obj({"role": only("user"), "content": _SAID}, ["role", "content"]),
        obj({"role": only("assistant"), "content": maybe(_ANSWERED)}, ["role"]),
        obj({"role": only("system"), "content": _SYSTEM}, ["role", "content"]),
        about="A message, by its role.",
    ),
    "MessagesRequest": obj(
        {
            **_talk(),
            **drawing(),
            **switches(),
            "max_tokens": integer("Most tokens of the answer; 0 reads and keeps the prompt without answering.", 0),
            "stop_sequences": stops(),
            "metadata": maybe(obj({"user_id": maybe(string("Not used."))}, about="About the request.")),
            "cache_control": anything("Marks the whole prompt as to be cached."),
        },
        ["messages", "max_tokens"],
    ),
    "CountTokensRequest": obj(_talk(), ["messages"]),
    "Message": _message(_STOP),
    "TokenCount": whole({"input_tokens": integer("Of the prompt.", 0)}),
    "MessageEvent": either(
        whole({"type": only("message_start"), "message": _message(maybe(_STOP))}),
        whole({"type": only("content_block_start"), "index": integer("", 0), "content_block": _BLOCK}),
        whole({"type": only("content_block_delta"), "index": integer("", 0), "delta": _DELTA}),
        whole({"type": only("content_block_stop"), "index": integer("", 0)}),
        whole(
            {
                "type": only("message_delta"),
                "delta": whole({"stop_reason": _STOP, "stop_sequence": maybe(string())}),
                "usage": _USAGE,
            }
        ),
        whole({"type": only("message_stop")}),
        whole({"type": only("ping")}),
        about="message_start (content_block_start content_block_delta* content_block_stop)* message_delta "
        "message_stop, pings between; or error at the end.",
    ),
}

_WEATHER = {"name": "weather", "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}
EXAMPLES: dict[str, Any] = {
    "plain": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 16},
    "streamed": {
        "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hello"}]}],
        "max_tokens": 16,
        "stream": True,
        "stop_sequences": ["\n\n"],
        "thinking": {"type": "disabled"},
    },
    "tools": {
        "messages": [
            {"role": "user", "content": "Weather in Oslo?"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Rain"}]},
        ],
        "tools": [_WEATHER],
        "tool_choice": {"type": "auto", "disable_parallel_tool_use": True},
        "max_tokens": 16,
    },
    "structured": {
        "messages": [{"role": "user", "content": "A colour?"}],
        "output_config": {"format": {"type": "json_schema", "schema": {"enum": ["red", "green"]}}},
        "max_tokens": 16,
    },
}
_COUNTED = {"plain": {"messages": [{"role": "user", "content": "Hello"}], "system": "Be brief."}}

PATHS: dict[str, Any] = {
    "/v1/messages": {
        "post": post(
            "createMessage",
            "Answer a conversation",
            "MessagesRequest",
            ref("Message"),
            tag="messages",
            envelope="AnthropicError",
            stream=events(
                "Messages `event: ` and `data: ` with a MessageEvent each.", ["MessageEvent", "AnthropicError"]
            ),
            examples=EXAMPLES,
        )
    },
    "/v1/messages/count_tokens": {
        "post": post(
            "countMessageTokens",
            "Count the tokens of a prompt",
            "CountTokensRequest",
            ref("TokenCount"),
            tag="messages",
            envelope="AnthropicError",
            examples=_COUNTED,
        )
    },
}
