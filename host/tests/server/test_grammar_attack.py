"""Grammars that mean harm, against a whole server: what one request may have compiled is bounded, and whoever asks for
a usual schema meanwhile is served, or told to come again."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ds4.core.constraint import grammar as grammars
from ds4.server import limits
from ds4.server.grammar_pool import GrammarPool
from ds4.server.surfaces import tool_rules
from support.live_server import LiveServer

HI: Any = [{"role": "user", "content": "hi"}]
CHAT, COMPLETIONS, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages"
COLOUR = {"type": "object", "properties": {"a": {"enum": ["red", "blue"]}}, "required": ["a"]}
GOOD = {"prompt": "hi", "max_tokens": 99, "response_format": {"type": "json_schema", "json_schema": {"schema": COLOUR}}}
SECONDS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[LiveServer]:
    with LiveServer(banks=4) as live:
        yield live


def chat_tools(count: int, *, strict: bool = True, schema: Any = COLOUR) -> dict[str, Any]:
    functions = [{"name": f"f{n}", "strict": strict, "parameters": schema} for n in range(count)]
    made = [{"type": "function", "function": function} for function in functions]
    return {"messages": HI, "tools": made}


def messages_tools(count: int, schema: Any = COLOUR) -> dict[str, Any]:
    made = [{"name": f"f{n}", "strict": True, "input_schema": schema} for n in range(count)]
    return {"messages": HI, "max_tokens": 5, "tools": made}


def responses_tools(count: int, schema: Any = COLOUR) -> dict[str, Any]:
    made = [{"type": "function", "name": f"f{n}", "strict": True, "parameters": schema} for n in range(count)]
    return {"input": "hi", "tools": [{"type": "namespace", "name": "n", "tools": made}]}


def custom_tools(count: int, definition: str = "[a-z]+") -> dict[str, Any]:
    form = {"type": "grammar", "syntax": "regex", "definition": definition}
    return {"input": "hi", "tools": [{"type": "custom", "name": f"f{n}", "format": form} for n in range(count)]}


LARGE = {"type": "object", "description": "x" * (limits.MAX_HELD_CHARS // 8)}


@pytest.mark.parametrize(
    ("path", "body", "code", "words"),
    [
        (CHAT, chat_tools(limits.MAX_HELD_TOOLS + 1), "too_many_grammars", "128 in a request, not 129"),
        (RESPONSES, responses_tools(300), "too_many_grammars", "128 in a request, not 300"),
        (RESPONSES, custom_tools(200), "too_many_grammars", "128 in a request, not 200"),
        (MESSAGES, messages_tools(500), None, "128 in a request, not 500"),
        ("/v1/messages/count_tokens", messages_tools(500), None, "128 in a request, not 500"),
        ("/apply-template", chat_tools(500), "too_many_grammars", "128 in a request, not 500"),
        (CHAT, chat_tools(9, schema=LARGE), "grammars_too_large", "524288 characters"),
        (RESPONSES, responses_tools(9, LARGE), "grammars_too_large", "tools[0].tools[7]"),
        (RESPONSES, custom_tools(100, "a" * 8000), "grammars_too_large", "tools[65]"),
        (MESSAGES, messages_tools(9, LARGE), None, "524288 characters"),
    ],
)
def test_more_than_one_request_may_have_compiled_is_a_400_with_the_bound_and_what_was_found(
    server: LiveServer, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, code: str | None, words: str
) -> None:
    for name in ("json_schema", "regex", "lark"):
        monkeypatch.setattr(tool_rules.grammar, name, lambda *given, **more: pytest.fail("it was compiled"))
    status, answer = server.post(path, body)
    assert status == 400 and words in answer["error"]["message"], answer
    assert answer["error"].get("code") == code


def test_tools_that_are_not_strict_do_not_count(server: LiveServer) -> None:
    status, answer = server.post("/apply-template", chat_tools(1000, strict=False))
    assert status == 200 or answer["error"]["param"] == "tools" and "no tools" in answer["error"]["message"], answer


def slow_schema(start: int) -> dict[str, Any]:
    """A product of alternatives, a part of a second to compile."""

    def one(name: str) -> dict[str, Any]:
        return {"type": "object", "properties": {name: {"type": "integer"}}, "required": [name]}

    many = {"allOf": [{"anyOf": [one(f"p{start}_{i}_{j}") for j in range(5)]} for i in range(4)]}
    return {**GOOD, "response_format": {"type": "json_schema", "json_schema": {"schema": many}}}


def test_a_good_client_is_served_or_told_to_come_again_while_others_attack(server: LiveServer) -> None:
    over = threading.Event()
    attacks: list[int] = []

    def attack(number: int) -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            attacks.append(server.post(COMPLETIONS, slow_schema(1000 * number + turn))[0])

    hostile = [threading.Thread(target=attack, args=(number,)) for number in range(6)]
    for thread in hostile:
        thread.start()
    told: list[tuple[int, Any]] = []
    for _ in range(3):
        began = time.monotonic()
        told.append(server.post(COMPLETIONS, GOOD))
        assert time.monotonic() - began < SECONDS
    over.set()
    for thread in hostile:
        thread.join(SECONDS)
    assert not any(thread.is_alive() for thread in hostile)
    assert len(attacks) >= 6
    for status, answer in told:
        assert status == 200 or (status == 503 and answer["error"]["code"] == "grammar_busy"), answer
    status, answer = server.post(COMPLETIONS, GOOD)  # the pool is as before
    assert status == 200 and json.loads(answer["choices"][0]["text"])["a"] in ("red", "blue")


def test_a_hostile_grammar_that_does_not_end_costs_nobody_else_their_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    known = grammars.regex

    def endless(pattern: str) -> Any:
        return over.wait() if pattern.startswith("evil") else known(pattern)

    monkeypatch.setattr(grammars, "regex", endless)
    with LiveServer(banks=2, pool=GrammarPool(run=0.5)) as server:
        for _ in range(3):  # the same again holds no thread again
            status, answer = server.post(COMPLETIONS, {"prompt": "a", "regex": "evil"})
            assert (status, answer["error"]["code"]) == (400, "grammar_timeout"), answer
        assert server.post(COMPLETIONS, {"prompt": "a", "regex": "[0-9]"})[0] == 200
        assert server.post(COMPLETIONS, {"prompt": "a", "regex": "evil2"})[0] == 400
        status, answer = server.post(COMPLETIONS, {"prompt": "a", "regex": "[0-9]"})
        assert (status, answer["error"]["code"]) == (503, "grammar_busy"), answer
        assert json.loads(server.get("/v1/stats")[1])["sheds"] == {"grammar_busy": 1}
        assert server.metric('ds4_sheds_total{reason="grammar_busy"}') == 1
        assert server.metric('ds4_requests_total{outcome="shed"') == 1 and not server.metric(
            "ds4_failed_requests_total"
        )
        over.set()
        deadline = time.monotonic() + SECONDS
        while server.post(COMPLETIONS, {"prompt": "a", "regex": "[0-9]"})[0] != 200:
            assert time.monotonic() < deadline
