"""Blocks of one JSON object between two tags: Hermes and its kin (`output.hermes`)."""

from __future__ import annotations

from ds4.core.constraint.grammar import literal
from ds4.core.output.grammar.frame import Style, Written
from ds4.core.output.grammar.json_calls import call
from ds4.core.output.grammar.rules import Rules, ToolRules


def enclosed(opener: str, closer: str) -> Style:
    """An array of calls for tags in the plural is not written: a block for each call reads the same."""

    def write(out: Rules, rules: ToolRules) -> Written:
        rest = f'"\\n" {call(out, rules)} {literal(chr(10) + closer)}'
        more = "" if rules.single else f' ("\\n" {literal(opener)} {rest})*'
        return Written(f'("\\n" "\\n"?)? {literal(opener)} {rest}{more}', {opener: rest + more})

    return Style((opener,), write)
