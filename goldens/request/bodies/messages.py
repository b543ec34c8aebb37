"""Messages."""

from __future__ import annotations

from typing import Any

from bodies.asking import SAY, bad, good

HIDDEN = {"type": "thinking", "thinking": "", "signature": "ds4-thinking:aG0="}
USE = {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1.50, "a": "é"}}


def turns() -> None:
    def talk(given: list[Any], made: list[Any], **x: Any) -> None:
        good("messages", {"messages": given}, messages=made, **x)

    for content in (
        "hi",
        [{"type": "text", "text": "hi"}],
        [{"type": "text", "text": ""}, {"type": "text", "text": "hi"}],
    ):
        talk([{"role": "user", "content": content}], [SAY])
    cached = [{"type": "text", "text": "hi", "cache_control": {"type": "ephemeral"}}]
    talk([{"role": "user", "content": cached}], [SAY], caches=1)
    talk([SAY, {"role": "user", "content": "more"}], [{"role": "user", "content": "hi\n\nmore"}])
    call = {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"b": 1.5, "a": "é"}'}}
    said = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "So"}, USE],
    }
    made = {"role": "assistant", "content": "So", "reasoning_content": "hm", "tool_calls": [call]}
    for result, text in (
        ({"content": "r"}, "r"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\n\nb"),
        ({"content": None}, ""),
        ({"is_error": True}, "Error"),
        ({"content": "no", "is_error": True}, "Error: no"),
        ({"content": "An ERROR", "is_error": True}, "An ERROR"),
        ({"content": [{"type": "image"}]}, "[Unsupported image]"),
        ({"content": [{"type": "tool_reference", "tool_name": "g"}]}, "The tool g can be called."),
    ):
        heard = [{"type": "text", "text": "and"}, {"type": "tool_result", "tool_use_id": "t1", **result}]
        tool = {"role": "tool", "tool_call_id": "t1", "content": text}
        talk([SAY, said, {"role": "user", "content": heard}], [SAY, made, tool, {"role": "user", "content": "and"}])
    prefill = {"role": "assistant", "content": "Sure,"}
    talk([SAY, prefill], [SAY, {**prefill, "prefix": True}])
    talk(
        [SAY, {"role": "assistant", "content": [HIDDEN, {"type": "redacted_thinking", "data": "x"}]}, SAY],
        [SAY, {"role": "assistant", "content": "", "reasoning_content": "hm"}, SAY],
    )
    system = [
        {"type": "text", "text": "x-anthropic-billing-header: a=1\n\nBe kind."},
        {"type": "text", "text": "x-anthropic-y"},
    ]
    good("messages", {"system": system}, messages=[{"role": "system", "content": "Be kind."}, SAY])
    good("messages", {"system": ""})
    talk([{"role": "system", "content": "A"}, SAY], [{"role": "system", "content": "A"}, SAY])
    told = {"role": "user", "content": "hi\n\n<system>\nB\n</system>"}
    talk([SAY, {"role": "system", "content": "B"}], [told])
    document = {"type": "document", "title": "T", "source": {"type": "text", "data": "D"}}
    found = {"type": "search_result", "title": "T", "source": "S", "content": [{"type": "text", "text": "C"}]}
    talk([{"role": "user", "content": [document, found]}], [{"role": "user", "content": "T\n\nD\n\nT\n\nS\n\nC"}])


def refused_turns() -> None:
    for given, code, param in (
        (None, "invalid_type", "messages"),
        ([], "invalid_value", "messages"),
        ([1], "invalid_type", "messages[0]"),
        ([{"content": "x"}], "invalid_value", "messages[0].role"),
        ([{"role": "tool", "content": "x"}], "invalid_value", "messages[0].role"),
        ([{"role": "user"}], "invalid_type", "messages[0].content"),
        ([{"role": "user", "content": [1]}], "invalid_type", "messages[0].content[0]"),
        ([{"role": "user", "content": [{"type": "image"}]}], "invalid_value", "messages[0].content[0].type"),
        ([{"role": "user", "content": [{"type": "text"}]}], "invalid_type", "messages[0].content[0].text"),
        (
            [{"role": "user", "content": [{"type": "tool_result"}]}],
            "missing_field",
            "messages[0].content[0].tool_use_id",
        ),
        ([{"role": "assistant", "content": [{"type": "tool_use"}]}], "missing_field", "messages[0].content[0].name"),
        ([{"role": "assistant", "content": [{**USE, "input": []}]}], "invalid_type", "messages[0].content[0].input"),
        (
            [{"role": "assistant", "content": [{**USE, "input": {"a": "\ud800"}}]}],
            "invalid_value",
            "messages[0].content[0].input",
        ),
        (
            [{"role": "assistant", "content": [{**HIDDEN, "signature": "ds4-thinking:aG1="}]}],
            "invalid_value",
            "messages[0].content[0].signature",
        ),
        ([{"role": "assistant", "content": [{"type": "image"}]}], "invalid_value", "messages[0].content[0].type"),
        (
            [
                {
                    "role": "user",
                    "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "\ud800"}]}],
                }
            ],
            "invalid_value",
            "messages[0].content[0].content[0].type",
        ),
    ):
        bad("messages", {"messages": given}, code, param)


def tools() -> None:
    schema = {"type": "object"}
    tools = [
        {"name": "f", "description": "D", "input_schema": schema, "defer_loading": True},
        {"type": "tool_search_tool_bm25", "name": "s"},
        {"type": "custom", "name": "g", "input_schema": {}},
    ]
    made_tools = [
        {"type": "function", "function": {"name": "f", "description": "D", "parameters": schema}},
        {"type": "function", "function": {"name": "g", "parameters": {}}},
    ]
    good("messages", {"tools": tools, "tool_choice": {"type": "auto"}}, tools=made_tools)
    for given, code, param in (
        ({}, "invalid_type", "tools"),
        ([{}, 1], "invalid_type", "tools[1]"),
        ([{"name": "f"}], "missing_field", "tools[0].input_schema"),
        ([{"type": "bash_20250124", "name": "b"}], "unsupported_parameter", "tools[0].type"),
        ([{"input_schema": {}}], "missing_field", "tools[0].name"),
        ([{"name": "f", "input_schema": 1}], "invalid_type", "tools[0].input_schema"),
    ):
        bad("messages", {"tools": given}, code, param)


def options() -> None:
    for change, thinking, effort, more in (
        ({"thinking": {"type": "adaptive"}}, None, None, {}),
        ({"thinking": {"type": "enabled", "budget_tokens": 31999}}, 1, None, {"thought": 31999}),
        ({"thinking": {"type": "disabled"}}, 0, None, {}),
        ({"output_config": {"effort": "high"}}, None, "high", {}),
        ({"output_config": {}, "reasoning_effort": "low"}, None, "low", {}),
        ({"model": "deepseek-reasoner"}, 1, None, {}),
        ({"thinking": {}}, 0, None, {}),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, None, None, {"hides": 1}),
    ):
        good("messages", change, thinking=thinking, effort=effort, **more)
    good("messages", {"output_config": {"effort": "high"}}, thinking=None, facts={"thinks": 0})
    for change, code, param in (
        ({"thinking": 1}, "invalid_type", "thinking"),
        ({"thinking": {"budget_tokens": 5}}, "invalid_value", "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "invalid_value", "thinking.budget_tokens"),
        ({"thinking": {"type": "adaptive", "display": "x"}}, "invalid_value", "thinking.display"),
        ({"output_config": {"effort": "x"}}, "invalid_value", "output_config.effort"),
        ({"mcp_servers": [{}]}, "unsupported_parameter", "mcp_servers"),
        ({"metadata": {"user_id": 5}}, "invalid_type", "metadata.user_id"),
        ({"max_tokens": None}, "missing_field", "max_tokens"),
        ({"max_tokens": -1}, "invalid_value", "max_tokens"),
        ({"max_tokens": "5"}, "invalid_type", "max_tokens"),
    ):
        bad("messages", change, code, param)
    good("messages", {"max_tokens": 0}, budget=1, warms=1)
    good("messages", {"max_tokens": 1e300}, budget=1 << 31)
    good(
        "messages",
        {"cache_control": {"type": "ephemeral"}, "metadata": {"user_id": "u"}, "context_management": {}},
        caches=1,
    )


def messages() -> None:
    turns()
    refused_turns()
    tools()
    options()
