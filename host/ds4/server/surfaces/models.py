"""GET /v1/models and /v1/models/{id}."""

from __future__ import annotations

from typing import Any

import falcon.asgi

from ds4.server.errors import ApiError
from ds4.server.service import Served, Service
from ds4.server.surfaces.generation import dump


def describe(served: Served) -> dict[str, Any]:
    return {
        "id": served.model_id,
        "object": "model",
        "created": served.created,
        "owned_by": "ds4",
        "context_length": served.context,
        "max_model_len": served.context,
        **served.facts,
    }


class Models:
    def __init__(self, service: Service) -> None:
        self.service = service

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        served = self.service.ready()
        resp.data = dump({"object": "list", "data": [describe(served)]})

    async def on_head(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await self.on_get(req, resp)


class Model:
    def __init__(self, service: Service) -> None:
        self.service = service

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        served = self.service.ready()
        if name != served.model_id:
            raise ApiError(
                404,
                f"There is no model {name!r}; this server has {served.model_id!r}.",
                code="model_not_found",
                param="model",
            )
        resp.data = dump(describe(served))
