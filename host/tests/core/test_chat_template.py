"""Chats of models with a template: what the template is given, how its answers are read, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from ds4.core.chat import ChatRequest
from ds4.core.chat_template import TemplateChat
from ds4.core.output.dialects import detect
from ds4.core.output.events import ArgumentsDelta, CallStart, ContentDelta, ReasoningDelta, joined
from ds4.core.output.tools import calls
from ds4.core.template import ChatTemplate
from ds4.errors import ChatError

QWEN = Path("goldens/output_dialects/templates/qwen.jinja").read_text(encoding="utf-8")
SWITCHED = (
    QWEN + "{%- if enable_thinking is defined and not enable_thinking %}{{ '<think>\n\n</think>\n\n' }}{% endif -%}"
)
OPENED = QWEN + "{%- if add_generation_prompt %}{{ '<think>\n' }}{% endif -%}"
PLAIN = "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}assistant: "
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
USER = {"role": "user", "content": "Hi"}
CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def chat(source: str) -> TemplateChat:
    return TemplateChat(ChatTemplate(source))


def test_tools_are_rendered_and_calls_in_the_answer_are_read() -> None:
    dialect = chat(QWEN)
    prompt = dialect.prompt(ChatRequest([USER], TOOLS), 1000)
    assert '"name": "f"' in prompt.text and prompt.tools and not prompt.thinking
    parser = dialect.parser(prompt)
    events = joined(parser.push('Look.<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>'))
    assert events[:3] == [ContentDelta("Look."), CallStart(0, "f"), ArgumentsDelta(0, '{"a": 1}')]
    assert parser.finish()[1].kind == "tool_calls"


def test_calls_that_come_back_are_rendered_as_the_template_writes_them() -> None:
    messages = [
        USER,
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "21"}]},
    ]
    text = chat(QWEN).prompt(ChatRequest(messages, TOOLS), 1000).text
    assert '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>' in text
    assert "<tool_response>\n21\n</tool_response>" in text
    assert [call.name for call in chat(QWEN).read_block('<tool_call>{"name": "f", "arguments": {}}</tool_call>')] == [
        "f"
    ]


def test_without_tools_what_looks_like_a_call_is_content() -> None:
    dialect = chat(QWEN)
    parser = dialect.parser(dialect.prompt(ChatRequest([USER]), 1000))
    events = joined([*parser.push("<tool_call>{}"), *parser.finish()[0]])
    assert events == [ContentDelta("<tool_call>{}")] and not calls(events)


def test_reasoning_is_told_from_the_answer_whoever_opened_it() -> None:
    for source, answer in ((QWEN, "<think>\nhm\n</think>\n\nYes"), (OPENED, "hm\n</think>\n\nYes")):
        dialect = chat(source)
        prompt = dialect.prompt(ChatRequest([USER]), 1000)
        assert prompt.thinking == (source == OPENED)
        parser = dialect.parser(prompt)
        events = joined([*parser.push(answer), *parser.finish()[0]])
        assert events[0] == ReasoningDelta("hm") and events[-1] == ContentDelta("Yes")


def test_a_tag_that_the_request_typed_opens_no_reasoning() -> None:
    source = "{% for message in messages %}{{ message.content }}{% endfor %}{# <think> </think> #}"
    template = ChatTemplate(source, special_tokens=["<think>", "</think>"])
    prompt = TemplateChat(template).prompt(ChatRequest([{"role": "user", "content": "a <think>"}]), 1000)
    assert prompt.text == "a <think>" and not prompt.thinking


def test_thinking_is_switched_by_the_variable_of_the_template() -> None:
    dialect = chat(SWITCHED)
    for request in (ChatRequest([USER], thinking=False), ChatRequest([USER], effort="none")):
        assert dialect.prompt(request, 1000).text.endswith("<think>\n\n</think>\n\n")
    for request in (ChatRequest([USER]), ChatRequest([USER], thinking=True), ChatRequest([USER], effort="low")):
        assert dialect.prompt(request, 1000).text.endswith("assistant\n")


@pytest.mark.parametrize(
    ("source", "request_", "code", "subject"),
    [
        (QWEN, ChatRequest([USER], thinking=False), "chat_thinking", "thinking"),
        (QWEN, ChatRequest([USER], response_format={"type": "json_object"}), "chat_format", "response_format"),
        (PLAIN, ChatRequest([USER], effort="high"), "chat_thinking", "reasoning_effort"),
        (PLAIN, ChatRequest([USER], TOOLS), "chat_tools", "tools"),
        (
            PLAIN,
            ChatRequest([USER, {"role": "assistant", "content": "", "tool_calls": [CALL]}]),
            "chat_tools",
            "messages[1].tool_calls",
        ),
    ],
)
def test_what_a_model_does_not_have_is_refused_by_name(
    source: str, request_: ChatRequest, code: str, subject: str
) -> None:
    with pytest.raises(ChatError) as error:
        chat(source).prompt(request_, 1000)
    assert (error.value.code, error.value.subject) == (code, subject)


def test_not_to_think_asks_nothing_of_a_model_that_never_does() -> None:
    assert chat(PLAIN).prompt(ChatRequest([USER], thinking=False), 1000).text.endswith("assistant: ")


def test_special_tokens_that_the_parser_reads_are_visible() -> None:
    answers = detect(QWEN, ["<think>", "</think>", "<tool_call>", "</tool_call>", "<|im_end|>"])
    dialect = TemplateChat(ChatTemplate(QWEN), answers)
    assert dialect.visible == {"<think>", "</think>", "<tool_call>", "</tool_call>"}
