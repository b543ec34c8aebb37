"""Grammars of answers, as Lark text for `llguidance`, and how they are put together.

A Grammar describes all that the model writes from its first drawn token up to the token that ends its turn. What is
made of a client's words is checked here for form and bounds, before anything runs; `matcher.Vocabulary.matcher` then
compiles it for a vocabulary.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ds4.core.constraint import patterns
from ds4.core.constraint import schema as schemas
from ds4.core.constraint.compiler import complaint
from ds4.errors import ConstraintError

MAX_GRAMMAR: Final = 64 << 10
"""Bytes of a client's grammar."""
MAX_RULES: Final = 1000
"""Lines of a client's grammar that may define something: the compiler recurses along a chain of rules."""
MAX_REGEX: Final = 8 << 10
"""Bytes of a regular expression."""

MAX_EXPANDED: Final = patterns.MAX_EXPANDED

# At most once at each place where JSON allows white space, so that it comes to an end: one space, or a line's
# indentation.
_WHITESPACE: Final = r"[ ]|\n[ ]{0,32}|\n\t{1,8}"
GAP: Final = r"/[ \n]{0,4}/"


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
    made = Grammar(f"start: {json_rule(schema, lenient=lenient)}\n", blank=True)
    if wrong := complaint(made.lark):
        raise _blamed(schema, wrong, lenient)
    return made


def _blamed(schema: Mapping[str, Any] | bool, wrong: str, lenient: bool) -> ConstraintError:
    """The compiler's complaint with the place that it is about, if that can be told."""
    if unknown := _UNKNOWN.search(wrong):
        keywords = frozenset(json.loads(unknown[1]))
        place, wrong = schemas.place_of(schema, keywords), f"not supported: {', '.join(sorted(keywords))}"
    else:
        # The smallest part that has the same fault by itself. What refers to others cannot be looked at alone.
        alone = [(at, part) for at, part in schemas.parts(schema) if "$ref" not in json.dumps(part)]
        alone = sorted(alone, key=lambda pair: -pair[0].count("/"))[:_LOOKED_AT]
        lines = ((at, f"start: {json_rule(part, lenient=lenient)}\n") for at, part in alone)
        until = time.monotonic() + _LOOKED_FOR
        found = ((at, complaint(line)) for at, line in lines if time.monotonic() < until)
        place, wrong = next((pair for pair in found if _alike(pair[1], wrong)), (None, wrong))
    return ConstraintError(wrong, subject=place or "schema", code="schema")


def _alike(a: str, b: str) -> bool:
    return a == b or (a.startswith(_CONTRADICTORY) and b.startswith(_CONTRADICTORY))


_CONTRADICTORY = "Unsatisfiable schema:"
_LOOKED_AT = 50
_LOOKED_FOR = 1.0  # seconds: where the fault lies is a help, and not worth more
_UNKNOWN = re.compile(r"^Unimplemented keys: (\[.*\])$")


def regex(pattern: str) -> Grammar:
    """Text that a regular expression matches from beginning to end. ConstraintError (regex)."""
    check_text(pattern, "regular expression", MAX_REGEX, "regex")
    if not pattern:
        raise ConstraintError("an empty regular expression allows no answer", code="regex")
    if (size := patterns.expanded(pattern)) > MAX_EXPANDED:
        raise _too_large("regular expression", size, "regex")
    return _checked(Grammar(f"start: {regex_terminal(pattern)}\n"), "regular expression", "regex")


def lark(text: str) -> Grammar:
    """A grammar in llguidance's variant of Lark's EBNF, its start rule `start`. ConstraintError (grammar)."""
    check_text(text, "grammar", MAX_GRAMMAR, "grammar")
    if (rules := len(_DEFINES.findall(text))) > MAX_RULES:
        raise ConstraintError(
            "too many rules", subject="grammar", expected=f"at most {MAX_RULES}", found=rules, code="grammar"
        )
    for pattern in _PATTERN.findall(text):
        if (size := patterns.expanded(pattern)) > MAX_EXPANDED:
            raise _too_large("grammar", size, "grammar")
    if (size := patterns.terminals(text)) > MAX_EXPANDED:
        raise ConstraintError(
            "terminals that come to too much",
            subject="grammar",
            expected=f"at most {MAX_EXPANDED} places",
            found="more",
            code="grammar",
        )
    return _checked(Grammar(text if text.endswith("\n") else text + "\n"), "grammar", "grammar")


def _too_large(subject: str, size: int, code: str) -> ConstraintError:
    message = "repetitions that come to too much"
    return ConstraintError(message, subject=subject, expected=f"at most {MAX_EXPANDED} places", found=size, code=code)


def _checked(made: Grammar, subject: str, code: str) -> Grammar:
    if wrong := complaint(made.lark):
        raise ConstraintError(wrong, subject=subject, code=code)
    return made


_PATTERN = re.compile(r"/((?:\\.|[^/\\\n])+)/")
_DEFINES = re.compile(":")  # every definition has one; those in strings count too, which errs to the safe side


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


def nested(grammar: Grammar) -> str:
    """Lark for a whole grammar as a part of another; its names are its own."""
    return "%lark {\n" + grammar.lark + "}"
