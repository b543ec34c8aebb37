"""The tool calls of Llama 3.1 to 3.3: a JSON object that is the answer, or JSON behind `<|python_tag|>`.

    {"name": "get_weather", "parameters": {"city": "Lisbon"}}
    <|python_tag|>{"name": "get_weather", "parameters": {"city": "Lisbon"}}

A bare object is a call only at the beginning of an answer, or behind another call (`;` may stand between them), and
only if it has a name and parameters; other JSON is an answer in JSON. Calls in Python behind the tag, which Meta's
built-in tools have, are malformed: nobody can declare those tools here.
"""

from __future__ import annotations

from ds4.core.output.answer import JsonDialect
from ds4.core.output.json_calls import JsonBlock

_TAG, _BARE = "<|python_tag|>", "{"


LLAMA3 = JsonDialect((_TAG,), lambda mark, first: JsonBlock(first, bare=mark == _BARE), (_TAG,), (_BARE,), ";")
