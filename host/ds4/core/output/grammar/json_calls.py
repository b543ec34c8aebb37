"""Calls as JSON objects, as `output.json_calls` reads them: `{"name": "...", "arguments": {...}}`."""

from __future__ import annotations

import json

from ds4.core.constraint.grammar import literal
from ds4.core.output.grammar.rules import Rules, TextForm, ToolRule, ToolRules
from ds4.errors import ChatError


def call(out: Rules, rules: ToolRules, arguments: str = "arguments") -> str:
    """One call of any of the tools, as Lark. arguments: what the dialect's models call them."""
    return out.rule(" | ".join([_object(out, tool, arguments) for tool in rules.tools]))


def _object(out: Rules, tool: ToolRule, arguments: str) -> str:
    head = f'{{"name": {json.dumps(tool.name, ensure_ascii=False)}, "{arguments}": '
    return f"{literal(head)} {values(out, tool)} {literal('}')}"


def values(out: Rules, tool: ToolRule) -> str:
    """A tool's arguments as JSON."""
    if tool.form is not None and tool.form.syntax == "lark":
        raise ChatError(
            f"this model writes the text of the tool {tool.name!r} as a JSON string, which no Lark grammar can hold",
            subject="tools",
            code="tool_grammar",
            expected="a grammar of syntax 'regex'",
            found="lark",
        )
    if tool.text is not None and tool.form is not None:
        return f"{literal(f'{{{json.dumps(tool.text)}: ')} {out.json(_text_schema(tool.form))} {literal('}')}"
    return out.json(tool.schema)


def _text_schema(form: TextForm) -> dict[str, object]:
    return {"type": "string", "pattern": f"^(?:{form.definition})$"}
