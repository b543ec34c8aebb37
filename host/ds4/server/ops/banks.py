"""Banks as a person may see them: counted by what they do, and one by one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from ds4.server.schedule.banks import Bank

State = Literal["busy", "held", "warm", "empty"]
"""busy: an answer is made there; held: none any more, but a step in flight has rows there; warm: free, and holds what a
next turn may continue; empty: free, and holds nothing."""


def _look(bank: Bank) -> tuple[State, int]:
    """State and tokens. The engine's thread goes on meanwhile, so a bank is looked at once."""
    owned, steps, held = bank.owner is not None, bank.open, len(bank.tokens)
    return "busy" if owned else "held" if steps else "warm" if held else "empty", held


@dataclass(frozen=True, slots=True)
class BankCounts:
    """Banks by state; tokens of all, and of the warm ones."""

    busy: int
    held: int
    warm: int
    empty: int
    tokens: int
    warm_tokens: int

    @classmethod
    def of(cls, banks: Sequence[Bank]) -> BankCounts:
        states: Counter[State] = Counter()
        tokens: Counter[State] = Counter()
        for bank in banks:
            state, held = _look(bank)
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


def bank_map(banks: Sequence[Bank]) -> list[dict[str, Any]]:
    """One object a bank: index, state, tokens held; owner, null or the answer's number with its prompt's tokens and
    those drawn."""
    return [_told(bank) for bank in banks]


def _told(bank: Bank) -> dict[str, Any]:
    owner, (state, tokens) = bank.owner, _look(bank)
    told = None if owner is None else {"answer": owner.key, "prompt": len(owner.prompt), "drawn": len(owner.drawn)}
    return {"index": bank.index, "state": state, "tokens": tokens, "owner": told}
