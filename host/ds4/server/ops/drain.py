"""The time between the first signal and the end: what runs is finished, what comes is told to go elsewhere.

The port stays open meanwhile, so that new requests hear 503 and Retry-After in their surface's shape, and /ready says
no, instead of a connection that is refused. It is over when nothing runs any more or the time is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ds4.server.service import Service

_EVERY = 0.02  # seconds


class Drain:
    """seconds: how long what runs may take."""

    def __init__(self, service: Service, seconds: float) -> None:
        self._service, self._seconds = service, seconds
        self._task: asyncio.Task[None] | None = None

    def begin(self, over: Callable[[], None]) -> None:
        """On the event loop. Calls `over` when it is."""
        self._task = asyncio.get_running_loop().create_task(self._wait(over))

    async def _wait(self, over: Callable[[], None]) -> None:
        try:
            async with asyncio.timeout(self._seconds):
                while self._busy():
                    await asyncio.sleep(_EVERY)
        except TimeoutError:
            pass
        over()

    def _busy(self) -> bool:
        jobs = any(served.engine.jobs for served in self._service.loaded)
        return bool(self._service.metrics.answering) or jobs
