"""Fixed texts to be found in text that arrives in pieces."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

Search = Callable[[str], re.Match[str] | None]


class Markers:
    """A set of markers. Where one begins inside another it must also end it, so the first place where one matches is
    the first to be complete; and none is the beginning of another.

    search, match: those of a compiled pattern that finds a marker, or the beginning of one that the text ends with.
    What is in front of that is certain, so one call looks at each piece of an answer. `lastindex` of what is found is
    None for a mere beginning.
    """

    __slots__ = ("match", "search", "texts")

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(texts)
        if any(b.startswith(a) for a in self.texts for b in self.texts if a != b) or "" in self.texts:
            raise ValueError(f"a marker is empty, or the beginning of another: {self.texts}")
        pattern = re.compile("|".join(map(_begun, self.texts)) or "(?!)")
        self.search, self.match = pattern.search, pattern.match


def _begun(marker: str) -> str:
    """Matches the marker, with an empty group behind it, or any beginning of it that the text ends with."""
    out = "()"
    for character in reversed(marker[1:]):
        out = rf"(?:{re.escape(character)}{out}|\Z)"
    return re.escape(marker[0]) + out
