"""Answers held to a format, over a scripted engine that takes the first token a mask allows: which fields ask for it,
what a grammar does to the engine's steps, and what cannot be used."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from ds4.server.surfaces import tool_rules
from support.live_server import EOS, LiveServer, read_answer, text_of

CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
HI: Any = [{"role": "user", "content": "hi"}]
COLOUR = {
    "type": "object",
    "properties": {"colour": {"enum": ["red", "blue"]}},
    "required": ["colour"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "colour", "schema": COLOUR, "strict": True}}
PLAIN = {"type": "json_schema", "schema": COLOUR}
REGEX_FORM = {"type": "grammar", "syntax": "regex", "definition": "[a-z]+"}
NESTED = {"type": "function", "name": "f", "parameters": {}, "strict": True}


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(banks=4) as live:
        yield live


def said(path: str, answer: dict[str, Any]) -> str:
    match path:
        case "/v1/chat/completions":
            return str(answer["choices"][0]["message"]["content"])
        case "/v1/completions":
            return str(answer["choices"][0]["text"])
        case "/v1/messages":
            return str(answer["content"][0]["text"])
        case _:
            return str(answer["output"][0]["content"][0]["text"])


def got(sock: socket.socket) -> dict[str, Any]:
    with sock:
        status, _, raw = read_answer(sock)
    assert status == 200, raw
    answer: dict[str, Any] = json.loads(raw)
    return answer


ASKS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (CHAT, {"messages": HI, "max_tokens": 99}, {"response_format": FORMAT}),
    (COMPLETIONS, {"prompt": "hi", "max_tokens": 99}, {"response_format": FORMAT}),
    (MESSAGES, {"messages": HI, "max_tokens": 99}, {"output_config": {"format": PLAIN}}),
    (MESSAGES, {"messages": HI, "max_tokens": 99}, {"output_format": PLAIN}),
    (RESPONSES, {"input": "hi", "max_output_tokens": 99}, {"text": {"format": {**PLAIN, "name": "colour"}}}),
]


@pytest.mark.parametrize(("path", "body", "ask"), ASKS)
def test_every_surface_takes_a_schema(server: LiveServer, path: str, body: Any, ask: Any) -> None:
    status, answer = server.post(path, {**body, **ask})
    assert status == 200, answer
    assert json.loads(said(path, answer))["colour"] in ("red", "blue")


@pytest.mark.parametrize(("path", "body"), [(path, body) for path, body, _ in ASKS])
@pytest.mark.parametrize(
    ("ask", "pattern"),
    [({"regex": "[0-9]{2}/[xyz]"}, "[0-9]{2}/[xyz]"), ({"grammar": 'start: "ab" | "cd"'}, "ab|cd")],
)
def test_every_surface_takes_a_pattern_and_a_grammar(
    server: LiveServer, path: str, body: Any, ask: Any, pattern: str
) -> None:
    status, answer = server.post(path, {**body, **ask})
    assert status == 200 and re.fullmatch(pattern, said(path, answer)), answer


@pytest.mark.parametrize(
    "ask",
    [
        {"response_format": None},
        {"response_format": {"type": "text"}},
        {"grammar": None, "regex": None},
        {"text": {"format": {"type": "text"}}},
        {"output_format": None, "output_config": {"format": None}},
    ],
)
def test_null_and_text_ask_for_nothing(server: LiveServer, ask: Any) -> None:
    for path, body, _ in ASKS:
        status, answer = server.post(path, {**body, **ask})
        assert status == 200 and said(path, answer).isalpha()
    assert not any(server.session.masks.values())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, {"messages": HI, "tools": [{"type": "function", "function": {"name": "f", "strict": True}}]}),
        (
            "/apply-template",
            {"messages": HI, "tools": [{"type": "function", "function": {"name": "f", "strict": True}}]},
        ),
        (MESSAGES, {"messages": HI, "max_tokens": 9, "tools": [{"name": "f", "strict": True, "input_schema": {}}]}),
        ("/v1/messages/count_tokens", {"messages": HI, "tools": [{"name": "f", "strict": True, "input_schema": {}}]}),
        (RESPONSES, {"input": "hi", "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": True}]}),
        (RESPONSES, {"input": "hi", "tools": [{"type": "custom", "name": "f", "format": REGEX_FORM}]}),
        (RESPONSES, {"input": "hi", "tools": [{"type": "namespace", "name": "n", "tools": [NESTED]}]}),
        ("/v1/responses/input_tokens", {"input": "hi", "tools": [NESTED]}),
    ],
)
def test_what_tools_are_held_to_is_compiled_beside_the_event_loop(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, path: str, body: Any
) -> None:
    threads: list[str] = []

    def compiling(*args: Any, **more: Any) -> None:
        threads.append(threading.current_thread().name)

    monkeypatch.setattr(tool_rules.grammar, "json_schema", compiling)
    monkeypatch.setattr(tool_rules.grammar, "regex", compiling)
    server.post(path, body)
    assert threads and all(name.startswith("ds4-grammar") for name in threads), threads


def test_an_answer_ends_where_its_grammar_does(server: LiveServer) -> None:
    body = {"prompt": "a", "regex": "[a-z]{3}", "max_tokens": 50}
    for more in ({}, {"ignore_eos": True}):
        _, answer = server.post(COMPLETIONS, {**body, **more})
        assert answer["choices"][0]["finish_reason"] == "stop" and len(answer["choices"][0]["text"]) == 3
        assert answer["usage"]["completion_tokens"] == 4
    _, cut = server.post(COMPLETIONS, {**body, "max_tokens": 2})
    assert cut["choices"][0]["finish_reason"] == "length" and len(cut["choices"][0]["text"]) == 2
    _, stopped = server.post(COMPLETIONS, {**body, "regex": "ab[c-z]", "stop": "b"})
    assert (stopped["choices"][0]["finish_reason"], stopped["choices"][0]["text"]) == ("stop", "a")


def test_a_stream_says_the_same_as_the_buffered_answer(server: LiveServer) -> None:
    body = {"messages": HI, "response_format": FORMAT, "max_tokens": 99}
    _, answer = server.post(CHAT, body)
    assert text_of(server.events(CHAT, body)) == said(CHAT, answer)


def test_each_choice_follows_the_grammar_for_itself(server: LiveServer) -> None:
    _, answer = server.post(COMPLETIONS, {"prompt": ["a", "bcd"], "n": 2, "regex": "[a-d]{2}[x-z]", "logprobs": 2})
    texts = [choice["text"] for choice in answer["choices"]]
    assert len(texts) == 4 and all(re.fullmatch("[a-d]{2}[x-z]", text) for text in texts), texts
    assert all(len(choice["logprobs"]["tokens"]) == 3 for choice in answer["choices"])


def test_a_bank_is_free_of_its_mask_for_the_next_answer(server: LiveServer) -> None:
    for _ in range(4):
        assert server.post(COMPLETIONS, {"prompt": "x", "regex": "[0-9]+", "max_tokens": 3})[0] == 200
    for _ in range(4):
        _, answer = server.post(COMPLETIONS, {"prompt": "x", "max_tokens": 3})
        assert answer["choices"][0]["text"].isalpha()


def test_others_stay_chained_beside_a_constrained_answer() -> None:
    with LiveServer(banks=2) as server:
        server.gate.close()
        free = server.open(COMPLETIONS, {"prompt": "aaaa", "max_tokens": 12})
        held = server.open(COMPLETIONS, {"prompt": "bb", "max_tokens": 12, "regex": "[0-9]{12}"})
        server.gate.release()
        free_answer, held_answer = got(free), got(held)
        log = server.session.log
    assert free_answer["choices"][0]["text"] == text_alone("aaaa", 12)
    assert re.fullmatch("[0-9]{12}", held_answer["choices"][0]["text"])
    chained = {row.bank for rows in log for row in rows if row.token < 0}
    assert len(chained) == 1, "the unconstrained bank chains, the other one does not"


def text_alone(prompt: str, count: int) -> str:
    with LiveServer(banks=2) as server:
        return str(server.post(COMPLETIONS, {"prompt": prompt, "max_tokens": count})[1]["choices"][0]["text"])


@pytest.mark.parametrize(
    ("path", "body", "param", "code"),
    [
        (CHAT, {"response_format": {"type": "json_schema"}}, "response_format.json_schema.schema", "missing_field"),
        (CHAT, {"response_format": {"type": "yaml"}}, "response_format.type", "invalid_value"),
        (CHAT, {"response_format": {"schema": {}}}, "response_format.type", "invalid_value"),
        (CHAT, {"response_format": "json"}, "response_format", "invalid_type"),
        (
            CHAT,
            {"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": "strin"}}}},
            "response_format.json_schema.schema",
            "invalid_schema",
        ),
        (RESPONSES, {"text": {"format": {**PLAIN, "schema": {"not": {}}}}}, "text.format.schema", "invalid_schema"),
        (MESSAGES, {"output_format": {**PLAIN, "schema": 3}}, "output_format.schema", "invalid_schema"),
        (COMPLETIONS, {"regex": "("}, "regex", "invalid_regex"),
        (COMPLETIONS, {"regex": 5}, "regex", "invalid_type"),
        (COMPLETIONS, {"grammar": "start: nothing"}, "grammar", "invalid_grammar"),
        (COMPLETIONS, {"grammar": 'start: T\nT: "a" & "b"'}, "grammar", "invalid_grammar"),
        (COMPLETIONS, {"grammar": 'start: "a"', "regex": "a"}, "regex", "invalid_value"),
        (CHAT, {"response_format": FORMAT, "regex": "a"}, "regex", "invalid_value"),
        (
            MESSAGES,
            {"output_format": PLAIN, "output_config": {"format": PLAIN}},
            "output_format.schema",
            "invalid_value",
        ),
    ],
)
def test_what_cannot_be_used_is_a_400_before_the_engine_hears_of_it(
    server: LiveServer, path: str, body: dict[str, Any], param: str, code: str
) -> None:
    steps = len(server.session.log)
    whole = next(given for at, given, _ in ASKS if at == path)
    status, answer = server.post(path, {**whole, **body})
    assert status == 400, answer
    if path == MESSAGES:
        assert answer["error"]["type"] == "invalid_request_error" and param.split(".")[0] in answer["error"]["message"]
    else:
        assert (answer["error"]["param"], answer["error"]["code"]) == (param, code)
    assert len(server.session.log) == steps


def test_a_grammar_that_becomes_too_complex_fails_its_own_request_only(server: LiveServer) -> None:
    other = server.open(COMPLETIONS, {"prompt": "q", "max_tokens": 40})
    status, answer = server.post(COMPLETIONS, {"prompt": "a", "grammar": 'start: ("a"{1000}){1000}', "max_tokens": 9})
    assert status == 400 and answer["error"]["code"] == "invalid_complexity", answer
    assert len(got(other)["choices"][0]["text"]) == 40
    assert server.post(COMPLETIONS, {"prompt": "a", "regex": "[0-9]"})[0] == 200
    server.wait_for(lambda: not server.engine.scheduler.active)


def test_the_end_token_is_all_that_a_complete_answer_may_draw(server: LiveServer) -> None:
    server.post(COMPLETIONS, {"prompt": "z", "regex": "k", "max_tokens": 5})
    last = next(mask for mask in server.session.masks.values() if mask is not None and mask[0] & 1)
    assert int.from_bytes(last, "little") == 1 << EOS
