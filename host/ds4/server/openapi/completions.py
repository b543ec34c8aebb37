"""/v1/completions: OpenAI's legacy Completions."""

from __future__ import annotations

from typing import Any

from ds4.server import limits
from ds4.server.openapi.operations import events, post
from ds4.server.openapi.sampling import MODEL, grammars, options, response_format, unsupported
from ds4.server.openapi.shapes import (
    Schema,
    array,
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


def texts(most: int, about: str) -> Schema:
    """A text, several, token ids, or several arrays of them."""
    ids = array(integer("", 0), minItems=1)
    return either(
        string(minLength=1),
        array(string(minLength=1), minItems=1, maxItems=most),
        ids,
        array(ids, minItems=1, maxItems=most),
        about=about,
    )


_FINISH = one_of("stop", "length", about="Why it ended.")
_LOGPROBS = whole(
    {
        "tokens": array(string()),
        "token_logprobs": array(number()),
        "top_logprobs": array(maybe(mapping(number(), "The likeliest tokens there, by their text."))),
        "text_offset": array(integer("Where the token begins in the text.", 0)),
    }
)


def _completion(finish: Schema, more: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    return whole(
        {
            "id": string(pattern="^cmpl-"),
            "object": only("text_completion"),
            "created": integer("Seconds since 1970."),
            "model": string("Which one answered."),
            "system_fingerprint": string("Names weights and build."),
            "choices": array(
                whole(
                    {"index": integer("", 0), "text": string(), "logprobs": maybe(_LOGPROBS), "finish_reason": finish}
                )
            ),
            **more,
        },
        optional=optional,
    )


SCHEMAS: dict[str, Schema] = {
    "CompletionRequest": obj(
        {
            "model": MODEL,
            "prompt": texts(limits.MAX_PROMPTS, "What the answers go on from, as text or token ids."),
            **options(),
            **grammars(),
            "response_format": response_format(),
            "logprobs": maybe(integer("How many likeliest tokens to tell for each.", 0, limits.MAX_TOP_LOGPROBS)),
            "best_of": maybe(integer("As large as n.", 1, limits.MAX_CHOICES)),
            "echo": unsupported("the prompt is not repeated.", False),
            "suffix": unsupported("nothing can be written into the middle of a text.", ""),
        },
        ["prompt"],
    ),
    "Completion": _completion(_FINISH, {"usage": ref("Usage"), "timings": ref("Timings")}),
    "CompletionChunk": _completion(
        maybe(_FINISH),
        {"usage": maybe(ref("Usage")), "timings": ref("Timings"), "progress": ref("PromptProgress")},
        ("usage", "timings", "progress"),
    ),
}

EXAMPLES: dict[str, Any] = {
    "plain": {"prompt": "Once upon a time", "max_tokens": 16},
    "ids": {"prompt": [[72, 105], [72, 111]], "max_tokens": 4, "logprobs": 2, "n": 2, "best_of": 2},
    "streamed": {"prompt": ["A", "B"], "max_tokens": 4, "stream": True, "stream_options": {"include_usage": True}},
    "matched": {"prompt": "A number: ", "regex": "[0-9]{3}", "max_tokens": 8},
}

PATHS: dict[str, Any] = {
    "/v1/completions": {
        "post": post(
            "createCompletion",
            "Go on from a text",
            "CompletionRequest",
            ref("Completion"),
            tag="completions",
            stream=events(
                "Messages `data: ` with a CompletionChunk each, and [DONE] at the end; comments in between.",
                ["CompletionChunk", "Error"],
                last="[DONE]",
            ),
            examples=EXAMPLES,
        )
    }
}
