"""The server's state as its surfaces see it: loading, ready, stopping; the model's facts; the engine."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any, Literal

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


class Service:
    """responses: where they are kept; by default for as long as the process lives."""

    def __init__(
        self, limits: Limits | None = None, metrics: Metrics | None = None, responses: ResponseStore | None = None
    ) -> None:
        self.limits = limits or Limits()
        self.metrics = metrics or Metrics()
        self.responses = responses or ResponseStore()
        self.state: State = "loading"
        self.progress = 0.0  # of loading, 0..1
        self.served: Served | None = None
        self.tracer: Tracer | None = None
        self._heart: asyncio.Task[None] | None = None

    def serve(self, served: Served) -> None:
        """The model is loaded: requests are taken from now on. On the event loop."""
        self.served = served
        self.metrics.engine = served.engine
        self._heart = asyncio.get_running_loop().create_task(self._beat(served.engine))
        if self.state == "loading":
            self.state = "ready"

    def ready(self) -> Served:
        """The loaded model, or the 503 that says why there is none."""
        if self.state == "ready" and self.served is not None:
            return self.served
        if self.state == "failed":
            raise ApiError(503, "The model could not be loaded; the server's log says why.", code="load_failed")
        reason: Literal["stopping", "loading"] = "stopping" if self.state == "stopping" else "loading"
        self.metrics.shed(reason)
        raise shed(reason)

    async def _beat(self, engine: EngineLoop) -> None:
        """Tells streams that have been silent for a while to say so: on a wall clock, whatever the engine does."""
        silence = self.limits.keep_alive
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(min(1.0, silence / 5))
            now = clock()
            for job in engine.jobs:
                if job.request.stream and now - job.channel.quiet_since >= silence:
                    job.channel.quiet_since = now
                    job.channel.put(KeepAlive())

    def close(self) -> None:
        if self._heart is not None:
            self._heart.cancel()
        if self.served is not None:
            self.served.prompts.close()
            self.served.constraints.close()
        self.responses.close()
