"""What a Responses request is made of: items, tools and the choice among them."""

from __future__ import annotations

from ds4.server.openapi.common import STRICT
from ds4.server.openapi.shapes import (
    Schema,
    anything,
    array,
    either,
    mapping,
    maybe,
    obj,
    one_of,
    only,
    string,
)

_PART = either(
    obj({"type": one_of("input_text", "output_text", "text"), "text": string()}, ["type", "text"]),
    obj({"type": only("refusal"), "refusal": string()}, ["type", "refusal"]),
    about="A part that is text.",
)
_TEXTS = either(string(), array(_PART), about="Text, or parts of text.")
_ID = {"id": maybe(string("The item's; made up where there is none."))}
_STATUS = {"status": anything("Not read.")}
_THOUGHT = obj({"text": maybe(string())}, about="A part of a thought.")
_NAMESPACE = {"namespace": maybe(string("That the tool is of."))}

_MESSAGE = obj(
    {
        "type": maybe(only("message")),
        "role": one_of("system", "developer", "user", "assistant"),
        "content": _TEXTS,
        **_ID,
        **_STATUS,
    },
    ["role", "content"],
    "A message.",
)
_REASONING = obj(
    {
        "type": only("reasoning"),
        "content": maybe(array(_THOUGHT)),
        "summary": maybe(array(_THOUGHT)),
        "encrypted_content": maybe(string("As the answer gave it.")),
        **_ID,
        **_STATUS,
    },
    ["type"],
    "What the model thought: its content, or what was sealed, or its summary.",
)
_CALL = obj(
    {
        "type": only("function_call"),
        "call_id": string(minLength=1),
        "name": string(minLength=1),
        "arguments": maybe(string("JSON text.")),
        **_NAMESPACE,
        **_ID,
        **_STATUS,
    },
    ["type", "call_id", "name"],
    "A function's call.",
)
_CUSTOM_CALL = obj(
    {
        "type": only("custom_tool_call"),
        "call_id": string(minLength=1),
        "name": string(minLength=1),
        "input": maybe(string("Text.")),
        **_NAMESPACE,
        **_ID,
        **_STATUS,
    },
    ["type", "call_id", "name"],
    "A custom tool's call.",
)
_OUTPUT = obj(
    {
        "type": one_of("function_call_output", "custom_tool_call_output"),
        "call_id": string("Of a call before it.", minLength=1),
        "output": _TEXTS,
        **_ID,
        **_STATUS,
    },
    ["type", "call_id", "output"],
    "What a tool gave.",
)
_REFERENCE = obj(
    {"type": maybe(only("item_reference")), "id": string("Of a stored item.")}, ["id"], "An item by its id."
)

ITEM: Schema = either(_MESSAGE, _REASONING, _CALL, _CUSTOM_CALL, _OUTPUT, _REFERENCE, about="An item, by its type.")

_FUNCTION = obj(
    {
        "type": only("function"),
        "name": string(minLength=1),
        "description": maybe(string("What it does, for the model.")),
        "parameters": maybe(mapping(about="A JSON schema of the arguments.")),
        "strict": STRICT,
    },
    ["type", "name"],
    "A tool that takes JSON.",
)
_FORMAT = either(
    obj({"type": maybe(only("text"))}),
    obj(
        {"type": only("grammar"), "syntax": one_of("lark", "regex"), "definition": string()},
        ["type", "syntax", "definition"],
    ),
    about="What the text looks like.",
)
_CUSTOM = obj(
    {
        "type": only("custom"),
        "name": string(minLength=1),
        "description": maybe(string("What it does, for the model.")),
        "format": maybe(_FORMAT),
    },
    ["type", "name"],
    "A tool that takes text.",
)
_SPACE = obj(
    {
        "type": only("namespace"),
        "name": string(minLength=1),
        "description": maybe(string("What its tools have in common.")),
        "tools": maybe(array(either(_FUNCTION, _CUSTOM))),
    },
    ["type", "name"],
    "Tools under one name.",
)
_OTHERS = obj(
    {"type": string("web_search, file_search, …")},
    ["type"],
    "What only OpenAI's servers run, and kinds that are not known: the model is not told of them.",
)
TOOL: Schema = either(_FUNCTION, _CUSTOM, _SPACE, _OTHERS, about="A tool, by its type.")

_NAMED = obj({"type": one_of("function", "custom"), "name": string(minLength=1), **_NAMESPACE}, ["type", "name"])
CHOICE: tuple[Schema, ...] = (
    _NAMED,
    obj(
        {
            "type": only("allowed_tools"),
            "mode": maybe(one_of("auto", "required")),
            "tools": maybe(array(_NAMED, "Those that may be called.")),
        },
        ["type"],
    ),
)
