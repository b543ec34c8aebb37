"""GET /v1/models and /v1/models/{id}: what OpenAI's clients read and what Anthropic's do, in one object; and
POST /v1/models/load and /v1/models/unload, which take {"model": id}."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import falcon.asgi

from ds4.server.errors import ApiError, invalid
from ds4.server.fleet import STATES
from ds4.server.roster import OfferedModel
from ds4.server.service import Served, Service
from ds4.server.surfaces.generation import connection_of, read_body
from ds4.server.surfaces.rendering import dump
from ds4.server.switching import Switchboard


def describe(served: Served) -> dict[str, Any]:
    return {
        **_head(served.model_id, served.created),
        "context_length": served.context,
        "max_model_len": served.context,
        "loaded": True,
        "state": "loaded",
        **served.facts,
    }


def _head(name: str, created: int) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "ds4",
        "type": "model",
        "display_name": name,
        "created_at": datetime.fromtimestamp(created, UTC).isoformat(),
        "lifecycle": "active",
    }


def describe_offer(board: Switchboard, offer: OfferedModel, facts: dict[str, Any] | None) -> dict[str, Any] | None:
    """A model that may be asked for. facts: of its file. None: it could not be served."""
    member, berth = board.member(offer.name), board.fleet.berths.get(offer.name)
    if member is not None and member.served is not None:
        told = describe(member.served)
    elif facts is None:
        return None
    else:
        trained = facts["context_train"]
        told = {
            **_head(offer.name, int(board.service.metrics.started)),
            "context_length": trained,
            "max_model_len": trained,
            "loaded": False,
            "state": "unloaded",
            **facts,
        }
    if berth is not None:
        told["state"] = STATES[berth.phase]
        if berth.phase == "loading":
            told["progress"] = round(member.progress, 3) if member is not None else 0.0
    return told


async def _offered(board: Switchboard) -> list[dict[str, Any]]:
    """All that can be served, those that are loaded first."""

    def look() -> list[tuple[OfferedModel, dict[str, Any] | None]]:
        if board.roster.stale:
            board.reread()
        return [(offer, board.roster.facts(offer)) for offer in board.roster.offers()]

    looked = await asyncio.get_running_loop().run_in_executor(None, look)
    told = [describe_offer(board, offer, facts) for offer, facts in looked]
    return sorted([one for one in told if one is not None], key=lambda one: not one["loaded"])


async def _one(board: Switchboard, offer: OfferedModel) -> dict[str, Any]:
    facts = await asyncio.get_running_loop().run_in_executor(None, board.roster.facts, offer)
    told = describe_offer(board, offer, facts)
    if told is None:
        raise board.roster.missing(offer.name)
    return told


class Models:
    def __init__(self, service: Service) -> None:
        self.service = service

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        self.service.check()
        board = self.service.board
        data = [describe(self.service.ready())] if board is None else await _offered(board)
        ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
        resp.data = dump({"object": "list", "data": data, "has_more": False, **ends})

    async def on_head(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await self.on_get(req, resp)


class OneModel:
    def __init__(self, service: Service) -> None:
        self.service = service

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str) -> None:
        self.service.check()
        if (board := self.service.board) is not None:
            resp.data = dump(await _one(board, await board.offer(name)))
            return
        served = self.service.ready()
        if name != served.model_id:
            raise ApiError(
                404,
                f"There is no model {name!r}; this server has {served.model_id!r}.",
                code="model_not_found",
                param="model",
            )
        resp.data = dump(describe(served))


class LoadModel:
    """Loads a model, and answers once it is loaded. `unloads`: unloads one that nobody uses."""

    def __init__(self, service: Service, *, unloads: bool = False) -> None:
        self.service, self._unloads = service, unloads

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        self.service.check()
        body = await read_body(req)
        name = body.text("model")
        if not name:
            raise invalid("'model' is required: the model's id.", "model", "missing_field")
        told = await (self._alone(name) if self.service.board is None else self._among(self.service.board, name, req))
        resp.data = dump({"success": True, "model": told})

    async def _alone(self, name: str) -> dict[str, Any]:
        served = self.service.ready()
        if self._unloads or name != served.model_id:
            doing = "unloaded" if self._unloads else "loaded"
            raise ApiError(
                400,
                f"{name[:80]!r} cannot be {doing}: this server serves {served.model_id!r} alone. Start it with "
                "--models-max 2 or more to switch between models.",
                code="models_max",
                param="model",
            )
        return describe(served)

    async def _among(self, board: Switchboard, name: str, req: falcon.asgi.Request) -> dict[str, Any]:
        if self._unloads:
            return await _one(board, await board.unload(name))
        return describe(await board.model(name, connection_of(req)))
