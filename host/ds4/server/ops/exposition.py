"""The page at /metrics: the counters in Prometheus' text form. Objects of its library are made at scrape time only.

Names begin with ds4_. The same figures stand there under the names of llama.cpp's and vLLM's servers that dashboards
read, as far as they mean the same here; docs/operations.md has the table.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from ds4.server.errors import TURNED_AWAY
from ds4.server.fleet_metrics import FleetMetrics
from ds4.server.metrics import Histogram
from ds4.server.ops.banks import BankCounts

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from ds4.server.engine_loop import EngineLoop
    from ds4.server.service import Service

_REUSES = ("cold", "exact", "partial", "fork")
_MISSES = ("empty", "disabled", "scope", "floor", "different")
_STATES = ("loading", "ready", "stopping", "failed")

Gauge, Counter = GaugeMetricFamily, CounterMetricFamily


def page(service: Service) -> bytes:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Page(service))
    if service.board is not None:
        registry.register(FleetMetrics(service.board))
    return generate_latest(registry)


class _Page(Collector):
    def __init__(self, service: Service) -> None:
        self.service, self.metrics = service, service.metrics

    def collect(self) -> Iterator[Metric]:
        metrics, service = self.metrics, self.service
        yield Gauge("ds4_uptime_seconds", "Seconds since the server started.", time.time() - metrics.started)
        yield _labelled("ds4_state", "1 for the state that the server is in.", "state", {
            state: int(service.state == state) for state in _STATES
        }, Gauge)  # fmt: skip
        yield Gauge("ds4_model_loaded", "1 once requests are served.", float(metrics.engine is not None))
        yield Gauge("ds4_clients", "HTTP requests being read or answered.", metrics.clients)
        if metrics.engine is not None:
            yield from self._engine(metrics.engine)
        yield from self._counters()
        yield from self._requests()
        for name, help, histogram in (
            ("ds4_time_to_first_token_seconds", "From arrival to the first token drawn.", metrics.first_token),
            ("ds4_inter_token_seconds", "Between two tokens of one answer.", metrics.between_tokens),
            ("ds4_queue_seconds", "From arrival to a bank.", metrics.queue_seconds),
            ("ds4_request_seconds", "From arrival to the last token, by answer.", metrics.request_seconds),
        ):
            yield _histogram(name, help, histogram)
        yield from self._elsewhere()

    def _engine(self, engine: EngineLoop) -> Iterator[Metric]:
        running, waiting = engine.waiting()
        banks = BankCounts.of(engine.scheduler.banks)
        yield Gauge("ds4_requests_running", "Answers that have a bank.", running)
        yield Gauge("ds4_requests_waiting", "Answers that wait for a bank.", waiting)
        yield Gauge("ds4_queue_bytes", "Bytes of the requests that wait.", engine.queued_bytes)
        lobby = engine.lobby.facts()
        yield Gauge("ds4_credit_positions", "Positions that running answers may need.", lobby["credit_held"])
        yield Gauge("ds4_waiting_clients", "Clients with a request that waits or runs.", lobby["clients"])
        yield Gauge("ds4_turns_live", "Tool turns that a bank is kept for.", lobby["turns_live"])
        yield _labelled("ds4_banks", "Banks by what they do.", "state", banks.states(), Gauge)
        yield Gauge(
            "ds4_kv_usage_ratio", "Part of all banks' positions that hold a token.", banks.usage(engine.context)
        )
        yield Gauge("ds4_kv_tokens", "Positions that hold a token.", banks.tokens)
        yield Gauge("ds4_kv_warm_tokens", "Positions that hold a token, in banks that are free.", banks.warm_tokens)

    def _counters(self) -> Iterator[Metric]:
        metrics = self.metrics
        for name, help, value in (
            ("ds4_prompt_tokens", "Prompt tokens of admitted answers, cached ones included.", metrics.prompt_tokens),
            ("ds4_prompt_cached_tokens", "Prompt tokens that a bank already held.", metrics.cached_tokens),
            (
                "ds4_prompt_computed_tokens",
                "Prompt tokens that no bank held.",
                metrics.prompt_tokens - metrics.cached_tokens,
            ),
            ("ds4_generation_tokens", "Tokens drawn for clients.", metrics.generated_tokens),
            ("ds4_steps", "Steps of the engine.", metrics.steps),
            ("ds4_step_seconds", "Time that steps ran.", metrics.step_ns / 1e9),
            ("ds4_decode_rows", "Decoding rows in all steps.", metrics.decode_rows),
            ("ds4_prefill_rows", "Prompt rows in all steps.", metrics.prefill_rows),
            ("ds4_cancelled_requests", "Requests whose client hung up.", metrics.cancelled),
            ("ds4_failed_requests", "Requests that the engine failed.", metrics.failed),
        ):
            yield Counter(name, help, value)

    def _requests(self) -> Iterator[Metric]:
        metrics = self.metrics
        yield _labelled("ds4_sheds", "Requests turned away.", "reason", {r: metrics.sheds[r] for r in TURNED_AWAY})
        yield _labelled(
            "ds4_admissions", "Answers by what their bank gave.", "reuse", {r: metrics.reuses[r] for r in _REUSES}
        )
        yield _labelled(
            "ds4_misses", "Cold answers by why nothing was reused.", "reason", {m: metrics.misses[m] for m in _MISSES}
        )
        yield _labelled("ds4_answers", "Finished answers.", "reason", {r: metrics.ends[r] for r in ("stop", "length")})
        family = Counter("ds4_requests", "HTTP requests by how they ended.", labels=["surface", "outcome"])
        for pair, count in sorted(metrics.requests.items()):
            family.add_metric(list(pair), count)
        yield family
        family = Counter("ds4_route", "Requests by the lane that they were given to.", labels=_ROUTE)
        for labels, count in sorted(metrics.routes.items()):
            family.add_metric(list(labels), count)
        yield family
        family = Counter("ds4_http_responses", "HTTP answers.", labels=["route", "status"])
        for (route, status), count in sorted(metrics.responses.items()):
            family.add_metric([route, str(status)], count)
        yield family

    def _elsewhere(self) -> Iterator[Metric]:
        """The names of other servers."""
        metrics, engine, served = self.metrics, self.metrics.engine, self.service.served
        if engine is None or served is None:
            return
        running, waiting = engine.waiting()
        usage = BankCounts.of(engine.scheduler.banks).usage(engine.context)
        computed = metrics.prompt_tokens - metrics.cached_tokens
        yield Counter("llamacpp:prompt_tokens", "Prompt tokens computed.", computed)
        yield Counter("llamacpp:tokens_predicted", "Tokens drawn.", metrics.generated_tokens)
        yield Gauge("llamacpp:requests_processing", "Answers that have a bank.", running)
        yield Gauge("llamacpp:requests_deferred", "Answers that wait for a bank.", waiting)
        yield Gauge(
            "llamacpp:n_busy_slots_per_decode",
            "Mean of the answers that a decoding step advanced.",
            metrics.decode_rows / metrics.decode_steps if metrics.decode_steps else 0.0,
        )
        model = {"model_name": served.model_id}
        for name, help, value in (
            ("vllm:num_requests_running", "Answers that have a bank.", running),
            ("vllm:num_requests_waiting", "Answers that wait for a bank.", waiting),
            ("vllm:kv_cache_usage_perc", "Part of all banks' positions that hold a token, 0 to 1.", usage),
        ):
            gauge = Gauge(name, help, labels=list(model))
            gauge.add_metric(list(model.values()), value)
            yield gauge
        for name, help, value in (
            ("vllm:prefix_cache_queries", "Prompt tokens looked for in banks.", metrics.prompt_tokens),
            ("vllm:prefix_cache_hits", "Prompt tokens found in banks.", metrics.cached_tokens),
            ("vllm:prompt_tokens", "Prompt tokens of admitted answers.", metrics.prompt_tokens),
            ("vllm:generation_tokens", "Tokens drawn.", metrics.generated_tokens),
        ):
            counter = Counter(name, help, labels=list(model))
            counter.add_metric(list(model.values()), value)
            yield counter
        for name, help, histogram in (
            ("vllm:time_to_first_token_seconds", "From arrival to the first token.", metrics.first_token),
            ("vllm:time_per_output_token_seconds", "Between two tokens of one answer.", metrics.between_tokens),
            ("vllm:e2e_request_latency_seconds", "From arrival to the last token.", metrics.request_seconds),
        ):
            yield _histogram(name, help, histogram, model)


_ROUTE = ["surface", "lane", "reason"]


def _labelled(
    name: str,
    help: str,
    label: str,
    values: dict[str, int],
    kind: type[CounterMetricFamily] | type[GaugeMetricFamily] = CounterMetricFamily,
) -> Metric:
    family = kind(name, help, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _histogram(name: str, help: str, histogram: Histogram, labels: dict[str, str] | None = None) -> Metric:
    buckets, seen = [], 0
    for bound, count in zip((*map(str, histogram.bounds), "+Inf"), histogram.counts, strict=True):
        seen += count
        buckets.append((bound, float(seen)))
    family = HistogramMetricFamily(name, help, labels=list(labels or ()))
    family.add_metric(list((labels or {}).values()), buckets, histogram.total)
    return family
