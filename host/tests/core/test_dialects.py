"""Which dialect a model gets, and what of it a person may choose."""

from __future__ import annotations

from typing import Any

import pytest
from ds4.core.chat import ChatRequest
from ds4.core.chat_template import TemplateChat
from ds4.core.dialects import Override, dialect
from ds4.core.options import ANSWER_OPTIONS
from ds4.core.output.answer import Tags
from ds4.core.settings import Program, load
from ds4.errors import SettingsError
from support.vocabularies import byte_level

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}{{ tools }}"
PROGRAM = Program("x", "cli", "", (), ANSWER_OPTIONS)


class File:
    """As much of a file's metadata as is asked for."""

    def __init__(self, architecture: str, template: str | None) -> None:
        self._keys = {"general.architecture": architecture, "tokenizer.chat_template": template}

    def string(self, key: str, default: str | None = None) -> str | None:
        found = self._keys.get(key)
        return default if found is None else found


def made(override: Override, architecture: str = "llama", template: str | None = TEMPLATE) -> Any:
    return dialect(File(architecture, template), byte_level(), override)  # type: ignore[arg-type]


def chosen(*argv: str) -> Override:
    return Override.of(load(PROGRAM, argv, env={}))


def test_without_a_word_the_template_decides() -> None:
    assert chosen() == Override()
    found = made(Override())
    assert isinstance(found, TemplateChat) and not found.calls_tools and not found.thinks


def test_what_a_person_says_wins_over_the_template() -> None:
    found = made(chosen("--tool-dialect", "hermes", "--reasoning-tags", "<r>,</r>"))
    assert found.calls_tools and found.thinks
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    assert made(chosen("--tool-dialect", "llama3")).prompt(ChatRequest([], [tool]), 100).text.count("'f'") == 1
    assert chosen("--reasoning-tags", "mistral").reasoning == "mistral"
    assert chosen("--reasoning-tags", "<r>,</r>").reasoning == Tags("<r>", "</r>")
    shown = TEMPLATE + "{# [TOOL_CALLS] </think> #}"
    assert made(Override(), template=shown).calls_tools and made(Override(), template=shown).thinks
    found = made(chosen("--tool-dialect", "none", "--reasoning-tags", "none"), template=shown)
    assert not found.calls_tools and not found.thinks


@pytest.mark.parametrize("flag, value", [("--tool-dialect", "hermes"), ("--reasoning-tags", "none")])
@pytest.mark.parametrize("architecture, why", [("deepseek4", "encoding of its own"), ("llama", "no chat template")])
def test_a_choice_is_refused_where_there_is_no_template(flag: str, value: str, architecture: str, why: str) -> None:
    assert made(Override(), architecture, None) is None
    with pytest.raises(SettingsError, match=f"{flag}: .*{why}"):
        made(chosen(flag, value), architecture, None)


@pytest.mark.parametrize(
    "argv, known",
    [(("--tool-dialect", "dsml"), "none, mistral, tool_calls, hermes, toolcall, llama3"),
     (("--reasoning-tags", "thoughts"), "none, think, mistral, or two tags as OPEN,CLOSE")],
)  # fmt: skip
def test_an_unknown_name_is_refused_with_those_that_are_known(argv: tuple[str, ...], known: str) -> None:
    with pytest.raises(SettingsError, match=known):
        chosen(*argv)
