"""Banks counted by what they do."""

from __future__ import annotations

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
        busy = sum(bank.owner is not None for bank in banks)
        free = [len(bank.tokens) for bank in banks if bank.free]
        warm = sum(1 for tokens in free if tokens)
        tokens = sum(len(bank.tokens) for bank in banks)
        return cls(busy, len(banks) - busy - len(free), warm, len(free) - warm, tokens, sum(free))

    @property
    def total(self) -> int:
        return self.busy + self.held + self.warm + self.empty

    def states(self) -> dict[str, int]:
        return {"busy": self.busy, "held": self.held, "warm": self.warm, "empty": self.empty}

    def usage(self, context: int) -> float:
        """Part of all positions that hold a token."""
        return self.tokens / (self.total * context)
