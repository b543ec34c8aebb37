"""Hermes: objects between tags."""

from __future__ import annotations

from dialects.answer import Answer

ANSWERS: list[Answer] = [
    ("hermes: an answer", "hermes", "none", 0, "Use <b> and <tool.", ["content Use <b> and <tool.", "finish stop"]),
    (
        "hermes: text, then a call",
        *("hermes", "none", 0),
        'Let me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Lisbon"}}\n</tool_call>',
        [
            "content Let me look.",
            "call 0 get_weather",
            'arguments 0 {"city": "Lisbon"}',
            "end 0",
            'block \n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Lisbon"}}\n</tool_call>',
            "finish tool_calls",
        ],
    ),
    (
        "hermes: two blocks, text behind them",
        *("hermes", "none", 0),
        '<tool_call>{"name":"f","arguments":{}}</tool_call>\n<tool_call>{"name":"g","arguments":{"a":1}}</tool_call>\n\nOk.',
        [
            *("call 0 f", "arguments 0 {}", "end 0", 'block <tool_call>{"name":"f","arguments":{}}</tool_call>'),
            *("call 1 g", 'arguments 1 {"a":1}', "end 1"),
            'block \n<tool_call>{"name":"g","arguments":{"a":1}}</tool_call>',
            *("content \n\nOk.", "finish tool_calls"),
        ],
    ),
    (
        "hermes: two objects in one block",
        *("hermes", "none", 0),
        '<tool_call>\n{"name": "f"}\n{"arguments": {"b": []}, "id": 7, "name": "g"}</tool_call>\n',
        [
            *("call 0 f", "arguments 0 {}", "end 0", "call 1 g", 'arguments 1 {"b": []}', "end 1"),
            'block <tool_call>\n{"name": "f"}\n{"arguments": {"b": []}, "id": 7, "name": "g"}</tool_call>',
            "finish tool_calls",
        ],
    ),
    (
        "hermes: the closer is missing",
        *("hermes", "none", 0),
        '<tool_call>\n{"name": "f", "arguments": {}}\n',
        [
            *("call 0 f", "arguments 0 {}", "end 0", 'block <tool_call>\n{"name": "f", "arguments": {}}\n'),
            "finish tool_calls",
        ],
    ),
    (
        "hermes: text in place of the closer",
        *("hermes", "none", 0),
        '<tool_call>{"name": "f", "arguments": {}} Done.',
        [
            *("call 0 f", "arguments 0 {}", "end 0", 'block <tool_call>{"name": "f", "arguments": {}} '),
            *("content Done.", "finish tool_calls"),
        ],
    ),
    (
        "hermes: raw line feeds and tabs in strings",
        *("hermes", "none", 0),
        '<tool_call>{"name": "write", "arguments": {"text": "a\n\tb\\n"}}</tool_call>',
        [
            *("call 0 write", 'arguments 0 {"text": "a\\n\\tb\\n"}', "end 0"),
            'block <tool_call>{"name": "write", "arguments": {"text": "a\n\tb\\n"}}</tool_call>',
            "finish tool_calls",
        ],
    ),
    (
        "hermes: markers in a string are text",
        *("hermes", "think", 0),
        '<tool_call>{"name": "say", "arguments": {"text": "</tool_call><think>}"}}</tool_call>',
        [
            *("call 0 say", 'arguments 0 {"text": "</tool_call><think>}"}', "end 0"),
            'block <tool_call>{"name": "say", "arguments": {"text": "</tool_call><think>}"}}</tool_call>',
            "finish tool_calls",
        ],
    ),
    (
        "hermes: arguments as a string with an object in it",
        *("hermes", "none", 0),
        '<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"\\u00e9\\"}"}</tool_call>',
        [
            *("call 0 f", 'arguments 0 {"a": "é"}', "end 0"),
            'block <tool_call>{"name": "f", "arguments": "{\\"a\\": \\"\\u00e9\\"}"}</tool_call>',
            "finish tool_calls",
        ],
    ),
    (
        "hermes: a word in prose",
        *("hermes", "none", 0),
        "Write <tool_call> first.",
        ["content Write ", "void <tool_call> ", "content first.", "finish stop"],
    ),
    (
        "hermes: a malformed object",
        *("hermes", "none", 0),
        '<tool_call>{"name": "f", "arguments": {"a": }}</tool_call>',
        [
            *("call 0 f", 'arguments 0 {"a": }', 'void <tool_call>{"name": "f", "arguments": {"a": }'),
            *("content }</tool_call>", "finish stop"),
        ],
    ),
    (
        "hermes: arguments that are no object",
        *("hermes", "none", 0),
        '<tool_call>{"name": "f", "arguments": ["a"]}</tool_call>',
        [
            *("call 0 f", 'void <tool_call>{"name": "f", "arguments": '),
            *('content ["a"]}</tool_call>', "finish stop"),
        ],
    ),
    (
        "hermes: no name",
        *("hermes", "none", 0),
        '<tool_call>{"arguments": {"a": 1}}</tool_call>',
        ['void <tool_call>{"arguments": {"a": 1}', "content }</tool_call>", "finish stop"],
    ),
    (
        "hermes: cut in a string",
        *("hermes", "none", 0),
        '<tool_call>\n{"name": "f", "arguments": {"a": ["x',
        [
            *("call 0 f", 'arguments 0 {"a": ["x'),
            'finish unterminated <tool_call>\n{"name": "f", "arguments": {"a": ["x | "]}}\n</tool_call>',
        ],
    ),
    (
        "hermes: cut behind a comma, which nothing this simple completes",
        *("hermes", "none", 0),
        '<tool_call>\n{"name": "f", "arguments": {"a": 1,',
        [
            *("call 0 f", 'arguments 0 {"a": 1,'),
            'finish unterminated <tool_call>\n{"name": "f", "arguments": {"a": 1, | -',
        ],
    ),
    (
        "hermes: a second call that is cut",
        *("hermes", "none", 0),
        '<tool_call>{"name": "f"}</tool_call><tool_call>{"name": "g',
        [
            *("call 0 f", "arguments 0 {}", "end 0", 'block <tool_call>{"name": "f"}</tool_call>'),
            'finish unterminated <tool_call>{"name": "g | -',
        ],
    ),
]
