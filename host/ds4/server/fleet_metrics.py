"""What /metrics tells of each of several models."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from ds4.server.fleet import STATES

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from ds4.server.switching import Switchboard


class FleetMetrics(Collector):
    def __init__(self, board: Switchboard) -> None:
        self.board = board

    def collect(self) -> Iterator[Metric]:
        fleet, memory = self.board.fleet, self.board.source.memory
        state = GaugeMetricFamily("ds4_models", "Models by what becomes of them.", labels=["state"])
        phases = [berth.phase for berth in list(fleet.berths.values())]
        for phase, label in STATES.items():
            state.add_metric([label], phases.count(phase))
        yield state
        yield GaugeMetricFamily("ds4_models_max", "Models that may be loaded at once.", fleet.most)
        yield GaugeMetricFamily(
            "ds4_model_waiting", "Requests that wait for a model.", sum(map(fleet.wishes, fleet.wished()))
        )
        holds = GaugeMetricFamily("ds4_model_requests", "Requests that hold a model.", labels=["model"])
        promised = GaugeMetricFamily("ds4_model_memory_bytes", "Memory that a model may take.", labels=["model"])
        for berth in list(fleet.berths.values()):
            holds.add_metric([berth.name], berth.holds)
            promised.add_metric([berth.name], memory.promised(berth.name))
        yield holds
        yield promised
        running = GaugeMetricFamily("ds4_model_running", "Answers that have a bank.", labels=["model"])
        queued = GaugeMetricFamily("ds4_model_queued", "Answers that wait for a bank.", labels=["model"])
        for served in list(self.board.service.loaded):
            runs, waits = served.engine.waiting()
            running.add_metric([served.model_id], runs)
            queued.add_metric([served.model_id], waits)
        yield running
        yield queued
        for name, help, label, counts in (
            ("ds4_model_loads", "Loads of models.", "outcome", fleet.loads),
            ("ds4_model_unloads", "Unloads of models.", "reason", fleet.unloads),
        ):
            family = CounterMetricFamily(name, help, labels=["model", label])
            for labels, count in sorted(counts.items()):
                family.add_metric(labels, count)
            yield family
