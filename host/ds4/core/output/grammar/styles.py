"""Which way of writing calls the tool dialects of `output.dialects` have: one row for each."""

from __future__ import annotations

from collections.abc import Collection

from ds4.core.output.grammar.enclosed import enclosed
from ds4.core.output.grammar.frame import Style
from ds4.core.output.grammar.llama3 import LLAMA3
from ds4.core.output.grammar.mistral import mistral

_STYLES = {
    "hermes": enclosed("<tool_call>", "</tool_call>"),
    "tool_calls": enclosed("<tool_calls>", "</tool_calls>"),
    "toolcall": enclosed("<TOOLCALL>", "</TOOLCALL>"),
    "llama3": LLAMA3,
}


def style(dialect: str, visible: Collection[str]) -> Style | None:
    """None for the dialect without calls. visible: the special tokens that its parser reads."""
    return mistral(visible) if dialect == "mistral" else _STYLES.get(dialect)
