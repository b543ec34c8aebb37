"""What the generating surfaces share: reading the body, queueing, streaming, gathering, usage.

body -> Generating.parse -> GenerationRequest -> EngineLoop.submit -> events -> Renderer -> bytes
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import falcon.asgi

from ds4.server.disconnect import SCOPE_KEY, Connection
from ds4.server.engine_loop import EngineLoop
from ds4.server.errors import ApiError, ClientGone, context_length, invalid
from ds4.server.events import CallDelta, CallsVoid, Delta, Failed, Finished, HungUp, KeepAlive, TokenLogprob
from ds4.server.job import Job
from ds4.server.request import Body, GenerationRequest, parse_json
from ds4.server.service import Served, Service

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"
_LARGE_BODY = 64 << 10  # bytes from which JSON is parsed off the event loop


@dataclass(slots=True)
class Call:
    """A tool call of a buffered answer."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Answer:
    """One finished choice of a buffered answer. calls: by their index."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, Call] = field(default_factory=dict)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finished: Finished | None = None
    parts: list[Delta | CallDelta | CallsVoid] = field(default_factory=list)  # all of it, in order

    def add(self, event: Delta | CallDelta | CallsVoid) -> None:
        self.parts.append(event)
        match event:
            case Delta():
                (self.reasoning if event.reasoning else self.text).append(event.text)
            case CallDelta():
                call = self.calls.setdefault(event.index, Call(event.id, event.name))
                call.arguments.append(event.arguments)
            case CallsVoid():
                self.calls = {index: call for index, call in self.calls.items() if index < event.first}
                return
        self.logprobs += event.logprobs or ()


class Renderer(Protocol):
    """Writes one request's answer in a protocol. The stream methods return whole SSE messages, or b"" for nothing.
    What has a body here is OpenAI's way."""

    def opening(self) -> bytes: ...
    def delta(self, event: Delta) -> bytes: ...
    def call(self, event: CallDelta) -> bytes: ...
    def finished(self, event: Finished) -> bytes: ...
    def closing(self, ends: list[Finished]) -> bytes: ...
    def buffered(self, answers: list[Answer]) -> bytes: ...

    def at_once(self, event: Delta) -> bytes | None:
        """What `delta` gives; None where that would move the renderer on, for it may be made in vain."""
        return None if event.logprobs is not None else self.delta(event)

    def heartbeat(self) -> bytes:
        """Said after a while of silence: what the clients of this protocol count as life."""
        return KEEP_ALIVE

    def failed(self, error: ApiError, request_id: str) -> bytes:
        """An error after the stream's beginning; nothing follows."""
        return b"data: " + error.body() + b"\n\n"


def connection_of(req: falcon.asgi.Request) -> Connection:
    connection: Connection = req.scope[SCOPE_KEY]
    return connection


async def read_body(req: falcon.asgi.Request, served: Served) -> Body:
    """The body as a JSON object. 415 for another media type: a web page can send text/plain without asking."""
    media = (req.content_type or "").partition(";")[0].strip().lower()
    if media and media != "application/json" and not media.endswith("+json"):
        raise ApiError(415, f"The body must be application/json, not {media}.", code="unsupported_media_type")
    if not media and req.get_header("origin"):
        raise ApiError(415, "The body must be application/json.", code="unsupported_media_type")
    raw = connection_of(req).body
    if len(raw) >= _LARGE_BODY:
        return await served.prompts.run(parse_json, raw)
    return parse_json(raw)


class Generating(ABC):
    """A POST endpoint that generates. Subclasses parse and choose a renderer."""

    def __init__(self, service: Service) -> None:
        self.service = service

    @abstractmethod
    async def parse(self, body: Body, served: Served) -> GenerationRequest: ...

    @abstractmethod
    def renderer(self, request: GenerationRequest, served: Served) -> Renderer: ...

    async def on_post(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        served = self.service.ready()
        connection = connection_of(req)
        request = await self.parse(await read_body(req, served), served)
        connection.sign(request)
        if connection.gone:
            raise ClientGone
        served = self.service.ready()  # it may have begun to stop while the prompt was tokenised
        engine, renderer = served.engine, self.renderer(request, served)
        job = engine.submit(request)
        job.abort = connection.abort
        connection.on_hang_up(lambda: engine.cancel(job))
        if request.stream:
            resp.content_type = "text/event-stream; charset=utf-8"
            resp.set_header("cache-control", "no-cache")
            resp.set_header("x-accel-buffering", "no")
            resp.stream = stream(engine, job, renderer, connection)
        else:
            resp.content_type = "application/json"
            resp.data = await gather(engine, job, renderer)


async def stream(engine: EngineLoop, job: Job, renderer: Renderer, connection: Connection) -> AsyncIterator[bytes]:
    """The answer as SSE: everything that has come since the last write goes out in one."""
    channel, clock, push = job.channel, asyncio.get_running_loop().time, connection.push
    ends: list[Finished] = []

    def shortcut(event: Delta) -> bool:
        if push is None or not (data := renderer.at_once(event)) or not push(data):
            return False
        channel.quiet_since = clock()
        return True

    try:
        channel.quiet_since = clock()
        yield renderer.opening()
        channel.shortcut = shortcut  # from here on the headers are out
        while True:
            parts = []
            for event in await channel.take():
                if type(event) is Delta:
                    parts.append(renderer.delta(event))
                elif type(event) is CallDelta:
                    parts.append(renderer.call(event))
                elif type(event) is Finished:
                    parts.append(renderer.finished(event))
                    ends.append(event)
                elif type(event) is KeepAlive:
                    parts.append(renderer.heartbeat())
                elif type(event) is Failed:
                    parts.append(renderer.failed(event.error, connection.request_id))
                    yield b"".join(parts)
                    return
                elif type(event) is HungUp:
                    return
            if len(ends) == len(job.choices):
                parts.append(renderer.closing(sorted(ends, key=lambda end: end.choice)))
                engine.done(job)
                yield b"".join(parts)
                return
            if data := b"".join(parts):
                channel.quiet_since = clock()
                yield data
    finally:
        channel.shortcut = None
        engine.done(job)


async def gather(engine: EngineLoop, job: Job, renderer: Renderer) -> bytes:
    """The answer whole. ApiError if the engine failed it, ClientGone if nobody waits for it any more."""
    answers = [Answer() for _ in job.choices]
    missing = len(answers)
    try:
        while missing:
            for event in await job.channel.take():
                match event:
                    case Delta() | CallDelta() | CallsVoid():
                        answers[event.choice].add(event)
                    case Finished():
                        answers[event.choice].finished = event
                        missing -= 1
                    case Failed():
                        raise event.error
                    case HungUp():
                        raise ClientGone
    finally:
        engine.done(job)
    return renderer.buffered(answers)


def check_context(prompts: list[list[int]], served: Served, param: str) -> None:
    """Each prompt must have a token and leave room for one."""
    for prompt in prompts:
        if not prompt:
            raise invalid(f"'{param}' must come to at least one token.", param)
        if len(prompt) >= served.context:
            raise context_length(served.context, len(prompt), param)


def usage(ends: list[Finished], n: int) -> dict[str, Any]:
    """OpenAI's usage: a prompt counts once however many answers it has."""
    prompt = sum(end.prompt_tokens for end in ends[::n])
    cached = sum(end.cached_tokens for end in ends[::n])
    completion = sum(end.completion_tokens for end in ends)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def timings(ends: list[Finished], n: int) -> dict[str, Any]:
    """Where the time went: to the first token, and from there to the last. Prefill counts computed tokens only."""
    arrived, first = min(end.arrived for end in ends), min(end.first_token for end in ends)
    last = max(end.last_token for end in ends)
    prefill = sum(end.prompt_tokens - end.cached_tokens for end in ends[::n])
    decoded = sum(end.completion_tokens - 1 for end in ends)
    return {
        "ttft_ms": round(1e3 * (first - arrived), 3),
        "prefill_tokens": prefill,
        "prefill_cached_tokens": sum(end.cached_tokens for end in ends[::n]),
        "prefill_tok_s": round(prefill / (first - arrived), 2) if first > arrived else None,
        "decode_tok_s": round(decoded / (last - first), 2) if last > first else None,
    }


def dump(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def sse(value: object) -> bytes:
    return b"data: " + dump(value) + b"\n\n"
