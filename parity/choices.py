"""Decisions out of bytes: a fuzz draws one `st.binary`, and a generator of its component's own turns it into a tape.

One draw is far cheaper than hundreds, and hypothesis shrinks bytes well: fewer and smaller bytes mean fewer events and
first alternatives, since a generator takes 0 for ever once the bytes are used up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Decisions, one byte each; two where there are more than 256 alternatives."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def left(self) -> int:
        """Bytes not used yet."""
        return max(0, len(self._data) - self._at)

    def below(self, n: int) -> int:
        """0..n-1, for n up to 65536."""
        at = self._at
        if n <= 256:
            self._at = at + 1
            return self._data[at] % n if at < len(self._data) else 0
        self._at = at + 2
        return int.from_bytes(self._data[at : at + 2], "little") % n

    def once_in(self, n: int) -> bool:
        """True for one of n alternatives; not the first, so that shrinking makes it rare."""
        return self.below(n) == n - 1

    def of(self, alternatives: Sequence[T]) -> T:
        return alternatives[self.below(len(alternatives))]
