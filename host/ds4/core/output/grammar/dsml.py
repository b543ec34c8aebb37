"""DeepSeek V4's calls (`output.dsml`): invokes in a block, and in them parameters, each a text or JSON.

    <｜DSML｜parameter name="city" string="true">Lisbon</｜DSML｜parameter>
    <｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>

A tool's parameters are those that its schema names, in any order. One that names none takes any, if it is not strict.
"""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from typing import Any

from ds4.core.constraint.grammar import Grammar, literal, regex_terminal
from ds4.core.output.grammar.frame import Style, Written
from ds4.core.output.grammar.parameters import Value, parameters
from ds4.core.output.grammar.rules import Rules, TextForm, ToolRule, ToolRules

_BAR = "｜DSML｜"
_OPENERS = tuple([f"<{prefix}tool_calls>" for prefix in (_BAR, _BAR[1:], "")])
_CLOSE = f"</{_BAR}parameter>"
_ANY_CLOSE = r"<\/｜?DSML｜parameter>"
_STANDS = "&lt;" + _CLOSE[1:]
"""Read as the close tag's text."""
_READ_ANEW = rf"({_ANY_CLOSE}|&lt;\/{_BAR}parameter>)"
_NEVER_RAW = (f"</{_BAR[1:]}parameter>", _STANDS)


def _write(out: Rules, rules: ToolRules) -> Written:
    one = out.rule(" | ".join([_invoke(out, tool) for tool in rules.tools]))
    calls = f'"\\n" {one}{"" if rules.single else "+"} {literal(f"</{_BAR}tool_calls>")}'
    return Written(f'"\\n\\n" {literal(_OPENERS[0])} {calls}', {_OPENERS[0]: calls})


def _invoke(out: Rules, tool: ToolRule) -> str:
    head, end = literal(f'<{_BAR}invoke name="{_attribute(tool.name)}">\n'), literal(f"</{_BAR}invoke>\n")
    return f"{head} {_parameters(out, tool)} {end}"


def _attribute(text: str) -> str:
    return html.escape(text, quote=False).replace('"', "&quot;")


def _parameters(out: Rules, tool: ToolRule) -> str:
    if tool.text is not None and tool.form is not None:
        return f"{_head(tool.text, string=True)} {_formed(out, tool.form)} {literal(chr(10))}"
    named = parameters(tool)
    if named is None:
        head = rf'/<{_BAR}parameter name="[^"&<>\r\n]+" string="/'
        text = f"{literal('true' + chr(34) + '>')} {_text(out)}"
        values = f"{text} | {_json(out, literal('false' + chr(34) + '>'), {})}"
        return f"({out.terminal(head)} ({values}) {literal(chr(10))})*"
    items = []
    for one in named:
        written = " | ".join([_value(out, one.name, value) for value in one.values])
        items.append(out.rule(f"({written}) {literal(chr(10))}"))
    return out.subset(items, [one.required for one in named])


def _head(name: str, *, string: bool) -> str:
    kind = "true" if string else "false"
    return literal(f'<{_BAR}parameter name="{_attribute(name)}" string="{kind}">')


def _value(out: Rules, name: str, form: Value) -> str:
    if form.schema is not None:
        return _json(out, _head(name, string=False), form.schema)
    head = _head(name, string=True)
    if form.texts is not None:
        return _listed(name, form.texts)
    if form.least or form.most is not None:
        span = f"{form.least},{'' if form.most is None else form.most}"
        body = f"(/(?s:.{{{span}}})/ & ~/(?s:.*){_READ_ANEW}(?s:.*)/)"
        return f"{head} {out.lazy(f'{body} /{_ANY_CLOSE}/')}"
    return f"{head} {_text(out)}"


def _listed(name: str, texts: Sequence[str]) -> str:
    """One of these texts, to its close tag: as it is where it is read so, else as JSON."""
    plain = [text for text in texts if not any(part in text for part in _NEVER_RAW)]
    raw = [literal(text.replace(_CLOSE, _STANDS) + _CLOSE) for text in plain]
    spelt = [json.dumps(text, ensure_ascii=False).replace("<", r"\u003c") for text in texts if text not in plain]
    ways = ((True, raw), (False, [literal(text + _CLOSE) for text in spelt]))
    return " | ".join([f"{_head(name, string=string)} ({' | '.join(some)})" for string, some in ways if some])


def _formed(out: Rules, form: TextForm) -> str:
    """Text of a form, up to the close tag."""
    if form.syntax == "lark":
        held = out.embed(Grammar(form.definition + "\n"))
        return f"{held} {literal(_CLOSE)}"
    return out.lazy(f"({regex_terminal('(?:' + form.definition + ')')} & ~/(?s:.*){_READ_ANEW}(?s:.*)/) /{_ANY_CLOSE}/")


def _text(out: Rules) -> str:
    return out.lazy(f"/(?s:.*){_ANY_CLOSE}/")


def _json(out: Rules, head: str, schema: Mapping[str, Any]) -> str:
    return f"{head} {out.json(schema)} {literal(_CLOSE)}"


DSML = Style(_OPENERS, _write, signs=(_BAR, f"<{_BAR[1:]}", _OPENERS[-1]))
