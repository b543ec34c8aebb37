"""How much a parser does, counted and not timed."""

from __future__ import annotations

import sys

from ds4.core.output.events import Parser


def calls_made(parser: Parser, text: str, size: int) -> int:
    """Functions called while the text is pushed in pieces of `size` characters."""
    count = 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        for at in range(0, len(text), size):
            parser.push(text[at : at + size])
    finally:
        sys.setprofile(None)
    return count
