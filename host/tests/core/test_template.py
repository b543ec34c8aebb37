from __future__ import annotations

import json
import time
from typing import Any

import pytest
from ds4.core.template import ChatTemplate
from ds4.errors import TemplateError
from support import embedded
from support.chat_templates import ALL
from support.embedded import needs_model


def template(source: str, **options: Any) -> ChatTemplate:
    return ChatTemplate(source, **options)


def text(source: str, messages: list[dict[str, Any]] | None = None, **variables: Any) -> str:
    return template(source).render_text(messages or [], **variables)


def family(name: str) -> ChatTemplate:
    source, specials, names = ALL[name]
    return ChatTemplate(source, special_tokens=specials, names=names)


USER = {"role": "user", "content": " Hi "}


@needs_model
def test_smollm2s_template_gives_the_ids_that_its_publisher_trained_on() -> None:
    tokenizer = embedded.tokenizer()
    chat = ChatTemplate.from_metadata(embedded.file().metadata, tokenizer)
    assert chat is not None
    segments = chat.render([{"role": "user", "content": "What is the capital of France?"}])
    assert tokenizer.encode_segments(segments) == [
        *[1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308, 34519, 28, 7018, 411, 407, 19712, 8182, 2],
        *[198, 1, 4093, 198, 1780, 314, 260, 3575, 282, 4649, 47, 2, 198, 1, 520, 9531, 198],
    ]


@needs_model
def test_smollm2s_default_system_message_steps_back_for_ones_own() -> None:
    chat = ChatTemplate.from_metadata(embedded.file().metadata, embedded.tokenizer())
    assert chat is not None
    messages = [{"role": "system", "content": "Be brief."}, USER]
    assert chat.render_text(messages, add_generation_prompt=False) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi <|im_end|>\n"
    )


@pytest.mark.parametrize(
    ("name", "prompt"),
    [
        ("chatml", "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"),
        (
            "llama3",
            "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n<|eot_id|><|start_header_id|>user"
            "<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n",
        ),
        ("mistral", "<s>[INST]  Hi  [/INST]"),
        ("thinking", "<|im_start|>user\n Hi <|im_end|>\n<|im_start|>assistant\n"),
        ("phi", "<|user|>\n Hi <|end|>\n<|assistant|>\n"),
    ],
)
def test_each_style_renders_as_its_source_says(name: str, prompt: str) -> None:
    assert family(name).render_text([USER]) == prompt
    assert "".join(segment.text for segment in family(name).render([USER])) == prompt


def test_variables_of_the_request_reach_the_template() -> None:
    assert family("thinking").render_text([USER], enable_thinking=False).endswith("<think>\n\n</think>\n\n")


def test_a_variable_may_not_replace_the_conversation() -> None:
    replaced: list[dict[str, Any]] = [{"bos_token": "x"}, {"eos_token": "x"}]
    for variables in replaced:
        with pytest.raises(TemplateError, match="reserved") as caught:
            family("mistral").render_text([USER], **variables)
        assert caught.value.code == "template_variable"


def test_tojson_is_pythons_own() -> None:
    value = {"b": "é<&'\"\n", "a": [1, 2.0, None, True], "nested": {"z": 1}}
    assert text("{{ v | tojson }}", v=value) == json.dumps(value, ensure_ascii=False)
    assert text("{{ v | tojson(indent=2) }}", v=value) == json.dumps(value, ensure_ascii=False, indent=2)
    assert text("{{ v | tojson(sort_keys=true, ensure_ascii=true) }}", v=value) == json.dumps(value, sort_keys=True)
    assert text("{{ v | tojson(separators=(',', ':')) }}", v=value) == json.dumps(
        value, ensure_ascii=False, separators=(",", ":")
    )


def test_blocks_are_trimmed_as_hugging_face_does() -> None:
    assert text("a\n  {% if true %}\nb\n  {% endif %}\nc") == "a\nb\nc"


def test_what_publishers_templates_use_is_there() -> None:
    assert text("{% for i in [1,2,3] %}{% if i == 2 %}{% continue %}{% endif %}{{ i }}{% endfor %}") == "13"
    assert text("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}") == "01"
    assert text("{% generation %}x{% endgeneration %}") == "x"
    assert text("{% for k, v in m | dictsort %}{{ k }}={{ v }};{% endfor %}", m={"b": 1, "a": 2}) == "a=2;b=1;"
    assert text("{% for k, v in m.items() %}{{ k }}{% endfor %}{{ m | items | list | length }}", m={"b": 1}) == "b1"
    assert text(
        "{{ messages | selectattr('role', 'equalto', 'user') | map(attribute='content') | join('|') }}", [USER]
    ) == (" Hi ")
    assert (
        text("{{ 'a-b'.replace('-', '+') ~ ('%s!' % 'c') ~ '{}'.format('d') ~ ','.join(['e', 'f']) }}") == "a+bc!de,f"
    )
    assert text("{{ [1, 2][::-1] }}{{ 'abc'[-1] }}{{ none }}{{ ' x' | trim | upper }}") == "[2, 1]cNoneX"
    assert text("{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f('a') }}{{ 'a\nb' | indent(2) }}") == "<a>a\n  b"


def test_the_clock_can_be_set() -> None:
    moment = time.strptime("2024-07-26", "%Y-%m-%d")
    assert template("{{ strftime_now('%d %b %Y') }}", clock=lambda: moment).render_text([]) == "26 Jul 2024"


def test_a_template_may_refuse_a_conversation() -> None:
    with pytest.raises(TemplateError, match="roles must alternate") as caught:
        family("mistral").render([USER, USER])
    assert caught.value.code == "template_refused"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("{% for %}", "template_syntax"),
        ("{{ 'a' | no_such_filter }}", "template_syntax"),
        ("{{ missing.name }}", "template_failed"),
        ("{{ 1 / 0 }}", "template_failed"),
        ("{{ messages + 1 }}", "template_failed"),
        ("{% include 'other' %}", "template_failed"),
        ("{{ ('" + "(" * 3 + "') }}" + "{{ " + "(" * 9000 + "1" + ")" * 9000 + " }}", "template_syntax"),
    ],
)
def test_what_is_wrong_with_a_template_is_a_typed_error(source: str, code: str) -> None:
    with pytest.raises(TemplateError) as caught:
        text(source)
    assert caught.value.code == code


def test_a_source_past_its_bound_is_refused_before_it_is_compiled() -> None:
    with pytest.raises(TemplateError, match="too long"):
        template("x" * (256 * 1024 + 1))


def test_a_file_without_a_template_has_none() -> None:
    class Empty:
        def string(self, key: str, default: object = None) -> object:
            return default

    assert ChatTemplate.from_metadata(Empty(), None) is None  # type: ignore[arg-type]
