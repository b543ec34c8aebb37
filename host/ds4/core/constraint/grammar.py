"""Grammars of answers, as Lark text for `llguidance`, and how they are put together.

A Grammar describes all that the model writes from its first drawn token up to the token that ends its turn. What is
made of a client's words is checked here for form and bounds, before anything runs; `matcher.Vocabulary.matcher` then
compiles it for a vocabulary.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ds4.core.constraint import schema as schemas
from ds4.errors import ConstraintError

MAX_GRAMMAR: Final = 64 << 10
"""Bytes of a client's grammar."""
MAX_RULES: Final = 1000
"""Lines of a client's grammar that may define something: the compiler recurses along a chain of rules."""
MAX_REGEX: Final = 8 << 10
"""Bytes of a regular expression."""

# At most once at each place where JSON allows white space, so that it comes to an end: one space, or a line's
# indentation.
_WHITESPACE: Final = r"[ ]|\n[ ]{0,32}|\n\t{1,8}"
_GAP: Final = r"/[ \n]{0,4}/"


@dataclass(frozen=True, slots=True)
class Grammar:
    """lark: an llguidance Lark grammar of the answer, its start rule `start`. blank: white space may come before the
    answer where something else, such as reasoning, does."""

    lark: str
    blank: bool = False


# ---- grammars of what a client asks for


def json_object() -> Grammar:
    """Any JSON object."""
    return json_schema({"type": "object"})


def json_schema(schema: Mapping[str, Any] | bool, *, lenient: bool = False) -> Grammar:
    """JSON that the schema accepts. lenient: what the compiler does not know of JSON Schema is passed over instead of
    refused. ConstraintError for a schema past its bounds or not well-formed; `subject` is the place, as `/a/b`."""
    schemas.check(schema)
    return Grammar(f"start: {json_rule(schema, lenient=lenient)}\n", blank=True)


def regex(pattern: str) -> Grammar:
    """Text that a regular expression matches from beginning to end. ConstraintError (regex)."""
    check_text(pattern, "regular expression", MAX_REGEX, "regex")
    if not pattern:
        raise ConstraintError("an empty regular expression allows no answer", code="regex")
    return Grammar(f"start: {regex_terminal(pattern)}\n")


def lark(text: str) -> Grammar:
    """A grammar in llguidance's variant of Lark's EBNF, its start rule `start`. ConstraintError (grammar)."""
    check_text(text, "grammar", MAX_GRAMMAR, "grammar")
    if (rules := len(_DEFINES.findall(text))) > MAX_RULES:
        raise ConstraintError(
            "too many rules", subject="grammar", expected=f"at most {MAX_RULES}", found=rules, code="grammar"
        )
    return Grammar(text if text.endswith("\n") else text + "\n")


_DEFINES = re.compile(
    r":"
)  # every definition has a colon; one in a string counts too, which only makes the bound safer


def check_text(text: str, what: str, limit: int, code: str) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ConstraintError("a lone surrogate is not a character", subject=what, code=code) from None
    if size > limit:
        raise ConstraintError("too long", subject=what, expected=f"at most {limit} bytes", found=size, code=code)
    if "\0" in text:
        raise ConstraintError("a null character", subject=what, code=code)


# ---- Lark from parts


def json_rule(schema: Mapping[str, Any] | bool, *, lenient: bool = False) -> str:
    """Lark for JSON of a schema, to stand where a rule's name could. Follow it with a line's end."""
    if schema is True:
        schema = {}
    elif schema is False:
        schema = {"enum": []}
    guidance = {"whitespace_pattern": _WHITESPACE, **({"lenient": True} if lenient else {})}
    return "%json " + json.dumps({**schema, "x-guidance": guidance})


def regex_terminal(pattern: str) -> str:
    """Lark for a regular expression's terminal."""
    # A slash would end it; a line's end cannot stand in it.
    body = re.sub(r"(?s)\\.|[/\n\r]", lambda m: _SLASHED.get(m[0], m[0]), pattern)
    return f"/{body}/"


_SLASHED = {"/": "\\/", "\n": "\\n", "\r": "\\r", "\\\n": "\\n", "\\\r": "\\r"}


def literal(text: str) -> str:
    """Lark for exactly this text."""
    return json.dumps(text, ensure_ascii=False)


def special(token: int) -> str:
    """Lark for one special token, which no text stands for."""
    return f"<[{token}]>"


def nested(grammar: Grammar) -> str:
    """Lark for a whole grammar as a part of another; its names are its own."""
    return "%lark {\n" + grammar.lark + "}"


def either(*grammars: Grammar) -> Grammar:
    """An answer that one of the grammars accepts. They should differ from their first character on: which one it is, is
    settled there, except among plain JSON schemas."""
    names = [f"choice_{index}" for index in range(len(grammars))]
    rules = [f"{name}: {nested(grammar)}\n" for name, grammar in zip(names, grammars, strict=True)]
    return Grammar(f"start: {' | '.join(names)}\n{''.join(rules)}", blank=all(g.blank for g in grammars))


def after_reasoning(grammar: Grammar, close: str | int, stops: Collection[int] = ()) -> Grammar:
    """Free text up to and including the first `close`, then the grammar. close: text, or the id of a special token;
    stops: tokens that would end the turn, which reasoning must not. `matcher.Vocabulary.after_reasoning` finds both."""
    gap = f"{_GAP} " if grammar.blank else ""
    if isinstance(close, int):
        barred = ",".join(str(token) for token in sorted({close, *stops}))
        reasoning = f"reasoning: <[^{barred}]>* {special(close)}\n"
    else:
        reasoning = f"reasoning[suffix={literal(close)}]: /(.|\\n)*/\n"
    return Grammar(f"start: reasoning {gap}answer\n{reasoning}answer: {nested(grammar)}\n")
