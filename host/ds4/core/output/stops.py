"""Stop strings over text that arrives in pieces.

What has been pushed is given back as soon as no stop string can still begin in it, so a stop is never shown, not even
in part, and nothing is held back longer than that takes. The first stop that is complete wins; of several that become
complete at one character, the one that began first (the longest).
"""

from __future__ import annotations

import re
from collections.abc import Sequence


def _failure(stop: str) -> list[int]:
    """KMP's failure function: f[k] = length of the longest proper prefix of stop that ends stop[:k]."""
    table, k = [0] * (len(stop) + 1), 0
    for i in range(1, len(stop)):
        while k and stop[i] != stop[k]:
            k = table[k]
        if stop[i] == stop[k]:
            k += 1
        table[i + 1] = k
    return table


class StopMatcher:
    """push(text) -> (text that may be shown, whether a stop was met). After a hit, pushes return nothing more.

    Linear in the text for each stop string. Empty stop strings are refused (ValueError): they would stop everything.
    """

    __slots__ = ("_fails", "_first", "_held", "_states", "_stops", "matched")

    def __init__(self, stops: Sequence[str]) -> None:
        if any(not stop for stop in stops):
            raise ValueError("an empty stop string")
        self._stops = list(dict.fromkeys(stops))
        self._fails = [_failure(stop) for stop in self._stops]
        self._states = [0] * len(self._stops)  # characters of each stop that the held text ends with
        self._held = ""
        self._first = re.compile("[" + re.escape("".join({stop[0] for stop in self._stops})) + "]") if stops else None
        self.matched: str | None = None  # the stop that was met

    @property
    def holding(self) -> bool:
        """Whether text is being held back."""
        return bool(self._held)

    @property
    def held(self) -> int:
        """How many characters are being held back."""
        return len(self._held)

    def push(self, text: str) -> tuple[str, bool]:
        if self.matched is not None:
            return "", True
        if self._first is None or (not self._held and self._first.search(text) is None):
            return text, False
        buffer = self._held + text
        for at in range(len(self._held), len(buffer)):
            hit = self._step(buffer[at])
            if hit is not None:
                self.matched = hit
                self._held = ""
                return buffer[: at + 1 - len(hit)], True
        keep = max(self._states)
        self._held = buffer[len(buffer) - keep :]
        return buffer[: len(buffer) - keep], False

    def _step(self, character: str) -> str | None:
        """Advances every stop's automaton by a character; the longest stop that it completes, if any."""
        hit: str | None = None
        states = self._states
        for i, stop in enumerate(self._stops):
            k, table = states[i], self._fails[i]
            while k and stop[k] != character:
                k = table[k]
            if stop[k] == character:
                k += 1
            if k == len(stop):
                if hit is None or len(stop) > len(hit):
                    hit = stop
                k = table[k]
            states[i] = k
        return hit

    def flush(self) -> str:
        """What is still held, at the end of the text."""
        text, self._held = self._held, ""
        self._states = [0] * len(self._stops)
        return text
