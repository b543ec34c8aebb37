from __future__ import annotations

from typing import Any

import pytest
from ds4.core.chat_dsv4 import parser, prompt
from ds4.core.conversation import THINK_MAX_CONTEXT, conversation, thinking_of
from ds4.core.encoder_dsv4 import Call, Turn
from ds4.core.output.tools import CallMemory, MadeCall
from ds4.errors import EncoderError

FUNCTION = {"name": "f", "parameters": {}}
TOOLS = [{"type": "function", "function": FUNCTION}]
USER = {"role": "user", "content": "Hi"}


def turns(*messages: dict[str, Any], **options: Any) -> tuple[Turn, ...]:
    return conversation(messages, **options).turns


def test_several_system_messages_become_one_at_the_beginning() -> None:
    given = [{"role": "system", "content": "a"}, USER, {"role": "system", "content": "b"}]
    assert turns(*given) == (Turn("system", "a\n\nb"), Turn("user", "Hi"))


def test_tools_and_format_belong_to_the_system_message_even_where_there_is_none() -> None:
    made = turns(USER, tools=TOOLS, response_format={"type": "json_object"})
    assert made == (Turn("system", "", tools=(FUNCTION,), format={"type": "json_object"}), Turn("user", "Hi"))


def test_without_any_of_these_there_is_no_system_message() -> None:
    assert turns(USER, response_format={"type": "text"}) == (Turn("user", "Hi"),)


def test_parts_are_paragraphs_but_of_an_answer_its_pieces() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    made = turns({"role": "user", "content": parts}, {"role": "assistant", "content": parts})
    assert [turn.content for turn in made] == ["a\n\nb", "ab"]


def test_a_result_says_which_of_its_parts_could_not_be_given() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {}}]
    assert turns({"role": "tool", "content": parts, "tool_call_id": "x"}) == (
        Turn("tool", "a\n\n[Unsupported image_url]", id="x"),
    )


def test_an_answer_brings_its_reasoning_and_calls_and_may_go_on() -> None:
    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": {"a": "é"}}}
    message = {"role": "assistant", "content": None, "reasoning_content": "hm", "tool_calls": [call], "prefix": True}
    assert turns(message) == (
        Turn("assistant", None, reasoning="hm", calls=(Call("x", "f", '{"a": "é"}'),), open=True),
    )


def test_calls_of_the_memory_are_written_as_they_were_sampled() -> None:
    memory = CallMemory()
    memory.put(["x"], [MadeCall("f", '{"a": 1, "b": 2}')], "<tool_calls>…</tool_calls>")
    call = {"id": "x", "function": {"name": "f", "arguments": '{"b":2,"a":1}'}}
    (turn,) = turns({"role": "assistant", "tool_calls": [call]}, memory=memory)
    assert turn.replay == "<tool_calls>…</tool_calls>"
    call["function"] = {"name": "f", "arguments": '{"b":2,"a":3}'}
    (turn,) = turns({"role": "assistant", "tool_calls": [call]}, memory=memory)
    assert turn.replay is None


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("Hi", "encoder_message"),
        ({"content": "Hi"}, "encoder_message"),
        ({"role": "user", "content": 5}, "encoder_content"),
        ({"role": "user", "content": [{"type": "image_url"}]}, "encoder_content"),
        ({"role": "user", "content": ["Hi"]}, "encoder_content"),
        ({"role": "assistant", "reasoning_content": 5}, "encoder_message"),
        ({"role": "assistant", "tool_calls": [{"id": "x"}]}, "encoder_message"),
        ({"role": "tool", "content": "x", "tool_call_id": 5}, "encoder_message"),
    ],
)
def test_what_is_no_message_is_refused_with_its_number(message: Any, code: str) -> None:
    with pytest.raises(EncoderError, match=r"messages\[1\]") as caught:
        turns(USER, message)
    assert caught.value.code == code


def test_a_tool_needs_a_function_with_a_name() -> None:
    with pytest.raises(EncoderError, match=r"tools\[0\]") as caught:
        turns(USER, tools=[{"type": "function"}])
    assert caught.value.code == "encoder_tool"


def test_effort_decides_how_much_is_thought() -> None:
    assert thinking_of(None, None, 4096) == (True, False)
    assert thinking_of("none", None, 4096) == thinking_of("high", False, 4096) == (False, False)
    assert thinking_of("none", True, 4096) == (False, False)
    assert thinking_of("max", None, THINK_MAX_CONTEXT - 1) == (True, False)
    assert thinking_of("max", None, THINK_MAX_CONTEXT) == (True, True)
    with pytest.raises(EncoderError, match="reasoning_effort"):
        thinking_of("most", None, 4096)


def test_the_seam_gives_a_prompt_and_a_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENCODER", "OUTPUT"):
        monkeypatch.setenv(f"DS4_COMPONENT_{name}", "python")
    assert "".join([text for text, _ in prompt(conversation([USER]))]).endswith("<｜User｜>Hi<｜Assistant｜><think>")
    assert parser(thinking=True, tools=False).mode == "reasoning"
