"""Fixed texts to be found in text that arrives in pieces."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ds4.core.alternatives import longest_of


class Markers:
    """A set of markers. Where one begins inside another it must also end it, so the first place where one matches is
    the first to be complete."""

    __slots__ = ("_find", "_first", "_match", "_may", "_prefixes", "_reach", "texts")

    def __init__(self, texts: Iterable[str]) -> None:
        self.texts = tuple(texts)
        pattern = longest_of(self.texts)
        self._find = (pattern or re.compile(r"(?!)")).search
        self._match = (pattern or re.compile(r"(?!)")).match
        firsts = "".join(sorted({text[0] for text in self.texts}))
        first = re.compile(f"[{re.escape(firsts)}]" if firsts else r"(?!)")
        self._may, self._first = first.search, first.finditer
        self._prefixes = frozenset(text[:n] for text in self.texts for n in range(1, len(text)))
        self._reach = max(map(len, self.texts), default=1) - 1

    def may_begin(self, text: str) -> bool:
        """Whether a marker may begin somewhere in the text; mostly not, and then it is all certain."""
        return self._may(text) is not None

    def find(self, text: str, at: int) -> re.Match[str] | None:
        """The first marker in text[at:]."""
        return self._find(text, at)

    def match(self, text: str, at: int) -> re.Match[str] | None:
        """The marker that text[at:] begins with."""
        return self._match(text, at)

    def certain(self, text: str, at: int) -> int:
        """Up to where text[at:], which has no whole marker, cannot be the beginning of one."""
        for found in self._first(text, max(at, len(text) - self._reach)):
            if text[found.start() :] in self._prefixes:
                return found.start()
        return len(text)

    def begun(self, text: str) -> bool:
        """Whether the text is a proper prefix of a marker, and not empty."""
        return text in self._prefixes
