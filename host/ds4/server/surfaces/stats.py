"""GET /v1/stats: what the engine is doing, as one JSON object for a page that asks every second."""

from __future__ import annotations

import time

import falcon.asgi

from ds4.server.bank_map import bank_map
from ds4.server.service import Service
from ds4.server.surfaces.rendering import dump


class Stats:
    """{"model", "context", "uptime", "queue": {"running", "waiting"}, "tokens": {"generated", "computed", "cached"},
    "banks": as ds4.server.bank_map has them}. Counts are since the start."""

    def __init__(self, service: Service) -> None:
        self.service = service

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        served, metrics = self.service.ready(), self.service.metrics
        running, waiting = served.engine.waiting()
        resp.data = dump(
            {
                "model": served.model_id,
                "context": served.context,
                "uptime": round(time.time() - metrics.started, 3),
                "queue": {"running": running, "waiting": waiting},
                "tokens": {
                    "generated": metrics.generated_tokens,
                    "computed": metrics.prefill_rows,
                    "cached": metrics.cached_tokens,
                },
                "banks": bank_map(served.engine.scheduler.banks),
            }
        )
