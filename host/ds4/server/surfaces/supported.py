"""Which request fields count for a model: those that its surfaces read and its dialect can do something with.

The names are those of /openapi.json, which has all that is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ds4.core.chat import Dialect
from ds4.server.openapi import chat, completions
from ds4.server.openapi.sampling import refuses

_CONTENTS = {"model", "messages", "prompt"}
"""What a request is about, rather than how it is answered."""
_OF_TOOLS = {"tools", "tool_choice", "parallel_tool_calls"}
_OF_THINKING = {"thinking", "enable_thinking", "think", "thinking_budget", "reasoning", "reasoning_effort"}


def parameters(dialect: Dialect | None) -> list[str]:
    """Of chat and of completions; of completions alone for a model that has no chats."""
    read = _read(completions.SCHEMAS["CompletionRequest"])
    if dialect is not None:
        read |= _read(chat.SCHEMAS["ChatRequest"])
        if not dialect.calls_tools:
            read -= _OF_TOOLS
        if not dialect.thinks:
            read -= _OF_THINKING
    return sorted(read - _CONTENTS)


def _read(request: Mapping[str, Any]) -> set[str]:
    """The fields that a request may have, without those that are refused."""
    return {name for name, schema in request["properties"].items() if not refuses(schema)}
