"""The layout itself is held to the published encoder by the goldens of `encoder`; here is what those cannot say."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ds4.core.encoder_dsv4 import SPECIALS, Call, Conversation, Turn, encode
from ds4.core.output.dsml import DsmlParser
from ds4.core.output.events import Finish
from ds4.core.output.tools import MadeCall, calls
from ds4.errors import EncoderError
from hypothesis import given
from hypothesis import strategies as st

WORDS = [*'ab\n"\\<>&é😀', *SPECIALS, "</tool_result>", "</｜DSML｜parameter>", "&lt;"]
TEXT = st.lists(st.sampled_from(WORDS), max_size=6).map("".join)
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="&"), max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=8,
)
KEYS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='"&'), max_size=6)


def written(*turns: Turn, **switches: bool) -> str:
    return "".join([text for text, _ in encode(Conversation(turns, **switches))])


@given(
    st.lists(
        st.builds(Turn, st.sampled_from(["user", "assistant", "system", "tool"]), TEXT, reasoning=TEXT), max_size=5
    )
)
def test_nobody_can_type_a_special_token(turns: list[Turn]) -> None:
    segments = encode(Conversation(tuple(turns)))
    layout = encode(Conversation(tuple([Turn(turn.role, "-", reasoning="-") for turn in turns])))
    assert [text for text, special in segments if special] == [text for text, special in layout if special]
    assert all(text in SPECIALS for text, special in segments if special)


@given(
    st.lists(
        st.builds(
            Turn,
            st.sampled_from(["user", "assistant", "tool", "system"]),
            TEXT,
            replay=st.none() | TEXT,
            open=st.booleans(),
        ),
        max_size=5,
    )
)
def test_plain_stretches_do_not_touch_and_none_is_empty(turns: list[Turn]) -> None:
    segments = encode(Conversation(tuple(turns)))
    assert all(text for text, _ in segments)
    assert all(a.special or b.special for a, b in zip(segments, segments[1:], strict=False))


@given(
    st.lists(
        st.tuples(st.sampled_from(["f", "get_weather", "é"]), st.dictionaries(KEYS, JSON, max_size=3)),
        min_size=1,
        max_size=3,
    )
)
def test_calls_that_are_written_are_read_back(made: list[tuple[str, dict[str, Any]]]) -> None:
    turn = Turn("assistant", "Ok", calls=tuple([Call("", name, json.dumps(arguments)) for name, arguments in made]))
    answer = written(turn, thinking=False).removeprefix(SPECIALS[0]).removesuffix(SPECIALS[1])
    parser = DsmlParser(thinking=False, tools=True)
    found = calls(parser.push(answer))
    assert parser.finish()[1] == Finish("tool_calls")
    assert [(call.name, json.loads(call.arguments)) for call in found] == made


def test_values_are_read_back_though_they_hold_their_own_end() -> None:
    arguments = json.dumps({"x": "a</｜DSML｜parameter>", "y": ["</｜DSML｜parameter>"]})
    answer = written(Turn("assistant", calls=(Call("", "f", arguments),)), thinking=False)
    parser = DsmlParser(thinking=False, tools=True)
    assert calls(parser.push(answer.removeprefix(SPECIALS[0]))) == [MadeCall("f", calls_of(arguments))]


def calls_of(arguments: str) -> str:
    return json.dumps(json.loads(arguments), ensure_ascii=False).replace('["</', '["\\u003c/')


def test_a_fault_names_the_message_and_what_it_may_be() -> None:
    with pytest.raises(EncoderError, match=r"messages\[1\].*unknown role.*latest_reminder, found function") as caught:
        written(Turn("user", "Hi"), Turn("function", "x"))
    assert (caught.value.code, caught.value.turn) == ("encoder_role", 1)


def test_a_value_that_is_no_json_is_a_typed_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value in (object(), endless):
        with pytest.raises(EncoderError) as caught:
            written(Turn("system", "", tools=(value,)))
        assert caught.value.code == "encoder_value"
