"""Around the calls: reasoning before the answer, and text that holds no call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ds4.core.constraint.grammar import GAP, Grammar
from ds4.core.output.grammar.rules import Rules, ToolRules, escaped

_WHITE = r"[ \t\r\n]*"
_ALL = "(?s:.*)"


@dataclass(frozen=True, slots=True)
class Written:
    """Calls in Lark. forced: with all that belongs to them, where nothing else is answered. behind: what follows an
    opener that stands in text."""

    forced: str
    behind: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Style:
    """A dialect's way of writing calls. openers: texts that begin a block anywhere in content; bare: one that does so
    at its beginning only. write: the calls that the rules ask for. signs: what an answer without calls has none of, so
    that none is half written; empty: the openers."""

    openers: Sequence[str]
    write: Callable[[Rules, ToolRules], Written]
    bare: str = ""
    signs: Sequence[str] = ()


def tool_grammar(
    style: Style | None,
    rules: ToolRules,
    *,
    thinking: bool,
    tags: tuple[str, str] | None,
    answer: Grammar | None = None,
    may_think: bool = True,
) -> Grammar:
    """A grammar of answers. style: None: nothing is a call, whatever is written. thinking: the answer begins in
    reasoning; tags: what reasoning stands between, which without `thinking` the answer itself may open, if it
    `may_think`. answer: what one is that calls nothing; None: text, which may also stand before calls.
    """
    out = Rules()
    reasons, taken = "", []
    if tags is not None and thinking:
        reasons = out.lazy(f"/{_ALL}{escaped(tags[1])}/")
    elif tags is not None and tags[0]:
        if may_think:
            reasons = out.lazy(f"/{_WHITE}{escaped(tags[0])}{_ALL}{escaped(tags[1])}/")
        taken.append(f"~/{_WHITE}{escaped(tags[0])}{_ALL}/")
    optional = "" if thinking else "?"
    if style is not None and style.bare and rules.tools:
        taken.append(f"~/{_WHITE}{escaped(style.bare)}{_ALL}/")
    written = style.write(out, rules) if style is not None and rules.tools else None
    forms: list[str] = []
    whole: list[str] = []  # with the reasoning before it
    if written is not None and style is not None and (rules.must or style.bare or answer is not None):
        forms.append(written.forced)
    if not rules.must and answer is not None:
        gap = f" {GAP}" if answer.blank else ""
        before = f"({reasons}{gap}){optional} " if reasons else ""
        whole.append(before + out.embed(answer))
    elif not rules.must:
        openers: Sequence[str] = ()
        if style is not None:
            openers = style.openers if written is not None else style.signs or style.openers
        forms.append(out.terminal(" & ".join([f"/{_ALL}/", *taken, *_without(openers)])) + "?")
        for opener, rest in (written.behind if written is not None else {}).items():
            others = [other for other in openers if other != opener]
            head = out.lazy(" & ".join([f"/{_ALL}{escaped(opener)}/", *taken, *_without(others)]))
            forms.append(f"{head} {rest}")
    if forms:
        whole.insert(0, f"{reasons + optional if reasons else ''} ({' | '.join(forms)})")
    return out.grammar(" | ".join(whole))


def _without(texts: Sequence[str]) -> list[str]:
    return [f"~/{_ALL}({'|'.join(map(escaped, texts))}){_ALL}/"] if texts else []
