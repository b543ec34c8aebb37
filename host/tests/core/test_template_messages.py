from __future__ import annotations

from typing import Any

import pytest
from ds4.core.template_messages import Needs, needs_of, short_id, template_messages, template_tools
from ds4.errors import TemplateError


def call(call_id: str, arguments: Any = "{}", name: str = "f") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def made(*calls: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls), **fields}


def result(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": f"of {call_id}"}


@pytest.mark.parametrize(
    ("source", "needs"),
    [
        ("{{ call.arguments | tojson }}", Needs()),
        ("{{ tool['function']['arguments']|tojson }}", Needs()),
        ("{% for k, v in call.arguments.items() %}{% endfor %}", Needs()),
        ("{% for k, v in call.arguments | items %}{% endfor %}", Needs()),
        ("{{ call.arguments if call.arguments is string else call.arguments | tojson }}", Needs()),
        ("{{ call.function | tojson }}", Needs()),
        ("{{ '\"arguments\": ' + tool['function']['arguments'] + '}' }}", Needs("text")),
        ("{{ call.arguments }}", Needs("text")),
        ("{{ message.content }}", Needs()),
        ("{% if not message.tool_calls|length == 1 %}{% endif %}{{ call.arguments | tojson }}", Needs(one_call=True)),
        ("{% if message['tool_calls'] | length != 1 %}{% endif %}", Needs(one_call=True)),
        ("{% if message.tool_calls | length > 0 %}{% endif %}", Needs()),
        ("{% if call.id|length != 9 %}{% endif %}", Needs(short_ids=True)),
    ],
)
def test_a_templates_text_tells_what_it_needs(source: str, needs: Needs) -> None:
    assert needs_of(source) == needs


@pytest.mark.parametrize(
    ("arguments", "as_object", "as_text"),
    [
        ('{"b": 1, "a": "é"}', {"b": 1, "a": "é"}, '{"b": 1, "a": "é"}'),
        ({"b": 1}, {"b": 1}, '{"b": 1}'),
        ("", {}, "{}"),
        (" ", {}, "{}"),
        (None, {}, "{}"),
    ],
)
def test_arguments_are_what_the_template_needs(arguments: Any, as_object: Any, as_text: str) -> None:
    for form, expected in (("object", as_object), ("text", as_text)):
        (message,) = template_messages([made(call("x", arguments))], Needs(form))  # type: ignore[arg-type]
        assert message["tool_calls"] == [call("x", expected)]
        assert message["content"] == ""


def test_a_message_without_calls_has_no_word_of_them() -> None:
    messages = [{"role": "assistant", "content": "Hi", "tool_calls": []}, {"role": "user", "content": "x"}]
    assert template_messages(messages, Needs()) == [{"role": "assistant", "content": "Hi"}, messages[1]]


def test_reasoning_has_one_name() -> None:
    messages = [{"role": "assistant", "content": "a", key: "Hm"} for key in ("reasoning", "reasoning_content")]
    messages.append({"role": "assistant", "content": "a", "reasoning_content": None})
    expected = {"role": "assistant", "content": "a", "reasoning_content": "Hm"}
    assert template_messages(messages, Needs()) == [expected, expected, {"role": "assistant", "content": "a"}]


def test_results_have_the_name_of_the_tool() -> None:
    messages = template_messages([made(call("x", name="g")), result("x"), {**result("y"), "name": "h"}], Needs())
    assert [message.get("name") for message in messages] == [None, "g", "h"]


def test_ids_are_made_short_alike_in_calls_and_results() -> None:
    messages = template_messages([made(call("call_0123456789")), result("call_0123456789")], Needs(short_ids=True))
    short = messages[0]["tool_calls"][0]["id"]
    assert messages[1]["tool_call_id"] == short
    assert len(short) == 9 and short.isalnum() and short.isascii()
    assert short_id("abcDEF123") == "abcDEF123"
    assert len({short_id(f"call_{n}") for n in range(1000)}) == 1000


def test_several_calls_become_one_each_with_its_result_where_a_template_takes_one() -> None:
    messages = [
        made(call("x"), call("y"), content="I look.", reasoning_content="Hm"),
        *(result("y"), result("x"), result("z"), {"role": "user", "content": "So?"}),
    ]
    split = template_messages(messages, Needs(one_call=True))
    told = [m.get("tool_call_id") or [c["id"] for c in m.get("tool_calls", [])] or m["content"] for m in split]
    assert told == [["x"], "x", ["y"], "y", "z", "So?"]
    assert [m["content"] for m in split if "tool_calls" in m] == ["I look.", ""]
    assert [m.get("reasoning_content") for m in split if "tool_calls" in m] == ["Hm", None]
    assert template_messages(messages, Needs())[0]["tool_calls"] == [call("x", {}), call("y", {})]


def test_tools_are_whole_and_in_the_usual_order() -> None:
    tools = [{"function": {"strict": True, "name": "f"}}]
    (tool,) = template_tools(tools)
    assert list(tool["function"]) == ["name", "description", "parameters", "strict"]
    assert tool["type"] == "function" and tool["function"]["parameters"] == {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        (made(call("x", "{")), "messages[0].tool_calls[0].function.arguments"),
        (made(call("x", "[1]")), "messages[0].tool_calls[0].function.arguments"),
        (made(call("x", name="")), "messages[0].tool_calls[0]"),
        (made({"id": "x"}), "messages[0].tool_calls[0]"),
        ({"role": "tool", "content": "x"}, "messages[0].tool_call_id"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "messages[0].content"),
        ({"role": "user", "content": 7}, "messages[0].content"),
    ],
)
def test_what_no_template_can_be_given_is_refused_by_its_place(message: dict[str, Any], subject: str) -> None:
    with pytest.raises(TemplateError) as caught:
        template_messages([message], Needs())
    assert (caught.value.code, caught.value.subject) == ("template_message", subject)


def test_a_tool_without_a_name_is_refused() -> None:
    with pytest.raises(TemplateError, match=r"tools\[0\]"):
        template_tools([{"type": "function", "function": {}}])


def test_the_clients_messages_stay_as_they_are() -> None:
    messages = [made(call("x", "{}")), result("x")]
    before = repr(messages)
    template_messages(messages, Needs("text", True, True))
    assert repr(messages) == before
