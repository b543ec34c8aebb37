"""Counters of the server, as they are counted. ds4.server.ops.exposition shows them to Prometheus, ops.stats to people.

The hot path adds to plain integers and lists: they are written by one thread each and read by the scrape, which may see
a step half counted.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from ds4.server.ops.account import Account, Outcome
from ds4.server.schedule.banks import Reuse

if TYPE_CHECKING:
    from ds4.server.engine_loop import EngineLoop
    from ds4.server.errors import TurnedAway

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_GAPS = (0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)


class Histogram:
    """Counts by upper bound, and the sum."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        return sum(self.counts)


class Metrics:
    """`engine` joins when the model is loaded. last: the account of the request that ended last."""

    def __init__(self) -> None:
        self.engine: EngineLoop | None = None
        self.started = time.time()
        self.clients = 0
        self.answering: set[object] = set()  # connections that wait for the engine, to the last byte of their answer
        self.cancelled = self.failed = 0
        self.ends: Counter[str] = Counter()
        self.sheds: Counter[str] = Counter()
        self.responses: Counter[tuple[str, int]] = Counter()
        self.requests: Counter[tuple[str, Outcome]] = Counter()
        self.routes: Counter[tuple[str, str, str]] = Counter()
        self.reuses: Counter[str] = Counter()
        self.misses: Counter[str] = Counter()
        self.prompt_tokens = self.cached_tokens = self.generated_tokens = 0
        self.steps = self.step_ns = 0
        self.decode_rows = self.prefill_rows = 0
        self.decode_steps = 0
        self.pure_decode_rows = self.decode_ns = self.pure_prefill_rows = self.prefill_ns = 0  # of steps of one kind
        self.first_token = Histogram(_SECONDS)
        self.between_tokens = Histogram(_GAPS)
        self.request_seconds = Histogram(_SECONDS)
        self.queue_seconds = Histogram(_SECONDS)
        self.last: Account | None = None

    def shed(self, reason: TurnedAway) -> None:
        self.sheds[reason] += 1

    def response(self, route: str, status: int) -> None:
        self.responses[route, status] += 1

    def request(self, surface: str, outcome: Outcome) -> None:
        """A request has been answered to its end, or given up."""
        self.requests[surface, outcome] += 1

    def routed(self, account: Account) -> None:
        """A request was given to a lane. The labels are words of ours: each triple of them is a time series."""
        self.routes[account.surface, account.lane or "", account.route or ""] += 1

    def admitted(self, reuse: Reuse, miss: str | None, prompt: int, cached: int, waited: float) -> None:
        self.reuses[reuse] += 1
        if miss is not None:
            self.misses[miss] += 1
        self.prompt_tokens += prompt
        self.cached_tokens += cached
        self.queue_seconds.observe(waited)

    def step(self, decoding: int, prompt: int, drawn: int, elapsed_ns: int) -> None:
        self.steps += 1
        self.step_ns += elapsed_ns
        self.decode_rows += decoding
        self.prefill_rows += prompt
        self.generated_tokens += drawn
        if decoding:
            self.decode_steps += 1
        if not prompt:
            self.decode_ns += elapsed_ns
            self.pure_decode_rows += decoding
        elif not decoding:
            self.prefill_ns += elapsed_ns
            self.pure_prefill_rows += prompt

    def token(self, gap: float, *, first: bool) -> None:
        (self.first_token if first else self.between_tokens).observe(gap)

    def finished(self, reason: str, seconds: float) -> None:
        self.ends[reason] += 1
        self.request_seconds.observe(seconds)
