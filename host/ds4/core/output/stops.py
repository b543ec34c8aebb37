"""Stop strings over text that arrives in pieces.

What has been pushed is given back as soon as no stop string can still begin in it, so a stop is never shown, not even
in part, and nothing is held back longer than that takes. The first stop that is complete wins; of several that become
complete at one character, the one that began first (the longest).
"""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple


class _Automaton(NamedTuple):
    """Aho and Corasick's: a state is the longest end of the text that begins a stop string; state 0 is no such end.

    moves: by state, the state that a character leads to if it goes on with a stop. fallback: by state, the longest
    proper end of it that is a state too. depth: characters of the state. hits: the longest stop it ends with.
    search: finds the next character that any stop begins with.
    """

    moves: list[dict[str, int]]
    fallback: list[int]
    depth: list[int]
    hits: list[str | None]
    search: Callable[..., re.Match[str] | None]


def _finder(characters: str) -> Callable[..., re.Match[str] | None]:
    return re.compile(f"[{re.escape(characters)}]" if characters else "(?!)").search


@functools.lru_cache(maxsize=8)  # a client's requests tend to bring the same stops
def _automaton(stops: tuple[str, ...]) -> _Automaton:
    """Linear in the stops' length."""
    moves: list[dict[str, int]] = [{}]
    depth, hits = [0], list[str | None]([None])
    for stop in stops:
        state = 0
        for character in stop:
            following = moves[state].get(character)
            if following is None:
                following = moves[state][character] = len(moves)
                moves.append({})
                depth.append(depth[state] + 1)
                hits.append(None)
            state = following
        hits[state] = stop
    fallback = [0] * len(moves)
    waiting = deque(moves[0].values())  # breadth first: what a state falls back to is shorter, so it is done
    while waiting:
        state = waiting.popleft()
        hits[state] = hits[state] or hits[fallback[state]]
        for character, following in moves[state].items():
            shorter = fallback[state]
            while shorter and character not in moves[shorter]:
                shorter = fallback[shorter]
            fallback[following] = moves[shorter].get(character, 0)
            waiting.append(following)
    return _Automaton(moves, fallback, depth, hits, _finder("".join(moves[0])))


class StopMatcher:
    """push(text) -> (text that may be shown, whether a stop was met). After a hit, pushes return nothing more.

    Linear in the text, however many stop strings there are. Empty ones are refused (ValueError): they would stop
    everything.
    """

    __slots__ = ("_automaton", "_held", "_search", "_state", "matched")

    def __init__(self, stops: Sequence[str]) -> None:
        if any(not stop for stop in stops):
            raise ValueError("an empty stop string")
        self._automaton = _automaton(tuple(stops))
        self._search = self._automaton.search if stops else None  # None: no stops, or one was met
        self._state = 0
        self._held = ""  # the text of the state
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
        search = self._search
        if search is None:
            return (text, False) if self.matched is None else ("", True)
        state, at = self._state, len(self._held)
        if state:
            text = self._held + text
        elif (found := search(text)) is not None:
            at = found.start()
        else:
            return text, False
        moves, fallback, depth, hits, _ = self._automaton
        end = len(text)
        while at < end:
            if not state:  # nothing has begun: on to where something may
                if (found := search(text, at)) is None:
                    break
                at = found.start()
            character = text[at]
            at += 1
            while state and character not in moves[state]:
                state = fallback[state]
            state = moves[state].get(character, 0)
            hit = hits[state]
            if hit is not None:
                self.matched, self._search = hit, None
                self._held = ""
                return text[: at - len(hit)], True
        self._state = state
        shown = end - depth[state]
        self._held = text[shown:]
        return text[:shown], False

    def flush(self) -> str:
        """What is still held, at the end of the text."""
        text, self._held = self._held, ""
        self._state = 0
        return text
