"""Bodies of the Messages API as what the core is asked: the same conversation comes to the same messages however it is
written down, and what cannot be done is a 400 that names the field."""

from __future__ import annotations

from typing import Any

import pytest
from ds4.core.chat import ChatRequest
from ds4.server.errors import ApiError
from ds4.server.request import Body, parse_json
from ds4.server.surfaces import messages_request
from ds4.server.surfaces.asked import ModelFacts
from ds4.server.surfaces.messages_request import hides_thinking, marks_cache, read_chat

HI = {"role": "user", "content": "hi"}
MARK = {"cache_control": {"type": "ephemeral"}}
TOOL: Any = {"name": "f", "description": "Does f.", "input_schema": {"type": "object", "properties": {}}}


def read(**body: Any) -> ChatRequest:
    return read_chat(Body({"messages": [HI], **body}), thinks=True)


def turns(*messages: Any, **more: Any) -> list[Any]:
    return list(read(messages=list(messages), **more).messages)


def block(text: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": text, **more}


def use(call: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "f", "input": arguments}


def result(call: str, *content: Any, **more: Any) -> dict[str, Any]:
    given = {"content": content[0]} if content else {}
    return {"type": "tool_result", "tool_use_id": call, **given, **more}


def test_a_string_a_block_and_a_marked_block_are_the_same() -> None:
    ways: list[Any] = ["hi", [block("hi")], [block("hi", **MARK)], [block(""), block("hi")]]
    for role in ("user", "assistant"):
        told = [turns(HI, {"role": "assistant", "content": "a"}, {"role": role, "content": way}, HI) for way in ways]
        assert all(one == told[0] for one in told)
    assert len({repr(turns(HI, system=way)) for way in ways}) == 1


@pytest.mark.parametrize(
    "system",
    [
        "x-anthropic-billing-header: cc_version=2; cch={};\nBe kind.",
        [block("x-anthropic-billing-header: cc_version=2; cch={};"), block("Be kind.")],
        [block("x-anthropic-billing-header: cch={};\nx-anthropic-other: {}\n\nBe kind.", **MARK)],
        "Be kind.",
    ],
)
def test_attribution_lines_are_no_part_of_the_prompt(system: Any) -> None:
    for number in ("1", "2f"):
        filled = (
            system.replace("{}", number)
            if isinstance(system, str)
            else [{**one, "text": one["text"].replace("{}", number)} for one in system]
        )
        assert turns(HI, system=filled)[0] == {"role": "system", "content": "Be kind."}
        assert turns({"role": "system", "content": filled}, HI)[0] == {"role": "system", "content": "Be kind."}


def test_a_system_prompt_of_attribution_alone_is_none() -> None:
    assert turns(HI, system="x-anthropic-billing-header: cch=1") == turns(HI, system=[]) == turns(HI) == [HI]


def test_text_that_only_speaks_of_attribution_stays() -> None:
    assert turns(HI, system="See x-anthropic-version.")[0]["content"] == "See x-anthropic-version."


def test_a_system_message_in_the_middle_stays_where_it_is() -> None:
    answer = {"role": "assistant", "content": "yes"}
    begun = turns(HI, answer, system="S")
    told = turns(HI, answer, {"role": "system", "content": "New rule."}, HI, system="S")
    assert told[:2] == begun[:2] and [one["role"] for one in told] == ["system", "user", "assistant", "user"]
    assert told[-1]["content"] == "<system>\nNew rule.\n</system>\n\nhi"


def test_results_come_before_what_is_said_with_them_and_right_behind_their_calls() -> None:
    told = turns(
        HI,
        {"role": "assistant", "content": [use("toolu_1"), use("toolu_2", a=[1, 2.0])]},
        {"role": "system", "content": "Careful."},
        {
            "role": "user",
            "content": [result("toolu_1", "one"), block("and?"), result("toolu_2", [block("t"), block("u")])],
        },
    )
    assert [one["role"] for one in told] == ["user", "assistant", "tool", "tool", "user"]
    assert [call["function"]["arguments"] for call in told[1]["tool_calls"]] == ["{}", '{"a": [1, 2.0]}']
    assert told[2] == {"role": "tool", "tool_call_id": "toolu_1", "content": "one"}
    assert told[3]["content"] == "t\n\nu"
    assert told[4]["content"] == "<system>\nCareful.\n</system>\n\nand?"


def test_neighbours_of_one_side_are_one_turn() -> None:
    told = turns(
        HI,
        HI,
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "x"}]},
        {"role": "assistant", "content": [{"type": "redacted_thinking", "data": "zz"}, block("a")]},
        {"role": "assistant", "content": [use("toolu_1")]},
        {"role": "user", "content": [result("toolu_1")]},
        HI,
    )
    assert told[0]["content"] == "hi\n\nhi"
    assert told[1]["content"] == "a" and told[1]["reasoning_content"] == "hm" and len(told[1]["tool_calls"]) == 1
    assert [one["role"] for one in told[2:]] == ["tool", "user"]


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        ("gone", {"is_error": True}, "Error: gone"),
        ("<tool_use_error>gone", {"is_error": True}, "<tool_use_error>gone"),
        ("gone", {"is_error": False}, "gone"),
        ([], {"is_error": True}, "Error"),
        (None, {}, ""),
        (
            [{"type": "image", "source": {"type": "base64", "data": "AA=="}}, block("seen")],
            {},
            "[Unsupported image]\n\nseen",
        ),
        ([{"type": "tool_reference", "tool_name": "g"}], {}, "The tool g can be called."),
        ([{"type": "search_result", "title": "T", "source": "S", "content": [block("c")]}], {}, "T\n\nS\n\nc"),
        ([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}}], {}, "d"),
    ],
)
def test_a_result_is_text_whatever_it_was(content: Any, more: dict[str, Any], said: str) -> None:
    told = turns(
        HI, {"role": "assistant", "content": [use("t")]}, {"role": "user", "content": [result("t", content, **more)]}
    )
    assert told[-1] == {"role": "tool", "tool_call_id": "t", "content": said}


def test_documents_of_text_are_read() -> None:
    source = {"type": "content", "content": [block("a"), block("b")]}
    assert (
        turns({"role": "user", "content": [{"type": "document", "title": "T", "source": source}]})[0]["content"]
        == "T\n\na\n\nb"
    )


def test_an_answer_at_the_end_is_gone_on_with() -> None:
    assert turns(HI, {"role": "assistant", "content": "The"})[-1]["prefix"] is True
    assert "prefix" not in turns(HI, {"role": "assistant", "content": [use("t")]})[-1]


def test_tools_are_told_of_without_what_is_not_about_the_model() -> None:
    noise = {
        "defer_loading": True,
        "eager_input_streaming": True,
        "input_examples": [{}],
        "strict": True,
        "type": "custom",
    }
    plain, noisy = read(tools=[TOOL]), read(tools=[{**TOOL, **noise, **MARK}], tool_choice={"type": "auto"})
    assert plain.tools == noisy.tools
    assert plain.tools == [
        {"type": "function", "function": {"name": "f", "description": "Does f.", "parameters": TOOL["input_schema"]}}
    ]
    none = read(tools=[TOOL], tool_choice={"type": "none"})
    assert none.tools == plain.tools and not none.may_call  # the prompt stays as it is, and so its cache
    assert len(read(tools=[TOOL, {"type": "tool_search_tool_regex_20251119", "name": "s"}]).tools) == 1


@pytest.mark.parametrize(
    ("body", "thinking", "effort"),
    [
        ({}, False, None),
        ({"model": "deepseek-reasoner"}, True, None),
        ({"thinking": None}, False, None),
        ({"thinking": {"type": "enabled", "budget_tokens": 10**9}}, True, None),
        ({"thinking": {"type": "disabled"}, "output_config": {"effort": "high"}}, False, "high"),
        ({"thinking": {"type": "adaptive", "display": "omitted"}}, None, None),
        ({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}, None, "max"),
        ({"output_config": {"effort": "low", "format": None}}, None, "low"),
    ],
)
def test_thinking_is_what_was_asked_for(body: dict[str, Any], thinking: bool | None, effort: str | None) -> None:
    asked = read(**body)
    assert (asked.thinking, asked.effort) == (thinking, effort)


def test_marks_of_the_cache_are_found_wherever_they_may_stand() -> None:
    assert not marks_cache(Body({"messages": [HI, {"role": "user", "content": [block("x")]}], "tools": [TOOL]}))
    for body in (
        {"messages": [HI], **MARK},
        {"messages": [HI], "system": [block("s", **MARK)]},
        {"messages": [HI], "tools": [{**TOOL, **MARK}]},
        {"messages": [{"role": "user", "content": [block("x", **MARK)]}]},
    ):
        assert marks_cache(Body(body))


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}


def says(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": content}]}


def said(content: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "content": content}]}


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"messages": None}, "messages"),
        ({"messages": []}, "messages"),
        ({"messages": ["x"]}, "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "m.role"),
        ({"messages": [{"role": "user"}]}, "m.content"),
        (says([3]), "m.content[0]"),
        (says([block("a"), IMAGE]), "m.content[1].type"),
        (says([{"type": "text"}]), "m.content[0].text"),
        (says([{"type": "document", "source": {"type": "base64"}}]), "m.content[0].type"),
        (says([{"type": "tool_result"}]), "m.content[0].tool_use_id"),
        (said([{"type": "tool_use", "name": "f", "input": 3}]), "m.content[0].input"),
        (said([{"type": "tool_use", "input": {}}]), "m.content[0].name"),
        (said([use("t", a="\ud800")]), "m.content[0].input"),
        (said([{"type": "thinking", "thinking": "", "signature": "ds4-thinking:!"}]), "m.content[0].signature"),
        ({"system": 3}, "system"),
        ({"system": [IMAGE]}, "system[0].type"),
        ({"tools": {}}, "tools"),
        ({"tools": [{"name": "f"}]}, "tools[0].input_schema"),
        ({"tools": [{"input_schema": {}}]}, "tools[0].name"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type"),
        ({"tool_choice": {"type": "any"}}, "tool_choice.type"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "none_such"}}, "tool_choice.name"),
        ({"tools": [TOOL], "tool_choice": {"type": "must"}}, "tool_choice.type"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}},
            "tool_choice.disable_parallel_tool_use",
        ),
        ({"thinking": {"type": "perhaps"}}, "thinking.type"),
        ({"thinking": {"budget_tokens": 2048}}, "thinking.type"),
        ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "thinking.budget_tokens"),
        ({"thinking": True}, "thinking"),
        ({"output_config": {"effort": "extreme"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format.schema"),
        ({"output_format": {"type": "xml"}}, "output_format.type"),
        ({"mcp_servers": [{"type": "url", "url": "http://x", "name": "x"}]}, "mcp_servers"),
    ],
)
def test_what_cannot_be_done_is_a_400_that_names_the_field(body: dict[str, Any], param: str) -> None:
    whole = Body({"messages": [HI], "max_tokens": 1, **body})
    with pytest.raises(ApiError) as caught:
        messages_request.read(whole, ModelFacts("m", 1000, thinks=True))
    assert caught.value.status == 400 and caught.value.param == param.replace("m.", "messages[0].")


def test_a_display_that_is_not_known_is_refused() -> None:
    assert hides_thinking(Body({"thinking": {"type": "adaptive", "display": "omitted"}}))
    with pytest.raises(ApiError, match="thinking.display"):
        hides_thinking(Body({"thinking": {"type": "adaptive", "display": "loud"}}))


def test_what_is_not_known_is_ignored() -> None:
    more: dict[str, Any] = {
        "context_management": {"edits": []},
        "betas": ["x"],
        "service_tier": "auto",
        "container": None,
        "speed": "fast",
    }
    assert read(**more) == read()


def test_thousands_of_calls_are_read() -> None:
    told: list[Any] = [HI]
    for i in range(4096):
        told.append({"role": "assistant", "content": [block("a"), use(f"toolu_{i}", a=i)]})
        told.append({"role": "user", "content": [result(f"toolu_{i}", "x" * 50)]})
    assert len(turns(*told)) == 2 * 4096 + 1
    many = [{"role": "assistant", "content": [use(f"toolu_{i}") for i in range(4096)]}]
    assert len(turns(HI, *many, HI)[1]["tool_calls"]) == 4096


def test_a_body_that_is_too_deep_never_gets_here() -> None:
    deep = b'{"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":' + b'{"a":' * 100
    with pytest.raises(ApiError, match="nested"):
        parse_json(deep + b"1" + b"}" * 100 + b"}]}]}")
