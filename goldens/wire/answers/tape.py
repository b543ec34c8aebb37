"""An answer's events and facts as lines of a tape."""

from __future__ import annotations

import struct
from typing import Any

from answers.stories import TOKENS, Event
from ds4.sys.tape import escape

Entries = list[list[tuple[int, float]]]  # for each token of an event: what was drawn, then what else was likely
END = {"prompt": 12, "cached": 5, "completion": 7, "times": (1.5, 1.7512345, 3.25), "thought": 2}


def end_of(choice: int) -> dict[str, Any]:
    return {**END, "completion": 7 + choice, "times": (1.5, 1.7512345, 3.25 + choice)}


def double(value: float) -> int:
    return int(struct.unpack("<Q", struct.pack("<d", value))[0])


def opt(value: str | None) -> bytes:
    return b"-" if value is None else b"=" + escape(value)


def words(*parts: Any) -> bytes:
    """A line; bytes that are ready stand as they are, text is data."""
    out = []
    for part in parts:
        out.append(part if isinstance(part, bytes) else escape(part) if isinstance(part, str) else b"%d" % part)
    return b" ".join(out) + b"\n"


def tokens_of(entries: Entries | None) -> tuple[bytes, bytes]:
    if entries is None:
        return b"-", b""
    rows = b""
    for pairs in entries:
        flat = [word for token, value in pairs for word in (escape(TOKENS[token]), b"%d" % double(value))]
        rows += words(b"token", *flat)
    return b"%d" % len(entries), rows


def event_line(event: Event, logprobs: Entries | None) -> bytes:
    count, rows = tokens_of(logprobs)
    match event:
        case ("delta" | "reasoning" as verb, choice, text):
            return words(verb.encode(), choice, text, count) + rows
        case ("call", choice, index, id, name, arguments):
            return words(b"call", choice, index, id, name, arguments, count) + rows
        case ("void", choice, first):
            return words(b"void", choice, first)
        case ("finish", choice, reason, stop):
            end = end_of(choice)
            numbers = (
                end["prompt"],
                end["cached"],
                end["completion"],
                *(double(t) for t in end["times"]),
                end["thought"],
            )
            return words(b"finish", choice, reason.encode(), *numbers, opt(stop))
        case ("fail", status, type, code, param, message):
            return words(b"fail", status, type, opt(code), opt(param), message)
        case (verb,):
            return words(verb.encode())
    raise AssertionError(event)
