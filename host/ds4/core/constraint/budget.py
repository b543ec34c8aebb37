"""How long an answer may reason: once that is used up, what ends reasoning is all that may be drawn."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """most: tokens of reasoning; close: the tokens that end it; n_vocab: tokens that there are."""

    most: int
    close: tuple[int, ...]
    n_vocab: int

    def only(self, place: int) -> bytes:
        """The mask of the close's token at a place (see `matcher.Matcher.mask`)."""
        token = self.close[place]
        mask = bytearray((self.n_vocab + 31) // 32 * 4)
        mask[token // 8] = 1 << token % 8
        return bytes(mask)


class Closing:
    """One answer's budget as it is used up."""

    __slots__ = ("_budget", "_place")

    def __init__(self, budget: Budget) -> None:
        self._budget, self._place = budget, 0

    def mask(self, used: int, reasons: bool, held: bytes | None) -> bytes | None:
        """What the next token may be. used: tokens of reasoning so far; reasons: it has not ended; held: what a grammar
        allows, which may have to see the end of a character before it takes the close."""
        budget = self._budget
        if not reasons or self._place == len(budget.close) or (not self._place and used < budget.most):
            return held
        only, token = budget.only(self._place), budget.close[self._place]
        if held is not None and not held[token // 8] >> token % 8 & 1:
            return held
        self._place += 1
        return only
