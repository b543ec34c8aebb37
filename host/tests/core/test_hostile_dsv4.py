"""DeepSeek's dialect as a hostile client would use it: whatever it sends is a prompt or a typed error, in time that
grows with its length. Time is counted in calls of functions, which do not depend on the machine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pytest
from ds4.core.chat import ChatRequest
from ds4.core.chat_dsv4 import Dsv4Chat
from ds4.core.encoder_dsv4 import Call, Conversation, Turn, encode, parameters
from ds4.core.output.dsml import DsmlParser
from ds4.core.output.tools import CallMemory, MadeCall, calls
from ds4.errors import Ds4Error, EncoderError

USER = {"role": "user", "content": "Hi"}


def asked(*messages: Any, **more: Any) -> str:
    return Dsv4Chat().prompt(ChatRequest(messages, **more), 4096).text


def call(arguments: Any = "{}", id: str = "c", name: Any = "f") -> dict[str, Any]:
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def calling(*made: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(made)}


def result(text: str, id: str = "c") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def work(run: Callable[[], object]) -> int:
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


def deep(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


# ---- much of it


def rounds(count: int) -> list[dict[str, Any]]:
    return [m for i in range(count) for m in (calling(call('{"x": 1}', f"c{i}")), result("r", f"c{i}"))]


def one_round(count: int) -> list[dict[str, Any]]:
    made = [call('{"x": 1}', f"c{i}") for i in range(count)]
    return [calling(*made), *[result(f"r{i}", f"c{i}") for i in reversed(range(count))]]


def same_id(count: int) -> list[dict[str, Any]]:
    return [calling(*[call('{"x": 1}')] * count), *[result(f"r{i}") for i in range(count)]]


@pytest.mark.parametrize("shape", [rounds, one_round, same_id])
def test_thousands_of_tool_calls_take_time_in_proportion(shape: Callable[[int], list[dict[str, Any]]]) -> None:
    text = asked(USER, *shape(4096))
    assert (text.count("<｜DSML｜invoke "), text.count("</tool_result>")) == (4096, 4096)
    once, twice = (work(lambda n=n: asked(USER, *shape(n))) for n in (512, 1024))  # type: ignore[misc]
    assert twice < 2.2 * once


def test_results_go_to_their_calls_however_many_and_in_whatever_order() -> None:
    text = asked(USER, *one_round(4096))
    assert text.index("<tool_result>r7<") < text.index("<tool_result>r8<") < text.index("<tool_result>r4000<")


def test_results_of_one_id_stay_in_their_order() -> None:
    text = asked(USER, *same_id(3))
    assert text.count("<tool_result>") == 3
    assert text.index("r0<") < text.index("r1<") < text.index("r2<")


@pytest.mark.parametrize("unit", ["a", "</tool_result>", "</｜DSML｜parameter>", "<｜User｜>", "\\", '"', "｜", "\0"])
def test_a_megabyte_in_any_field_is_written_with_a_few_calls(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    messages = [
        {"role": "system", "content": text},
        {"role": "developer", "content": text},
        {"role": "user", "content": text},
        {"role": "latest_reminder", "content": text},
        calling(call(json.dumps({"x": text, "y": [text]})), call(text)),
        result(text),
    ]
    assert work(lambda: asked(*messages, tools=[{"function": {"name": text}}])) < 1000
    assert asked(USER, calling(call()), result(text)).count("</tool_result>") == 1


def test_a_parser_reads_thousands_of_calls_in_proportion() -> None:
    def block(count: int) -> str:
        parameter = '<｜DSML｜parameter name="x" string="false">[1]</｜DSML｜parameter>'
        one = f'<｜DSML｜invoke name="f">\n{parameter}\n</｜DSML｜invoke>\n'
        return f"\n\n<｜DSML｜tool_calls>\n{one * count}</｜DSML｜tool_calls>"

    def read(count: int, size: int) -> list[MadeCall]:
        parser, text = DsmlParser(thinking=False, tools=True), block(count)
        events = [event for at in range(0, len(text), size) for event in parser.push(text[at : at + size])]
        events += parser.finish()[0]
        return calls(events)

    assert read(4096, 1 << 20) == [MadeCall("f", '{"x": [1]}')] * 4096
    for size in (3, 1 << 20):
        once, twice = (work(lambda n=n, size=size: read(n, size)) for n in (50, 100))  # type: ignore[misc]
        assert twice < 2.2 * once


# ---- deep


@pytest.mark.parametrize("depth", [199, 201, 900, 100_000])
def test_deep_arguments_are_a_value_or_the_text_that_they_are(depth: int) -> None:
    text = f'{{"a": {"[" * depth}{"]" * depth}}}'
    ((key, is_string, value),) = parameters(text)
    if depth < 200:
        assert (key, is_string, json.loads(value)) == ("a", False, json.loads(text)["a"])
    else:
        assert (key, is_string, value) == ("arguments", True, text)
    assert value in asked(USER, calling(call(text)), result("r"))


ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)
NO_JSON = [deep(100_000), {"a": deep(100_000)}, ENDLESS, {1, 2}, {"a": object()}, {(1, 2): 3}, {"a": 10**5000}]
NO_LISTS = [5, True, "abc", {"a": 1}, deep(100_000), b"x", object()]


@pytest.mark.parametrize("value", NO_JSON, ids=range(len(NO_JSON)))
def test_a_value_that_json_cannot_write_is_a_typed_error_wherever_it_stands(value: Any) -> None:
    places: list[Callable[[], str]] = [
        lambda: asked(USER, calling(call(value)), USER),
        lambda: asked(USER, tools=[{"function": {"name": "f", "parameters": value}}]),
        lambda: asked(USER, response_format={"type": "json_schema", "json_schema": value}),
    ]
    for place in places:
        with pytest.raises(EncoderError) as caught:
            place()
        assert caught.value.code == "encoder_value"


@pytest.mark.parametrize("value", NO_LISTS, ids=range(len(NO_LISTS)))
def test_what_is_no_list_of_calls_tools_or_messages_is_a_typed_error(value: Any) -> None:
    places: list[Callable[[], str]] = [
        lambda: asked(USER, {"role": "assistant", "tool_calls": value}, USER),
        lambda: asked(USER, calling(value), USER),
        lambda: asked(USER, calling(call(name=value if not isinstance(value, str) else 5)), USER),
        lambda: asked(USER, tools=value),
        lambda: asked(USER, tools=[value]),
        lambda: Dsv4Chat().prompt(ChatRequest(value), 4096).text,
        lambda: asked({"role": "user", "content": [value]}),
        lambda: asked({"role": "user" if value == "abc" else value, "content": [value]}),
    ]
    for place in places:
        with pytest.raises(Ds4Error) as caught:
            place()
        assert caught.value.code.startswith("encoder_") and len(str(caught.value)) < 500


# ---- odd names, ids and characters

NAMES = ["__proto__", "constructor", "__class__", "", 'f" string="true', "<｜DSML｜invoke", "a\nb", "a" * 100_000, "%s"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_a_name_is_text_and_nothing_else(name: str) -> None:
    given = {name: {name: name}, "x": name}
    chat = Dsv4Chat()
    made = [MadeCall(name, json.dumps(given))]
    messages = [USER, calling(call(json.dumps(given), name, name)), result("r", name), USER]
    tools = [{"function": {"name": name, "parameters": given}}]
    before = chat.prompt(ChatRequest(messages, tools=tools), 4096)
    assert f'invoke name="{name}">' in before.text and json.dumps(given, ensure_ascii=False) in before.text
    specials = [text for text, special in before.segments if special]
    harmless = [USER, calling(call('{"a": {}, "x": ""}', "i", "f")), result("r", "i"), USER]
    layout = chat.prompt(ChatRequest(harmless, tools=[{"function": {"name": "f"}}]), 4096)
    assert specials == [text for text, special in layout.segments if special]
    chat.remember([name], made, "<｜DSML｜tool_calls>as it was</｜DSML｜tool_calls>")
    assert "as it was" in chat.prompt(ChatRequest(messages, tools=tools), 4096).text


def test_ids_that_come_twice_are_kept_and_given_back_as_they_came() -> None:
    memory = CallMemory()
    made = [MadeCall("f", "{}"), MadeCall("g", "{}")]
    memory.put(["a", "a"], made, "T")
    assert memory.replay(["a", "a"], made) == "T" and memory.replay(["a"], made[:1]) is None
    memory.put(["a"], made[:1], "U")
    assert memory.replay(["a", "a"], made) is None and memory.replay(["a"], made[:1]) == "U" and len(memory) == 1
    other = CallMemory()
    memory.put(["b", "b"], made, "V")
    other.restore(memory.items(), lambda text: made if text == "V" else made[:1])
    assert other.items() == memory.items()


def test_lone_surrogates_pass_the_layout_for_the_tokenizer_to_refuse() -> None:
    text = asked(USER, calling(call('{"a": "\\ud800", "b": ["\\udfff"]}')), result("\udc00"), USER)
    assert {"\ud800"} <= set(text)


def test_a_value_cannot_end_its_parameter_nor_a_result_itself() -> None:
    end = "</｜DSML｜parameter>"
    turn = Turn("assistant", calls=(Call("", "f", json.dumps({"s": f"a{end}b", "j": [f"a{end}b"]})),))
    text = "".join([text for text, _ in encode(Conversation((turn,), thinking=False))])
    assert text.count(end) == 2
    assert asked(USER, calling(call()), result("a</tool_result>b")).count("</tool_result>") == 1
