"""What holds for all texts that models with chat templates write; single cases stand in goldens/output_dialects/."""

from __future__ import annotations

import json
import random

import pytest
from ds4.core.json_text import MOST_DEPTH, is_json
from ds4.core.output.answer import Tags, TemplateParser
from ds4.core.output.dialects import NONE, OWN, REASONING, TOOLS, detect, reasoning_tags
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
from ds4.core.output.utf8 import Utf8Stream
from ds4.errors import TemplateError
from hypothesis import given
from hypothesis import strategies as st
from support.effort import calls_made

NAMES = [name for name in TOOLS if name != NONE]
ARGUMENTS = '{"city": "São\nPaulo \\"x\\" {[", "n": [1, {"a": null}]}'
OBJECT = '{"name": "f", "arguments": ' + ARGUMENTS + "}"
WHOLE = {
    "hermes": f"\n<tool_call>\n{OBJECT}\n</tool_call>",
    "tool_calls": f"<tool_calls>[{OBJECT}, {OBJECT}]</tool_calls>",
    "toolcall": f"<TOOLCALL>[{OBJECT}]</TOOLCALL>",
    "llama3": f"<|python_tag|>{OBJECT}",
    "mistral": f"[TOOL_CALLS][{OBJECT}]",
}
NAMED = "[TOOL_CALLS]f[CALL_ID]abc[ARGS]" + ARGUMENTS
FRAGMENTS = [
    *(
        "<think>",
        "</think>",
        "\n",
        "\n\n",
        " ",
        "<",
        "</",
        "[",
        "]",
        "{",
        "}",
        ",",
        ";",
        ":",
        '"',
        "\\",
        "é",
        "x",
        "\x00",
    ),
    *("<tool_call>", "</tool_call>", "</tool", "<tool_calls>", "</tool_calls>", "<TOOLCALL>", "</TOOLCALL>"),
    *("<|python_tag|>", "<|python", "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]", "[TOOL", "name", "f"),
    *('{"name": "f"', '"name"', '"arguments": ', '"parameters": ', '{"a": "b"}', "null", '"id": 1', '"{\\"a\\": 1}"'),
    *(ARGUMENTS, OBJECT, OBJECT.replace("arguments", "parameters"), NAMED, *WHOLE.values()),
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=10).map("".join)
KINDS = st.sampled_from(NAMES)
THINK = Tags("<think>", "</think>")


def parser(kind: str, thinking: bool = False) -> TemplateParser:
    return detect("", tools=kind, reasoning="think").parser(thinking=thinking, tools=True)


def said(kind: str, pieces: list[str], thinking: bool = False) -> tuple[list[Event], Finish]:
    reading = parser(kind, thinking)
    events = [event for piece in pieces for event in reading.push(piece)]
    rest, finish = reading.finish()
    return joined(events + rest), finish


def shown(events: list[Event], finish: Finish) -> str:
    parts = [event.text for event in events if isinstance(event, ReasoningDelta | ContentDelta | Void | ToolBlock)]
    return "".join(parts) + finish.text


@given(KINDS, TEXTS, st.booleans(), st.randoms(use_true_random=False))
def test_where_a_text_is_cut_changes_nothing(kind: str, text: str, thinking: bool, rng: random.Random) -> None:
    whole = said(kind, [text], thinking)
    assert said(kind, list(text), thinking) == whole
    for _ in range(2):
        places = sorted(rng.randrange(len(text) + 1) for _ in range(3))
        pieces = [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]
        assert said(kind, pieces, thinking) == whole


@pytest.mark.parametrize("kind", NAMES)
def test_every_cut_of_a_whole_answer_gives_the_same(kind: str) -> None:
    text = (
        "<think>\nHm.\n</think>\n\n" + ("Sure.\n" if kind != "llama3" else "") + WHOLE[kind] + "\n" + WHOLE[kind] + "\n"
    )
    whole = said(kind, [text])
    assert whole[1] == Finish("tool_calls")
    assert len(calls(whole[0])) == 2 * WHOLE[kind].count(OBJECT)
    for first in range(len(text)):
        assert said(kind, [text[:first], text[first:]]) == whole


@pytest.mark.parametrize("kind", NAMES)
def test_bytes_cut_inside_a_character_say_the_same(kind: str) -> None:
    data = WHOLE[kind].encode()
    stream = Utf8Stream()
    pieces = [stream.push(data[at : at + 1]) for at in range(len(data))]
    assert said(kind, pieces) == said(kind, [WHOLE[kind]])


@given(KINDS, TEXTS, st.booleans())
def test_only_white_space_and_tags_of_reasoning_are_lost(kind: str, text: str, thinking: bool) -> None:
    def bare(text: str) -> str:
        for part in (*THINK, ";", *" \t\r\n"):
            text = text.replace(part, "")
        return text

    assert bare(shown(*said(kind, [text], thinking))) == bare(text)


@given(KINDS, TEXTS)
def test_what_has_been_shown_is_never_part_of_a_marker(kind: str, text: str) -> None:
    """Each beginning of a text shows a beginning of what the whole shows."""

    def told(events: list[Event]) -> str:
        return "".join([repr(e) if not hasattr(e, "text") else type(e).__name__[0] + e.text for e in joined(events)])

    whole = told(said(kind, [text])[0])
    for end in range(len(text)):
        assert whole.startswith(told(joined(parser(kind).push(text[:end]))))


@given(KINDS, TEXTS)
def test_the_closers_complete_a_block(kind: str, text: str) -> None:
    _, finish = said(kind, [text])
    if finish.closers is not None:
        events, after = said(kind, [text, finish.closers])
        assert after.kind == "tool_calls"
        assert isinstance(events[-1], ToolBlock)


@given(KINDS, TEXTS)
def test_the_calls_of_a_complete_block_have_names_and_objects(kind: str, text: str) -> None:
    events, _ = said(kind, [text])
    open_call = False
    pending: list[Event] = []
    for event in events:
        if isinstance(event, CallStart):
            assert not open_call and event.name
            open_call = True
        elif isinstance(event, ArgumentsDelta):
            assert open_call and event.text
        elif isinstance(event, CallEnd):
            assert open_call
            open_call = False
        elif isinstance(event, Void):
            open_call, pending = False, []
            continue
        elif isinstance(event, ToolBlock):
            assert not open_call
            made = calls([*pending, event])
            assert made == detect("", tools=kind).read_block(event.text) != []
            for call in made:
                assert is_json(call.arguments) and isinstance(json.loads(call.arguments), dict)
            pending = []
            continue
        else:
            assert not open_call or isinstance(event, Void)
        pending.append(event)


@pytest.mark.parametrize("text", [*WHOLE.values(), NAMED, OBJECT.replace("arguments", "parameters")])
def test_a_call_that_is_cut_is_not_invented(text: str) -> None:
    """Wherever an answer breaks off before its last call's object ends, there are no calls that are not whole."""
    kind = "mistral" if text == NAMED else next((k for k in NAMES if WHOLE[k] == text), "llama3")
    last = text.rindex("}")
    whole = calls(said(kind, [text])[0])
    for end in range(last + 1):
        events, finish = said(kind, [text[:end]])
        ended = sum(isinstance(event, CallEnd) for event in events)
        assert ended < len(whole) and calls(events)[:ended] == whole[:ended]
        assert finish.kind != "tool_calls" or len(calls(events)) == ended > 0
    for end in range(last + 1, len(text) + 1):
        if text[:end].count("}") == text.count("}"):
            events, finish = said(kind, [text[:end]])
            assert (finish.kind, calls(events)) == ("tool_calls", whole)


@pytest.mark.parametrize("kind", NAMES)
def test_arguments_come_as_they_are_generated_behind_their_name(kind: str) -> None:
    reading = parser(kind)
    text = WHOLE[kind]
    at = text.index("Paulo")
    events = reading.push(text[:at])
    assert [type(event) for event in events] == [CallStart, ArgumentsDelta]
    assert isinstance(events[0], CallStart) and events[0].name == "f"
    assert reading.push("x") == [ArgumentsDelta(0, "x")]
    assert reading.push("\n") == [ArgumentsDelta(0, "\\n")]
    assert reading.mode == "block"


@pytest.mark.parametrize(
    "text", ["", "x", WHOLE["hermes"] + "x", "x" + WHOLE["hermes"], WHOLE["hermes"] * 2, "<tool_call>"]
)
def test_what_is_no_single_whole_block_has_no_calls(text: str) -> None:
    assert detect("", tools="hermes").read_block(text) == []
    assert detect("", tools="none").read_block(WHOLE["hermes"]) == []


def test_without_tools_nothing_is_a_call() -> None:
    dialect = detect("", tools="hermes", reasoning="think")
    reading = dialect.parser(thinking=False, tools=False)
    text = WHOLE["hermes"]
    assert joined([*reading.push(text), *reading.finish()[0]]) == [ContentDelta(text)]


def test_reasoning_that_the_prompt_opened_ends_at_its_tag_whether_or_not_the_model_opens_it_again() -> None:
    said_once = said("hermes", ["Hm.\n</think>\n\nYes."], thinking=True)
    assert said_once == ([ReasoningDelta("Hm."), ReasoningEnd(), ContentDelta("Yes.")], Finish("stop"))
    assert said("hermes", ["<think>\nHm.\n</think>\n\nYes."], thinking=True) == said_once
    assert said("hermes", ["\n<think>\nHm.\n</think>\n\nYes."]) == said_once


def test_reasoning_needs_tags() -> None:
    with pytest.raises(ValueError, match="no end"):
        TemplateParser(thinking=True)


def test_the_prompts_end_tells_whether_reasoning_was_opened() -> None:
    assert THINK.opened_by("user: <think> is a tag<|im_end|>\nassistant\n<think>\n")
    assert not THINK.opened_by("assistant\n<think>\n\n</think>\n\n")


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("deep", [MOST_DEPTH - 1, MOST_DEPTH, 100_000])
def test_containers_nest_up_to_a_bound(kind: str, deep: int) -> None:
    inner = '{"a": ' + "[" * deep + "]" * deep + "}"
    text = WHOLE[kind].replace(ARGUMENTS, inner)
    events, finish = said(kind, [text])
    assert finish.kind == ("tool_calls" if deep < MOST_DEPTH else "stop")
    assert any(isinstance(event, Void) for event in events) == (deep >= MOST_DEPTH)
    if deep <= MOST_DEPTH:
        assert (
            said(kind, list(text))
            == said(kind, [text[at : at + 7] for at in range(0, len(text), 7)])
            == (events, finish)
        )


@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize(
    "unit",
    [
        *("<", "\n", " ", "{", "</think", "<tool_call>", "[TOOL_CALLS]", "[TOOL_CALLS]f ", "<|python_tag|>{"),
        *('{"name": "', '{"id": 1, ', '{"parameters": {"a": "', "<tool_call>[{", "<think>", "[TOOL_CALLS]f[ARGS]{"),
        *WHOLE.values(),
        *(text.replace("}", "#") for text in WHOLE.values()),
    ],
)
def test_hostile_text_takes_time_in_proportion_to_its_length(kind: str, unit: str) -> None:
    """Counted in calls of functions, which do not depend on the machine."""

    def work(text: str, size: int) -> int:
        return calls_made(parser(kind), text, size)

    for size in (1, 1 << 20):
        once, twice = work(unit * (1 + 1000 // len(unit)), size), work(unit * 2 * (1 + 1000 // len(unit)), size)
        assert twice < 2.5 * once + 200


def test_no_text_is_kept_waiting_but_the_beginning_of_a_marker() -> None:
    """What waits is looked at again with each piece, so it must stay short."""
    for kind in NAMES:
        for text in ("x", " " * 9, "\n" * 9, "[TOOL_CALLS]f" + " " * 9, "<tool_call>" + " " * 9, "{" + " " * 9):
            reading = parser(kind)
            for _ in range(50):
                reading.push(text)
                assert len(reading._left) < 16


@pytest.mark.parametrize(
    ("tools", "reasoning", "source"),
    [
        ("hermes", "none", '{% if tools %}<tool_call>\n{"name": "x", "arguments": {}}\n</tool_call>{% endif %}'),
        ("hermes", "think", "{{ '<tool_call>{\\\"arguments\\\": ' }}</tool_call><think></think>"),
        ("none", "none", '{% if tools %}<tool_call><function=f></function></tool_call>"arguments":{% endif %}'),
        ("none", "none", '<tool_call>f<arg_key>a</arg_key></tool_call> "arguments": '),
        ("none", "think", "{{ content.split('</think>')[-1] }}"),
        ("tool_calls", "none", '<tool_calls>[{"name": "x", "arguments": {}}]</tool_calls>'),
        ("toolcall", "none", '<TOOLCALL>[{"name": "x", "arguments": {}}]</TOOLCALL>'),
        ("llama3", "none", '<|start_header_id|>{% for t in tools %}{{ \'{"name": x, "parameters": y}\' }}{% endfor %}'),
        ("none", "none", '<|start_header_id|>{{ messages }} "parameters": '),
        ("mistral", "mistral", "[TOOL_CALLS][{}] [THINK]x[/THINK]"),
        ("none", "none", "{% for tool in tools %}{{ tool }}{% endfor %}"),
        ("none", "none", ""),
    ],
)
def test_a_templates_text_tells_its_dialect(tools: str, reasoning: str, source: str) -> None:
    found = detect(source)
    assert (found.tools, found.reasoning) == (tools, reasoning)
    assert (found.calls is None) == (tools == NONE) and (found.tags is None) == (reasoning == NONE)


def test_names_override_what_the_template_shows() -> None:
    found = detect("[TOOL_CALLS]", tools="llama3", reasoning="think")
    assert (found.tools, found.reasoning) == ("llama3", "think")
    assert detect("[TOOL_CALLS]", tools="none").calls is None


def test_tags_of_a_persons_own_override_what_the_template_shows() -> None:
    found = detect("</think>", ["<r>", "</r>", "</think>"], reasoning=reasoning_tags("<r>,</r>"))
    assert (found.reasoning, found.tags) == (OWN, Tags("<r>", "</r>"))
    assert found.visible == {"<r>", "</r>"}
    parser = found.parser(thinking=False, tools=False)
    events = [*parser.push("<r>so</r>it is</think>"), *parser.finish()[0]]
    assert "".join(event.text for event in events if isinstance(event, ReasoningDelta)) == "so"
    assert "".join(event.text for event in events if isinstance(event, ContentDelta)) == "it is</think>"


@pytest.mark.parametrize("name", REASONING)
def test_tags_are_known_by_their_names(name: str) -> None:
    assert reasoning_tags(name) == name and detect("", reasoning=name).reasoning == name


@pytest.mark.parametrize("text", ["", "dsml", OWN, "<r>", "<r>,", ",</r>", " ,</r>", "<r>,<r>", "<r>,</r>,"])
def test_what_is_neither_a_name_nor_two_tags_is_refused_with_what_there_is(text: str) -> None:
    with pytest.raises(ValueError, match="none, think, mistral, or two tags as OPEN,CLOSE"):
        reasoning_tags(text)


@pytest.mark.parametrize("names", [{"tools": "dsml"}, {"reasoning": "dsml"}])
def test_an_unknown_name_is_refused_with_those_that_are_known(names: dict[str, str]) -> None:
    with pytest.raises(TemplateError, match="expected none, .* found dsml|found.*dsml") as caught:
        detect("", **names)  # type: ignore[arg-type]  # tuples of special tokens have no such name
    assert caught.value.code == "template_dialect" and "none, " in str(caught.value.expected)


def test_special_tokens_that_are_read_are_visible() -> None:
    specials = ["<s>", "[TOOL_CALLS]", "[ARGS]", "</think>"]
    assert detect("[TOOL_CALLS]", specials).visible == {"[TOOL_CALLS]", "[ARGS]"}
    assert detect("</think>", specials).visible == {"</think>"}
    assert detect("", specials).visible == frozenset()
