"""The corrective turn, with a model that says what a test has written down: of broken calls, buffered, once."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from ds4.core.chat_template import TemplateChat
from ds4.core.output.dialects import detect
from ds4.core.trace import decode
from ds4.server.tracing import SUFFIX, Tracer
from support.live_server import EOS, LiveServer, RoleTemplate

GOOD = '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'
BROKEN = '<tool_call>\n{"name": "f", "arguments": {"a": nonsense}}\n</tool_call>'
UNKNOWN = GOOD.replace('"f"', '"g"')
CUT = '<tool_call>\n{"name": "f", "argu'
WHOLE_BUT_FOR_TAGS = '<tool_call>\n{"name": "f", "arguments": {"a": 1'
TOOL: dict[str, Any] = {"name": "f", "parameters": {"type": "object", "properties": {"a": {}}}}
PATHS = ("/v1/chat/completions", "/v1/messages", "/v1/responses")


class HermesTemplate(RoleTemplate):
    source = "<tool_call>"


class Script:
    """says: the first answer, and the one behind a corrective turn. prompts: those that were answered."""

    def __init__(self) -> None:
        self.says: list[str] = []
        self.prompts: list[str] = []

    def __call__(self, tokens: Sequence[int]) -> int:
        prompt, _, said = bytes(tokens).decode().rpartition("assistant: ")
        if not said and prompt not in self.prompts:
            self.prompts.append(prompt)
        if said.startswith("z"):
            time.sleep(0.002)  # an answer that is still going on when its client leaves
        answer = self.says["was not carried out" in prompt]
        return answer.encode()[len(said)] if len(said) < len(answer) else EOS


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


@pytest.fixture(scope="module")
def server(script: Script) -> Iterator[LiveServer]:
    dialect = TemplateChat(cast(Any, HermesTemplate()), detect("", tools="hermes"))
    with LiveServer(banks=2, rule=script, dialect=dialect, context=3000) as live:
        yield live


def body(path: str, **more: Any) -> dict[str, Any]:
    talk: Any = {"messages": [{"role": "user", "content": "go"}]}
    if path.endswith("completions"):
        return {**talk, "tools": [{"type": "function", "function": TOOL}], **more}
    if path.endswith("messages"):
        return {**talk, "tools": [{"name": "f", "input_schema": TOOL["parameters"]}], "max_tokens": 2900, **more}
    return {"input": "go", "tools": [{"type": "function", **TOOL}], **more}


def outcome(path: str, answer: dict[str, Any]) -> tuple[list[Any], str, int]:
    """Arguments of the calls, text, tokens of output."""
    if path.endswith("completions"):
        message = answer["choices"][0]["message"]
        calls = [json.loads(call["function"]["arguments"]) for call in message.get("tool_calls", [])]
        return calls, message["content"] or "", answer["usage"]["completion_tokens"]
    if path.endswith("messages"):
        blocks = answer["content"]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        return [b["input"] for b in blocks if b["type"] == "tool_use"], text, answer["usage"]["output_tokens"]
    items = answer["output"]
    text = "".join(part["text"] for item in items if item["type"] == "message" for part in item["content"])
    calls = [json.loads(item["arguments"]) for item in items if item["type"] == "function_call"]
    return calls, text, answer["usage"]["output_tokens"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("first", [BROKEN, UNKNOWN, CUT], ids=["malformed", "unknown", "cut"])
def test_a_broken_call_is_corrected_once_and_both_turns_count(
    server: LiveServer, script: Script, path: str, first: str
) -> None:
    script.says, script.prompts = [first, GOOD], []
    status, answer = server.post(path, body(path))
    assert status == 200, answer
    calls, text, tokens = outcome(path, answer)
    assert calls == [{"a": 1}] and not text.strip()
    assert tokens == len(first) + len(GOOD) + 2
    assert len(script.prompts) == 2 and first in script.prompts[1] and "tools: f" in script.prompts[1]


@pytest.mark.parametrize("path", PATHS)
def test_a_second_broken_call_is_told_as_the_text_that_it_is(server: LiveServer, script: Script, path: str) -> None:
    script.says, script.prompts = [BROKEN, "Well: " + BROKEN], []
    calls, text, _ = outcome(path, server.post(path, body(path))[1])
    assert not calls and text == "Well: " + BROKEN and len(script.prompts) == 2


@pytest.mark.parametrize("path", PATHS)
def test_a_call_that_only_lacks_its_end_is_completed_instead(server: LiveServer, script: Script, path: str) -> None:
    script.says, script.prompts = [WHOLE_BUT_FOR_TAGS, GOOD], []
    calls, _, tokens = outcome(path, server.post(path, body(path))[1])
    assert calls == [{"a": 1}] and tokens == len(WHOLE_BUT_FOR_TAGS) + 1 and len(script.prompts) == 1


def test_a_call_that_the_budget_cuts_is_not_corrected(server: LiveServer, script: Script) -> None:
    script.says, script.prompts = [BROKEN, GOOD], []
    _, answer = server.post(PATHS[0], body(PATHS[0], max_tokens=len(BROKEN) - 40))
    assert answer["choices"][0]["finish_reason"] == "length" and len(script.prompts) == 1


def test_a_stream_is_not_corrected(server: LiveServer, script: Script) -> None:
    script.says, script.prompts = [BROKEN, GOOD], []
    events = server.events(PATHS[0], body(PATHS[0], stream=True))
    assert events[-1] == "[DONE]" and len(script.prompts) == 1


def test_a_correction_that_does_not_fit_leaves_the_first_answer(server: LiveServer, script: Script) -> None:
    long = "x" * 2700 + BROKEN
    script.says, script.prompts = [long, GOOD], []
    calls, text, _ = outcome(PATHS[0], server.post(PATHS[0], body(PATHS[0]))[1])
    assert not calls and text == long and len(script.prompts) == 1


@pytest.mark.parametrize("path", PATHS)
def test_a_hang_up_within_the_corrective_turn_frees_its_bank(server: LiveServer, script: Script, path: str) -> None:
    script.says, script.prompts = [BROKEN, "z" * 5000], []
    cancelled = server.service.metrics.cancelled
    with server.open(path, body(path)):
        server.wait_for(lambda: len(script.prompts) == 2)
    server.wait_for(lambda: server.idle)
    assert server.service.metrics.cancelled == cancelled + 1


@pytest.mark.parametrize("path", PATHS)
def test_a_trace_tells_both_turns_apart(server: LiveServer, script: Script, path: str, tmp_path: Path) -> None:
    script.says, script.prompts = [BROKEN, GOOD], []
    server.service.tracer = Tracer(tmp_path, "float", "f32")
    try:
        assert server.post(path, body(path))[0] == 200
        server.wait_for(lambda: any(tmp_path.glob("*" + SUFFIX)))
    finally:
        server.service.tracer = None
    (file,) = tmp_path.glob("*" + SUFFIX)
    trace = decode(file.read_bytes())
    assert [bytes(trace.drawn(index)[:-1]).decode() for index in range(len(trace.choices))] == [BROKEN, GOOD]
    assert BROKEN not in bytes(trace.choices[0].prompt).decode() and BROKEN in bytes(trace.choices[1].prompt).decode()
