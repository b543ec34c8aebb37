"""Counters of the server and their Prometheus form.

The hot path adds to plain integers and lists: they are written by one thread each and read by the scrape, which may see
a step half counted. Prometheus objects are made at scrape time only.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from ds4.server.schedule.admission import REASONS, Shed
from ds4.server.schedule.banks import Reuse

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from ds4.server.engine_loop import EngineLoop

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_GAPS = (0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5)
_REUSES = ("cold", "exact", "partial", "fork")


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

    def family(self, name: str, help: str) -> Metric:
        buckets, seen = [], 0
        for bound, count in zip((*map(str, self.bounds), "+Inf"), self.counts, strict=True):
            seen += count
            buckets.append((bound, float(seen)))
        family = HistogramMetricFamily(name, help)
        family.add_metric([], buckets, self.total)
        return family


class Metrics(Collector):
    """Everything that /metrics tells. `engine` joins when the model is loaded."""

    def __init__(self) -> None:
        self.engine: EngineLoop | None = None
        self.started = time.time()
        self.clients = 0
        self.cancelled = self.failed = 0
        self.ends: Counter[str] = Counter()
        self.sheds: Counter[str] = Counter()
        self.responses: Counter[tuple[str, int]] = Counter()
        self.reuses: Counter[str] = Counter()
        self.routes: Counter[tuple[str, str, str]] = Counter()  # (surface, lane, reason)
        self.prompt_tokens = self.cached_tokens = self.generated_tokens = 0
        self.steps = self.step_ns = 0
        self.decode_rows = self.prefill_rows = 0
        self.first_token = Histogram(_SECONDS)
        self.between_tokens = Histogram(_GAPS)
        self.request_seconds = Histogram(_SECONDS)
        self.queue_seconds = Histogram(_SECONDS)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(self)

    def shed(self, reason: Shed) -> None:
        self.sheds[reason] += 1

    def routed(self, surface: str, lane: str, reason: str) -> None:
        self.routes[surface, lane, reason] += 1

    def response(self, route: str, status: int) -> None:
        self.responses[route, status] += 1

    def admitted(self, reuse: Reuse, prompt: int, cached: int, waited: float) -> None:
        self.reuses[reuse] += 1
        self.prompt_tokens += prompt
        self.cached_tokens += cached
        self.queue_seconds.observe(waited)

    def step(self, decoding: int, prompt: int, drawn: int, elapsed_ns: int) -> None:
        self.steps += 1
        self.step_ns += elapsed_ns
        self.decode_rows += decoding
        self.prefill_rows += prompt
        self.generated_tokens += drawn

    def token(self, gap: float, *, first: bool) -> None:
        (self.first_token if first else self.between_tokens).observe(gap)

    def finished(self, reason: str, seconds: float) -> None:
        self.ends[reason] += 1
        self.request_seconds.observe(seconds)

    def render(self) -> bytes:
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("ds4_uptime_seconds", "Seconds since the server started.", time.time() - self.started)
        yield GaugeMetricFamily("ds4_model_loaded", "1 once requests are served.", float(self.engine is not None))
        yield GaugeMetricFamily("ds4_clients", "HTTP requests being read or answered.", self.clients)
        if self.engine is not None:
            yield from self._engine(self.engine)
        yield from self._counters()
        yield self.first_token.family("ds4_time_to_first_token_seconds", "From arrival to the first token drawn.")
        yield self.between_tokens.family("ds4_inter_token_seconds", "Between two tokens of one answer.")
        yield self.queue_seconds.family("ds4_queue_seconds", "From arrival to a bank.")
        yield self.request_seconds.family("ds4_request_seconds", "From arrival to the last token, by answer.")

    def _engine(self, engine: EngineLoop) -> Iterator[Metric]:
        running, waiting = engine.waiting()
        banks = engine.scheduler.banks
        held = sum(len(bank.tokens) for bank in banks)
        yield GaugeMetricFamily("ds4_requests_running", "Answers that have a bank.", running)
        yield GaugeMetricFamily("ds4_requests_waiting", "Answers that wait for a bank.", waiting)
        yield GaugeMetricFamily("ds4_queue_bytes", "Bytes of the requests that wait.", engine.queued_bytes)
        family = GaugeMetricFamily("ds4_banks", "Banks by what they do.", labels=["state"])
        idle = [bank for bank in banks if bank.free]
        warm = sum(1 for bank in idle if bank.tokens)
        family.add_metric(["busy"], len(banks) - len(idle))
        family.add_metric(["warm"], warm)
        family.add_metric(["empty"], len(idle) - warm)
        yield family
        facts = engine.lobby.facts()
        yield GaugeMetricFamily(
            "ds4_credit_positions", "Positions that running answers may need.", facts["credit_held"]
        )
        yield GaugeMetricFamily("ds4_waiting_clients", "Clients with a request that waits or runs.", facts["clients"])
        yield GaugeMetricFamily("ds4_turns_live", "Tool turns that a bank is kept for.", facts["turns_live"])
        usage = held / (len(banks) * engine.context)
        yield GaugeMetricFamily("ds4_kv_usage_ratio", "Part of all banks' positions that hold a token.", usage)
        yield GaugeMetricFamily("ds4_kv_tokens", "Positions that hold a token.", held)

    def _counters(self) -> Iterator[Metric]:
        for name, help, value in (
            ("ds4_prompt_tokens", "Prompt tokens of admitted answers, cached ones included.", self.prompt_tokens),
            ("ds4_prompt_cached_tokens", "Prompt tokens that a bank already held.", self.cached_tokens),
            ("ds4_generation_tokens", "Tokens drawn for clients.", self.generated_tokens),
            ("ds4_steps", "Steps of the engine.", self.steps),
            ("ds4_step_seconds", "Time that steps ran.", self.step_ns / 1e9),
            ("ds4_decode_rows", "Decoding rows in all steps.", self.decode_rows),
            ("ds4_prefill_rows", "Prompt rows in all steps.", self.prefill_rows),
            ("ds4_cancelled_requests", "Requests whose client hung up.", self.cancelled),
            ("ds4_failed_requests", "Requests that the engine failed.", self.failed),
        ):
            yield CounterMetricFamily(name, help, value)
        yield _labelled("ds4_sheds", "Requests turned away.", "reason", {r: self.sheds[r] for r in REASONS})
        yield _labelled(
            "ds4_admissions", "Answers by what their bank gave.", "reuse", {r: self.reuses[r] for r in _REUSES}
        )
        yield _labelled("ds4_answers", "Finished answers.", "reason", {r: self.ends[r] for r in ("stop", "length")})
        family = CounterMetricFamily("ds4_routes", "Requests by lane.", labels=["surface", "lane", "reason"])
        for labels, count in sorted(self.routes.items()):
            family.add_metric(labels, count)
        yield family
        family = CounterMetricFamily("ds4_http_responses", "HTTP answers.", labels=["route", "status"])
        for (route, status), count in sorted(self.responses.items()):
            family.add_metric([route, str(status)], count)
        yield family


def _labelled(name: str, help: str, label: str, values: dict[str, int]) -> Metric:
    family = CounterMetricFamily(name, help, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family
