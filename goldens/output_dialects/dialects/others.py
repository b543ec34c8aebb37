"""Arrays between other tags, and no dialect at all."""

from __future__ import annotations

from dialects.answer import Answer

ANSWERS: list[Answer] = [
    (
        "tool_calls: an array",
        *("tool_calls", "none", 0),
        '<tool_calls>[{"name": "f", "arguments": {}}]</tool_calls>',
        [
            *("call 0 f", "arguments 0 {}", "end 0"),
            'block <tool_calls>[{"name": "f", "arguments": {}}]</tool_calls>',
            "finish tool_calls",
        ],
    ),
    (
        "toolcall: an array",
        *("toolcall", "none", 0),
        '<TOOLCALL>[{"name": "f", "arguments": {}}]</TOOLCALL>',
        [
            *("call 0 f", "arguments 0 {}", "end 0"),
            'block <TOOLCALL>[{"name": "f", "arguments": {}}]</TOOLCALL>',
            "finish tool_calls",
        ],
    ),
    (
        "none: all is content",
        *("none", "none", 0),
        '<tool_call>{"name": "f"}</tool_call>',
        ['content <tool_call>{"name": "f"}</tool_call>', "finish stop"],
    ),
]
