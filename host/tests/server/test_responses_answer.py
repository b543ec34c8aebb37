"""A response as it comes to be: every way of cutting an answer gives a right stream, and the response that is sent
whole."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from ds4.core.chat import ChatRequest
from ds4.core.chat_dsv4 import Dsv4Chat
from ds4.core.sampling import Sampling
from ds4.server.answer import ChatAnswer, Reader
from ds4.server.errors import ApiError
from ds4.server.events import CallDelta, CallsVoid, Delta, Event, Failed, Finished, KeepAlive
from ds4.server.request import Body, GenerationRequest
from ds4.server.surfaces.responses import answer_facts
from ds4.server.surfaces.responses_answer import ResponseAnswer, ResponseFacts
from ds4.server.surfaces.responses_items import messages, seal
from ds4.server.surfaces.responses_request import ResponsesRequest
from ds4.server.surfaces.responses_tools import CustomInput, read_tools
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter
from support.responses_automaton import check, parse

D = "｜DSML｜"
GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /x+/"}
TOOLS = read_tools(
    Body(
        {
            "tools": [
                {"type": "function", "name": "f", "parameters": {"type": "object"}},
                {"type": "custom", "name": "patch", "format": GRAMMAR},
                {"type": "namespace", "name": "ns", "description": "d", "tools": [{"type": "function", "name": "g"}]},
                {"type": "web_search"},
            ]
        }
    )
)


def invoke(name: str, **values: str) -> str:
    given = "".join(
        f'<{D}parameter name="{key}" string="true">{value}</{D}parameter>\n' for key, value in values.items()
    )
    return f'<{D}invoke name="{name}">\n{given}</{D}invoke>\n'


def block(*invokes: str) -> str:
    return f"\n\n<{D}tool_calls>\n{''.join(invokes)}</{D}tool_calls>"


F, PATCH, G = invoke("f", a="x “y”\n"), invoke("patch", input='é"\\\n\t😀'), invoke("ns.g")
TAPES = {
    "text": (False, "Grüße, 😀 < and </b>"),
    "thinking": (True, "hm\nhm</think>So: yes"),
    "no answer": (True, "hm and hm"),
    "nothing": (False, ""),
    "a call": (True, f"hm</think>Look:{block(F)}"),
    "all kinds": (True, f"hm</think>{block(F, PATCH, G)}"),
    "malformed": (True, f"hm</think>a{block(PATCH).replace(f'</{D}tool_calls>', 'oops')}"),
    "malformed second": (False, block(F, G).replace(f"</{D}tool_calls>", "oops")),
    "unclosed": (False, block(F, PATCH)[: -len(f"</{D}tool_calls>")]),
    "within a string": (False, block(F)[: block(F).index("”")]),
    "within a tag": (False, block(F)[: block(F).index(' string="true"')]),
}


def asked(
    *, stream: bool = True, summary: bool = False, sealed: bool = False, parallel: bool = True
) -> ResponsesRequest:
    generation = GenerationRequest("resp_1", [[1]], Sampling(), stream=stream)
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "m", "tools": [], "tool_choice": "auto"}
    head |= {"parallel_tool_calls": parallel, "store": True}
    return ResponsesRequest(generation, head, TOOLS, summary=summary, sealed=sealed, parallel=parallel)


def answer(**how: Any) -> ResponseAnswer:
    request = asked(**how)
    return ResponseAnswer(answer_facts(request), request.generation.stream, lambda token: bytes([token]))


def output(told: ResponseAnswer) -> list[dict[str, Any]]:
    made: list[dict[str, Any]] = json.loads(told.whole())["output"]
    return made


@functools.cache
def how_read(thinking: bool) -> ChatAnswer:
    chat = Dsv4Chat()
    request = ChatRequest([{"role": "user", "content": "go"}], TOOLS.functions, thinking=thinking)
    return ChatAnswer(chat, chat.prompt(request, 1000))


def events(pieces: list[str], thinking: bool, reason: Literal["stop", "length"] = "stop") -> list[Event]:
    """What the engine tells of an answer that comes in these pieces."""
    reader = Reader(how_read(thinking), 0)
    made: list[Event] = [event for piece in pieces for event in reader.push(piece)]
    more, ended = reader.finish(reason)
    return [*made, *more, Finished(0, ended, 9, 4, len(pieces), 0.0, 1.0, 2.0, 1 if thinking else 0)]


def streamed(made: list[Event], **how: Any) -> list[dict[str, Any]]:
    told = answer(**how)
    raw = told.opening() + b"".join(map(told.take, made))
    assert told.ended
    return parse(raw + told.closing())


def cuts(text: str) -> Iterator[list[str]]:
    yield list(text)
    for at in range(len(text) + 1):
        yield [text[:at], text[at:]]


def bare(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Items without what is made up for each."""
    return [{key: value for key, value in item.items() if key not in ("id", "call_id")} for item in output]


@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize("name", TAPES)
def test_a_stream_is_right_wherever_the_answer_is_cut(name: str, reason: Literal["stop", "length"]) -> None:
    thinking, text = TAPES[name]
    outputs = []
    for pieces in cuts(text):
        response = check(streamed(events(pieces, thinking, reason)))
        assert response["status"] == ("completed" if reason == "stop" else "incomplete")
        outputs.append(bare(response["output"]))
    assert all(output == outputs[0] for output in outputs)


def test_there_are_tapes_enough() -> None:
    assert 2 * sum(len(list(cuts(text))) for _, text in TAPES.values()) >= 500


@pytest.mark.parametrize("how", [{}, {"summary": True}, {"sealed": True}, {"parallel": False}])
@pytest.mark.parametrize("name", TAPES)
def test_every_event_is_one_that_the_official_client_knows(name: str, how: dict[str, bool]) -> None:
    thinking, text = TAPES[name]
    known: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    told = streamed([KeepAlive(), *events(list(text), thinking)], **how)
    check(told)
    for event in told:
        assert type(known.validate_python(event)).__name__ != "dict"


@pytest.mark.parametrize("name", [name for name in TAPES if not name.startswith(("malformed", "within a tag"))])
def test_the_response_sent_whole_is_the_one_that_is_streamed(name: str) -> None:
    thinking, text = TAPES[name]
    made = events(list(text), thinking)
    whole = answer(stream=False)
    assert not any(map(whole.take, made)) and whole.ended
    assert bare(output(whole)) == bare(check(streamed(made))["output"])
    Response.model_validate(json.loads(whole.whole()))


def test_calls_are_what_the_client_declared() -> None:
    items = check(streamed(events(list(TAPES["all kinds"][1]), True)))["output"]
    assert bare(items)[1:] == [
        {"type": "function_call", "status": "completed", "name": "f", "arguments": '{"a": "x “y”\\n"}'},
        {"type": "custom_tool_call", "status": "completed", "name": "patch", "input": 'é"\\\n\t😀'},
        {"type": "function_call", "status": "completed", "namespace": "ns", "name": "g", "arguments": "{}"},
    ]
    assert len({item["call_id"] for item in items[1:]}) == 3


def test_arguments_and_inputs_come_as_they_are_generated() -> None:
    told = streamed(events(list(TAPES["all kinds"][1]), True))
    kinds = [event["type"] for event in told]
    assert kinds.count("response.function_call_arguments.delta") > 3
    assert kinds.count("response.custom_tool_call_input.delta") > 3


def test_a_malformed_call_is_text_alone_where_nobody_heard_of_it() -> None:
    whole = answer(stream=False)
    for event in events(list(TAPES["malformed"][1]), True):
        whole.take(event)
    assert [item["type"] for item in output(whole)] == ["reasoning", "message"]
    text = output(whole)[-1]["content"][0]["text"]
    assert text.startswith("a\n\n<") and "oops" in text
    told = check(streamed(events(list(TAPES["malformed"][1]), True)))["output"]
    assert [(item["type"], item["status"]) for item in told][2] == ("custom_tool_call", "incomplete")


def test_a_client_that_takes_one_call_is_told_of_one() -> None:
    told = check(streamed(events(list(TAPES["all kinds"][1]), True), parallel=False))
    assert [item["type"] for item in told["output"]] == ["reasoning", "function_call"]


def test_a_response_that_fails_keeps_what_was_told() -> None:
    told = streamed([Delta(0, "ab"), Failed(ApiError(500, "no more"))])
    response = check(told)
    assert response["error"] == {"code": "server_error", "message": "no more"}
    assert response["output"][0]["status"] == "incomplete" and response["output"][0]["content"][0]["text"] == "ab"


def test_a_shortcut_delta_is_the_one_that_the_stream_would_tell() -> None:
    for how, reasoning in (({}, False), ({}, True), ({"summary": True}, True)):
        one, other = answer(**how), answer(**how)
        first, more = Delta(0, "a", reasoning=reasoning), Delta(0, 'b"\\ é', reasoning=reasoning)
        assert one.at_once(first) is None
        for told in (one, other):
            told.opening()
            told.take(first)
        glimpsed = one.at_once(more)
        assert glimpsed is not None and one.at_once(Delta(0, "x", reasoning=not reasoning)) is None
        one.said(more)
        (event,), (expected,) = parse(glimpsed), parse(other.take(more))
        assert {**event, "item_id": ""} == {**expected, "item_id": ""}
        end = Finished(0, "stop", 1, 0, 2, 0.0, 1.0, 2.0)
        assert bare(check_end(one, end)) == bare(check_end(other, end))


def check_end(told: ResponseAnswer, end: Finished) -> list[dict[str, Any]]:
    told.take(end)
    return output(told)


@pytest.mark.parametrize("how", [{}, {"summary": True}, {"sealed": True}, {"sealed": True, "summary": True}])
def test_what_was_thought_and_called_comes_back_as_it_was(how: dict[str, bool]) -> None:
    items = check(streamed(events(list(TAPES["all kinds"][1]), True), **how))["output"]
    if how.get("sealed"):  # as clients do that keep no reasoning in the clear
        items[0] = {**items[0], "content": None, "summary": []}
    (turn,) = messages(items, 0)
    assert turn["reasoning_content"] == "hm"
    calls = [call["function"] for call in turn["tool_calls"]]
    assert [call["name"] for call in calls] == ["f", "patch", "ns.g"]
    assert json.loads(calls[1]["arguments"]) == {"input": 'é"\\\n\t😀'}


def test_another_servers_sealed_reasoning_is_let_be() -> None:
    for sealed in ("gAAAA…", "ds4:!", seal("x")[:-1]):
        assert messages([{"type": "reasoning", "summary": [], "encrypted_content": sealed}], 0) == []


@pytest.mark.parametrize("text", ["", 'a"b\\c/\n\t\b', "\x01é😀", "\\u0041", "😀😀"])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_a_custom_input_is_read_wherever_its_arguments_are_cut(text: str, ascii_only: bool) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    for pieces in cuts(arguments):
        read = CustomInput()
        assert "".join(map(read.push, pieces)) + read.finish() == text == "".join(read.text)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [('{"x": 1}', '{"x": 1}'), ("{}", "{}"), ('{"x": 1, "input": "y"}', "y"), ('{"input": 3}', '{"input": 3}')],
)
def test_arguments_of_another_form_are_the_input_themselves(arguments: str, expected: str) -> None:
    read = CustomInput()
    assert "".join(map(read.push, arguments)) + read.finish() == expected


def test_a_lone_half_of_a_pair_is_replaced() -> None:
    for arguments in ('{"input": "\\ud83dx"}', '{"input": "\\udc00x"}', '{"input": "\\ud83d\\u0041"}'):
        read = CustomInput()
        assert "".join(map(read.push, arguments)).startswith("\ufffd")


def test_void_calls_number_the_rest_anew_where_nobody_heard_of_them() -> None:
    whole = ResponseAnswer(ResponseFacts({}), False, bytes)
    for event in (CallDelta(0, 0, "call_1", "f"), CallsVoid(0, 0), Delta(0, "x"), CallDelta(0, 1, "call_2", "f")):
        whole.take(event)
    assert [item["type"] for item in output(whole)] == ["message", "function_call"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"x": 1, "input": "\\ud800"}', "\ufffd"),
        ("[" * 100_000, "[" * 100_000),
        ('\u00a0{"input": "y"}', '\u00a0{"input": "y"}'),
    ],
)
def test_no_arguments_of_a_custom_tool_break_its_response(arguments: str, expected: str) -> None:
    read = CustomInput()
    assert read.push(arguments) + read.finish() == expected
