"""Chats of models with a template, read as a person said on the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest
from ds4.core.chat_template import TemplateChat
from ds4.core.output.answer import Tags
from ds4.core.output.dialects import detect
from ds4.core.template import ChatTemplate
from support import commands, embedded, recorded_server, tool_model
from support.live_server import EOS, LiveServer

CHAT = "/v1/chat/completions"
TEMPLATE = "{% for message in messages %}{{ message.content }}\n{% endfor %}{{ tools and tools[0].function.name }}"
PROMPT = "!"  # what the answer's first token follows
TOOLS = [{"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}]
ANSWERS = {
    "hermes": '<tool_call>\n{"name": "add", "arguments": {"a": 1}}\n</tool_call>',
    "llama3": '{"name": "add", "parameters": {"a": 1}}',
    "mistral": '[TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}]',
    "toolcall": '<TOOLCALL>[{"name": "add", "arguments": {"a": 1}}]</TOOLCALL>',
}


class Answer:
    """The engine's tokens: a text behind the prompt, however long that is, then the end."""

    def __init__(self, text: str) -> None:
        self._bytes = text.encode()

    def __call__(self, tokens: Sequence[int]) -> int:
        at = len(tokens) - 1 - max(index for index, token in enumerate(tokens) if token == ord(PROMPT))
        return self._bytes[at] if at < len(self._bytes) else EOS


def served(text: str, **override: Any) -> LiveServer:
    chat = TemplateChat(ChatTemplate(TEMPLATE + PROMPT), detect(TEMPLATE, **override))
    return LiveServer(rule=Answer(text), dialect=chat)


def body(**more: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 200, **more}


@pytest.fixture(params=ANSWERS)
def calling(request: pytest.FixtureRequest) -> Iterator[LiveServer]:
    with served(ANSWERS[request.param], tools=request.param) as live:
        yield live


def test_calls_are_read_in_the_dialect_that_was_named(calling: LiveServer) -> None:
    _, answer = calling.post(CHAT, body(tools=TOOLS))
    choice = answer["choices"][0]
    assert choice["finish_reason"] == "tool_calls", answer
    (call,) = choice["message"]["tool_calls"]
    assert call["function"] == {"name": "add", "arguments": '{"a": 1}'}
    *events, end = calling.events(CHAT, body(tools=TOOLS))
    assert end == "[DONE]"
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    pieces = [call["function"].get("arguments", "") for delta in deltas for call in delta.get("tool_calls") or ()]
    assert "".join(pieces) == '{"a": 1}'


def test_without_a_dialect_tools_are_refused() -> None:
    with served("") as live:
        status, answer = live.post(CHAT, body(tools=TOOLS))
    assert (status, answer["error"]["code"]) == (400, "unsupported_parameter")


def test_reasoning_is_read_between_tags_of_a_persons_own() -> None:
    with served("<why>so</why>it is", reasoning=Tags("<why>", "</why>")) as live:
        _, answer = live.post(CHAT, body())
        assert answer["choices"][0]["message"]["reasoning_content"] == "so"
        assert answer["choices"][0]["message"]["content"] == "it is"
    with served("<think>so</think>it is", reasoning="none") as live:
        _, answer = live.post(CHAT, body())
        assert answer["choices"][0]["message"]["content"] == "<think>so</think>it is"


@pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")
@pytest.mark.parametrize(("flags", "status"), [((), 200), (("--tool-dialect", "none"), 400)])
def test_the_flag_reaches_the_chat_of_a_model_with_a_template(
    flags: tuple[str, ...], status: int, tmp_path: Path
) -> None:
    model = tool_model.write(tmp_path / "tools.gguf")
    with recorded_server.started(tmp_path, None, "-m", str(model), "--ctx", "1024", *flags) as server:
        answer = httpx.post(server.url + CHAT, json=body(tools=TOOLS, max_tokens=1), timeout=60)
    assert answer.status_code == status, answer.text
    if status == 400:
        assert answer.json()["error"]["code"] == "unsupported_parameter"


@embedded.needs_mini
@embedded.needs_engine
def test_a_family_with_an_encoding_of_its_own_has_nothing_to_choose(tmp_path: Path) -> None:
    model = str(embedded.mini())
    done = commands.run("ds4.server", "--port", "0", "-m", model, "--tool-dialect", "hermes", home=tmp_path)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert "--tool-dialect: cannot be chosen for this model" in done.stderr
