"""Admission: reasons for turning a request away, with what its client is told; and the bounds of a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Shed = Literal[
    "queue_depth",
    "queue_bytes",
    "client_share",
    "queue_age",
    "kv_budget",
    "clients",
    "slow_reader",
    "stopping",
    "loading",
]
"""Why a request was turned away; the label of the sheds metric."""

REASONS: tuple[Shed, ...] = get_args(Shed)

ANSWERS: dict[Shed, tuple[int, int]] = {
    "queue_depth": (429, 5),
    "queue_bytes": (429, 5),
    "client_share": (429, 5),
    "queue_age": (503, 30),
    "kv_budget": (400, 0),
    "clients": (503, 10),
    "slow_reader": (503, 10),
    "stopping": (503, 10),
    "loading": (503, 5),
}
"""HTTP status, and seconds after which it is worth another try (0: it is not)."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Bounds of the waiting line: sequences, bytes of their requests, seconds of waiting."""

    max_queue: int = 256
    max_bytes: int = 256 << 20
    max_age: float = 600.0

    @property
    def client_queue(self) -> int:
        """Sequences of one client that may wait while others wait as well: one that floods leaves room."""
        return -(-3 * self.max_queue // 4)

    def refuses(self, waiting: int, waiting_bytes: int, joining: int, nbytes: int) -> Shed | None:
        """The reason why `joining` sequences of `nbytes` may not join, or None. An empty queue takes any request."""
        if not waiting:
            return None
        if waiting + joining > self.max_queue:
            return "queue_depth"
        if waiting_bytes + nbytes > self.max_bytes:
            return "queue_bytes"
        return None
