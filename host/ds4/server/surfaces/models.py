"""GET /v1/models and /v1/models/{id}: what OpenAI's clients read and what Anthropic's do, in one object."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import falcon.asgi

from ds4.server.errors import ApiError
from ds4.server.service import Served, Service
from ds4.server.surfaces.rendering import dump


def describe(served: Served) -> dict[str, Any]:
    return {
        "id": served.model_id,
        "object": "model",
        "created": served.created,
        "owned_by": "ds4",
        "type": "model",
        "display_name": served.model_id,
        "created_at": datetime.fromtimestamp(served.created, UTC).isoformat(),
        "lifecycle": "active",
        "context_length": served.context,
        "max_model_len": served.context,
        **served.facts,
    }


class Models:
    def __init__(self, service: Service) -> None:
        self.service = service

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        served = self.service.ready()
        name = served.model_id
        whole = {"has_more": False, "first_id": name, "last_id": name}
        resp.data = dump({"object": "list", "data": [describe(served)], **whole})

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
