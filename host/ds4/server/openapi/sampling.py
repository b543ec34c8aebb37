"""The request fields that generating surfaces share: drawing, length, stops, streams, formats."""

from __future__ import annotations

from typing import Any

from ds4.core.chat import EFFORTS
from ds4.server import limits
from ds4.server.openapi.shapes import (
    Schema,
    anything,
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
    string,
)

MODEL = maybe(string("Name of a model, as /v1/models lists it."))
EFFORT = maybe(one_of(*EFFORTS, about="How much to think before answering."))


def stops() -> Schema:
    text = string(minLength=1, maxLength=limits.MAX_STOP_CHARS)
    about = "Text that ends the answer and is left out of it."
    return maybe(either(text, array(text, maxItems=limits.MAX_STOPS), about=about))


def budget(about: str, low: int = 1) -> Schema:
    return maybe(integer(about, low))


def drawing() -> dict[str, Schema]:
    """How tokens are drawn."""
    return {
        "temperature": maybe(number("Randomness; 0 takes the likeliest token.", 0, 100)),
        "top_p": maybe(
            number(
                "Draw among the likeliest tokens whose probabilities come to this; 1: all.", None, 1, exclusiveMinimum=0
            )
        ),
        "top_k": maybe(integer("Draw among this many likeliest tokens; 0 or -1: all.", -1)),
        "min_p": maybe(
            number("Leave out tokens less likely than this part of the likeliest; 0: none.", 0, exclusiveMaximum=1)
        ),
        "repetition_penalty": maybe(
            number("Makes tokens of prompt and answer less likely; 1: off.", None, 100, exclusiveMinimum=0)
        ),
        "repeat_penalty": maybe(
            number("repetition_penalty under another name, which gives way.", None, 100, exclusiveMinimum=0)
        ),
        "frequency_penalty": maybe(number("Taken off for each time that a token was drawn.", -2, 2)),
        "presence_penalty": maybe(number("Taken off once a token was drawn.", -2, 2)),
        "logit_bias": maybe(
            mapping(
                number(low=-100, high=100),
                "What is added to the logits of tokens, by token id.",
                propertyNames={"pattern": "^[0-9]{1,9}$"},
                maxProperties=limits.MAX_BIASES,
            )
        ),
        "seed": maybe(integer("The same seed and request give the same answer.", -(1 << 63), limits.UINT64)),
    }


def switches() -> dict[str, Schema]:
    return {
        "ignore_eos": maybe(boolean("Go on where the model would end its answer.")),
        "cache_prompt": maybe(boolean("Reuse, and keep, what has been computed of the prompt. Default true.")),
        "stream": maybe(boolean("Send the answer as it is made.")),
    }


def options() -> dict[str, Schema]:
    """What chat, completions and responses share."""
    return {
        **drawing(),
        **switches(),
        "max_tokens": budget("Most tokens of the answer."),
        "max_completion_tokens": budget("max_tokens under its newer name, which goes first."),
        "n": maybe(integer("How many answers to give.", 1, limits.MAX_CHOICES)),
        "stop": stops(),
        "stream_options": maybe(
            obj(
                {
                    "include_usage": maybe(boolean("End the stream with usage.")),
                    "include_progress": maybe(boolean("Tell how far long prompts have been read.")),
                },
                about="What a stream tells besides.",
            )
        ),
    }


def grammars() -> dict[str, Schema]:
    return {
        "grammar": maybe(string("What the answer must be, as a Lark grammar; excludes the other formats.")),
        "regex": maybe(string("What the answer must match as a whole; excludes the other formats.")),
    }


def schema_fields() -> dict[str, Schema]:
    return {
        "name": maybe(string("Of the format; not read otherwise.", maxLength=64)),
        "schema": anything("A JSON schema that the answer has to fit."),
        "strict": maybe(boolean("False: pass over what is not known of the schema instead of refusing it.")),
    }


def response_format() -> Schema:
    nested = obj(
        {"type": only("json_schema"), "json_schema": obj(schema_fields(), ["schema"])}, ["type", "json_schema"]
    )
    return _formats(nested)


def flat_format() -> Schema:
    return _formats(obj({"type": only("json_schema"), **schema_fields()}, ["type", "schema"]))


def _formats(schema_format: Schema) -> Schema:
    plain = obj({"type": one_of("text", "json_object")}, ["type"])
    return maybe(either(plain, schema_format, obj({}, maxProperties=0), about="What the answer must look like."))


def thinking_budget() -> dict[str, Schema]:
    return {"thinking_budget": budget("Most tokens to think for.", 0)}


def budgets() -> dict[str, Schema]:
    """Bounds on reasoning, in the names that are in use beside `thinking`."""
    fields = {"max_tokens": budget("Most tokens to think for.", 0)}
    reasoning = {"properties": fields, "description": "thinking_budget under another name; read if it is an object."}
    return {**thinking_budget(), "reasoning": reasoning}


def unsupported(about: str, *values: Any) -> Schema:
    """A field that is refused unless it says what is done anyway."""
    return {"enum": [*values, None], "description": f"Not supported: {about}"}


def tool_choice(*objects: Schema) -> Schema:
    return maybe(
        either(
            one_of("auto", "none", "required"),
            *objects,
            about="Whether tools may or must be called, and which.",
        )
    )


def parameters() -> Schema:
    return maybe(mapping(about="A JSON schema of the arguments."))
