"""Llama 3: bare objects, or behind a tag."""

from __future__ import annotations

from dialects.answer import Answer

ANSWERS: list[Answer] = [
    (
        "llama3: a bare object",
        *("llama3", "none", 0),
        '{"name": "get_weather", "parameters": {"city": "Lisbon"}}',
        [
            *("call 0 get_weather", 'arguments 0 {"city": "Lisbon"}', "end 0"),
            'block {"name": "get_weather", "parameters": {"city": "Lisbon"}}',
            "finish tool_calls",
        ],
    ),
    (
        "llama3: two bare objects, the first with its type",
        *("llama3", "none", 0),
        '\n{"type": "function", "name": "f", "parameters": {}}; {"name": "g", "parameters": null}',
        [
            *("call 0 f", "arguments 0 {}", "end 0"),
            'block \n{"type": "function", "name": "f", "parameters": {}}',
            *("call 1 g", "arguments 1 {}", "end 1", 'block ; {"name": "g", "parameters": null}'),
            "finish tool_calls",
        ],
    ),
    (
        "llama3: behind the tag, with text before it",
        *("llama3", "none", 0),
        'I look.<|python_tag|>{"name": "f", "parameters": {"a": 1.5}}',
        [
            *("content I look.", "call 0 f", 'arguments 0 {"a": 1.5}', "end 0"),
            'block <|python_tag|>{"name": "f", "parameters": {"a": 1.5}}',
            "finish tool_calls",
        ],
    ),
    (
        "llama3: an answer in JSON is no call",
        *("llama3", "none", 0),
        '{"name": "Ada", "born": 1815}',
        ['content {"name": "Ada", "born": 1815}', "finish stop"],
    ),
    (
        "llama3: a name alone is no call",
        *("llama3", "none", 0),
        '{"name": "Ada"}',
        ['content {"name": "Ada"}', "finish stop"],
    ),
    (
        "llama3: an object later than at the beginning is no call",
        *("llama3", "none", 0),
        'See {"name": "f", "parameters": {}}',
        ['content See {"name": "f", "parameters": {}}', "finish stop"],
    ),
    (
        "llama3: cut before it is sure",
        *("llama3", "none", 0),
        '{"name": "get_weather", "par',
        ['content {"name": "get_weather", "par', "finish stop"],
    ),
    (
        "llama3: cut in the parameters",
        *("llama3", "none", 0),
        '{"name": "f", "parameters": {"a": {"b": 1',
        [
            *("call 0 f", 'arguments 0 {"a": {"b": 1'),
            'finish unterminated {"name": "f", "parameters": {"a": {"b": 1 | }}}',
        ],
    ),
    (
        "llama3: Python behind the tag is malformed",
        *("llama3", "none", 0),
        '<|python_tag|>search.call(query="x")',
        ["void <|python_tag|>", 'content search.call(query="x")', "finish stop"],
    ),
]
