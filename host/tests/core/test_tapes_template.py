from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from ds4.core import template_known
from ds4.core.tapes import template as tapes
from ds4.core.tapes.template import OracleChatTemplate, Render
from ds4.core.template import ChatTemplate
from ds4.core.tokenizer import Segment
from ds4.errors import TemplateError
from ds4.sys.tape import TapeError
from hypothesis import given
from hypothesis import strategies as st
from support import embedded
from support.embedded import needs_model
from support.oracles import standing_in

pytestmark = needs_model

PARTS = st.text(st.characters(exclude_categories=()), max_size=4) | st.sampled_from(
    ["<|im_start|>", "<|im_end|>", "<|im_", "end|>", "|", "system", "\ufdd00\ufdd1", "\U0010fff00\U0010fff1"]
)
TEXT = st.lists(PARTS, max_size=4).map("".join)
FIELD = st.none() | TEXT
ROLE = st.sampled_from(["system", "user", "assistant"]) | FIELD
LIMIT = st.sampled_from([0, 12, 97, 120, 150, 200, 300, 1 << 24, 1 << 53])
REQUESTS = st.builds(Render, st.booleans(), LIMIT, st.lists(st.tuples(ROLE, FIELD), max_size=4).map(tuple))


def source() -> str:
    return str(embedded.file().metadata.string("tokenizer.chat_template"))


def options() -> dict[str, Any]:
    return {"special_tokens": list(embedded.tokenizer().special_tokens)}


@pytest.fixture(scope="module")
def ours() -> ChatTemplate:
    return ChatTemplate(source(), **options())


@pytest.fixture(scope="module")
def theirs(ours: ChatTemplate) -> Iterator[OracleChatTemplate]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DS4_COMPONENT_TEMPLATE", "oracle")
        patch.setattr(tapes, "oracle", standing_in(lambda tape: tapes.by_tape(ours, tape)))
        yield OracleChatTemplate(source(), **options())


@given(REQUESTS)
def test_what_is_written_is_read_back(ours: ChatTemplate, request_: Render) -> None:
    assert tapes.read_input(tapes.write_input(request_)) == request_
    result = tapes.run(ours, request_)
    back = tapes.read_output(tapes.write_output(result))
    if isinstance(result, TemplateError):
        assert isinstance(back, TemplateError)
        assert back.code == result.code
    else:
        assert back == result


@given(REQUESTS)
def test_the_template_that_asks_an_oracle_is_a_chat_template(
    ours: ChatTemplate, theirs: OracleChatTemplate, request_: Render
) -> None:
    messages = [{"role": role, "content": content} for role, content in request_.messages]
    add = request_.add_generation_prompt
    try:
        expected = ours.render(messages, add_generation_prompt=add)
    except TemplateError as error:
        with pytest.raises(TemplateError) as caught:
            theirs.render(messages, add_generation_prompt=add)
        assert caught.value.code == error.code
        return
    assert theirs.render(messages, add_generation_prompt=add) == tapes.canonical(expected)
    assert theirs.render_text(messages, add_generation_prompt=add) == ours.render_text(
        messages, add_generation_prompt=add
    )


@given(REQUESTS)
def test_a_template_known_by_heart_renders_as_its_source_does(ours: ChatTemplate, request_: Render) -> None:
    messages = [{"role": role, "content": content} for role, content in request_.messages]
    known = template_known.smollm2(messages, request_.add_generation_prompt, request_.limit)
    values = {"messages": messages, "tools": None, "add_generation_prompt": request_.add_generation_prompt}
    try:
        proven = ours.within(request_.limit).render_by_proof(values)
    except TemplateError:
        assert known is None
        return
    assert known == tapes.canonical(proven)


def test_a_source_that_differs_by_a_character_is_not_known() -> None:
    assert template_known.renderer(source()) is template_known.smollm2
    assert template_known.renderer(source() + " ") is None


def test_a_reserved_name_is_refused_whoever_renders() -> None:
    theirs = OracleChatTemplate(source(), names={"bos_token": "<|im_start|>"}, **options())
    with pytest.raises(TemplateError, match="bos_token"):
        theirs.render([], bos_token="x")


@pytest.mark.parametrize(
    "tape",
    ["", "render 1\n", "render 2 5\n", "render 1 -5\n", "render 1 9007199254740993\n", "render 1 5 5\n", "message\n"]
    + ["render 1 5\nmessage text a text\n", "render 1 5\nmessage text a other x\n", "render 1 5\n\n", "render 1 5"]
    + ["render 1 5\nmessage list - text a\n", "render 1 5\nmessage text %C3 text a\n", "render 1 5\nrender 1 5\n"],
)
def test_a_tape_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(tape.encode())


@pytest.mark.parametrize("tape", ["plain\n", "special a b\n", "error\n", "error a b\n", "plain a\nerror a\n", "x a\n"])
def test_an_output_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_output(tape.encode())


def test_segments_in_the_components_form_say_the_same() -> None:
    mixed = [("<|im_start|>a", True), ("b<|im_end|>", False), ("", True), ("c<|im_end|>", True)]
    assert tapes.canonical([Segment(text, special) for text, special in mixed]) == [
        Segment("<|im_start|>", True),
        Segment("ab<|im_end|>c", False),
        Segment("<|im_end|>", True),
    ]


@pytest.mark.parametrize(("side", "made"), [("python", ChatTemplate), ("oracle", OracleChatTemplate)])
def test_the_ledger_says_who_renders(monkeypatch: pytest.MonkeyPatch, side: str, made: type) -> None:
    monkeypatch.setenv("DS4_COMPONENT_TEMPLATE", side)
    chat = ChatTemplate.from_metadata(embedded.file().metadata, embedded.tokenizer())
    assert type(chat) is made
