"""The server's state as its surfaces see it: loading, ready, stopping; the model's facts; the engine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ds4.core.sampling import Sampling
from ds4.core.tokenizer import Tokenizer
from ds4.server.constraints import Constraints
from ds4.server.engine_loop import EngineLoop
from ds4.server.errors import ApiError, shed
from ds4.server.events import KeepAlive
from ds4.server.limits import Limits
from ds4.server.metrics import Metrics
from ds4.server.prompts import Prompts
from ds4.server.response_store import ResponseStore
from ds4.server.tracing import Tracer

if TYPE_CHECKING:
    from ds4.server.disconnect import Connection
    from ds4.server.switching import Switchboard

State = Literal["loading", "ready", "stopping", "failed"]


@dataclass(frozen=True, slots=True)
class Served:
    """A loaded model. context: positions of one bank; fingerprint: names weights and build in every answer;
    defaults, cache_prompt: what holds where a request says nothing; facts: for /v1/models."""

    model_id: str
    tokenizer: Tokenizer
    prompts: Prompts
    constraints: Constraints
    engine: EngineLoop
    context: int
    fingerprint: str
    defaults: Sampling = field(default_factory=Sampling)
    cache_prompt: bool = True
    created: int = field(default_factory=lambda: int(time.time()))
    facts: dict[str, Any] = field(default_factory=dict)
    intact: Callable[[], bool] = lambda: True
    """Whether its files are as they were; an engine whose weights were written to ends, and says so."""


class Service:
    """responses: where they are kept; by default for as long as the process lives. served: the model that is loaded;
    where there may be several, one of `loaded`, or none. board: chooses among several models."""

    def __init__(
        self, limits: Limits | None = None, metrics: Metrics | None = None, responses: ResponseStore | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.metrics = metrics or Metrics()
        self.responses = responses or ResponseStore()
        self.state: State = "loading"
        self.progress = 0.0  # of loading, 0..1
        self.served: Served | None = None
        self.loaded: list[Served] = []
        self.board: Switchboard | None = None
        self.tracer: Tracer | None = None
        self._heart: asyncio.Task[None] | None = None

    def serve(self, served: Served) -> None:
        """The model is loaded: requests are taken from now on. On the event loop."""
        self.loaded.append(served)
        self._show(self.served or served)
        if self._heart is None:
            self._heart = asyncio.get_running_loop().create_task(self._beat())
        if self.state == "loading":
            self.state = "ready"

    def _show(self, served: Served | None) -> None:
        self.served = served
        self.metrics.engine = None if served is None else served.engine

    def retire(self, served: Served) -> None:
        """The model's engine has ended, and others go on."""
        self.loaded.remove(served)
        if self.served is served:
            self._show(self.loaded[0] if self.loaded else None)
        served.prompts.close()
        served.constraints.close()

    async def model(self, name: str | None, connection: Connection) -> Served:
        """The model that a request names, loaded; it stays so until the request is over."""
        served = self.ready() if self.board is None else await self.board.model(name, connection)
        if not served.intact():
            raise ApiError(503, "The model's file was written to while it was loaded.", code="model_changed")
        return served

    def hold(self, served: Served) -> Callable[[], None]:
        """Keeps a request's model loaded beyond the request, until what is returned is called."""
        return self.board.hold(served) if self.board is not None else lambda: None

    def ready(self) -> Served:
        """The loaded model, or the 503 that says why there is none."""
        self.check()
        if self.served is not None:
            return self.served
        raise shed("loading")

    def check(self) -> None:
        """The 503 that says why no request is taken, if none is."""
        if self.state == "ready":
            return
        if self.state == "failed":
            raise ApiError(503, "The model could not be loaded; the server's log says why.", code="load_failed")
        reason: Literal["stopping", "loading"] = "stopping" if self.state == "stopping" else "loading"
        self.metrics.shed(reason)
        raise shed(reason)

    async def _beat(self) -> None:
        """Tells streams that have been silent for a while to say so: on a wall clock, whatever the engine does. And
        looks after the models' files, which may be written to while nobody asks."""
        silence = self.limits.keep_alive
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(min(1.0, silence / 5))
            now = clock()
            for served in list(self.loaded):
                served.intact()
            for job in [job for served in self.loaded for job in served.engine.jobs]:
                if job.request.stream and now - job.channel.quiet_since >= silence:
                    job.channel.quiet_since = now
                    job.channel.put(KeepAlive())

    def close(self) -> None:
        if self._heart is not None:
            self._heart.cancel()
        for served in self.loaded:
            served.prompts.close()
            served.constraints.close()
        self.responses.close()
