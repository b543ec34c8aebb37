"""What is asked of an answer's calls, and the writing of rules in Lark."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ds4.core.constraint.grammar import Grammar, json_rule, nested
from ds4.errors import ChatError

ANY_OBJECT: Mapping[str, Any] = {"type": "object"}


@dataclass(frozen=True, slots=True)
class TextForm:
    """The form of a text: a grammar in Lark, or a regular expression that matches all of it."""

    syntax: Literal["lark", "regex"]
    definition: str


@dataclass(frozen=True, slots=True)
class ToolRule:
    """A tool that may be called. parameters: JSON schema of its arguments; strict: they obey it, else any object does.

    text: the tool takes text, which is its only parameter, of that name. form: what that text looks like; None: any.
    """

    name: str
    parameters: Mapping[str, Any] | None = None
    strict: bool = False
    text: str | None = None
    form: TextForm | None = None

    @property
    def schema(self) -> Mapping[str, Any]:
        """What the arguments are held to."""
        if self.text is not None:
            return {
                "type": "object",
                "properties": {self.text: {"type": "string"}},
                "required": [self.text],
                "additionalProperties": False,
            }
        return self.parameters if self.strict and self.parameters is not None else ANY_OBJECT


@dataclass(frozen=True, slots=True)
class ToolRules:
    """tools: those that may be called; none: the answer is text. must: it is at least one call. single: at most one."""

    tools: Sequence[ToolRule]
    must: bool = False
    single: bool = False

    def __post_init__(self) -> None:
        if self.must and not self.tools:
            raise ValueError("a call is forced, of no tool")


_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}/]")


def escaped(text: str) -> str:
    """Text in a regular expression of Lark, which stands between slashes."""
    out = _SPECIAL.sub(r"\\\g<0>", text)
    return out.replace("\n", r"\n").replace("\r", r"\r").replace("\t", r"\t")


def any_calls(tools: Sequence[Mapping[str, Any]]) -> ToolRules:
    """Any calls, or none, of tools in OpenAI's form."""
    return ToolRules([ToolRule(tool["function"]["name"], tool["function"].get("parameters")) for tool in tools])


MOST_TEXT: Final = 4 << 20
"""Characters of one grammar: a hundred tools of ten parameters come to a tenth of that."""


class Rules:
    """The rules of one grammar, which get names of their own. ChatError for more than MOST_TEXT of them."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._count = self._size = 0

    def _add(self, line: str) -> None:
        self._size += len(line)
        if self._size > MOST_TEXT:
            raise ChatError(
                "the tools come to too large a grammar",
                subject="tools",
                code="tool_grammar",
                expected=f"at most {MOST_TEXT} characters",
                found="more",
            )
        self._lines.append(line)

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._count}"

    def rule(self, body: str, options: str = "") -> str:
        """A rule's name. options: in brackets behind it."""
        name = self._name("r")
        self._add(f"{name}{options}: {body}")
        return name

    def lazy(self, pattern: str) -> str:
        """A rule for the shortest text that is matched. pattern: regular expressions with Lark's operators."""
        terminal = self._name("T")
        self._add(f"{terminal}: {pattern}")
        return self.rule(terminal, "[lazy]")

    def terminal(self, pattern: str) -> str:
        name = self._name("T")
        self._add(f"{name}: {pattern}")
        return name

    def json(self, schema: Mapping[str, Any]) -> str:
        return self.rule(json_rule(schema))

    def subset(self, items: Sequence[str], required: Sequence[bool]) -> str:
        """Each item at most once, in any order; the required ones are there. Beyond MOST_SET items: in their order."""
        if len(items) > MOST_SET:
            return self.rule(" ".join(item if need else f"{item}?" for item, need in zip(items, required, strict=True)))
        if not items:
            return ""
        order = sorted(range(len(items)), key=lambda i: not required[i])  # the required ones have the low bits
        name, needed = self._name("s"), sum(required)
        self._add(f'{name}::_: ""' + (f" %if is_ones([0:{needed}])" if needed else ""))
        for bit, index in enumerate(order):
            self._add(f"  | {items[index]} {name}::set_bit({bit}) %if bit_clear({bit})")
        return f"{name}::0x0"

    def embed(self, grammar: Grammar) -> str:
        return self.rule(nested(grammar))

    def grammar(self, start: str) -> Grammar:
        return Grammar("\n".join([f"start: {start}", *self._lines, ""]))


MOST_SET = 60
"""Items of a set that may come in any order: one bit each."""
