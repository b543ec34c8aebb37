"""JSON Schemas as clients send them: what is wrong with one, and where, before the compiler sees it.

Only the form of well-known keywords and sizes are looked at: what a schema means is the compiler's business. Bounds are
on what costs its compiler time or stack.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from ds4.core.constraint.patterns import MAX_EXPANDED, expanded
from ds4.core.json_kinds import kind
from ds4.errors import ConstraintError

MAX_BYTES: Final = 128 << 10
MAX_DEPTH: Final = 48
MAX_NODES: Final = 10_000
"""Values of all kinds in a schema."""
MAX_ENUM: Final = 2_000
"""Values of one enum."""
MAX_REFS: Final = 256
"""References in a schema: the compiler recurses along a chain of them."""
MAX_PATTERN: Final = 4 << 10
"""Bytes of a pattern."""
MAX_COUNT: Final = 10_000
"""Of minLength, maxItems and their kin: each is unrolled."""
MAX_MULTIPLE: Final = 100_000
"""Least common multiple of the digits of all multipleOf, which may meet in one number: each remainder is a state."""

_TYPES = frozenset({"null", "boolean", "integer", "number", "string", "array", "object"})
_COUNTS = frozenset({"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_ONE = frozenset({"items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"})
_MANY = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_TEXTS = frozenset({"pattern", "format", "$ref"})


def check(schema: object) -> None:
    """ConstraintError (schema) for one that is no schema, or past the bounds; its subject is the place, as `/a/b`, or
    "schema" for the whole."""
    _sizes(schema)
    refs, multiple = 0, 1
    for place, part in parts(schema):
        for name, value in part.items():
            _keyword(place, name, value)
        refs += "$ref" in part
        multiple = math.lcm(multiple, _digits(part.get("multipleOf")))
        if multiple > MAX_MULTIPLE:
            at, message = f"{place}/multipleOf", "too large, alone or together with the others"
            raise _wrong(at, message, f"a least common multiple of at most {MAX_MULTIPLE}", multiple)
    if refs > MAX_REFS:
        raise _wrong("", "too many references", f"at most {MAX_REFS}", refs)


def _digits(value: Any) -> int:
    """Those of a multipleOf as an integer: 25 for 0.25. 1 for what is none, or none that the compiler takes."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        return 1
    _, digits, exponent = Decimal(repr(value)).normalize().as_tuple()
    assert isinstance(exponent, int)
    return int("".join(map(str, digits)) + "0" * min(max(exponent, 0), 20))


def place_of(schema: object, keywords: frozenset[str]) -> str | None:
    """Where one of these keywords first stands."""
    for place, part in parts(schema):
        for name in part:
            if name in keywords:
                return f"{place}/{_escape(name)}"
    return None


def _wrong(place: str, message: str, expected: object = None, found: object = None) -> ConstraintError:
    return ConstraintError(message, subject=place or "schema", expected=expected, found=found, code="schema")


def _sizes(schema: object) -> None:
    nodes, level = 0, [schema]
    for _depth in range(MAX_DEPTH + 1):
        nodes += len(level)
        if nodes > MAX_NODES:
            raise _wrong("", "too large", f"at most {MAX_NODES} values", "more")
        below: list[object] = []
        for value in level:
            if isinstance(value, Mapping):
                below.extend(value.values())
            elif isinstance(value, list):
                below.extend(value)
        if not below:
            break
        level = below
    else:
        raise _wrong("", "nested too deep", f"at most {MAX_DEPTH} levels", "more")
    try:
        size = len(json.dumps(schema, ensure_ascii=False).encode())
    except UnicodeEncodeError:
        raise _wrong("", "a lone surrogate is not a character") from None
    if size > MAX_BYTES:
        raise _wrong("", "too long", f"at most {MAX_BYTES} bytes", size)


def parts(schema: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each schema in a schema that is an object, with its place. ConstraintError where something else stands."""
    todo: list[tuple[str, object]] = [("", schema)]
    while todo:
        place, part = todo.pop()
        if isinstance(part, bool):
            continue
        if not isinstance(part, Mapping):
            raise _wrong(place, "not a schema", "an object or a boolean", _kind(part))
        yield place, part
        inner: list[tuple[str, object]] = []
        for name, value in part.items():
            at = f"{place}/{_escape(name)}"
            if name in _ONE:
                if name == "items" and isinstance(value, list):
                    inner += [(f"{at}/{i}", item) for i, item in enumerate(value)]
                else:
                    inner.append((at, value))
            elif name in _MANY:
                if not isinstance(value, list) or not value:
                    raise _wrong(at, "not a list of schemas", "an array with at least one schema", _kind(value))
                inner += [(f"{at}/{i}", item) for i, item in enumerate(value)]
            elif name in _NAMED:
                if not isinstance(value, Mapping):
                    raise _wrong(at, "not named schemas", "an object of schemas", _kind(value))
                if name == "patternProperties":
                    for key in value:
                        _keyword(at, "pattern", key)
                inner += [(f"{at}/{_escape(key)}", item) for key, item in value.items()]
        todo += reversed(inner)


def _keyword(place: str, name: str, value: Any) -> None:
    at = f"{place}/{_escape(name)}"
    if name == "type":
        named = value if isinstance(value, list) else [value]
        if not named:
            raise _wrong(at, "no type", "at least one", "an empty array")
        for item in named:
            if not isinstance(item, str) or item not in _TYPES:
                found = repr(item)[:40] if isinstance(item, str) else _kind(item)
                raise _wrong(at, "no such type", ", ".join(sorted(_TYPES)), found)
    elif name in _COUNTS:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or value < 0:
            raise _wrong(at, "not a count", "an integer of 0 or more", _shown(value))
        if value > MAX_COUNT:
            raise _wrong(at, "too large", f"at most {MAX_COUNT}", _shown(value))
    elif name in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _wrong(at, "not a number", "a number", _kind(value))
    elif name == "enum":
        if not isinstance(value, list) or not value:
            raise _wrong(at, "no values", "an array with at least one value", _kind(value))
        if len(value) > MAX_ENUM:
            raise _wrong(at, "too many values", f"at most {MAX_ENUM}", len(value))
    elif name == "required":
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise _wrong(at, "not a list of names", "an array of strings", _kind(value))
    elif name in _TEXTS:
        if not isinstance(value, str):
            raise _wrong(at, "not a string", "a string", _kind(value))
        if name == "pattern" and len(value.encode()) > MAX_PATTERN:
            raise _wrong(at, "too long", f"at most {MAX_PATTERN} bytes", len(value.encode()))
        if name == "pattern" and (size := expanded(value)) > MAX_EXPANDED:
            raise _wrong(at, "repetitions that come to too much", f"at most {MAX_EXPANDED} places", size)
        if name == "$ref" and not value.startswith("#"):
            raise _wrong(at, "only references into the schema itself are followed", "#...", repr(value[:60]))


def _escape(name: object) -> str:
    return str(name).replace("~", "~0").replace("/", "~1")


def _shown(value: object) -> str:
    return repr(value)[:40] if isinstance(value, int | float) and not isinstance(value, bool) else _kind(value)


def _kind(value: object) -> str:
    return "an empty array" if isinstance(value, list) and not value else kind(value)
