"""Mistral: an array behind a mark, or calls by name."""

from __future__ import annotations

from dialects.answer import Answer

ANSWERS: list[Answer] = [
    (
        "mistral: an array of two",
        *("mistral", "none", 0),
        '[TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "VvvODy9mT"}, {"name": "g"}]',
        [
            *("call 0 f", 'arguments 0 {"a": 1}', "end 0", "call 1 g", "arguments 1 {}", "end 1"),
            'block [TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}, "id": "VvvODy9mT"}, {"name": "g"}]',
            "finish tool_calls",
        ],
    ),
    (
        "mistral: an array without its bracket",
        *("mistral", "none", 0),
        '[TOOL_CALLS][{"name": "f", "arguments": {}}',
        [
            *("call 0 f", "arguments 0 {}", "end 0", 'block [TOOL_CALLS][{"name": "f", "arguments": {}}'),
            "finish tool_calls",
        ],
    ),
    (
        "mistral: an array that promises another call",
        *("mistral", "none", 0),
        '[TOOL_CALLS][{"name": "f", "arguments": {}},',
        [
            *("call 0 f", "arguments 0 {}", "end 0"),
            'finish unterminated [TOOL_CALLS][{"name": "f", "arguments": {}}, | -',
        ],
    ),
    (
        "mistral: two calls by name, with and without an id",
        *("mistral", "none", 0),
        'Sure. [TOOL_CALLS]f[CALL_ID]VvvODy9mT[ARGS]{"a": "]"}[TOOL_CALLS]get-time[ARGS]{}',
        [
            *("content Sure. ", "call 0 f", 'arguments 0 {"a": "]"}', "end 0"),
            'block [TOOL_CALLS]f[CALL_ID]VvvODy9mT[ARGS]{"a": "]"}',
            *("call 1 get-time", "arguments 1 {}", "end 1", "block [TOOL_CALLS]get-time[ARGS]{}"),
            "finish tool_calls",
        ],
    ),
    (
        "mistral: a call by name without the mark of its arguments",
        *("mistral", "none", 0),
        '[TOOL_CALLS]f {"a": true}',
        [
            *("call 0 f", 'arguments 0 {"a": true}', "end 0", 'block [TOOL_CALLS]f {"a": true}'),
            "finish tool_calls",
        ],
    ),
    (
        "mistral: a call by name that is cut",
        *("mistral", "none", 0),
        '[TOOL_CALLS]f[ARGS]{"a": [',
        ["call 0 f", 'arguments 0 {"a": [', 'finish unterminated [TOOL_CALLS]f[ARGS]{"a": [ | ]}'],
    ),
    (
        "mistral: a name that is cut",
        *("mistral", "none", 0),
        "[TOOL_CALLS]get_wea",
        ["finish unterminated [TOOL_CALLS]get_wea | -"],
    ),
    (
        "mistral: the mark in prose",
        *("mistral", "none", 0),
        "[TOOL_CALLS] is a token",
        ["void [TOOL_CALLS] is ", "content a token", "finish stop"],
    ),
]
