"""Responses."""

from __future__ import annotations

from typing import Any

from bodies.asking import BASE, SAY, add, bad, good

PATCH = {"type": "custom", "name": "patch"}
FUNCTION = {"type": "function", "name": "f", "description": "D", "parameters": {"type": "object"}}
OUTS = [
    {"type": "function_call_output", "call_id": "c1", "output": "r"},
    {
        "type": "custom_tool_call_output",
        "call_id": "c2",
        "output": [{"type": "input_text", "text": "s"}, {"type": "input_text", "text": "t"}],
    },
]
CALL = {"type": "function_call", "call_id": "c1", "name": "g", "namespace": "ns", "arguments": "{}"}


def items() -> None:
    def text(role: str, *parts: str, kind: str = "input_text") -> dict[str, Any]:
        return {"type": "message", "role": role, "content": [{"type": kind, "text": part} for part in parts]}

    def talk(given: list[Any], made: list[Any], **x: Any) -> None:
        good("responses", {"input": given}, items=x.pop("items", given), messages=made, **x)

    talk(
        [text("developer", "A", "B"), text("user", "hi")],
        [{"role": "system", "content": [{"type": "text", "text": "A"}, {"type": "text", "text": "B"}]}, SAY],
    )
    untyped = {"role": "user", "content": "hi"}
    talk([untyped], [SAY], items=[{**untyped, "type": "message"}])
    talk([{"type": None, **untyped}], [SAY], items=[{"type": "message", **untyped}])
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ds4:aG0="}
    custom = {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": 'a"\n'}
    calls = [
        {"id": "c1", "type": "function", "function": {"name": "ns.g", "arguments": "{}"}},
        {"id": "c2", "type": "function", "function": {"name": "patch", "arguments": '{"input": "a\\"\\n"}'}},
    ]
    talk(
        [
            untyped | {"type": "message"},
            reasoning,
            text("assistant", "So", kind="output_text"),
            CALL,
            custom,
            *OUTS,
            {"type": "web_search_call"},
        ],
        [
            SAY,
            {"role": "assistant", "content": "So", "reasoning_content": "hm", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
            {"role": "tool", "tool_call_id": "c2", "content": "s\n\nt"},
        ],
    )
    for item, thought in (
        ({"content": [{"type": "reasoning_text", "text": "a"}], "summary": [{"text": "s"}]}, "a"),
        ({"summary": [{"text": "s"}, {"text": "t"}]}, "s\n\nt"),
        ({"encrypted_content": "gAAA", "summary": [{"text": "s"}]}, "s"),
        ({"encrypted_content": "ds4:aG1=", "summary": [{"text": "s"}]}, "s"),
    ):
        talk([{"type": "reasoning", **item}], [{"role": "assistant", "content": "", "reasoning_content": thought}])
    apart = [{"role": "assistant", "content": "", "tool_calls": calls[:1]}]
    apart += [{"role": "assistant", "content": "", "reasoning_content": "hm"}]
    talk([CALL, reasoning], apart)
    good(
        "responses",
        {"instructions": "Be."},
        messages=[{"role": "system", "content": "Be."}, SAY],
        head={"instructions": "Be."},
    )


def refused_items() -> None:
    for given, code, param in (
        (None, "missing_field", "input"),
        ([], "missing_field", "input"),
        (5, "invalid_type", "input"),
        ([1], "invalid_type", "input[0]"),
        ([{}], "missing_field", "input[0].type"),
        ([{"type": 1}], "invalid_type", "input[0].type"),
        ([{"type": "x"}], "invalid_value", "input[0].type"),
        ([{"type": "message", "role": "tool"}], "invalid_value", "input[0].role"),
        ([{"role": "user"}], "missing_field", "input[0].content"),
        ([{"role": "user", "content": [{"type": "input_image"}]}], "invalid_value", "input[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "input_text"}]}], "invalid_type", "input[0].content[0].text"),
        ([{"type": "function_call", "call_id": "c"}], "missing_field", "input[0].name"),
        ([{"type": "function_call", "name": "f"}], "missing_field", "input[0].call_id"),
        ([OUTS[0]], "invalid_value", "input[0].call_id"),
        ([CALL, {**OUTS[0], "output": None}], "missing_field", "input[1].output"),
        ([{"type": "item_reference", "id": 5}], "invalid_type", "input[0].id"),
        ([{"type": "reasoning", "content": "x"}], "invalid_type", "input[0].content"),
    ):
        bad("responses", {"input": given}, code, param)


def continued() -> None:
    good(
        "responses",
        {"previous_response_id": "resp_1"},
        previous="resp_1",
        messages=[],
        head={"previous_response_id": "resp_1"},
    )
    good(
        "responses",
        {"previous_response_id": "resp_1", "input": None},
        previous="resp_1",
        messages=[],
        items=[],
        head={"previous_response_id": "resp_1"},
    )
    good("responses", {"input": [{"id": "msg_1"}]}, messages=[], items=[{"id": "msg_1", "type": "item_reference"}])


def tools() -> None:
    space = {
        "type": "namespace",
        "name": "ns",
        "description": "About",
        "tools": [{"type": "function", "name": "g"}, {**FUNCTION, "name": "h"}],
    }
    given_tools = [FUNCTION, space, PATCH, {"type": "web_search"}]
    empty = {"type": "object", "properties": {}}
    takes = {
        "type": "object",
        "properties": {"input": {"type": "string", "description": "The input, as plain text."}},
        "required": ["input"],
    }
    made = [
        {"name": "f", "description": "D", "parameters": {"type": "object"}},
        {"name": "ns.g", "description": "[ns: About] ", "parameters": empty},
        {"name": "ns.h", "description": "D", "parameters": {"type": "object"}},
        {"name": "patch", "parameters": takes},
    ]
    known = [("f", "f", None, 0), ("ns.g", "g", "ns", 0), ("ns.h", "h", "ns", 0), ("patch", "patch", None, 1)]
    good(
        "responses",
        {"tools": given_tools},
        tools=[{"type": "function", "function": one} for one in made],
        known=known,
        head={"tools": given_tools},
    )
    for given, code, param in (
        ({"x": 1}, "invalid_type", "tools"),
        ([{}], "missing_field", "tools[0].type"),
        ([{"type": "function"}], "missing_field", "tools[0].name"),
        ([FUNCTION, FUNCTION], "invalid_value", "tools[1].name"),
        ([{"type": "namespace", "name": "n", "tools": [{}]}], "missing_field", "tools[0].tools[0].type"),
        ([{**FUNCTION, "parameters": "x"}], "invalid_type", "tools[0].parameters"),
        ([{**PATCH, "description": 1}], "invalid_type", "tools[0].description"),
    ):
        bad("responses", {"tools": given}, code, param)


def options() -> None:
    for effort in ("minimal", "xhigh"):
        good(
            "responses",
            {"reasoning": {"effort": effort, "summary": "auto"}},
            effort=effort,
            summary=1,
            head={"reasoning": {"effort": effort, "summary": "auto"}},
        )
    good("responses", {"reasoning": {"summary": "none"}})
    good(
        "responses",
        {"reasoning": {"generate_summary": "concise"}},
        summary=1,
        head={"reasoning": {"effort": None, "summary": "concise"}},
    )
    good(
        "responses",
        {"include": ["reasoning.encrypted_content", "x"], "store": False, "client_metadata": {}},
        sealed=1,
        head={"store": False},
    )
    good("responses", {"include": ["message.output_text.logprobs"]}, logprobs=0)
    good("responses", {"top_logprobs": 5}, logprobs=5, head={"top_logprobs": 5})
    good("responses", {"top_logprobs": 0})
    good("responses", {"max_output_tokens": 9, "max_tokens": 5}, budget=9, head={"max_output_tokens": 9})
    good("responses", {"background": True}, head={"background": True})
    good(
        "responses",
        {
            "metadata": {"k": "é" * 512},
            "user": "u",
            "text": {"verbosity": "low"},
            "truncation": "auto",
            "parallel_tool_calls": False,
            "max_tool_calls": 3.0,
            "prompt_cache_key": "p",
            "safety_identifier": "s",
        },
        head={
            "metadata": {"k": "é" * 512},
            "user": "u",
            "text": {"format": {"type": "text"}, "verbosity": "low"},
            "truncation": "auto",
            "parallel_tool_calls": False,
            "max_tool_calls": 3,
            "prompt_cache_key": "p",
            "safety_identifier": "s",
        },
    )
    for change, code, param in (
        ({"reasoning": {"effort": "x"}}, "invalid_value", "reasoning.effort"),
        ({"reasoning": {"summary": "x"}}, "invalid_value", "reasoning.summary"),
        ({"reasoning": 1}, "invalid_type", "reasoning"),
        ({"include": "x"}, "invalid_type", "include"),
        ({"include": [1]}, "invalid_type", "include[0]"),
        ({"background": True, "store": False}, "invalid_value", "store"),
        ({"background": True, "stream": True}, "unsupported_parameter", "stream"),
        ({"metadata": {"k" * 65: "v"}}, "invalid_value", "metadata"),
        ({"metadata": {"k": 1}}, "invalid_type", "metadata"),
        ({"metadata": {str(n): "v" for n in range(17)}}, "invalid_value", "metadata"),
        ({"truncation": "x"}, "invalid_value", "truncation"),
        ({"conversation": "c"}, "unsupported_parameter", "conversation"),
        ({"prompt": {}}, "unsupported_parameter", "prompt"),
        ({"max_output_tokens": 0}, "invalid_value", "max_output_tokens"),
        ({"top_logprobs": 21}, "invalid_value", "top_logprobs"),
    ):
        bad("responses", change, code, param)


def outside() -> None:
    for change in ({"metadata": {"k": "\ud800"}}, {"tools": [{"type": "x", "\udc00": 1}]}, {"x": float("inf")}):
        body = {**BASE["responses"], **change}
        add("responses", f"cannot go back: {change}", body, b"error 400 invalid_json -\n")
    for change, field in (
        ({"tools": [{**FUNCTION, "strict": True}]}, "tools.strict"),
        ({"tools": [{**PATCH, "format": {"type": "grammar"}}]}, "tools.format"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"tool_choice": {"type": "function"}}, "tool_choice"),
    ):
        add("responses", f"outside: {field}", {**BASE["responses"], **change}, b"outside " + field.encode() + b"\n")


def responses() -> None:
    items()
    refused_items()
    continued()
    tools()
    options()
    outside()
