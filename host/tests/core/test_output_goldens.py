"""goldens/output_dialects: what single answers say, and the prompts that transformers makes of tool rounds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ds4.core.output.dialects import detect
from ds4.core.output.events import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    Finish,
    ReasoningDelta,
    ReasoningEnd,
    ToolBlock,
    Void,
    joined,
)
from ds4.core.output.tools import calls
from ds4.core.template import ChatTemplate
from ds4.core.template_messages import needs_of, template_messages, template_tools

FOLDER = Path("goldens/output_dialects")
_VERBS: dict[type, str] = {ReasoningDelta: "reasoning", ContentDelta: "content", Void: "void", ToolBlock: "block"}
# What ends the assistant's turn in a template's prompt.
_STOPS = {"qwen": "<|im_end|>", "text": "\n## tool", "llama": "<|eot_id|>", "mistral": "</s>", "mistral_named": "</s>"}
_DIALECTS = {"qwen": "hermes", "text": "hermes", "llama": "llama3", "mistral": "mistral", "mistral_named": "mistral"}
_CITIES = (("aaaaaaaa1", '{"city": "Lisbon"}'), ("aaaaaaaa2", '{"city":"São \\"P\\"\\n","days":[1,2.5,null]}'))
CLIENT: list[dict[str, Any]] = [
    {"role": "system", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]},
    {"role": "user", "content": "Weather?", "tool_calls": None},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": "get_weather", "arguments": arguments}}
            for call_id, arguments in _CITIES
        ],
    },
    {"role": "tool", "tool_call_id": "aaaaaaaa1", "content": "21"},
    {"role": "tool", "tool_call_id": "aaaaaaaa2", "content": [{"type": "text", "text": "19"}]},
]
_CITY = {"city": {"type": "string", "description": "A city's name"}}
TOOLS = [
    {
        "function": {
            "parameters": {"type": "object", "properties": _CITY, "required": ["city"]},
            "description": "The weather in a city",
            "name": "get_weather",
        },
        "type": "function",
    }
]


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(row) for row in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


def worded(event: Event) -> str:
    if isinstance(event, CallStart):
        return f"call {event.index} {event.name}"
    if isinstance(event, ArgumentsDelta):
        return f"arguments {event.index} {event.text}"
    if isinstance(event, CallEnd):
        return f"end {event.index}"
    return "reasoned" if isinstance(event, ReasoningEnd) else f"{_VERBS[type(event)]} {event.text}"


def ending(finish: Finish) -> str:
    if finish.kind != "unterminated":
        return f"finish {finish.kind}"
    return f"finish unterminated {finish.text} | {'-' if finish.closers is None else finish.closers}"


@pytest.mark.parametrize("row", [pytest.param(row, id=row["case"]) for row in rows("answers.jsonl")])
def test_an_answer_says_what_was_worked_out_wherever_it_is_cut(row: dict[str, Any]) -> None:
    dialect, text = detect("", tools=row["tools"], reasoning=row["reasoning"]), row["input"]
    for pieces in (list(text), *([text[:at], text[at:]] for at in range(len(text)))):
        parser = dialect.parser(thinking=row["thinking"], tools=True)
        events = [event for piece in pieces for event in parser.push(piece)]
        rest, finish = parser.finish()
        assert [*map(worded, joined(events + rest)), ending(finish)] == json.loads(row["expected"])


@pytest.mark.parametrize("row", [pytest.param(row, id=row["case"]) for row in rows("prompts.jsonl")])
def test_a_clients_messages_become_the_prompt_that_transformers_makes(row: dict[str, Any]) -> None:
    source = (FOLDER / "templates" / f"{row['template']}.jinja").read_text(encoding="utf-8")
    client = CLIENT[: row["end"]] if row["end"] == 2 else CLIENT
    messages = template_messages(client, needs_of(source))
    assert len(messages) == row["end"]
    template = ChatTemplate(source, names={"bos_token": "<s>"})
    assert template.render_text(messages, tools=template_tools(TOOLS)) == row["expected"]


@pytest.mark.parametrize("name", _STOPS)
def test_a_template_writes_calls_as_its_dialect_reads_them(name: str) -> None:
    dialect = detect((FOLDER / "templates" / f"{name}.jinja").read_text(encoding="utf-8"))
    assert dialect.tools == _DIALECTS[name]
    before, behind = (row["expected"] for row in rows("prompts.jsonl") if row["template"] == name)
    assert behind.startswith(before)
    parser = dialect.parser(thinking=False, tools=True)
    said = parser.push(behind[len(before) :].partition(_STOPS[name])[0])
    rest, finish = parser.finish()
    assert finish.kind == "tool_calls"
    made = [(call.name, json.loads(call.arguments)) for call in calls(said + rest)]
    expected = [("get_weather", json.loads(arguments)) for _, arguments in _CITIES]
    assert made == (expected[:1] if name == "llama" else expected)
