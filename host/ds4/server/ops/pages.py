"""The endpoints that answer about the server itself: /health, /ready, /metrics, /v1/stats."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

import falcon
import falcon.asgi

from ds4.server.ops import exposition
from ds4.server.ops.stats import stats
from ds4.server.service import Service


class _Page(ABC):
    def __init__(self, service: Service) -> None:
        self.service = service

    @abstractmethod
    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None: ...

    async def on_head(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await self.on_get(req, resp)

    def _state(self) -> dict[str, Any]:
        state = self.service.state
        body: dict[str, Any] = {"status": "ok" if state == "ready" else state}
        if state == "loading":
            body["progress"] = round(self.service.progress, 3)
        return body


class Health(_Page):
    """200 as long as the process answers, whatever it can do yet or still: who restarts it asks here."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.set_header("cache-control", "no-store")
        resp.data = json.dumps(self._state()).encode()


class Ready(_Page):
    """200 while requests are served; 503 before, while stopping and when loading failed: who sends them asks here."""

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        if self.service.state != "ready":
            resp.status = falcon.HTTP_503
            resp.set_header("retry-after", "1" if self.service.state == "loading" else "10")
        resp.set_header("cache-control", "no-store")
        resp.data = json.dumps(self._state()).encode()


class MetricsPage(_Page):
    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = "text/plain; version=0.0.4; charset=utf-8"
        resp.data = exposition.page(self.service)


class Stats(_Page):
    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.set_header("cache-control", "no-store")
        resp.data = json.dumps(stats(self.service)).encode()


def add_routes(app: falcon.asgi.App[Any, Any], service: Service) -> None:
    app.add_route("/health", Health(service))
    app.add_route("/ready", Ready(service))
    app.add_route("/metrics", MetricsPage(service))
    app.add_route("/v1/stats", Stats(service))
