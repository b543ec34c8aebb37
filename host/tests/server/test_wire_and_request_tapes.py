"""The tapes of `wire` and `request`: what is written is read back, and what is no tape is told so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ds4.core.sampling import Sampling
from ds4.server.errors import ApiError
from ds4.server.events import CallDelta, CallsVoid, Delta, Failed, Finished, KeepAlive, TokenLogprob
from ds4.server.surfaces import request_tapes, wire_tapes
from ds4.server.surfaces.asked import ModelFacts, Surface
from ds4.server.surfaces.messages_render import MessagesFacts
from ds4.server.surfaces.rendering import AnswerFacts
from ds4.server.surfaces.request_outside import outside
from ds4.server.surfaces.request_tapes import RequestInput
from ds4.server.surfaces.responses_answer import Outside, ResponseAnswer, ResponseFacts
from ds4.server.surfaces.responses_tools import Tool
from ds4.server.surfaces.wire_tapes import Given, Step, WireInput
from ds4.sys.tape import TapeError

END = Finished(0, "stop", 9, 4, 3, 0.0, 1.0, 2.0, 1, "END")
TALK: list[Step] = [
    Delta(0, "hm", reasoning=True),
    Delta(0, "é"),
    CallDelta(0, 0, "call_1", "f", "{"),
    CallsVoid(0, 0),
    END,
]
CHAT = AnswerFacts("id", 1, "m", "fp", reads=True)
MESSAGES = MessagesFacts("msg_1", "m", 9, request_id="req_1")
RESPONSE = ResponseFacts({"id": b'"r"'}, {"f": Tool("f", "ns")}, outside=Given(["a", "b", "c"], 5))


@pytest.mark.parametrize(
    "given",
    [
        WireInput("chat", True, CHAT, ["open", KeepAlive(), *TALK, "close"]),
        WireInput("messages", False, MESSAGES, [*TALK, "whole"]),
        WireInput("messages", True, MESSAGES, ["open", Failed(ApiError(503, "no", code="x", param="")), "close"]),
        WireInput("responses", False, RESPONSE, ["whole", *TALK, "unstored", "whole"]),
        WireInput("responses", True, RESPONSE, ["open", TALK[1], "cancel", "close"]),
        WireInput(
            "completions",
            False,
            AnswerFacts("id", 1, "m", "fp", n=2, logprobs=True),
            [Delta(1, "a", [TokenLogprob(0, -0.5, [(1, -1.0)])]), END, Finished(1, "length", 9, 4, 3, 0.0, 1.0, 2.0)],
            [b"\xff", b"a"],
        ),
    ],
)
def test_a_tape_of_wire_is_read_as_it_was_written(given: WireInput) -> None:
    tape = wire_tapes.write_input(given)
    assert wire_tapes.write_input(wire_tapes.read_input(tape)) == tape
    output = wire_tapes.by_tape(tape)
    assert wire_tapes.write_output(wire_tapes.read_output(output)) == output
    assert len(output.splitlines()) == len(given.steps)


@pytest.mark.parametrize(
    "steps",
    [
        [*TALK, "whole"],  # streamed, and not opened
        ["open", "open"],
        ["open", END, END],
        ["open", Delta(1, "x")],
        ["open", CallDelta(0, 1, "call_1", "f")],
        ["open", CallDelta(0, 0, "call_1", "f"), Delta(0, "x"), CallDelta(0, 0, arguments="{")],
        ["open", CallsVoid(0, 0)],
        ["open", "close"],
        ["open", END, "close", "close"],
        ["open", END, "cancel"],
        ["open", Delta(0, "x", [])],
    ],
)
def test_events_that_cannot_follow_one_another_are_no_tape(steps: list[Any]) -> None:
    with pytest.raises(TapeError):
        wire_tapes.by_tape(wire_tapes.write_input(WireInput("chat", True, CHAT, steps)))


def test_items_without_suffixes_are_no_tape() -> None:
    facts = ResponseFacts({}, outside=Given())
    with pytest.raises(TapeError):
        wire_tapes.by_tape(wire_tapes.write_input(WireInput("responses", False, facts, [Delta(0, "x"), END])))


def test_what_goes_on_of_a_call_that_was_void_is_no_call() -> None:
    steps: list[Step] = [CallDelta(0, 0, "call_1", "f", "{"), CallsVoid(0, 0), CallDelta(0, 0), END, "whole"]
    output = wire_tapes.read_output(wire_tapes.by_tape(wire_tapes.write_input(WireInput("chat", False, CHAT, steps))))
    assert "tool_calls" not in json.loads(output[-1][1])["choices"][0]["message"]


FIELDS: list[tuple[Surface, dict[str, Any], str | None]] = [
    ("chat", {"reasoning": {"max_tokens": 5}}, "reasoning.max_tokens"),
    ("completions", {"reasoning": {"max_tokens": 5}}, None),
    ("messages", {"thinking": {"budget_tokens": 5}}, None),
    ("responses", {"thinking": {"budget_tokens": 5}}, "thinking.budget_tokens"),
    ("completions", {"stream_options": {"include_progress": True}}, "stream_options.include_progress"),
    ("responses", {"stream_options": {"include_progress": False}}, None),
    ("messages", {"stream_options": {"include_progress": True}}, None),
]


@pytest.mark.parametrize(("surface", "body", "field"), FIELDS)
def test_fields_that_the_tape_cannot_tell_are_outside_of_it(
    surface: Surface, body: dict[str, Any], field: str | None
) -> None:
    assert outside(surface, body) == field


def test_who_asks_the_outside_again_gets_the_same() -> None:
    outside = Outside()
    facts = ResponseFacts({}, outside=outside)
    one, other = (ResponseAnswer(facts, False, bytes) for _ in range(2))
    for step in (Delta(0, "x"), END):
        one.take(step), other.take(step)
    assert one.whole() == other.whole()
    assert json.loads(one.whole())["output"][0]["id"] == f"msg_{outside.suffix(0)}"


FUNCTION = {"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}
BODIES: list[tuple[Surface, dict[str, Any]]] = [
    ("chat", {"messages": [{"role": "user", "content": "hi"}], "logit_bias": {"3": 1}, "seed": -1, "stop": ["a"]}),
    ("completions", {"prompt": [[1, 2], []], "logprobs": 2}),
    ("messages", {"max_tokens": 0, "messages": [{"role": "user", "content": "hi"}], "thinking": {"type": "enabled"}}),
    ("responses", {"input": "hi", "tools": [{"type": "custom", "name": "p"}], "reasoning": {"summary": "auto"}}),
    ("responses", {"previous_response_id": "resp_1"}),
    ("responses", {"input": "hi", "tools": [FUNCTION, {"type": "custom", "name": "p"}], "parallel_tool_calls": False}),
    ("chat", {}),
    ("chat", {"grammar": "x"}),
]


@pytest.mark.parametrize(("surface", "body"), BODIES)
def test_a_tape_of_request_is_read_as_it_was_written(surface: Surface, body: dict[str, Any]) -> None:
    model = ModelFacts("m", 1000, thinks=True, defaults=Sampling(1.0, min_p=0.05))
    tape = request_tapes.write_input(RequestInput(surface, model, json.dumps(body).encode()))
    given = request_tapes.read_input(tape)
    assert given.model == model and request_tapes.write_input(given) == tape
    output = request_tapes.by_tape(tape)
    assert request_tapes.write_output(request_tapes.read_output(output)) == output
    assert request_tapes.read_output(output) == request_tapes.run(given)


@pytest.mark.parametrize(
    "tape",
    [
        b"",
        b"request chat 1 1 1 10\nmodel m\n{}",
        b"request chat 1 1 1 0\nmodel m\ndefaults 0 4607182418800017408 0 0 4607182418800017408 0 0\n{}",
        b"request chat 2 1 1 10\nmodel m\ndefaults 0 4607182418800017408 0 0 4607182418800017408 0 0\n{}",
        b"request chat 1 1 1 10\nmodel m\ndefaults 0 0 0 0 4607182418800017408 0 0\n{}",
        b"request x 1 1 1 10\nmodel m\ndefaults 0 4607182418800017408 0 0 4607182418800017408 0 0\n{}",
    ],
)
def test_lines_that_are_not_as_described_are_no_tape_of_request(tape: bytes) -> None:
    with pytest.raises(TapeError):
        request_tapes.by_tape(tape)


ENDS_A_LINE = "a\x85b\u2028c\u2029d"


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize(
    ("surface", "facts"),
    [("chat", CHAT), ("messages", MESSAGES), ("responses", RESPONSE), ("completions", AnswerFacts("id", 1, "m", "fp"))],
)
def test_no_character_of_an_answer_ends_a_line_for_those_who_split_at_any(
    surface: Surface, facts: wire_tapes.Facts, streamed: bool
) -> None:
    said: list[Step] = [Delta(0, ENDS_A_LINE)]
    if surface != "completions":
        said += [CallDelta(0, 0, "call_1", "f"), CallDelta(0, 0, arguments=f'{{"k":"{ENDS_A_LINE}"}}')]
    steps: list[Step] = ["open", *said, END, "close"] if streamed else [*said, END, "whole"]
    tape = wire_tapes.write_input(WireInput(surface, streamed, facts, steps))
    text = b"".join(out for _, out in wire_tapes.read_output(wire_tapes.by_tape(tape))).decode()
    assert text.splitlines() == text.removesuffix("\n").split("\n")
    told = [json.loads(line.removeprefix("data: ")) for line in text.splitlines() if "{" in line]
    assert any(ENDS_A_LINE in one for one in strings(told))


def strings(value: Any) -> list[str]:
    """Every text within a JSON value."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [text for item in value for text in strings(item)] if isinstance(value, list) else []
