"""/v1/responses and what is kept of them: OpenAI's Responses."""

from __future__ import annotations

from typing import Any

from ds4.server import limits
from ds4.server.openapi.operations import events, get, in_path, in_query, json_answer, post
from ds4.server.openapi.responses_items import CHOICE, ITEM, TOOL
from ds4.server.openapi.sampling import (
    EFFORT,
    MODEL,
    budget,
    flat_format,
    grammars,
    options,
    thinking_budget,
    tool_choice,
    unsupported,
)
from ds4.server.openapi.shapes import (
    Schema,
    array,
    boolean,
    either,
    integer,
    mapping,
    maybe,
    number,
    obj,
    one_of,
    only,
    ref,
    string,
    whole,
)


def _talk() -> dict[str, Schema]:
    """What makes the prompt; all that counting reads."""
    return {
        "model": MODEL,
        "input": either(string(minLength=1), array(ITEM, minItems=1), about="What to answer to: text, or items."),
        "instructions": maybe(string("The system's message; it does not carry over to the next response.")),
        "previous_response_id": maybe(string("A stored response that this one goes on from.")),
        "tools": maybe(array(TOOL, "What the model may call.")),
        "tool_choice": tool_choice(*CHOICE),
        "parallel_tool_calls": maybe(boolean("An answer may make several calls. Default true.")),
        "reasoning": maybe(
            obj(
                {
                    "effort": EFFORT,
                    "summary": maybe(one_of("auto", "concise", "detailed", "none", about="Tell thoughts in it.")),
                    "generate_summary": maybe(one_of("auto", "concise", "detailed", about="summary's older name.")),
                    "max_tokens": budget("Most tokens to think for.", 0),
                },
                about="How to think.",
            )
        ),
        "text": maybe(
            obj(
                {"format": flat_format(), "verbosity": maybe(string("Told back; not used."))},
                about="How the text of the answer looks.",
            )
        ),
        **grammars(),
    }


_STATUS = one_of("queued", "in_progress", "completed", "incomplete", "failed", "cancelled")
_USAGE = whole(
    {
        "input_tokens": integer("", 0),
        "input_tokens_details": whole({"cached_tokens": integer("", 0), "cache_write_tokens": integer("", 0)}),
        "output_tokens": integer("", 0),
        "output_tokens_details": whole({"reasoning_tokens": integer("", 0)}),
        "total_tokens": integer("", 0),
    }
)

SCHEMAS: dict[str, Schema] = {
    "ResponsesRequest": obj(
        {
            **_talk(),
            **options(),
            **thinking_budget(),
            "max_output_tokens": budget("Most tokens of the answer."),
            "thinking": {
                "properties": {"budget_tokens": budget("Most tokens to think for.", 0)},
                "description": "As in chat completions; here only the budget counts.",
            },
            "max_tool_calls": budget("Told back; not used."),
            "include": maybe(
                array(string(), "message.output_text.logprobs and reasoning.encrypted_content are known.")
            ),
            "top_logprobs": maybe(integer("How many likeliest tokens to tell for each.", 0, limits.MAX_TOP_LOGPROBS)),
            "store": maybe(boolean("Keep the response, for previous_response_id and retrieval. Default true.")),
            "background": maybe(boolean("Answer at once with a response that is made meanwhile; it must be stored.")),
            "metadata": maybe(
                mapping(
                    string(maxLength=limits.MAX_METADATA_VALUE),
                    "Told back.",
                    propertyNames={"maxLength": limits.MAX_METADATA_KEY},
                    maxProperties=limits.MAX_METADATA,
                )
            ),
            "prompt_cache_key": maybe(string("Told back; the cache needs no key.")),
            "safety_identifier": maybe(string("Told back.")),
            "user": maybe(string("Told back.")),
            "truncation": maybe(one_of("auto", "disabled", about="Told back; what does not fit is refused.")),
            "conversation": unsupported("use previous_response_id."),
            "prompt": unsupported("templates of prompts are not kept; send input."),
        },
        about="input or previous_response_id is needed.",
    ),
    "InputTokensRequest": obj(_talk()),
    "InputTokens": whole({"object": only("response.input_tokens"), "input_tokens": integer("", 0)}),
    "Response": whole(
        {
            "id": string(pattern="^resp_"),
            "object": only("response"),
            "created_at": integer("Seconds since 1970."),
            "completed_at": maybe(integer("Seconds since 1970.")),
            "status": _STATUS,
            "error": maybe(whole({"code": string(), "message": string()})),
            "incomplete_details": maybe(whole({"reason": string()})),
            "model": string("Which one answered."),
            "output": array(ref("ResponseItem"), "What was made."),
            "usage": maybe(_USAGE),
            "timings": ref("Timings"),
            "instructions": maybe(string()),
            "max_tool_calls": maybe(integer()),
            "max_output_tokens": maybe(integer()),
            "metadata": mapping(string()),
            "parallel_tool_calls": boolean(),
            "previous_response_id": maybe(string()),
            "prompt_cache_key": maybe(string()),
            "reasoning": whole({"effort": maybe(string()), "summary": maybe(string())}),
            "safety_identifier": maybe(string()),
            "service_tier": only("default"),
            "text": whole({"format": mapping(), "verbosity": string()}),
            "tool_choice": either(string(), mapping()),
            "tools": array(mapping()),
            "truncation": one_of("auto", "disabled"),
            "user": maybe(string()),
            "background": boolean(),
            "store": boolean("False where it was to be kept and could not be."),
            "temperature": number(),
            "top_p": number(),
            "top_logprobs": integer("", 0),
        },
        optional=("timings",),
    ),
    "ResponseItem": either(
        whole(
            {
                "id": string(pattern="^msg_"),
                "type": only("message"),
                "role": only("assistant"),
                "status": _STATUS,
                "content": array(
                    whole(
                        {
                            "type": only("output_text"),
                            "text": string(),
                            "annotations": array({}, maxItems=0),
                            "logprobs": array(ref("TokenLogprob")),
                        }
                    )
                ),
            }
        ),
        whole(
            {
                "id": string(pattern="^rs_"),
                "type": only("reasoning"),
                "status": _STATUS,
                "summary": array(whole({"type": only("summary_text"), "text": string()})),
                "content": array(whole({"type": only("reasoning_text"), "text": string()})),
                "encrypted_content": string("To be sent back."),
            },
            optional=("content", "encrypted_content"),
        ),
        whole(
            {
                "id": string(pattern="^fc_"),
                "type": only("function_call"),
                "status": _STATUS,
                "call_id": string("To be sent back with the output."),
                "namespace": string(),
                "name": string(),
                "arguments": string("JSON text."),
            },
            optional=("namespace",),
        ),
        whole(
            {
                "id": string(pattern="^ctc_"),
                "type": only("custom_tool_call"),
                "status": _STATUS,
                "call_id": string("To be sent back with the output."),
                "namespace": string(),
                "name": string(),
                "input": string("Text."),
            },
            optional=("namespace",),
        ),
    ),
    "ResponseEvent": obj(
        {
            "type": string("response.created, response.output_item.added, response.output_text.delta, …"),
            "sequence_number": integer("From 0 on, without gaps.", 0),
            "response": ref("Response"),
            "item": ref("ResponseItem"),
            "part": mapping(),
            "item_id": string(),
            "output_index": integer("", 0),
            "content_index": integer("", 0),
            "summary_index": integer("", 0),
            "delta": string(),
            "text": string(),
            "name": string(),
            "arguments": string(),
            "input": string(),
            "logprobs": array(ref("TokenLogprob")),
        },
        ["type", "sequence_number"],
        "Lifecycle events have the response; the others place a delta, a part or an item in it.",
    ),
    "Deleted": whole({"id": string(), "object": only("response"), "deleted": {"const": True}}),
    "InputItems": whole(
        {
            "object": only("list"),
            "data": array(mapping(about="An item of the request's input, with the id that it was given.")),
            "first_id": maybe(string()),
            "last_id": maybe(string()),
            "has_more": boolean(),
        }
    ),
}

EXAMPLES: dict[str, Any] = {
    "plain": {"input": "Hello", "max_output_tokens": 16},
    "streamed": {
        "input": [{"role": "user", "content": "Hello"}],
        "instructions": "Be brief.",
        "stream": True,
        "store": False,
        "max_output_tokens": 16,
        "metadata": {"run": "1"},
    },
    "tools": {
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather in Oslo?"}]},
            {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Oslo"}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "Rain"},
        ],
        "tools": [
            {"type": "function", "name": "weather", "parameters": {"type": "object"}},
            {
                "type": "custom",
                "name": "shell",
                "format": {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"},
            },
        ],
        "max_output_tokens": 16,
    },
    "structured": {
        "input": "A colour?",
        "text": {"format": {"type": "json_schema", "name": "colour", "schema": {"enum": ["red", "green"]}}},
    },
    "background": {"input": "Hello", "background": True, "max_output_tokens": 16},
}

_ID = in_path("id", "Of a response.", "resp_0")
_RESPONSE = json_answer("The response as it is now.", ref("Response"))

PATHS: dict[str, Any] = {
    "/v1/responses": {
        "post": post(
            "createResponse",
            "Make a response",
            "ResponsesRequest",
            ref("Response"),
            tag="responses",
            stream=events("Messages `event: ` and `data: ` with a ResponseEvent each.", ["ResponseEvent"]),
            examples=EXAMPLES,
        ),
        "get": {
            "operationId": "refuseResponsesSocket",
            "summary": "Says that there are no WebSockets",
            "description": "Clients that ask for a WebSocket are sent back to POST.",
            "tags": ["responses"],
            "responses": get("", "", {}, tag="", more=(426,))["responses"],
        },
    },
    "/v1/responses/input_tokens": {
        "post": post(
            "countResponseTokens",
            "Count the tokens of a prompt",
            "InputTokensRequest",
            ref("InputTokens"),
            tag="responses",
            examples={"plain": {"input": "Hello", "instructions": "Be brief."}},
        )
    },
    "/v1/responses/{id}": {
        "get": get(
            "getResponse",
            "A response that is kept, or runs",
            _RESPONSE,
            tag="responses",
            parameters=(_ID, in_query("stream", boolean(), "Refused if true: what was made is not streamed again.")),
            more=(404,),
        ),
        "delete": get(
            "deleteResponse",
            "Forget a response",
            json_answer("It is gone.", ref("Deleted")),
            tag="responses",
            parameters=(_ID,),
            more=(404,),
        ),
    },
    "/v1/responses/{id}/cancel": {
        "post": get(
            "cancelResponse",
            "Stop a response in the background",
            _RESPONSE,
            tag="responses",
            parameters=(_ID,),
            more=(404,),
        )
    },
    "/v1/responses/{id}/input_items": {
        "get": get(
            "listInputItems",
            "The items of a response's input",
            json_answer("A page of them.", ref("InputItems")),
            tag="responses",
            parameters=(
                _ID,
                in_query("limit", integer("", 1, 100, default=20), "How many."),
                in_query("order", one_of("asc", "desc", default="desc"), "The oldest or the newest first."),
                in_query("after", string(), "The id of the item that the page follows."),
            ),
            more=(404,),
        )
    },
}
PATHS["/v1/responses"]["get"]["responses"].pop("200")
