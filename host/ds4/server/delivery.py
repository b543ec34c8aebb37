"""From the engine thread to the readers on the event loop: events in order, one wake-up for all that a step has made.

`put` and `flush` are for whoever made events; all else happens on the event loop, which alone touches the channels.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque

from ds4.server.events import Event
from ds4.server.job import Job
from ds4.server.limits import Limits
from ds4.server.metrics import Metrics

log = logging.getLogger("ds4.server")


class Delivery:
    """jobs: those with a client; the event loop's thread only."""

    def __init__(self, loop: asyncio.AbstractEventLoop, metrics: Metrics, limits: Limits) -> None:
        self.jobs: set[Job] = set()
        self._loop, self._metrics, self._limits = loop, metrics, limits
        self._outbox: deque[tuple[Job, Event]] = deque()
        self._delivering = False

    def put(self, job: Job, event: Event) -> None:
        self._outbox.append((job, event))

    def flush(self) -> None:
        """What has been put goes out."""
        if self._outbox and not self._delivering:
            self._delivering = True
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the event loop has closed: nobody listens any more
                self._outbox.clear()

    def _deliver(self) -> None:
        """Hands events to their requests' channels and drops readers who leave too much unread."""
        self._delivering = False
        outbox = self._outbox
        crowded = False
        while outbox:
            job, event = outbox.popleft()
            job.channel.put(event)
            crowded = crowded or job.channel.backlog > self._limits.backlog
        if crowded or len(self.jobs) * self._limits.backlog > self._limits.backlog_total:
            self._drop_slow_readers()

    def _drop_slow_readers(self) -> None:
        def backlog(job: Job) -> int:
            return job.channel.backlog

        total = sum(map(backlog, self.jobs))
        for job in sorted(self.jobs, key=backlog, reverse=True):
            if backlog(job) <= self._limits.backlog and total <= self._limits.backlog_total:
                return
            total -= backlog(job)
            log.warning("%s: dropped, %d bytes of answer left unread", job.request.id, backlog(job))
            self._metrics.shed("slow_reader")
            job.abort()
