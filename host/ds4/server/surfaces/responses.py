"""POST /v1/responses, and what is kept of its responses: retrieve, delete, cancel, list input items, count tokens."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import falcon
import falcon.asgi

from ds4.server.constraints import responses_format, told_of
from ds4.server.corrective import Buffered
from ds4.server.disconnect import Connection
from ds4.server.errors import ApiError, ClientGone, invalid
from ds4.server.events import Delta, Failed, HungUp
from ds4.server.job import Job
from ds4.server.response_store import Missing, ResponseStore, Stored
from ds4.server.service import Served, Service
from ds4.server.surfaces import wire
from ds4.server.surfaces.asked import model_of
from ds4.server.surfaces.generation import begin_trace, connection_of, model_and_body, queued
from ds4.server.surfaces.reading import aside, read
from ds4.server.surfaces.rendering import dump
from ds4.server.surfaces.responses_answer import ResponseFacts
from ds4.server.surfaces.responses_request import ResponsesRequest, completed, made, read_talk, tokens
from ds4.server.surfaces.wire import ResponseWriting

log = logging.getLogger("ds4.server")

_LOST: dict[str, Any] = {
    "status": "failed",
    "error": {"code": "server_error", "message": "The server failed while it made this response; its log says why."},
    "incomplete_details": None,
    "completed_at": None,
    "usage": None,
    "output": [],
}


class Run:
    """A response that is being made: its job, its answer so far, where it is kept, and for whom."""

    def __init__(self, asked: ResponsesRequest, answer: ResponseWriting, job: Job, served: Served, owner: str) -> None:
        self.asked, self.answer, self.job, self.served, self.owner = asked, answer, job, served, owner
        self.error: ApiError | None = None  # what it failed of
        self.abandoned = False
        self.lost = False  # it failed of what nobody reckoned with: its answer is not to be asked again
        self._settled = asyncio.Event()

    @property
    def ended(self) -> bool:
        return self.lost or self.answer.ended

    def stored(self) -> Stored:
        asked = self.asked
        body = {**asked.head, **_LOST} if self.lost else json.loads(self.answer.whole())
        return Stored(asked.generation.id, asked.previous, body, asked.input, body.pop("output"), self.owner)

    async def settle(self, desk: Desk) -> None:
        """Keeps the response as it ended, before anybody hears of it. Once; later callers wait for the first."""
        self.served.engine.done(self.job)
        if desk.live.pop(self.asked.generation.id, None) is not self:
            if self.asked.store:
                await self._settled.wait()
            return
        kept = False
        try:
            kept = await self._kept(desk)
        finally:  # whoever else waits must not wait for ever
            if not kept:
                self.answer.not_stored()
            self._settled.set()

    async def _kept(self, desk: Desk) -> bool:
        try:
            return await desk.store.put(self.stored())
        except ApiError as error:
            log.error("%s: %s", self.asked.generation.id, error)
            return False
        except Exception:
            again = not self.lost
            self.lose()
            return await self._kept(desk) if again else False  # what is left of it now is plain

    def lose(self) -> None:
        """While an exception is handled that nobody reckoned with: the engine stops, and the response has failed."""
        log.exception("%s: its answer is lost", self.asked.generation.id)
        self.lost = True
        self.served.engine.cancel(self.job)

    def goes_on(self, job: Job) -> None:
        """Another job makes the rest of the answer."""
        self.job = job

    def abandon(self) -> None:
        """Nobody waits for the rest: the engine stops, and the response is one that was cancelled."""
        if not self.ended:
            self.abandoned = True
            self.served.engine.cancel(self.job)
            self.answer.cancel()


class Desk:
    """Responses that run, by id, where they are to be kept; and the store."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.live: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def store(self) -> ResponseStore:
        return self.service.responses

    def soon(self, work: Any) -> None:
        """Runs a coroutine to its end, whatever becomes of the request."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def hang_up(self, run: Run) -> None:
        if not run.ended:
            run.abandon()
            self.soon(run.settle(self))

    async def drain(self, run: Run) -> None:
        """Takes the events of a response that is not streamed, to its end; however that comes, it is settled."""
        buffered = Buffered(run.served, run.job, run.goes_on)
        try:
            while not run.ended:
                for event in await buffered.take():
                    if isinstance(event, HungUp):
                        run.abandon()
                    else:
                        run.answer.take(event)
                    if isinstance(event, Failed):
                        run.error = event.error
        except Exception:
            run.lose()
            raise
        finally:
            await run.settle(self)

    async def outlive(self, run: Run, give_back: Callable[[], None]) -> None:
        """The same for one that outlives its request; its model is given back behind it, and its trace written."""
        try:
            with contextlib.suppress(Exception):  # which has been logged
                await self.drain(run)
        finally:
            give_back()
            if (trace := run.asked.generation.trace) is not None:
                trace.answered(dump(run.stored().response))
                trace.close(gone=run.abandoned, failed=run.lost)

    async def stream(self, run: Run, connection: Connection) -> AsyncIterator[bytes]:
        """The response as SSE: everything that has come since the last write goes out in one."""
        channel, answer, push = run.job.channel, run.answer, connection.push
        clock = asyncio.get_running_loop().time

        def shortcut(event: Delta) -> bool:
            if push is None or (data := answer.at_once(event)) is None or not push(data):
                return False
            answer.said(event)
            channel.quiet_since = clock()
            return True

        try:
            channel.quiet_since = clock()
            yield answer.opening()
            channel.shortcut = shortcut if answer.quick else None  # from here on the headers are out
            while not answer.ended:
                parts = []
                for event in await channel.take():
                    if not isinstance(event, HungUp):
                        parts.append(answer.take(event))
                    elif connection.gone:
                        return
                    else:
                        run.abandon()  # somebody else ended it
                if answer.ended:
                    await run.settle(self)
                    parts.append(answer.closing())
                channel.quiet_since = clock()
                yield b"".join(parts)
        except Exception:
            run.lose()
            self.soon(run.settle(self))
            raise
        finally:
            channel.shortcut = None
            self.hang_up(run)

    def running(self, id: str, owner: str) -> Run | None:
        """A response that is being made, if it is this owner's."""
        run = self.live.get(id)
        return run if run is not None and run.owner in ("", owner) else None

    async def find(self, id: str, owner: str) -> Stored:
        """A response as it is now. 404 for another owner's as for one that never was."""
        if (run := self.running(id, owner)) is not None:
            return run.stored()
        try:
            return await self.store.get(id, owner)
        except Missing:
            raise not_found(id) from None


def answer_facts(asked: ResponsesRequest) -> ResponseFacts:
    """What a response says about its request."""
    return ResponseFacts(
        members={name: dump(value) for name, value in asked.head.items()},
        tools=asked.tools.known,
        queued=asked.background,
        summary=asked.summary,
        sealed=asked.sealed,
        parallel=asked.parallel,
    )


def not_found(id: str) -> ApiError:
    return ApiError(404, f"Response with id {id[:80]!r} not found.", code="not_found", param="response_id")


class Responses:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        if (req.get_header("upgrade") or "").lower() == "websocket":
            raise ApiError(426, "Responses are not served over WebSockets; use POST.", code="upgrade_not_supported")
        raise falcon.HTTPMethodNotAllowed(["POST"])

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        desk, service = self.desk, self.desk.service
        connection = connection_of(req)
        served, body = await model_and_body(service, req)
        asked = await made(await read("responses", body, served), body, served, desk.store, connection.owner)
        await served.constraints.compile(asked.generation)
        connection.sign(asked.generation)
        if connection.gone:
            raise ClientGone
        service.check()  # it may have begun to stop while the prompt was tokenised
        answer = wire.responding(answer_facts(asked), asked.generation.stream, served.tokenizer.token_bytes)
        # one in the background outlives the connection, so its trace ends with the answer instead
        outlived = None if asked.background else connection
        begin_trace(service, served, req.path, body, asked.generation, outlived)
        job = served.engine.submit(asked.generation)
        queued(asked.generation, job)
        run = Run(asked, answer, job, served, connection.owner)
        if not asked.background:
            job.abort = connection.abort
            connection.on_hang_up(lambda: desk.hang_up(run))
        if asked.store:
            await self._keep(run)
        if asked.generation.stream:
            resp.content_type = "text/event-stream; charset=utf-8"
            resp.set_header("cache-control", "no-cache")
            resp.set_header("x-accel-buffering", "no")
            resp.stream = desk.stream(run, connection)
            return
        if asked.background:
            stored = run.stored()
            desk.soon(desk.outlive(run, service.hold(served)))
        else:
            await desk.drain(run)
            if connection.gone:
                raise ClientGone
            if run.error is not None:
                raise run.error
            stored = run.stored()
        resp.content_type = "application/json"
        resp.data = dump(stored.response)

    async def _keep(self, run: Run) -> None:
        """From here on it can be asked for; and if the process ends now, the next one knows that it did not finish."""
        desk = self.desk
        if run.answer.ended:
            raise ClientGone
        desk.live[run.asked.generation.id] = run
        try:
            await desk.store.put(run.stored())
        except Exception:
            desk.live.pop(run.asked.generation.id, None)
            run.abandon()
            raise


class Response:
    """One response that is kept, or runs."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, id: str) -> None:
        if req.get_param_as_bool("stream"):
            raise invalid("A response that was made cannot be streamed again.", "stream", "unsupported_parameter")
        resp.data = dump((await self.desk.find(id, connection_of(req).owner)).response)

    async def on_delete(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, id: str) -> None:
        owner = connection_of(req).owner
        if (run := self.desk.running(id, owner)) is not None:
            run.abandon()
            await run.settle(self.desk)
        try:
            await self.desk.store.delete(id, owner)
        except Missing:
            raise not_found(id) from None
        resp.data = dump({"id": id, "object": "response", "deleted": True})


class CancelResponse:
    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, id: str) -> None:
        owner = connection_of(req).owner
        stored = await self.desk.find(id, owner)
        if not stored.body["background"]:
            raise invalid("Only a response in the background can be cancelled; hang up on others.", "response_id")
        if (run := self.desk.running(id, owner)) is not None:
            run.abandon()
            await run.settle(self.desk)
            stored = run.stored()
        resp.data = dump(stored.response)


class InputItems:
    """The items of a response's own request, newest first unless `order` is asc, in pages."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, id: str) -> None:
        items = list((await self.desk.find(id, connection_of(req).owner)).input)
        order, after = req.get_param("order") or "desc", req.get_param("after")
        if order not in ("asc", "desc"):
            raise invalid("'order' must be asc or desc.", "order")
        try:
            limit = int(req.get_param("limit") or 20)
        except ValueError:
            limit = 0
        if not 1 <= limit <= 100:
            raise invalid("'limit' must be between 1 and 100.", "limit")
        if order == "desc":
            items.reverse()
        if after is not None:
            places = [index for index, item in enumerate(items) if item.get("id") == after]
            if not places:
                raise invalid(f"'after' names {after[:80]!r}, which is no item of this response.", "after")
            items = items[places[0] + 1 :]
        page = items[:limit]
        ends = {"first_id": page[0]["id"], "last_id": page[-1]["id"]} if page else {"first_id": None, "last_id": None}
        resp.data = dump({"object": "list", "data": page, **ends, "has_more": len(items) > len(page)})


class InputTokens:
    """How many tokens a request would have, without making a response."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        served, body = await model_and_body(self.desk.service, req)
        talk = await aside(lambda: read_talk(body, model_of(served)), body, served)
        chat, owner = talk.chat, connection_of(req).owner
        if not talk.whole:
            chat, _ = await completed(chat, talk.items, body, self.desk.store, owner)
        _, ids = await tokens(told_of(chat, responses_format(body), served.prompts.dialect()), served)
        resp.data = dump({"object": "response.input_tokens", "input_tokens": len(ids)})


def add_routes(app: falcon.asgi.App[Any, Any], service: Service) -> None:
    desk = Desk(service)
    app.add_route("/v1/responses", Responses(desk))
    app.add_route("/v1/responses/input_tokens", InputTokens(desk))
    app.add_route("/v1/responses/{id}", Response(desk))
    app.add_route("/v1/responses/{id}/cancel", CancelResponse(desk))
    app.add_route("/v1/responses/{id}/input_items", InputItems(desk))
