"""Reasoning, between tags of its own."""

from __future__ import annotations

from dialects.answer import Answer

ANSWERS: list[Answer] = [
    (
        "reasoning, then content",
        *("hermes", "think", 0),
        "<think>\nIs <tool_call> meant? \n\n</think>\n\nYes.\n",
        ["reasoning Is <tool_call> meant? ", "reasoned", "content Yes.\n", "finish stop"],
    ),
    (
        "reasoning that the prompt opened, then a call",
        *("hermes", "think", 1),
        '\nHm </th.\n</think>\n\n<tool_call>\n{"name": "f"}\n</tool_call>',
        [
            *("reasoning Hm </th.", "reasoned", "call 0 f", "arguments 0 {}", "end 0"),
            'block <tool_call>\n{"name": "f"}\n</tool_call>',
            "finish tool_calls",
        ],
    ),
    ("reasoning that is cut", "hermes", "think", 1, "So\n</thi", ["reasoning So\n</thi", "finish reasoning"]),
    (
        "a tag of reasoning later than at the beginning",
        *("hermes", "think", 0),
        "The tag <think> opens.",
        ["content The tag <think> opens.", "finish stop"],
    ),
    (
        "reasoning between Mistral's tags",
        *("mistral", "mistral", 0),
        '[THINK]Hm.[/THINK][TOOL_CALLS]f[ARGS]{"a": 1}',
        [
            *("reasoning Hm.", "reasoned", "call 0 f", 'arguments 0 {"a": 1}', "end 0"),
            'block [TOOL_CALLS]f[ARGS]{"a": 1}',
            "finish tool_calls",
        ],
    ),
]
