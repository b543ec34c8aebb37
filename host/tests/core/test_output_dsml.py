"""What single events there are stands in the goldens of `output`; here is what holds for all texts."""

from __future__ import annotations

import random

import pytest
from ds4.core.output.dsml import DsmlParser, read_block
from ds4.core.output.events import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    Finish,
    ReasoningDelta,
    ToolBlock,
    Void,
    joined,
)
from ds4.core.output.tools import CallMemory, MadeCall, calls
from hypothesis import given
from hypothesis import strategies as st
from support.effort import calls_made

BLOCK = (
    '\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name="f">\n'
    '<｜DSML｜parameter name="x" string="true">a\n&lt;b</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="n" string="false"> [1, 2] </｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>'
)
FRAGMENTS = [
    *("</think>", "<", "</", "\n\n", "｜DSML｜", "tool_calls>", "<tool_calls>", "<｜DSML｜tool_calls>"),
    *("<DSML｜tool_calls>",),
    *('<invoke name="f">', "</invoke>", '<｜DSML｜invoke name="f">', "</｜DSML｜invoke>"),
    *("</｜DSML｜tool_calls>", "</tool_calls>"),
    *('<｜DSML｜parameter name="x">', '<parameter name="y">', "</｜DSML｜parameter>", "</parameter>"),
    *(' string="false"', " ", "1"),
    *('<｜DSML｜parameter name="z" string="false">', "&lt;/｜DSML｜parameter>", "&lt;", "é", '"', "\\", "["),
    *("]", BLOCK),
]
TEXTS = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)


def said(pieces: list[str], thinking: bool = False) -> tuple[list[Event], Finish]:
    parser = DsmlParser(thinking=thinking, tools=True)
    events = [event for piece in pieces for event in parser.push(piece)]
    rest, finish = parser.finish()
    return joined(events + rest), finish


def accounted(events: list[Event], finish: Finish) -> str:
    """All text, as events have it."""
    shown = [event.text for event in events if isinstance(event, ReasoningDelta | ContentDelta | Void | ToolBlock)]
    return "".join(shown) + finish.text


@given(TEXTS, st.booleans(), st.randoms(use_true_random=False))
def test_where_a_text_is_cut_changes_nothing(text: str, thinking: bool, rng: random.Random) -> None:
    whole = said([text], thinking)
    assert said(list(text), thinking) == whole
    places = sorted(rng.randrange(len(text) + 1) for _ in range(3))
    assert said([text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)], thinking) == whole


@given(TEXTS)
def test_no_character_is_lost_or_said_twice(text: str) -> None:
    events, finish = said([text])
    shown = accounted(events, finish)
    assert text.startswith(shown)
    assert shown == text or finish.kind == "tool_calls"  # what is behind a complete block is dropped


@given(TEXTS)
def test_the_closers_complete_a_block(text: str) -> None:
    _, finish = said([text])
    if finish.closers is not None:
        events, after = said([text, finish.closers])
        assert after.kind == "tool_calls"
        assert isinstance(events[-1], ToolBlock)


@given(TEXTS)
def test_calls_begin_and_end_in_order_and_arguments_are_json(text: str) -> None:
    events, finish = said([text])
    for event in events:
        assert not isinstance(event, CallEnd | ArgumentsDelta) or event.index >= 0
    if finish.kind == "tool_calls":
        block = events[-1]
        assert isinstance(block, ToolBlock)
        assert read_block(block.text) == calls(events)
        starts = [event.index for event in events[events.index(block) - 1 :: -1] if isinstance(event, CallStart)]
        assert starts[0] + 1 == len(calls(events))


def test_every_place_where_an_answer_can_break_off_is_told() -> None:
    for end in range(len(BLOCK)):
        _, finish = said(["x" + BLOCK[:end]])
        opener = BLOCK.index(">") + 1
        assert finish.kind == ("stop" if end < opener else "unterminated")
        assert finish.text == ("" if end < opener else BLOCK[:end])


@pytest.mark.parametrize(
    "unit",
    [
        "<",
        "\n",
        "</think",
        "<tool_calls>",
        "<tool_calls><t",
        '<tool_calls><invoke name="<tool_calls><invoke name="',
        '<tool_calls><invoke name="f"><parameter name="x">&lt;</parameter>x',
        BLOCK[:-1] + "#",
    ],
)
def test_hostile_text_takes_time_in_proportion_to_its_length(unit: str) -> None:
    """Counted in calls of functions, which do not depend on the machine."""

    def work(text: str, size: int) -> int:
        return calls_made(DsmlParser(thinking=False, tools=True), text, size)

    for size in (1, 1 << 20):
        once, twice = work(unit * (2000 // len(unit)), size), work(unit * (4000 // len(unit)), size)
        assert twice < 2.5 * once + 200


def test_long_values_and_heads_are_not_looked_at_again() -> None:
    """Each piece costs the same calls, however much came before it; and nothing of it is kept to be looked at again."""
    parser, opened = DsmlParser(thinking=False, tools=True), '<tool_calls><invoke name="'
    parser.push(opened)
    for piece, then in (("x" * 64, '"><parameter name="x">'), (" " * 64, ""), ("y" * 64, "")):
        for _ in range(1000):
            parser.push(piece)
            assert parser._left == ""
        parser.push(then)
    assert len(parser.finish()[1].text) == len(opened) + len('"><parameter name="x">') + 3 * 64000


def test_a_block_is_remembered_by_its_calls_ids() -> None:
    memory, made = CallMemory(), [MadeCall("f", '{"a": 1}'), MadeCall("g", "{}")]
    memory.put(["x", "y"], made, "text")
    assert memory.replay(["x", "y"], made) == "text"
    assert memory.replay(["y", "x"], made) is None
    assert memory.replay(["x"], made[:1]) is None
    assert memory.replay(["x", "y"], [made[0], MadeCall("g", '{"b": 1}')]) is None
    assert memory.replay(["x", "y"], [MadeCall("f", '{"a": 1.0}'), made[1]]) is None


def test_an_id_that_comes_again_means_the_new_block() -> None:
    memory, made = CallMemory(), [MadeCall("f", "{}")]
    memory.put(["x"], made, "old")
    memory.put(["x"], made, "new")
    assert (len(memory), memory.replay(["x"], made)) == (1, "new")


def test_the_oldest_block_is_forgotten_when_there_is_no_room() -> None:
    memory, made = CallMemory(most=10), [MadeCall("f", "{}")]
    for name in ("a", "b", "c"):
        memory.put([name], made, name * 5)
    assert [memory.replay([name], made) for name in ("a", "b", "c")] == [None, "bbbbb", "ccccc"]


def test_ids_and_calls_must_fit() -> None:
    with pytest.raises(ValueError, match="1 ids for 0 calls"):
        CallMemory().put(["x"], [], "text")


def test_a_memory_is_restored_from_what_a_record_keeps() -> None:
    memory, made = CallMemory(), read_block(BLOCK)
    memory.put(["x"], made, BLOCK)
    memory.put(["y"], made, BLOCK)
    memory.put(["z"], [MadeCall("lost", "{}")], "no block")
    other = CallMemory()
    other.restore(memory.items(), read_block)
    assert [other.replay([name], made) for name in ("x", "y")] == [BLOCK, BLOCK]
    assert len(other) == 2
