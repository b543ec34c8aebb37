"""Schemas that several surfaces refer to: errors, usage, timings, log-probabilities."""

from __future__ import annotations

from ds4.server import limits
from ds4.server.openapi.shapes import (
    Schema,
    array,
    boolean,
    integer,
    mapping,
    maybe,
    number,
    obj,
    one_of,
    only,
    string,
    whole,
)

STRICT: Schema = maybe(
    boolean(
        f"Hold the arguments to the schema. At most {limits.MAX_HELD_TOOLS} tools of a request, whose schemas have "
        f"{limits.MAX_HELD_CHARS} characters together."
    )
)

SCHEMAS: dict[str, Schema] = {
    "Error": whole(
        {
            "error": whole(
                {
                    "message": string("What was wrong, for people."),
                    "type": one_of("invalid_request_error", "rate_limit_error", "server_error"),
                    "param": maybe(string("The field that it is about.")),
                    "code": maybe(string("What was wrong, for programs.")),
                }
            )
        },
        "An error in the shape of OpenAI's API.",
    ),
    "AnthropicError": whole(
        {
            "type": only("error"),
            "error": whole(
                {
                    "type": one_of(
                        "invalid_request_error",
                        "authentication_error",
                        "permission_error",
                        "not_found_error",
                        "timeout_error",
                        "request_too_large",
                        "rate_limit_error",
                        "api_error",
                        "overloaded_error",
                    ),
                    "message": string("What was wrong, for people."),
                    "details": whole({"error_code": string("What was wrong, more finely than the type says.")}),
                },
                optional=("details",),
            ),
            "request_id": string("As in the header request-id.", pattern="^req_"),
        },
        "An error in the shape of Anthropic's API.",
    ),
    "Usage": whole(
        {
            "prompt_tokens": integer("Each prompt counts once, however many answers it has.", 0),
            "completion_tokens": integer("Of all answers.", 0),
            "total_tokens": integer("", 0),
            "prompt_tokens_details": whole({"cached_tokens": integer("Not computed again.", 0)}),
            "completion_tokens_details": whole({"reasoning_tokens": integer("Spent on thinking.", 0)}),
        },
        optional=("completion_tokens_details",),
    ),
    "Timings": whole(
        {
            "ttft_ms": number("Milliseconds to the first token.", 0),
            "prefill_tokens": integer("Prompt tokens that were computed.", 0),
            "prefill_cached_tokens": integer("Prompt tokens that were not.", 0),
            "prefill_tok_s": maybe(number("Prompt tokens computed in a second.")),
            "decode_tok_s": maybe(number("Tokens drawn in a second.")),
        },
        "Where the time went.",
    ),
    "TokenLogprob": whole(
        {
            "token": string("The token's text."),
            "logprob": number("Its log-probability."),
            "bytes": array(integer("", 0, 255), "Its bytes, which alone may be no text."),
            "top_logprobs": array(
                whole({"token": string(), "logprob": number(), "bytes": array(integer("", 0, 255))}),
                "The likeliest tokens there.",
            ),
        }
    ),
    "PromptProgress": whole(
        {
            "index": integer("Of the answer.", 0),
            "prompt_tokens": integer("The prompt's.", 0),
            "computed": integer("How many have been read.", 0),
            "cached": integer("How many of them were known.", 0),
        },
        "How far a prompt has been read.",
    ),
    "FunctionDefinition": obj(
        {
            "name": string("What it is called by.", minLength=1),
            "description": maybe(string("What it does, for the model.")),
            "parameters": maybe(mapping(about="A JSON schema of the arguments.")),
            "strict": STRICT,
        },
        ["name"],
        "A function that the model may call.",
    ),
}
