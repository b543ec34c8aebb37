"""Chat completions."""

from __future__ import annotations

import json
from typing import Any

from bodies.asking import BASE, CASES, SAY, add, asks, bad, good, tape

F = {"name": "f", "description": "Does it.", "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}}
TOOL = {"type": "function", "function": F}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": "x"}'}}


def turns() -> None:
    def talk(*messages: Any, **x: Any) -> None:
        good("chat", {"messages": list(messages)}, **x)

    talk({"role": "developer", "content": "be"}, SAY, messages=[{"role": "system", "content": "be"}, SAY])
    talk({"role": "user", "content": [{"type": "text", "text": "a"}]}, messages=[{"role": "user", "content": "a"}])
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    more = [{**part, "cache_control": {"type": "ephemeral"}} for part in parts]
    talk({"role": "user", "content": more}, messages=[{"role": "user", "content": parts}])
    talk({"role": "user", "content": []}, messages=[{"role": "user", "content": []}])
    talk({"content": "x", "role": "user", "name": "n"}, messages=[{"role": "user", "content": "x", "name": "n"}])
    for content in (None, ""):
        made = {"role": "assistant", "content": "", "tool_calls": [CALL]}
        answer = {"role": "tool", "content": "r", "tool_call_id": "c1"}
        talk(SAY, {"role": "assistant", "content": content, "tool_calls": [CALL]}, answer, messages=[SAY, made, answer])
    thought = {"role": "assistant", "content": "so", "reasoning_content": "hm", "prefix": True}
    talk(SAY, thought, messages=[SAY, thought])
    other = {"role": "assistant", "content": "so", "reasoning": "hm", "reasoning_content": "", "tool_calls": None}
    talk(SAY, other, messages=[SAY, {"role": "assistant", "content": "so", "reasoning_content": "hm"}])
    talk(SAY, {"role": "assistant"}, messages=[SAY, {"role": "assistant", "content": ""}])
    bare = {"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}
    call = {"id": "", "type": "function", "function": {"name": "f", "arguments": ""}}
    talk(bare, messages=[{"role": "assistant", "content": "", "tool_calls": [call]}])


def refused_turns() -> None:
    for messages, code, param in (
        (None, "invalid_type", "messages"),
        ({}, "invalid_type", "messages"),
        ([], "invalid_value", "messages"),
        ([1], "invalid_type", "messages[0]"),
        ([SAY, {"content": "x"}], "invalid_value", "messages[1].role"),
        ([{"role": 1, "content": "x"}], "invalid_type", "messages[0].role"),
        ([{"role": "function", "content": "x"}], "invalid_value", "messages[0].role"),
        ([{"role": "user"}], "invalid_value", "messages[0].content"),
        ([{"role": "tool", "content": None}], "invalid_value", "messages[0].content"),
        ([{"role": "user", "content": 1}], "invalid_type", "messages[0].content"),
        ([{"role": "user", "content": "\ud800"}], "invalid_value", "messages[0].content"),
        ([{"role": "user", "content": ["x"]}], "invalid_type", "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "invalid_value", "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"text": "x"}]}], "invalid_value", "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "invalid_type", "messages[0].content[0].text"),
        ([{"role": "user", "content": "x", "name": 1}], "invalid_type", "messages[0].name"),
        ([{"role": "tool", "content": "x", "tool_call_id": 1}], "invalid_type", "messages[0].tool_call_id"),
        ([{"role": "assistant", "tool_calls": {}}], "invalid_type", "messages[0].tool_calls"),
        ([{"role": "assistant", "tool_calls": [{"type": "x"}, 1]}], "invalid_type", "messages[0].tool_calls[1]"),
        (
            [{"role": "assistant", "tool_calls": [{"type": "x"}]}],
            "unsupported_parameter",
            "messages[0].tool_calls[0].type",
        ),
        ([{"role": "assistant", "tool_calls": [{}]}], "missing_field", "messages[0].tool_calls[0].function.name"),
        (
            [{"role": "assistant", "tool_calls": [{"id": 1, "function": {"arguments": {}}}]}],
            "invalid_type",
            "messages[0].tool_calls[0].function.arguments",
        ),
        ([{"role": "assistant", "reasoning_content": 1}], "invalid_type", "messages[0].reasoning_content"),
        ([{"role": "assistant", "prefix": 1}], "invalid_type", "messages[0].prefix"),
    ):
        bad("chat", {"messages": messages}, code, param)


def tools() -> None:
    good(
        "chat",
        {"tools": [TOOL, {"function": {"name": "g", "x": [1.50, "\ud800", 1e400]}}], "tool_choice": "auto"},
        tools=[TOOL, {"type": "function", "function": {"name": "g", "x": [1.5, "\ud800", float("inf")]}}],
    )
    for tools, code, param in (
        ({}, "invalid_type", "tools"),
        ([TOOL, 1], "invalid_type", "tools[1]"),
        ([{"type": "custom"}], "unsupported_parameter", "tools[0].type"),
        ([{"type": "function"}], "missing_field", "tools[0].function.name"),
        ([{"function": []}], "invalid_type", "tools[0].function"),
        ([{"function": {"name": ""}}], "missing_field", "tools[0].function.name"),
        ([{"function": {"name": 1, "description": 2}}], "invalid_type", "tools[0].function.description"),
        ([{"function": {"name": 1, "parameters": []}}], "invalid_type", "tools[0].function.parameters"),
    ):
        bad("chat", {"tools": tools}, code, param)
    bad("chat", {"functions": [F]}, "unsupported_parameter", "functions")
    bad("chat", {"function_call": "auto", "tools": 1}, "unsupported_parameter", "function_call")
    good(
        "chat",
        {"functions": [], "function_call": "none", "parallel_tool_calls": True, "response_format": {"type": "text"}},
    )


def thinking() -> None:
    for change, thinking in (
        ({"thinking": True}, 1),
        ({"thinking": {"type": "disabled"}}, 0),
        ({"enable_thinking": False, "think": True}, 0),
        ({"think": True}, 1),
        ({"model": "deepseek-chat"}, 0),
        ({"model": "deepseek-reasoner"}, 1),
        ({"model": "deepseek-chat", "thinking": True}, 1),
    ):
        good("chat", change, thinking=thinking)
    good("chat", {"model": "deepseek-reasoner"}, facts={"thinks": 0})
    for value, code, param in (
        ("yes", "invalid_type", "thinking"),
        ({}, "invalid_value", "thinking.type"),
        ({"type": 1}, "invalid_type", "thinking.type"),
        ({"type": "auto"}, "invalid_value", "thinking.type"),
    ):
        bad("chat", {"thinking": value}, code, param)
    bad("chat", {"think": {"type": "enabled"}}, "invalid_type", "think")
    for effort in ("none", "minimal", "low", "medium", "high", "xhigh", "max"):
        good("chat", {"reasoning_effort": effort}, effort=effort)
    bad("chat", {"reasoning_effort": ""}, "invalid_value", "reasoning_effort")


def probabilities() -> None:
    good("chat", {"logprobs": True, "top_logprobs": 20}, logprobs=20)
    good("chat", {"logprobs": True}, logprobs=0)
    good("chat", {"logprobs": False, "top_logprobs": None})
    bad("chat", {"top_logprobs": 3}, "invalid_value", "top_logprobs")
    bad("chat", {"logprobs": True, "top_logprobs": 21}, "invalid_value", "top_logprobs")


def outside() -> None:
    for change, field in (
        ({"tool_choice": "required"}, "tool_choice"),
        ({"parallel_tool_calls": False}, "parallel_tool_calls"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"tool_choice": "none"}, "tool_choice"),
        ({"thinking": {"type": "enabled", "budget_tokens": 1}}, "thinking.budget_tokens"),
        ({"tools": [{"function": {"name": "f", "strict": True}}]}, "tools.strict"),
    ):
        add("chat", f"outside: {field}", {**BASE["chat"], **change}, b"outside " + field.encode() + b"\n")


def many_turns() -> None:
    pairs: list[Any] = [SAY]
    made: list[Any] = [SAY]
    for n in range(4096):
        call = {"id": f"c{n}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        pairs += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{n}", "content": "r"},
        ]
        made += [
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "r", "tool_call_id": f"c{n}"},
        ]
    CASES["chat"].append(
        (
            "4096 calls and their results",
            tape("chat", json.dumps({"messages": pairs}).encode()),
            asks("chat", messages=made),
        )
    )


def chat() -> None:
    turns()
    refused_turns()
    tools()
    thinking()
    probabilities()
    outside()
    many_turns()
