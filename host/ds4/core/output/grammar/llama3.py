"""Llama 3's calls (`output.llama3`): an object that is the answer, or one behind `<|python_tag|>`.

Where a call may but need not be made, an answer that begins with `{` is one: JSON that is no call has to come in text.
"""

from __future__ import annotations

from ds4.core.output.grammar.frame import Style, Written
from ds4.core.output.grammar.json_calls import call
from ds4.core.output.grammar.rules import Rules, ToolRules

_TAG = "<|python_tag|>"


def _write(out: Rules, rules: ToolRules) -> Written:
    one = call(out, rules, "parameters")
    calls = one if rules.single else f'{one} ("; " {one})*'
    return Written(calls, {_TAG: one})


LLAMA3 = Style((_TAG,), _write, "{")
