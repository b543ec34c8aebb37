"""JSON text as the component contracts define it: read with bounds that do not depend on the interpreter, and written
as `json.dumps(ensure_ascii=False)` writes it.
"""

from __future__ import annotations

import json
import re
from typing import Any

MOST_DEPTH = 200
"""Most containers open at once; a scanner in C recurses for each."""
MOST_DIGITS = 4300
"""Most digits of an integer: what CPython converts (sys.int_info.default_max_str_digits)."""

WHITE = " \t\n\r"
_STRUCTURE = re.compile(r'"(?:[^"\\]|\\.)*"?|[\[{]|[\]}]', re.DOTALL)
_encode = json.JSONEncoder(ensure_ascii=False).encode
quoted = json.encoder.encode_basestring
"""Text as a JSON string, its quotes included."""


def deep(text: str) -> bool:
    """Whether a JSON text opens more than MOST_DEPTH containers at once. For other text the answer says nothing."""
    if text.count("[") + text.count("{") <= MOST_DEPTH:
        return False
    depth = 0
    for found in _STRUCTURE.finditer(text):
        mark = found[0]
        if mark in "[{":
            depth += 1
            if depth > MOST_DEPTH:
                return True
        elif mark in "]}":
            depth -= 1
    return False


def _integer(digits: str) -> int:
    if len(digits) - digits.startswith("-") > MOST_DIGITS:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def loads(text: str) -> Any:
    """The value of a JSON text, NaN and infinities included. ValueError for what is none, or exceeds the bounds."""
    if deep(text):
        raise ValueError(f"more than {MOST_DEPTH} containers are open at once")
    return json.loads(text, parse_int=_integer) if len(text) > MOST_DIGITS else json.loads(text)


def dumps(value: Any) -> str:
    """The value as JSON, characters as they are: `json.dumps(value, ensure_ascii=False)`."""
    return _encode(value)


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _as_it_is(number: str) -> str:
    return number


unlimited = json.JSONDecoder(parse_constant=_no_constant, parse_int=_as_it_is, parse_float=_as_it_is)
"""Reads JSON by the standard's grammar, numbers of any size, which it leaves as they are written. Ask `deep` first."""


def is_json(text: str) -> bool:
    """Whether a text is JSON by the standard's grammar, of at most MOST_DEPTH containers; numbers of any size."""
    if deep(text):
        return False
    try:
        unlimited.decode(text)
    except ValueError:
        return False
    return True


def characters(text: str) -> str:
    """Text as it stands between the quotes of a JSON string."""
    return quoted(text)[1:-1]
