"""Admission: who may wait in the queue and for how long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Shed = Literal["queue_depth", "queue_bytes", "queue_age", "clients", "slow_reader", "stopping", "loading"]
"""Why a request was turned away; the label of the sheds metric."""


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Bounds of the waiting line: sequences, bytes of their requests, seconds of waiting."""

    max_queue: int = 256
    max_bytes: int = 256 << 20
    max_age: float = 600.0

    def refuses(self, waiting: int, waiting_bytes: int, joining: int, nbytes: int) -> Shed | None:
        """The reason why `joining` sequences of `nbytes` may not join, or None. An empty queue takes any request."""
        if not waiting:
            return None
        if waiting + joining > self.max_queue:
            return "queue_depth"
        if waiting_bytes + nbytes > self.max_bytes:
            return "queue_bytes"
        return None
