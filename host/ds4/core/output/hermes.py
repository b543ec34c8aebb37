"""The tool calls of Hermes, Qwen 2.5 and Qwen 3, and of others that write JSON between tags of their own.

    <tool_call>
    {"name": "get_weather", "arguments": {"city": "Lisbon"}}
    </tool_call>

An answer may hold several blocks, and a block several objects or an array of them.
"""

from __future__ import annotations

from ds4.core.output.answer import JsonDialect
from ds4.core.output.json_calls import JsonBlock


def enclosed(opener: str, closer: str) -> JsonDialect:
    return JsonDialect((opener,), lambda mark, first: JsonBlock(first, closer=closer), (opener, closer))


HERMES = enclosed("<tool_call>", "</tool_call>")
TOOL_CALLS = enclosed("<tool_calls>", "</tool_calls>")  # MiniMax M1, Apriel
TOOLCALL = enclosed("<TOOLCALL>", "</TOOLCALL>")  # Nemotron Nano v2
