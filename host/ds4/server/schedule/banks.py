"""Banks: what each one holds, and which one a prompt should continue on.

A bank's `tokens` is exactly what the engine has committed there, finished sequences included: keeping them after the
sequence has gone *is* the prompt cache. A conversation's next turn finds its history here and only its new part is
computed.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from ds4.server.schedule.sequence import Sequence

UNKNOWN = -1
"""Stands in a bank's tokens for one that a step in flight is still drawing; equal to no prompt token."""

FORK_WORTH = 64
"""Shared tokens from which copying beats computing: a copy moves bytes, a prefill multiplies matrices."""

Reuse = Literal["cold", "exact", "partial", "fork"]
Miss = Literal["empty", "disabled", "scope", "floor", "different"]
"""Why a placement is cold: no bank held anything; the request may not continue on one; another scope has what is
shared; a bank has it and cannot go back that far; no bank begins like this."""


@dataclass(slots=True, eq=False)
class Bank:
    """One timeline of the engine. `open` counts the steps in flight that have rows here. floor: the least length above
    0 that it can go back to; 0 for banks that remember every position. guard: how dear what it holds is; 0 for what
    nobody is known to come back for. scope: of the sequence that was put there last; none of another scope is told, by
    the time it takes, what the bank holds."""

    index: int
    tokens: list[int] = field(default_factory=list)
    owner: Sequence | None = None
    open: int = 0
    used_at: int = 0
    floor: int = 0
    guard: int = 0
    scope: int = 0

    @property
    def free(self) -> bool:
        return self.owner is None and self.open == 0

    def keeps(self, shared: int) -> int:
        """What can be kept of the first `shared` tokens: all of them, or nothing."""
        return shared if shared >= self.floor else 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a prompt goes: keep the first `keep` tokens of `bank`, after copying them from `source` when there is one.

    exact: the prompt continues all that the bank held; partial: it shares a prefix and the rest is forgotten;
    fork: the prefix is copied from another bank, which keeps its own; cold: nothing is shared.
    """

    bank: Bank
    keep: int
    reuse: Reuse
    source: Bank | None = None


def shared_prefix(a: Seq[int], b: Seq[int]) -> int:
    """Length of the longest common prefix. Slices are compared in C: growing ones up to the difference, then halves, so
    that lists which differ early cost nothing, however long they are."""
    low, end, step = 0, min(len(a), len(b)), 32
    while a[low : (high := min(low + step, end))] == b[low:high]:
        if high == end:
            return end
        low, step = high, step * 2
    while high - low > 1:
        middle = (low + high) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _colder(bank: Bank, free: Seq[Bank], guards: dict[Bank, int]) -> bool:
    """Whether another free bank is empty, or unguarded and was used longer ago."""
    return any(
        other is not bank and (not other.tokens or (not guards[other] and other.used_at < bank.used_at))
        for other in free
    )


def place(
    banks: Seq[Bank], prompt: Seq[int], *, reuse: bool, leader: Bank | None = None, home: int = -1, scope: int = 0
) -> Placement | None:
    """The best bank for a prompt, or None while every bank is taken.

    At least the prompt's last token is always computed, since its output is the first answer token. A bank is not
    robbed of a long conversation for a short shared opening: when more would be forgotten than kept, the opening is
    copied, or computed anew, on the bank that was used longest ago. `leader` is a bank to share with whatever `reuse`
    says and however short the prefix: the bank of the same request's first choice.

    Nor is it cut short by much while a bank that is colder could take a copy: two agents with one long system prompt
    would else take turns in undoing each other's work.

    A guarded bank is kept for a conversation that will come back. Others may continue all that it holds, never cut it
    short, and they forget the banks with the lowest guard first. `home` is the bank that is guarded for this prompt.

    A bank of another scope holds nothing that could be kept, guarded for this prompt or not; its guard counts all the
    same when banks are forgotten, and to be `home` lifts it only within the scope.
    """
    free = [bank for bank in banks if bank.free]
    if not free:
        return None
    if home >= 0 and banks[home].scope != scope:
        home = -1
    limit = len(prompt) - 1
    keeps = {
        bank: bank.keeps(min(shared_prefix(bank.tokens, prompt), limit))
        if bank.scope == scope and (reuse or bank is leader)
        else 0
        for bank in banks
    }
    source = max(banks, key=lambda bank: (keeps[bank], bank.free))
    guards = {bank: bank.guard if bank.tokens and bank.index != home else 0 for bank in free}
    worthwhile = [
        bank
        for bank in free
        if 0 < keeps[bank] >= (len(bank.tokens) - keeps[bank] if not guards[bank] else len(bank.tokens))
        and (bank.index == home or len(bank.tokens) - keeps[bank] < FORK_WORTH or not _colder(bank, free, guards))
    ]
    if worthwhile:
        target = max(worthwhile, key=lambda bank: keeps[bank])
    else:  # empty banks first, then the one that was used longest ago; the one to share with last, but for guarded ones
        target = min(
            free, key=lambda b: (guards[b], b is source and keeps[b] > 0, len(b.tokens) > 0, b.used_at, b.index)
        )
    gain = keeps[source] - keeps[target]
    if gain >= FORK_WORTH or (gain > 0 and source is leader):
        return Placement(target, keeps[source], "fork", source)
    keep = keeps[target]
    return Placement(target, keep, "cold" if not keep else "exact" if keep == len(target.tokens) else "partial")


def why_cold(banks: Iterable[Bank], sequence: Sequence) -> Miss:
    """Why nothing of a prompt is kept by a placement that is cold, before the placement is carried out."""
    if not sequence.reuse:
        return "disabled"
    misses: set[Miss] = {"empty"}
    for bank in banks:
        if bank.tokens:
            shared = shared_prefix(bank.tokens, sequence.prompt)
            if not shared or shared < min(FORK_WORTH, len(bank.tokens)):
                misses.add("different")
            elif bank.scope != sequence.scope:
                misses.add("scope")
            else:
                misses.add("floor" if shared < bank.floor else "different")
    return next(miss for miss in _TELLING if miss in misses)


_TELLING: tuple[Miss, ...] = ("floor", "scope", "different", "empty")
