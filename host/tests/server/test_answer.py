"""One choice's text as events for any surface: numbers and ids of calls, and what a broken tool block becomes."""

from __future__ import annotations

from typing import Literal

import pytest
from ds4.core.chat import ChatRequest
from ds4.core.chat_dsv4 import Dsv4Chat
from ds4.server.answer import ChatAnswer, Part, Reader
from ds4.server.events import CallDelta, CallsVoid, Delta

D = "｜DSML｜"
TOOL = {"type": "function", "function": {"name": "f"}}
WHOLE = (
    f'\n\n<{D}tool_calls>\n<{D}invoke name="f">\n'
    f'<{D}parameter name="a" string="true">x y</{D}parameter>\n</{D}invoke>\n'
    f'<{D}invoke name="g">\n</{D}invoke>\n</{D}tool_calls>'
)


def reader(chat: Dsv4Chat | None = None, *, thinking: bool = False) -> Reader:
    chat = chat or Dsv4Chat()
    request = ChatRequest([{"role": "user", "content": "go"}], [TOOL], thinking=thinking)
    return Reader(ChatAnswer(chat, chat.prompt(request, 1000)), 0)


def read(made: Reader, text: str, reason: Literal["stop", "length"] = "stop") -> tuple[list[Part], str]:
    parts = [part for character in text for part in made.push(character)]
    more, ended = made.finish(reason)
    return [*parts, *more], ended


def shown(parts: list[Part]) -> tuple[str, str, list[tuple[str, str]]]:
    """(reasoning, content, calls) as a client joins them."""
    calls: list[list[str]] = []
    for part in parts:
        if isinstance(part, CallDelta):
            if part.id:
                assert part.index == len(calls)
                calls.append([part.name, ""])
            calls[part.index][1] += part.arguments
    texts = [part for part in parts if isinstance(part, Delta)]
    thought = "".join(part.text for part in texts if part.reasoning)
    content = "".join(part.text for part in texts if not part.reasoning)
    return thought, content, [(name, arguments) for name, arguments in calls]


def test_reasoning_content_and_calls_come_apart() -> None:
    made = reader(thinking=True)
    assert made.reasoning
    parts, reason = read(made, f"hm</think>Look:{WHOLE}")
    assert shown(parts) == ("hm", "Look:", [("f", '{"a": "x y"}'), ("g", "{}")])
    assert reason == "tool_calls" and made.complete


def test_ids_cannot_be_guessed_and_are_told_once() -> None:
    parts, _ = read(reader(), WHOLE)
    ids = [part.id for part in parts if isinstance(part, CallDelta) and part.id]
    assert len(ids) == len(set(ids)) == 2
    assert all(one.startswith("call_") and len(one) == 37 for one in ids)


def test_a_call_that_comes_back_is_rendered_as_it_was_sampled() -> None:
    chat = Dsv4Chat()
    sampled = WHOLE.replace("\n\n<", "<", 1).replace(f"\n</{D}invoke>", f"  </{D}invoke>", 1)
    parts, _ = read(reader(chat), sampled)
    ids = [part.id for part in parts if isinstance(part, CallDelta) and part.id]
    calls = [
        {"id": one, "type": "function", "function": {"name": name, "arguments": arguments}}
        for one, (name, arguments) in zip(ids, shown(parts)[2], strict=True)
    ]
    assistant = {"role": "assistant", "content": None, "tool_calls": calls}
    talk = [{"role": "user", "content": "go"}, assistant, {"role": "tool", "tool_call_id": ids[0], "content": "1"}]
    assert sampled in chat.prompt(ChatRequest(talk, [TOOL]), 1000).text
    assert sampled not in Dsv4Chat().prompt(ChatRequest(talk, [TOOL]), 1000).text


def test_a_malformed_block_is_content_and_its_calls_are_none() -> None:
    broken = WHOLE.replace(f"</{D}tool_calls>", "oops")
    parts, reason = read(reader(), "a" + broken)
    assert [part.first for part in parts if isinstance(part, CallsVoid)] == [0]
    assert shown(parts)[1] == "a" + broken
    assert reason == "stop"


def test_calls_behind_a_malformed_block_have_numbers_of_their_own() -> None:
    broken = WHOLE.replace(f"</{D}tool_calls>", "oops")
    parts, reason = read(reader(), broken + WHOLE)
    assert [part.first for part in parts if isinstance(part, CallsVoid)] == [0]
    assert [name for name, _ in shown(parts)[2]] == ["f", "g", "f", "g"]
    assert reason == "tool_calls"


@pytest.mark.parametrize("cut", [len(f"</{D}tool_calls>"), len(f"</{D}invoke>\n</{D}tool_calls>"), 3])
def test_a_block_that_lacks_only_closing_tags_is_completed(cut: int) -> None:
    chat = Dsv4Chat()
    parts, reason = read(reader(chat), WHOLE[:-cut])
    assert shown(parts)[2] == [("f", '{"a": "x y"}'), ("g", "{}")]
    assert reason == "tool_calls"


def test_a_block_that_ends_within_a_string_is_completed_too() -> None:
    parts, reason = read(reader(), WHOLE[: WHOLE.index(" y")])
    assert shown(parts)[2] == [("f", '{"a": "x"}')] and reason == "tool_calls"


def test_a_block_that_ends_within_a_tag_is_content() -> None:
    text = WHOLE[: WHOLE.index(' string="true"')]
    parts, reason = read(reader(), text)
    assert shown(parts)[1] == text and reason == "stop"


def test_a_block_that_was_cut_off_stays_as_it_is() -> None:
    parts, reason = read(reader(), WHOLE[: WHOLE.index(" y")], "length")
    assert shown(parts)[1:] == ("", [("f", '{"a": "x')]) and reason == "length"


def test_a_block_that_a_stop_string_cut_off_is_no_call_though_it_could_be_completed() -> None:
    made = reader()
    parts = [part for character in WHOLE[: WHOLE.index(" y")] for part in made.push(character)]
    more, reason = made.finish("stop", cut=True)
    assert shown([*parts, *more])[1:] == ("", [("f", '{"a": "x')]) and reason == "stop"


def test_thinking_that_does_not_end_is_no_answer() -> None:
    parts, reason = read(reader(thinking=True), "hm and hm")
    assert shown(parts) == ("hm and hm", "", []) and reason == "stop"
