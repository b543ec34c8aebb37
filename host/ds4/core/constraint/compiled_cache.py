"""Compiled grammars that are kept, since agents ask for the same one with every turn: bounded by what they may hold.

The compiler does not tell how large one is, and its text says little: 2 kB of `allOf` hold 55 MB, 100 kB of an enum 3.
The time that compiling took says more, for all that is held was made in it. Measured as the growth of the resident set
over several compilations of a grammar, free memory given back in between, over the processor's seconds that one took:
1 to 26 MB a second for objects, large enums, products of `allOf`, `multipleOf`, thousands of optional properties, rules
that may be empty and alternatives of patterns.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST_BYTES: Final = 128 << 20
MOST: Final = 128
"""Grammars."""
_A_SECOND: Final = 32 << 20
_LEAST: Final = 128 << 10


def size_of(text: str, seconds: float) -> int:
    """Bytes that a compiled grammar is taken to hold. seconds: of the processor, that compiling it took."""
    return _LEAST + 4 * len(text) + int(seconds * _A_SECOND)


class CompiledCache(Generic[T]):
    """Grammars by their text; the one that was not asked for longest goes first. Its user has the lock."""

    def __init__(self, most_bytes: int = MOST_BYTES, most: int = MOST) -> None:
        self._most_bytes, self._most = most_bytes, most
        self._kept: OrderedDict[str, tuple[T, int]] = OrderedDict()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, text: str) -> T | None:
        found = self._kept.get(text)
        if found is None:
            return None
        self._kept.move_to_end(text)
        return found[0]

    def put(self, text: str, made: T, nbytes: int) -> None:
        """One that alone is larger than all that may be kept is not."""
        if nbytes > self._most_bytes:
            return
        if (old := self._kept.pop(text, None)) is not None:
            self.nbytes -= old[1]
        self._kept[text] = made, nbytes
        self.nbytes += nbytes
        while self.nbytes > self._most_bytes or len(self._kept) > self._most:
            self.nbytes -= self._kept.popitem(last=False)[1][1]
