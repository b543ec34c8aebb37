"""What a JSON value is called where a message speaks of it."""

from __future__ import annotations


def kind(value: object) -> str:
    """JSON's name for a value's type, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "an array"
        case _:
            return "an object"
