"""A server as its own document describes it, and the document's schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import jsonschema_rs
from ds4.core.chat_template import TemplateChat
from ds4.core.output.answer import Tags
from ds4.core.output.dialects import detect
from ds4.core.template import ChatTemplate
from ds4.server.openapi.document import document
from support.live_server import EOS, LiveServer

OPENS = ord("!")
"""What the template writes in front of an answer; no answer has it."""

TEMPLATE = (
    "{% for tool in tools or [] %}{{ tool | tojson }}\n{% endfor %}"
    "{% for m in messages %}{{ m.role }}: {{ m.content }}\n"
    "{% for c in m.tool_calls or [] %}{{ c | tojson }}\n{% endfor %}{% endfor %}"
    "{% if enable_thinking is defined and not enable_thinking %}/no_think{% endif %}"
)
_CALL = '<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>'
ANSWERS = tuple(
    text.encode()
    for text in (
        "ok",
        "é ∑ 😀",
        "<think>why</think>so",
        "<think>not done",
        _CALL,
        f"<think>a</think>b{_CALL}{_CALL}",
        _CALL[:-9],
    )
)


def answer(tokens: Sequence[int]) -> int:
    """One of the answers, as what is in front of it decides; then the end. A text without an opening is one from its
    beginning on."""
    at = max((index for index, token in enumerate(tokens) if token == OPENS), default=-1)
    said = ANSWERS[sum(tokens[: at + 1]) % len(ANSWERS)]
    done = len(tokens) - 1 - at
    return said[done] if done < len(said) else EOS


def served(**settings: Any) -> LiveServer:
    """A server whose model thinks, calls tools and soon ends."""
    asked = detect(TEMPLATE, tools="hermes", reasoning=Tags("<think>", "</think>"))
    chat = TemplateChat(ChatTemplate(TEMPLATE + chr(OPENS)), asked)
    return LiveServer(**{"context": 1024, "rule": answer, "dialect": chat, **settings})


@cache
def validator(name: str) -> Any:
    """Of one of the document's components."""
    components = {"components": document()["components"]}
    return jsonschema_rs.Draft202012Validator({**components, "$ref": f"#/components/schemas/{name}"})


def fields_at(schema: dict[str, Any], path: str) -> list[dict[str, Any]]:
    """What a schema says of a field, in all of its alternatives. path: a.b[].c"""
    at = [schema]
    for step in re.findall(r"\[\]|[^.\[\]]+", path):
        at = [inner for one in at for inner in _inside(one, step)]
    return at


def _inside(schema: dict[str, Any], step: str) -> Iterator[dict[str, Any]]:
    if pointer := schema.get("$ref"):
        schema = document()["components"]["schemas"][pointer.rpartition("/")[2]]
    for inner in schema.get("anyOf", ()):
        yield from _inside(inner, step)
    if step == "[]" and "items" in schema:
        yield schema["items"]
    if step in schema.get("properties", {}):
        yield schema["properties"][step]
