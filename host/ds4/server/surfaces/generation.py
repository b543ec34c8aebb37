"""What the generating surfaces share: reading the body, queueing, streaming, gathering, usage.

body -> Generating.parse -> GenerationRequest -> EngineLoop.submit -> events -> Writing -> bytes
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from functools import partial

import falcon.asgi

from ds4.server.corrective import Buffered
from ds4.server.disconnect import SCOPE_KEY, Connection
from ds4.server.engine_loop import EngineLoop
from ds4.server.errors import ApiError, ClientGone, context_length, invalid
from ds4.server.events import Delta, Event, Failed, Finished, HungUp, Progress
from ds4.server.job import Job
from ds4.server.request import Body, GenerationRequest, parse_json
from ds4.server.service import Served, Service
from ds4.server.surfaces.rendering import AnswerFacts
from ds4.server.surfaces.writing import Writing

_LARGE_BODY = 64 << 10  # bytes from which JSON is parsed off the event loop


def connection_of(req: falcon.asgi.Request) -> Connection:
    connection: Connection = req.scope[SCOPE_KEY]
    return connection


async def read_body(req: falcon.asgi.Request) -> Body:
    """The body as a JSON object. 415 for another media type: a web page can send text/plain without asking."""
    media = (req.content_type or "").partition(";")[0].strip().lower()
    if media and media != "application/json" and not media.endswith("+json"):
        raise ApiError(415, f"The body must be application/json, not {media}.", code="unsupported_media_type")
    if not media and req.get_header("origin"):
        raise ApiError(415, "The body must be application/json.", code="unsupported_media_type")
    raw = connection_of(req).body
    if len(raw) >= _LARGE_BODY:
        return await asyncio.get_running_loop().run_in_executor(None, parse_json, raw)
    return parse_json(raw)


async def model_and_body(service: Service, req: falcon.asgi.Request) -> tuple[Served, Body]:
    """The body of a request, and the model that it names."""
    service.check()
    body = await read_body(req)
    return await service.model(body.text("model"), connection_of(req)), body


class Generating(ABC):
    """A POST endpoint that generates. Subclasses parse, and say how the answer is written."""

    def __init__(self, service: Service) -> None:
        self.service = service

    @abstractmethod
    async def parse(self, body: Body, served: Served) -> GenerationRequest: ...

    def progress(self, request: GenerationRequest, served: Served, event: Progress) -> bytes:
        """How far a prompt has been read, on the surfaces that tell."""
        return b""

    @abstractmethod
    def writing(self, request: GenerationRequest, served: Served, request_id: str) -> Writing: ...

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        connection = connection_of(req)
        served, body = await model_and_body(self.service, req)
        request = await self.parse(body, served)
        await served.constraints.compile(request)
        connection.sign(request)
        if connection.gone:
            raise ClientGone
        self.service.check()  # it may have begun to stop while the prompt was tokenised
        engine, writing = served.engine, self.writing(request, served, connection.request_id)
        begin_trace(self.service, served, req.path, body, request, connection)
        job = engine.submit(request)
        queued(request, job)
        job.abort = connection.abort
        connection.on_hang_up(lambda: engine.cancel(job))
        if request.stream:
            resp.content_type = "text/event-stream; charset=utf-8"
            resp.set_header("cache-control", "no-cache")
            resp.set_header("x-accel-buffering", "no")
            resp.stream = stream(engine, job, writing, connection, partial(self.progress, request, served))
        else:
            resp.content_type = "application/json"
            buffered = Buffered(served, job, lambda second: connection.on_hang_up(lambda: engine.cancel(second)))
            resp.data = await gather(buffered, writing)


def begin_trace(
    service: Service,
    served: Served,
    path: str,
    body: Body,
    request: GenerationRequest,
    connection: Connection | None,
) -> None:
    """Where requests are traced, from now on this one is. connection: what it is answered on, which ends the trace;
    None: whoever makes the answer does."""
    if service.tracer is not None:
        request.trace = service.tracer.begin(path, body.data, request, served)
        if connection is not None:
            connection.record(request.trace)


def queued(request: GenerationRequest, job: Job) -> None:
    if request.trace is not None:
        request.trace.queued(job)


async def stream(
    engine: EngineLoop, job: Job, writing: Writing, connection: Connection, progress: Callable[[Progress], bytes]
) -> AsyncIterator[bytes]:
    """The answer as SSE: everything that has come since the last write goes out in one."""
    channel, clock, push = job.channel, asyncio.get_running_loop().time, connection.push

    def shortcut(event: Delta) -> bool:
        if push is None or not (data := writing.at_once(event)) or not push(data):
            return False
        channel.quiet_since = clock()
        return True

    try:
        channel.quiet_since = clock()
        yield writing.opening()
        channel.shortcut = shortcut if writing.quick else None  # from here on the headers are out
        while True:
            parts, spoke = [], False
            for event in await channel.take():
                if type(event) is HungUp:
                    return
                if type(event) is Progress:
                    parts.append(progress(event))
                    continue  # no part of the answer: heartbeats keep counting its silence
                spoke = True
                parts.append(writing.take(event))
                if writing.ended:
                    break
            if writing.ended:
                parts.append(writing.closing())
                engine.done(job)
                yield b"".join(parts)
                return
            if data := b"".join(parts):
                if spoke:
                    channel.quiet_since = clock()
                yield data
    finally:
        channel.shortcut = None
        engine.done(job)


async def gather(buffered: Buffered, writing: Writing) -> bytes:
    """The answer whole, as `heard` gets it."""
    async for event in heard(buffered):
        writing.take(event)
    return writing.whole()


async def heard(buffered: Buffered) -> AsyncIterator[Event]:
    """The events of all choices, to their ends. ApiError if the engine failed it, ClientGone if nobody waits for it any
    more."""
    missing = len(buffered.job.choices)
    try:
        while missing:
            for event in await buffered.take():
                if isinstance(event, Failed):
                    raise event.error
                if isinstance(event, HungUp):
                    raise ClientGone
                missing -= isinstance(event, Finished)
                yield event
    finally:
        buffered.done()


def answer_facts(request: GenerationRequest, served: Served) -> AnswerFacts:
    """What answers of chat and completions say about their request."""
    return AnswerFacts(
        id=request.id,
        created=request.created,
        model=served.model_id,
        fingerprint=served.fingerprint,
        n=request.n,
        prompts=len(request.prompts),
        usage=request.include_usage,
        logprobs=request.logprobs is not None,
        reads=request.answer is not None,
    )


def check_context(prompts: list[list[int]], served: Served, param: str) -> None:
    """Each prompt must have a token and leave room for one."""
    for prompt in prompts:
        if not prompt:
            raise invalid(f"'{param}' must come to at least one token.", param)
        if len(prompt) >= served.context:
            raise context_length(served.context, len(prompt), param)
