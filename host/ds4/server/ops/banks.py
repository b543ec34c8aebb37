"""Banks counted by what they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ds4.server.schedule.banks import Bank


@dataclass(frozen=True, slots=True)
class BankCounts:
    """busy: an answer is made there; held: none any more, but a step in flight has rows there; warm: free, and holds
    what a next turn may continue; empty: free, and holds nothing."""

    busy: int
    held: int
    warm: int
    empty: int
    tokens: int
    warm_tokens: int

    @classmethod
    def of(cls, banks: Sequence[Bank]) -> BankCounts:
        """Each bank is looked at once: the engine's thread goes on meanwhile, and none may be counted twice."""
        states: Counter[str] = Counter()
        tokens: Counter[str] = Counter()
        for bank in banks:
            owned, steps, held = bank.owner is not None, bank.open, len(bank.tokens)
            state = "busy" if owned else "held" if steps else "warm" if held else "empty"
            states[state] += 1
            tokens[state] += held
        return cls(states["busy"], states["held"], states["warm"], states["empty"], tokens.total(), tokens["warm"])

    @property
    def total(self) -> int:
        return self.busy + self.held + self.warm + self.empty

    def states(self) -> dict[str, int]:
        return {"busy": self.busy, "held": self.held, "warm": self.warm, "empty": self.empty}

    def usage(self, context: int) -> float:
        """Part of all positions that hold a token."""
        return self.tokens / (self.total * context)
