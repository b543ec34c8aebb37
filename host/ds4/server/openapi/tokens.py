"""/tokenize, /detokenize and /apply-template."""

from __future__ import annotations

from typing import Any

from ds4.server.openapi.chat import conversation
from ds4.server.openapi.operations import post
from ds4.server.openapi.sampling import MODEL
from ds4.server.openapi.shapes import Schema, array, boolean, either, integer, maybe, obj, ref, string, whole

_OPENS = {"add_generation_prompt": maybe(boolean("Up to where the answer begins. Default true."))}
_TALK = {name: schema for name, schema in conversation().items() if name != "messages"}
_MESSAGES = array(ref("ChatMessage"), "A conversation.", minItems=1)
_SWITCHES = {
    "add_special": maybe(boolean("Put the beginning's token in front, where the model wants it.")),
    "parse_special": maybe(boolean("Read markup as such. Default true.")),
    "with_pieces": maybe(boolean("Tell each token's text too.")),
}

SCHEMAS: dict[str, Schema] = {
    "TokenizeRequest": either(
        obj({"content": string("The text."), **_SWITCHES}, ["content"]),
        obj({"prompt": string("The text, where there is no content."), **_SWITCHES}, ["prompt"]),
        obj({"messages": _MESSAGES, **_TALK, **_OPENS, **_SWITCHES}, ["messages"]),
        about="A text, or a conversation, which goes first.",
    ),
    "Tokens": whole(
        {
            "tokens": array(
                either(
                    integer("A token's id.", 0),
                    whole(
                        {
                            "id": integer("", 0),
                            "piece": either(string(), array(integer("", 0, 255)), about="Text, or else bytes."),
                        }
                    ),
                )
            ),
            "count": integer("How many.", 0),
            "max_model_len": integer("How many fit.", 1),
        }
    ),
    "DetokenizeRequest": obj({"model": MODEL, "tokens": array(integer("", 0), "Ids.")}, ["tokens"]),
    "Detokenized": whole({"content": string("The text."), "prompt": string("The same.")}),
    "ApplyTemplateRequest": obj({"messages": _MESSAGES, **_TALK, **_OPENS}, ["messages"]),
    "Prompt": whole({"prompt": string("The conversation as the model reads it.")}),
}

_HELLO = [{"role": "user", "content": "Hello"}]
PATHS: dict[str, Any] = {
    "/tokenize": {
        "post": post(
            "tokenize",
            "Tokens of a text or a conversation",
            "TokenizeRequest",
            ref("Tokens"),
            tag="tokens",
            examples={"text": {"content": "Hello", "with_pieces": True}, "conversation": {"messages": _HELLO}},
        )
    },
    "/detokenize": {
        "post": post(
            "detokenize",
            "The text of tokens",
            "DetokenizeRequest",
            ref("Detokenized"),
            tag="tokens",
            examples={"ids": {"tokens": [72, 105]}},
        )
    },
    "/apply-template": {
        "post": post(
            "applyTemplate",
            "A conversation as the model reads it",
            "ApplyTemplateRequest",
            ref("Prompt"),
            tag="tokens",
            examples={"conversation": {"messages": _HELLO, "add_generation_prompt": False}},
        )
    },
}
