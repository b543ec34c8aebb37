"""Writes answers.jsonl and prompts.jsonl: answers worked out by hand, and what transformers makes of tool rounds.

    pip install transformers==5.24.0 jinja2==3.1.6
    python goldens/output_dialects/generate.py

Nothing of ours is called. ANSWERS pairs what a model writes, after the published formats of Hermes, Llama 3 and
Mistral, with what it says, one event a line; neighbouring deltas are one. prompts.jsonl is rendered from templates/,
which are our own, each in the manner of one family, from messages that stand here as such a template needs them.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

from transformers.utils.chat_template_utils import render_jinja_template

HERE = pathlib.Path(__file__).parent

# (case, tool dialect, reasoning tags, whether the prompt opened reasoning, what the model writes, what that says)
ANSWERS = [
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

WEATHER = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "A city's name"}},
    "required": ["city"],
}
TOOL = {"name": "get_weather", "description": "The weather in a city", "parameters": WEATHER}
TOOLS = [{"type": "function", "function": TOOL}]
LISBON, PORTO = {"city": "Lisbon"}, {"city": 'São "P"\n', "days": [1, 2.5, None]}


def _call(call_id: str, arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}


def _result(call_id: str, content: str) -> dict[str, Any]:
    return {"role": "tool", "name": "get_weather", "tool_call_id": call_id, "content": content}


SYSTEM, USER = {"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?"}
ONE = {"role": "assistant", "content": "I look.", "tool_calls": [_call("aaaaaaaa1", LISBON)]}
OTHER = {"role": "assistant", "content": "", "tool_calls": [_call("aaaaaaaa2", PORTO)]}
BOTH = {**ONE, "tool_calls": [*ONE["tool_calls"], *OTHER["tool_calls"]]}
RESULTS = [_result("aaaaaaaa1", "21"), _result("aaaaaaaa2", "19")]

# By template, the messages as it needs them; test_output_goldens.py makes them from a client's.
PROMPTS = {
    "qwen": [SYSTEM, USER, BOTH, *RESULTS],
    "text": [
        *(SYSTEM, USER),
        {
            **BOTH,
            "tool_calls": [
                _call("aaaaaaaa1", json.dumps(LISBON, ensure_ascii=False)),
                _call("aaaaaaaa2", json.dumps(PORTO, ensure_ascii=False)),
            ],
        },
        *RESULTS,
    ],
    "llama": [SYSTEM, USER, ONE, RESULTS[0], OTHER, RESULTS[1]],
    "mistral": [SYSTEM, USER, BOTH, *RESULTS],
    "mistral_named": [SYSTEM, USER, BOTH, *RESULTS],
}


def main() -> None:
    answers = [
        {"case": case, "tools": tools, "reasoning": reasoning, "thinking": bool(thinking), "input": text}
        | {"expected": json.dumps(says, ensure_ascii=False)}
        for case, tools, reasoning, thinking, text, says in ANSWERS
    ]
    prompts = []
    for name, messages in PROMPTS.items():
        template = (HERE / "templates" / f"{name}.jinja").read_text(encoding="utf-8")
        for end, case in ((2, "before a call"), (len(messages), "behind its results")):
            rendered, _ = render_jinja_template(
                [messages[:end]], tools=TOOLS, chat_template=template, add_generation_prompt=True, bos_token="<s>"
            )
            prompts.append({"case": f"{name}: {case}", "template": name, "end": end, "expected": rendered[0]})
    for file, rows in (("answers.jsonl", answers), ("prompts.jsonl", prompts)):
        text = "".join([json.dumps(row, ensure_ascii=False) + "\n" for row in rows])
        (HERE / file).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
