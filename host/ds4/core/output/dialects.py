"""Which dialect a chat template's model answers in, by what stands in the template: one row for each.

A template that knows tools but shows none of these ways of calling them has the dialect `none`: all is content. One
more dialect is a module with its `JsonDialect`, and a row here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from ds4.core.json_text import WHITE
from ds4.core.output.answer import JsonDialect, Tags, TemplateParser
from ds4.core.output.events import ContentDelta, ToolBlock, Void
from ds4.core.output.hermes import HERMES, TOOL_CALLS, TOOLCALL
from ds4.core.output.llama3 import LLAMA3
from ds4.core.output.mistral import MISTRAL
from ds4.core.output.tools import MadeCall, calls
from ds4.errors import TemplateError


@dataclass(frozen=True, slots=True)
class _Row:
    """every: patterns that a template has to have. never: and those that it must not have."""

    name: str
    dialect: JsonDialect
    every: tuple[str, ...]
    never: tuple[str, ...] = ()


_ARGUMENTS, _PARAMETERS = r'"arguments\\?":', r'"parameters\\?":'
_NO_JSON = ("<function=", "<arg_key>", "<invoke", "<parameter")  # calls in markup, inside tags of the same names

_ROWS = (
    _Row("mistral", MISTRAL, (r"\[TOOL_CALLS\]",)),
    _Row("tool_calls", TOOL_CALLS, ("<tool_calls>", "</tool_calls>", _ARGUMENTS), _NO_JSON),
    _Row("hermes", HERMES, ("<tool_call>", "</tool_call>", _ARGUMENTS), _NO_JSON),
    _Row("toolcall", TOOLCALL, ("<TOOLCALL>", "</TOOLCALL>", _ARGUMENTS), _NO_JSON),
    _Row("llama3", LLAMA3, (r"<\|start_header_id\|>", r"\btools\b", _PARAMETERS), ("<tool_call>", *_NO_JSON)),
)
_TAGS = {"think": Tags("<think>", "</think>"), "mistral": Tags("[THINK]", "[/THINK]")}

NONE, OWN = "none", "own"
TOOLS = (NONE, *(row.name for row in _ROWS))
"""Names of tool dialects."""
REASONING = (NONE, *_TAGS)
"""Names of reasoning tags; tags that a person gave are OWN."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a model answers. tools, reasoning: names of TOOLS and REASONING, or OWN. visible: the special tokens whose
    text the parser has to be given, though it is not shown."""

    tools: str
    reasoning: str
    calls: JsonDialect | None
    tags: Tags | None
    visible: frozenset[str]

    def parser(self, *, thinking: bool, tools: bool) -> TemplateParser:
        """A parser for one answer. thinking: the prompt ended in reasoning (`Tags.opened_by`). tools: some are
        declared."""
        return TemplateParser(thinking=thinking, dialect=self.calls if tools else None, tags=self.tags)

    def read_block(self, text: str) -> list[MadeCall]:
        """The calls of a block's text (what ToolBlock gave); none if it is no whole block."""
        if self.calls is None:
            return []
        parser = TemplateParser(thinking=False, dialect=self.calls)
        events = parser.push(text.lstrip(WHITE + self.calls.between))
        events += parser.finish()[0]
        texts = [type(event) for event in events if isinstance(event, ContentDelta | Void | ToolBlock)]
        return calls(events) if texts == [ToolBlock] else []


def reasoning_tags(text: str) -> str | Tags:
    """What a person calls reasoning tags: a name of REASONING, or the two tags with a comma between them. Raises
    ValueError(what was expected)."""
    opening, comma, closing = text.partition(",")
    if text in REASONING:
        return text
    if not comma or not opening.strip() or not closing.strip() or "," in closing or opening == closing:
        raise ValueError(f"{', '.join(REASONING)}, or two tags as OPEN,CLOSE")
    return Tags(opening, closing)


def detect(
    template_source: str,
    special_tokens: Iterable[str] = (),
    *,
    tools: str | None = None,
    reasoning: str | Tags | None = None,
) -> Dialect:
    """The dialect of a chat template. special_tokens: texts of the vocabulary's. tools, reasoning: names that override
    what the template shows; of reasoning, the tags themselves as well.

    TemplateError template_dialect: there is no dialect of such a name.
    """
    tools = tools if tools is not None else next((row.name for row in _ROWS if _shows(template_source, row)), NONE)
    reasoning = (
        reasoning
        if reasoning is not None
        else next((name for name, tags in _TAGS.items() if tags.closing in template_source), NONE)
    )
    own = reasoning if isinstance(reasoning, Tags) else None
    reasoning = OWN if isinstance(reasoning, Tags) else reasoning
    known = ((tools, TOOLS, "tool dialect"), (reasoning, REASONING, "reasoning tags"))
    for name, names, subject in known if own is None else known[:1]:
        if name not in names:
            raise TemplateError(
                "unknown", subject=subject, code="template_dialect", expected=", ".join(names), found=name
            )
    calls = next((row.dialect for row in _ROWS if row.name == tools), None)
    tags = own or _TAGS.get(reasoning)
    read = [*(tags or ()), *(() if calls is None else calls.reads)]
    return Dialect(tools, reasoning, calls, tags, frozenset(read) & frozenset(special_tokens))


def _shows(source: str, row: _Row) -> bool:
    found = all(re.search(pattern, source) for pattern in row.every)
    return found and not any(re.search(pattern, source) for pattern in row.never)
