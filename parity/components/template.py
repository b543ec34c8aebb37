"""template: a conversation as the prompt of SmolLM2's template; what it wrote is told from what was typed."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable

from ds4.core import catalog, gguf
from ds4.core.tapes import template as tapes
from ds4.core.tapes.template import Field, Render
from ds4.core.template import ChatTemplate
from ds4.core.tokenizer import Tokenizer

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

_WORDS = (
    *("<|im_start|>", "<|im_end|>", "<|im_start|>system\n", "<|im_end|>\n<|im_start|>assistant\n"),
    *("<|im_start", "<|im_", "|>", "<|", "im_end|>", "im_start", "_end", "end", "<|im_end|", "|im_end|>", "<"),
    *(">", "|", "<|endoftext|>", "im", "user", "assistant", "system", "tool", "system ", " system", "System"),
    *("sys", "developer", "start", "start|>", "_", "\n", "\n\n", " ", "  ", "\t", "\r\n", "\x00", "\x0b"),
    *("\x1f", "\x85", "\u2028", "\u3000", "\ufeff", "\u200b", "\ufdd0", "\ufdd1", "\ufdd0", "0\ufdd1"),
    *("\ufdd0", "1\ufdd1", "\U0010fff0", "\U0010fff0", "0\U0010fff1", "\U0010fff1", "0", "1", "17", "{{ x }}"),
    *("{% if %}", "{#", "&amp;", "<b>", "'", '"', "\\n", "None", "null", "true", "%s", "{0}", "Hello"),
    *("What is the capital of France?", "é", "中文", "👍🏽", "\U0001f1e9\U0001f1ea", "\ud800", "\udfff"),
    *("\ud83d\ude00", "<repo_name>", "<file_sep>", "<issue_start>", "<empty_output>", "repo_name", "file"),
    *("name", "a", "", "Hi\n"),
)  # fmt: skip
_ROLES = ("user", "assistant", "system", "tool", "", "sys", "<|im_start|>", "<|im_end|>", "start", "\ufdd00\ufdd1")


def _text(choose: Choices) -> str:
    parts: list[str] = []
    for _ in range(choose.below(6)):
        how = choose.below(256)
        if how < 200:
            parts.append(choose.of(_WORDS))
        elif how < 210:
            parts.append(choose.of(_WORDS) * (choose.below(30)))
        else:
            parts.append(chr(((how - 210) * 0x6000 + choose.below(65536)) % 0x110000))
    return "".join(parts)


def _field(choose: Choices, role: bool) -> Field:
    how = choose.below(256)
    if how == 255:
        return None
    if role and how < 200:
        return _ROLES[how % 4 if how < 150 else how % len(_ROLES)]
    return _text(choose)


def _request(choose: Choices) -> Render:
    how = choose.below(256)
    messages = tuple([(_field(choose, True), _field(choose, False)) for _ in range(choose.below(6))])
    limit = 1 << 24
    if how >= 160:  # near what the prompt has
        size = 22 * (how % 2) + sum(24 + len(role or "") + len(content or "") for role, content in messages)
        near = choose.below(3) - 1 if choose.below(2) else choose.below(256) - 128
        limit = max(0, size + 98 * (how % 3) + near if how < 220 else choose.below(256))
    return Render(bool(how % 2), limit, messages)


def made(seed: bytes) -> bytes:
    """The input that a seed stands for."""
    return tapes.write_input(_request(Choices(seed)))


def _soak(rng: random.Random) -> bytes:
    messages = [(_ROLES[rng.randrange(4)], _text(Choices(rng.randbytes(40))) * rng.randrange(200)) for _ in range(40)]
    return tapes.write_input(Render(rng.random() < 0.5, 1 << 24, tuple(messages)))


@functools.cache
def template() -> ChatTemplate:
    """The embedded model's, answered by Python whatever the ledger says."""
    metadata = gguf.read(catalog.embedded_path()).metadata
    specials = list(Tokenizer.from_metadata(metadata).special_tokens)
    names = {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "unk_token": "<|endoftext|>"}
    return ChatTemplate(metadata.string("tokenizer.chat_template"), special_tokens=specials, names=names)


def replacement(tape: bytes) -> bytes:
    return tapes.by_tape(template(), tape)


def _prepare() -> tuple[Callable[[], object], bytes]:
    turn = "Please read the log <|im_end|> above and tell me what went wrong, step by step. " * 4
    messages = [{"role": "user" if n % 2 == 0 else "assistant", "content": f"{n}: {turn}"} for n in range(3)]
    chat = template()
    tape = tapes.write_input(tapes.request(messages, True, chat.characters))
    return lambda: chat.render(messages), tape


COMPONENT = Component(
    name="template",
    about="ChatML as SmolLM2 renders it, with the template's special tokens told from typed ones",
    axes=("token", "performance"),
    replacement=plain(replacement),
    inputs=Generated(made, least=8, most=96),
    soak=_soak,
    speed=Speed(_prepare),
    sources=(
        "host/ds4/core/template*.py",
        "host/ds4/core/alternatives.py",
        "host/ds4/core/tapes/template.py",
        "oracles/template/*",
        "parity/components/template.py",
        "goldens/template/**",
    ),
    locks=("jinja2",),
)
