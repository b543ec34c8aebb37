"""The quick measure: prompt processing and generation at one depth, repeated; median, least and most."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ds4.core.direct import Lane
from ds4.sys.native import NativeSession


@dataclass(frozen=True)
class Measure:
    """One test: `tokens` prompt tokens at once (kind "pp") or one by one ("tg"), after `depth` tokens of context.
    seconds: of each repetition."""

    kind: str
    tokens: int
    depth: int
    seconds: tuple[float, ...]

    @property
    def name(self) -> str:
        return f"{self.kind}{self.tokens}" + (f" @ d{self.depth}" if self.depth else "")

    @property
    def rates(self) -> list[float]:
        """Tokens a second of each repetition."""
        return [self.tokens / seconds for seconds in self.seconds]

    def dict(self) -> dict[str, Any]:
        rates = self.rates
        summary = {"median": round(median(rates), 3), "min": round(min(rates), 3), "max": round(max(rates), 3)}
        return {
            "test": self.name,
            "n_prompt": self.tokens if self.kind == "pp" else 0,
            "n_gen": self.tokens if self.kind == "tg" else 0,
            "n_depth": self.depth,
            "tokens_per_second": summary,
            "seconds": [round(seconds, 6) for seconds in self.seconds],
        }


def measure(
    session: NativeSession, ids: Sequence[int], tests: Sequence[tuple[str, int]], depth: int, repetitions: int
) -> Iterator[Measure]:
    """Runs each (kind, tokens) once unmeasured, to warm caches and clocks, then `repetitions` times from one depth.

    ids: at least depth plus the largest test's tokens.
    """
    lane = Lane(session)
    if depth:
        session.truncate(0, 0)
        lane.prefill(ids[:depth])

    def prompt(tokens: int) -> Callable[[], object]:
        piece = ids[depth : depth + tokens]
        return lambda: lane.prefill(piece)

    def generate(tokens: int) -> Callable[[], object]:
        return lambda: lane.decode(ids[depth], tokens)

    for kind, tokens in tests:
        run = prompt(tokens) if kind == "pp" else generate(tokens)
        seconds: list[float] = []
        for _ in range(repetitions + 1):
            session.truncate(0, depth)
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
        yield Measure(kind, tokens, depth, tuple(seconds[1:]))
