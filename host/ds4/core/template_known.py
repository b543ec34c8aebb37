"""Chat templates that are known by heart, by the SHA-256 of their source: rendered without the template engine.

What the template writes and what the request brought is then plain by construction, and a render takes microseconds.
A renderer answers None for whatever is not the ordinary case (a field that is no text, a prompt that grows too long);
the template engine then decides, and finds the words for it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ds4.core.tokenizer import Segment

Messages = Sequence[Mapping[str, Any]]
Renderer = Callable[[Messages, bool, int], list[Segment] | None]
"""(messages, add_generation_prompt, most characters) to segments: special ones are one special token each, plain ones
do not touch."""

SMOLLM2 = "872be49dbb638044ad01b60388f48d469ff2980e5f0dccdc22ec907db54d0788"

_START, _END = Segment("<|im_start|>", True), Segment("<|im_end|>", True)
_NEWLINE = Segment("\n", False)
_SYSTEM = Segment("system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face", False)
_ASSISTANT = Segment("assistant\n", False)
_FRAME = len(_START.text) + len(_END.text) + 2


def smollm2(messages: Messages, add_generation_prompt: bool, most: int) -> list[Segment] | None:
    """ChatML with a default system turn (oracles/template/README.md)."""
    out: list[Segment] = []
    size = 0
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if not isinstance(role, str) or not isinstance(content, str):
            return None
        if not out and role != "system":
            out += (_START, _SYSTEM, _END, _NEWLINE)
            size += _FRAME - 1 + len(_SYSTEM.text)
        out += (_START, Segment(f"{role}\n{content}", False), _END, _NEWLINE)
        size += _FRAME + len(role) + len(content)
    if add_generation_prompt:
        out += (_START, _ASSISTANT)
        size += len(_START.text) + len(_ASSISTANT.text)
    return out if size <= most else None


_KNOWN: dict[str, Renderer] = {SMOLLM2: smollm2}


def digest(source: str) -> str:
    """By which a template is known."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def renderer(source: str) -> Renderer | None:
    return _KNOWN.get(digest(source))
