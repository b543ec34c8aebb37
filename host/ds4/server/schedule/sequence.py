"""A sequence: one choice of one request, from its arrival in the queue to its finish."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ds4.server.schedule.banks import Bank, Miss, Placement

Finish = Literal["stop", "length", "cancelled", "error", "queue_age"]


@dataclass(slots=True, eq=False)
class Sequence:
    """What the scheduler knows of one choice. Tokens only; no text, no sampler, no client.

    key:        unique; names the sequence in everything the scheduler returns.
    prompt:     token ids, at least one, fewer than the context.
    max_tokens: most tokens to draw; prompt + max_tokens fits the context.
    stop_ids:   tokens that end the answer (empty with ignore_eos).
    reuse:      may continue what a bank holds.
    leader:     the first choice of the same request; this one waits for its prefill and copies it.
    chain:      its next step may be submitted before its last token is known; False for what must look first.
    home:       index of the bank that is guarded for this sequence, -1 for none.
    top:        top log-probabilities wanted for each drawn token.
    scope:      whose it is; only banks of the same scope are continued on.
    arrived:    when it joined the queue, in the caller's seconds; nbytes: what it weighs there.
    """

    key: int
    prompt: list[int]
    max_tokens: int
    stop_ids: frozenset[int] = frozenset()
    reuse: bool = True
    leader: Sequence | None = None
    chain: bool = True
    top: int = 0
    arrived: float = 0.0
    nbytes: int = 0
    home: int = -1
    scope: int = 0

    bank: Bank | None = None
    placement: Placement | None = None
    miss: Miss | None = None  # why the placement is cold, where that is known
    drawn: list[int] = field(default_factory=list)
    asked: int = 0  # outputs requested of the engine so far; asked - len(drawn) are in flight
    last_row: int = -1  # row of the newest step that asked for its newest output
    finish: Finish | None = None

    @property
    def prefilled(self) -> bool:
        """Whether the whole prompt has been handed to the engine."""
        return self.bank is not None and len(self.bank.tokens) >= len(self.prompt)
