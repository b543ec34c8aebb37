"""Mistral's calls (`output.mistral`): an array of objects, or by name where the vocabulary has a token for that."""

from __future__ import annotations

from collections.abc import Collection

from ds4.core.constraint.grammar import literal
from ds4.core.output.grammar.frame import Style, Written
from ds4.core.output.grammar.json_calls import call, values
from ds4.core.output.grammar.rules import Rules, ToolRules

_OPENER, _ARGUMENTS = "[TOOL_CALLS]", "[ARGS]"


def mistral(visible: Collection[str]) -> Style:
    """visible: the special tokens that the parser reads."""
    return Style((_OPENER,), _by_name if _ARGUMENTS in visible else _array)


def _array(out: Rules, rules: ToolRules) -> Written:
    one = call(out, rules)
    calls = f'"[" {one} "]"' if rules.single else f'"[" {one} (", " {one})* "]"'
    return Written(f"{literal(_OPENER)} {calls}", {_OPENER: calls})


def _by_name(out: Rules, rules: ToolRules) -> Written:
    one = out.rule(" | ".join([f"{literal(tool.name + _ARGUMENTS)} {values(out, tool)}" for tool in rules.tools]))
    calls = one if rules.single else f"{one} ({literal(_OPENER)} {one})*"
    return Written(f"{literal(_OPENER)} {calls}", {_OPENER: calls})
