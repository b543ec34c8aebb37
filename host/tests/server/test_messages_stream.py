"""Recorded answers as streams of the Messages API, cut at every byte: each one checked against the protocol, all cuts
of an answer the same message, and the whole answer the same too."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ds4.core.chat import ChatRequest
from ds4.core.chat_dsv4 import Dsv4Chat
from ds4.core.sampling import Sampling
from ds4.server.answer import ChatAnswer
from ds4.server.errors import shed
from ds4.server.events import CallDelta, CallsVoid, Delta, Finished
from ds4.server.job import Choice, Job
from ds4.server.request import Body
from ds4.server.surfaces.messages_render import MessagesFacts, MessagesRenderer, whole_members
from ds4.server.surfaces.messages_request import MessagesRequest
from ds4.server.surfaces.messages_turns import read_turns
from ds4.server.surfaces.rendering import Answer
from support.messages_events import MessageStream, StreamError

D = "｜DSML｜"


def invoke(name: str, **parameters: str) -> str:
    inner = "".join(f'<{D}parameter name="{k}" string="true">{v}</{D}parameter>\n' for k, v in parameters.items())
    return f'<{D}invoke name="{name}">\n{inner}</{D}invoke>\n'


def block(*invokes: str) -> str:
    return f"\n\n<{D}tool_calls>\n{''.join(invokes)}</{D}tool_calls>"


@dataclass(frozen=True)
class Tape:
    text: str
    reason: str
    thinking: bool = False
    cut: bool = False  # by max_tokens
    stop: tuple[str, ...] = ()


CALL = block(invoke("f", a="x é y"))
TAPES = {
    "text": Tape("Grüße, 世界 🌍!", "end_turn"),
    "nothing": Tape("", "end_turn"),
    "cut text": Tape("a “b", "max_tokens", cut=True),
    "thought": Tape("hm… </thi</think>Yes.", "end_turn", thinking=True),
    "thought only": Tape("hm and hm", "max_tokens", thinking=True, cut=True),
    "call": Tape(CALL, "tool_use"),
    "thought, text, calls": Tape("so</think>Look:" + block(invoke("f", a="1"), invoke("g")), "tool_use", thinking=True),
    "cut call": Tape("a" + CALL[: CALL.index(" y")], "max_tokens", cut=True),
    "call without its end": Tape(CALL[: -len(f"</{D}tool_calls>")], "tool_use"),
    "malformed call": Tape("a" + CALL.replace(f"</{D}tool_calls>", "oops"), "end_turn"),
    "malformed, then a call": Tape(CALL.replace(f"</{D}tool_calls>", "oops") + CALL, "tool_use"),
    "marker that is none": Tape(f"a <{D}tool_ca b", "end_turn"),
    "stop": Tape("one two ENDE three", "stop_sequence", stop=("ENDE", "zz")),
    "stop in a thought": Tape("one ENDE two", "stop_sequence", thinking=True, stop=("ENDE",)),
    "stop in a call": Tape(block(invoke("f", a="rm -rf /tmp/ENDE")), "stop_sequence", stop=("ENDE",)),
}


class Pieces:
    """A decoder whose tokens are pieces of bytes."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces, self._held = pieces, b""

    def push(self, token: int) -> str:
        self._held += self._pieces[token]
        for end in range(len(self._held), max(len(self._held) - 4, -1), -1):
            try:
                text = self._held[:end].decode()
            except UnicodeDecodeError:
                continue
            self._held = self._held[end:]
            return text
        return ""

    def flush(self) -> str:
        return self._held.decode("utf-8", "replace")


def request_of(tape: Tape, **more: Any) -> MessagesRequest:
    chat = Dsv4Chat()
    tool = {"type": "function", "function": {"name": "f"}}
    prompt = chat.prompt(ChatRequest([{"role": "user", "content": "go"}], [tool], thinking=tape.thinking), 1000)
    answer = ChatAnswer(chat, prompt, "toolu_")
    ids = "msg_" + "0" * 32
    return MessagesRequest(ids, [[1, 2, 3]], Sampling(), max_tokens=9, stop=tape.stop, answer=answer, **more)


def events_of(
    tape: Tape, pieces: list[bytes], request: MessagesRequest
) -> list[Delta | CallDelta | CallsVoid | Finished]:
    """What the engine's thread makes of the answer, drawn in these pieces."""
    timeline = SimpleNamespace(prompt=[1, 2, 3], drawn=[], stop_ids={-1}, finish=None, placement=None, arrived=0.0)
    choice = Choice(Job(request, 0.0), 0, cast(Any, timeline), Pieces(pieces))
    events: list[Any] = []
    tokens = [*range(len(pieces))]
    for token in tokens if tape.cut else [*tokens, -1]:
        timeline.drawn.append(token)
        if tape.cut and token == tokens[-1]:
            timeline.finish = "length"
        if token == -1:
            timeline.finish = "stop"
        events += choice.take(token, 1.0)
        if choice.text.stopped:
            break
    return events


def renderer_of(request: MessagesRequest) -> MessagesRenderer:
    facts = MessagesFacts(
        request.id,
        "m",
        len(request.prompts[0]),
        writes=request.caches and request.cache_prompt,
        hides=request.hides,
        warms=request.warms,
        request_id="req_1",
    )
    return MessagesRenderer(facts)


def message(events: list[Any], request: MessagesRequest) -> dict[str, Any]:
    renderer, stream = renderer_of(request), MessageStream()
    parts = [renderer.opening()]
    for event in events:
        match event:
            case Delta():
                quick = renderer.at_once(event)
                parts.append(renderer.delta(event))
                assert quick is None or quick == parts[-1], "what overtakes says the same"
            case CallDelta():
                parts.append(renderer.call(event))
            case Finished():
                parts += [renderer.finished(event), renderer.closing([event])]
            case CallsVoid():
                continue
        if not isinstance(event, Finished):
            parts.append(renderer.heartbeat())
    stream.feed(b"".join(parts))
    return stream.end()


def whole(events: list[Any], request: MessagesRequest) -> dict[str, Any]:
    answer = Answer()
    for event in events:
        if isinstance(event, Finished):
            answer.finished = event
        else:
            answer.add(event)
    read: dict[str, Any] = json.loads(renderer_of(request).buffered([answer]))
    return read


def shape(message: dict[str, Any]) -> Any:
    """A message without its ids and its number of tokens."""
    blocks = [
        {key: value for key, value in block.items() if key not in ("id", "signature")} for block in message["content"]
    ]
    return message["stop_reason"], message["stop_sequence"], blocks


def splits(text: str) -> list[list[bytes]]:
    data = text.encode()
    return [
        [data],
        *([data[:at], data[at:]] for at in range(1, len(data))),
        [data[i : i + 1] for i in range(len(data))],
    ]


@pytest.mark.parametrize("name", TAPES)
def test_every_cut_of_an_answer_is_the_same_message(name: str) -> None:
    tape = TAPES[name]
    shapes = []
    for pieces in splits(tape.text):
        request = request_of(tape)
        events = events_of(tape, pieces, request)
        shapes.append(shape(message(events, request)))
        assert shapes[-1] == shapes[0], pieces
    assert shapes[0][0] == tape.reason


def test_there_are_many_tapes() -> None:
    assert sum(len(splits(tape.text)) for tape in TAPES.values()) > 1000


@pytest.mark.parametrize("name", TAPES)
def test_a_whole_answer_says_what_its_stream_said(name: str) -> None:
    tape = TAPES[name]
    for pieces in splits(tape.text)[:: max(1, len(tape.text) // 8)]:
        request = request_of(tape)
        events = events_of(tape, pieces, request)
        streamed, buffered = message(events, request), whole(events, request)
        assert buffered["usage"] == streamed["usage"]
        if any(isinstance(event, CallsVoid) for event in events):
            continue  # a stream cannot take a call back
        for block_ in streamed["content"]:
            if block_["type"] == "tool_use":
                block_["input"] = json.loads(whole_members(block_["input"]))
        assert buffered == streamed


def test_a_malformed_call_is_text_in_a_whole_answer() -> None:
    tape = TAPES["malformed call"]
    request = request_of(tape)
    events = events_of(tape, [tape.text.encode()], request)
    assert whole(events, request)["content"] == [{"type": "text", "text": tape.text}]
    kinds = [block_["type"] for block_ in message(events, request)["content"]]
    assert kinds == ["text", "tool_use", "text"]


def test_a_command_that_was_cut_off_is_no_command() -> None:
    for name in ("stop in a call", "cut call"):
        request = request_of(TAPES[name])
        answer = whole(events_of(TAPES[name], [TAPES[name].text.encode()], request), request)
        assert answer["content"][-1]["input"] == {} and answer["stop_reason"] != "tool_use"


def test_a_hidden_thought_comes_back_by_its_signature() -> None:
    tape = TAPES["thought, text, calls"]
    for pieces in splits(tape.text)[::20]:
        request = request_of(tape, hides=True)
        events = events_of(tape, pieces, request)
        for answer in (message(events, request), whole(events, request)):
            thought, *rest = answer["content"]
            assert thought["thinking"] == "" and [part["type"] for part in rest] == ["text", "tool_use", "tool_use"]
            body = Body({"messages": [{"role": "user", "content": "go"}, {"role": "assistant", "content": [thought]}]})
            assert read_turns(body)[1]["reasoning_content"] == "so"


def test_a_prompt_that_is_only_computed_has_no_answer() -> None:
    tape = TAPES["thought, text, calls"]
    request = request_of(tape, warms=True)
    events = events_of(tape, [tape.text.encode()], request)
    for answer in (message(events, request), whole(events, request)):
        assert answer["content"] == [] and answer["stop_reason"] == "max_tokens"
        assert answer["usage"]["output_tokens"] == 0


def test_an_error_ends_a_stream_where_it_stands() -> None:
    request = request_of(TAPES["text"])
    renderer, stream = renderer_of(request), MessageStream()
    stream.feed(renderer.opening() + renderer.delta(Delta(0, "Hel")))
    stream.feed(renderer.failed(shed("stopping")))
    stream.end()
    assert stream.error is not None and stream.error["request_id"] == "req_1"
    assert stream.error["error"]["type"] == "overloaded_error"


@pytest.mark.parametrize(
    ("cut", "kept"),
    [
        ("", {}),
        ("{", {}),
        ('{"a": 1', {}),
        ('{"a": 1, "b": "x', {"a": 1}),
        ('{"a": [1, {"c": 2}], "b": tr', {"a": [1, {"c": 2}]}),
        ('{"a": "x}", "b": 2}', {"a": "x}", "b": 2}),
        ('{"a": ' + "9" * 5000 + ', "b', None),
        ('{"a" 1', {}),
        ("[1, 2", {}),
    ],
)
def test_members_are_kept_that_something_follows(cut: str, kept: dict[str, Any] | None) -> None:
    text = whole_members(cut)
    assert text == '{"a": ' + "9" * 5000 + "}" if kept is None else json.loads(text) == kept


GOOD = (
    b'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_00000000000000000000000000000000",'
    b'"type":"message","role":"assistant","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":3,'
    b'"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}\n\n',
    b'event: content_block_start\ndata: {"type":"content_block_start","index":0,"content_block":{"type":"thinking",'
    b'"thinking":"","signature":""}}\n\n',
    b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta",'
    b'"signature":"s"}}\n\n',
    b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n',
    b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},'
    b'"usage":{"input_tokens":1,"cache_creation_input_tokens":0,"cache_read_input_tokens":2,"output_tokens":1,'
    b'"output_tokens_details":{"thinking_tokens":1}}}\n\n',
    b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
)


def judged(events: list[bytes]) -> None:
    stream = MessageStream()
    for event in events:
        stream.feed(event)
    stream.end()


def test_the_judge_takes_the_published_order_and_no_other() -> None:
    judged(list(GOOD))
    for left_out in range(len(GOOD)):
        with pytest.raises(StreamError):
            judged([*GOOD[:left_out], *GOOD[left_out + 1 :]])
    for twice in range(len(GOOD)):
        with pytest.raises(StreamError):
            judged([*GOOD[: twice + 1], *GOOD[twice:]])
    for first in range(len(GOOD) - 1):
        with pytest.raises(StreamError):
            judged([*GOOD[:first], GOOD[first + 1], GOOD[first], *GOOD[first + 2 :]])
    for wrong in ((b'"index":0', b'"index":1'), (b"event: content_block_stop", b"event: ping"), (b"end_turn", b"stop")):
        with pytest.raises(StreamError):
            judged([event.replace(*wrong, 1) for event in GOOD])
