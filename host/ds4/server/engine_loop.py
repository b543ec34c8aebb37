"""The engine loop: carries out the scheduler's steps on the engine thread and turns drawn tokens into events.

Threads: `run` belongs to the engine thread, which alone touches the session. `submit` and `cancel` belong to the event
loop's, `stop` to any. The scheduler is shared under one lock that is never held while the engine computes, so an
arrival is answered and a hang-up is decided at once, not when a step ends. Events go to the event loop in one wake-up a
step.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ds4.errors import Cancelled, Ds4Error
from ds4.server.errors import ApiError, from_error, shed
from ds4.server.events import Event, Failed, HungUp
from ds4.server.job import Choice, Job
from ds4.server.limits import Limits
from ds4.server.metrics import Metrics
from ds4.server.request import GenerationRequest
from ds4.server.schedule.banks import Bank
from ds4.server.schedule.scheduler import IN_FLIGHT, LONG_STEP, Scheduler, Step
from ds4.server.schedule.sequence import Sequence as Timeline
from ds4.server.text import Decoder
from ds4.sys.descriptors import SamplerDesc

log = logging.getLogger("ds4.server")


class StepResult(Protocol):
    tokens: list[int]
    elapsed_ns: int

    def logprob(self, row: int) -> float: ...
    def top(self, row: int, count: int) -> list[tuple[int, float]]: ...


class StepSession(Protocol):
    """What the loop needs of ds4.sys.native.NativeSession."""

    def submit(self, rows: Sequence[Any]) -> int: ...
    def wait(self, ticket: int) -> Any: ...
    def set_sampler(self, bank: int, desc: SamplerDesc) -> None: ...
    def length(self, bank: int) -> int: ...
    def rewind_floor(self, bank: int) -> int: ...
    def truncate(self, bank: int, length: int) -> None: ...
    def copy(self, source: int, target: int, length: int) -> None: ...
    def cancel(self) -> None: ...


class EngineLoop:
    """session: the engine's banks; scheduler: made for as many banks and rows; decoder: makes a stream decoder for one
    choice, in which these special tokens show; stop_ids: tokens that end an answer; context: positions of one bank;
    rolling: banks cannot go back to every position."""

    def __init__(
        self,
        session: StepSession,
        scheduler: Scheduler,
        decoder: Callable[[frozenset[str]], Decoder],
        *,
        stop_ids: frozenset[int],
        context: int,
        rolling: bool = False,
        loop: asyncio.AbstractEventLoop,
        metrics: Metrics,
        limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.scheduler, self.context = scheduler, context
        self._session, self._decoder, self._stop_ids = session, decoder, stop_ids
        self._loop, self._metrics, self._limits, self._clock = loop, metrics, limits or Limits(), clock
        self._rolling = rolling
        self._keys = itertools.count(1)
        self._choices: dict[int, Choice] = {}
        self._tickets: deque[int] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._stopping = False
        self._outbox: deque[tuple[Job, Event]] = deque()
        self._delivering = False
        self.jobs: set[Job] = set()  # those with a client; the event loop's thread only

    # ---- from the event loop --------------------------------------------------------------------------------------

    def submit(self, request: GenerationRequest) -> Job:
        """Queues a request. ApiError when the queue is full or the server is stopping."""
        job = Job(request, self._clock())
        timelines: list[Timeline] = []
        for index in range(request.choices):
            prompt = request.prompts[index // request.n]
            leader = timelines[index - index % request.n] if index % request.n else None
            timeline = Timeline(
                key=next(self._keys),
                prompt=prompt,
                max_tokens=min(request.max_tokens or self.context, self.context - len(prompt)),
                stop_ids=frozenset() if request.ignore_eos else self._stop_ids,
                reuse=request.cache_prompt,
                leader=leader,
                top=0 if request.logprobs is None else max(1, request.logprobs),
                nbytes=request.nbytes if index == 0 else 0,
                scope=request.scope,
            )
            timelines.append(timeline)
            visible = request.answer.visible if request.answer is not None else frozenset()
            job.choices.append(Choice(job, index, timeline, self._decoder(visible)))
        with self._changed:
            if reason := "stopping" if self._stopping else self.scheduler.arrive(timelines, self._clock()):
                job.account.error, self._metrics.last = reason, job.account
                raise self._shed(reason)
            job.account.arrived = self._clock()
            self._choices.update((choice.timeline.key, choice) for choice in job.choices)
            self._changed.notify()
        self.jobs.add(job)
        return job

    def cancel(self, job: Job) -> None:
        """Ends whatever of the job has not ended: its client is gone. Its banks are free once the steps in flight are
        back; a long prefill that only the gone were waiting for is stopped between layers."""
        with self._changed:
            ended = [self.scheduler.finish(choice.timeline, "cancelled") for choice in job.choices]
            for choice in job.choices:
                self._choices.pop(choice.timeline.key, None)
            if any(ended):
                self._metrics.cancelled += 1
                job.account.finish = "cancelled"
                self._metrics.last = job.account
                steps = self.scheduler.open
                if any(s.prompt_rows > LONG_STEP for s in steps) and all(
                    bank.owner is None for s in steps for bank, _ in s.spans
                ):
                    self._session.cancel()
        self.jobs.discard(job)
        job.channel.put(HungUp())

    def done(self, job: Job) -> None:
        """The job's answer has been rendered to its end."""
        self.jobs.discard(job)

    def stop(self, *, now: bool = False) -> None:
        """No request is taken any more; `run` returns when those it has are done. now: fails them instead."""
        with self._changed:
            self._stopping = True
            if now:
                for choice in list(self._choices.values()):
                    self._fail(choice, shed("stopping"))
                self._session.cancel()
            self._changed.notify()

    def _shed(self, reason: Any) -> ApiError:
        self._metrics.shed(reason)
        return shed(reason)

    # ---- on the engine thread -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serves until stopped. Two steps are in flight whenever the scheduler can tell what the second one is."""
        scheduler, clock, changed, tickets = self.scheduler, self._clock, self._changed, self._tickets
        while True:
            with changed:
                step = scheduler.plan(clock())
                while scheduler.expired:
                    self._fail(self._choices[scheduler.expired.pop().key], self._shed("queue_age"))
                if step is None and not tickets:
                    if self._stopping and not scheduler.queue and not scheduler.active:
                        return
                    self._flush()
                    changed.wait()
                    continue
            if step is not None and not self._start(step):
                continue
            if step is None or len(tickets) == IN_FLIGHT:
                self._collect()

    def _start(self, step: Step) -> bool:
        try:
            for timeline in step.admitted:
                self._prepare(timeline)
            self._tickets.append(self._session.submit(step.rows))
            return True
        except Ds4Error as error:
            self._undo(error)
            return False

    def _prepare(self, timeline: Timeline) -> None:
        """Makes the bank hold what its placement promises, and sets how its tokens are drawn."""
        placement = timeline.placement
        assert placement is not None
        bank, keep = placement.bank.index, placement.keep
        if placement.source is not None:
            self._session.copy(placement.source.index, bank, keep)
        else:
            self._session.truncate(bank, keep)
        self._learn_floor(placement.bank)
        choice = self._choices.get(timeline.key)
        if choice is not None:  # else its client left a moment ago; its rows run once, unheard
            self._session.set_sampler(bank, choice.sampler())
            now, size = self._clock(), len(timeline.prompt)
            self._metrics.admitted(placement.reuse, timeline.miss, size, keep, now - timeline.arrived)
            choice.job.account.place(placement.reuse, timeline.miss, size, keep, now)

    def _learn_floor(self, bank: Bank) -> None:
        """Tells the scheduler how far back a bank can go: what it has computed moves that."""
        if self._rolling:
            bank.floor = self._session.rewind_floor(bank.index)

    def _collect(self) -> None:
        ticket = self._tickets.popleft()
        try:
            result: StepResult = self._session.wait(ticket)
        except Ds4Error as error:
            self._undo(error)
            return
        now = self._clock()
        with self._changed:
            step = self.scheduler.open[0]
            drawn = self.scheduler.complete(result.tokens, result.elapsed_ns, now)
            for bank, _ in step.spans:
                self._learn_floor(bank)
            self._metrics.step(step.decoding, step.prompt_rows, len(drawn), result.elapsed_ns)
            for timeline, token, row in drawn:
                choice = self._choices[timeline.key]
                if timeline.top:
                    choice.keep_logprobs(token, result.logprob(row), result.top(row, choice.job.request.logprobs or 0))
                self._metrics.token(now - (choice.last_token or timeline.arrived), first=not choice.last_token)
                for event in choice.take(token, now):
                    self._outbox.append((choice.job, event))
                if choice.text.stopped:
                    self.scheduler.finish(timeline, "stop")
                if timeline.finish is not None:
                    del self._choices[timeline.key]
                    self._metrics.finished(timeline.finish, now - timeline.arrived)
                    if choice.settle():
                        self._metrics.last = choice.job.account
        self._flush()

    def _undo(self, error: Ds4Error) -> None:
        """Steps in flight came to nothing. After a cancel the living draw those rows again; after a failure every
        request that had a row in them is told, since the same rows would fail again."""
        while self._tickets:
            try:
                self._session.wait(self._tickets.popleft())
            except Ds4Error:
                log.debug("a step behind a failed one failed too")
        with self._changed:
            steps = self.scheduler.abandon()
            if not isinstance(error, Cancelled):
                log.error("a step failed: %s", error)
                owners = {bank.owner for step in steps for bank, _ in step.spans if bank.owner is not None}
                for owner in [*owners, *(t for step in steps for t in step.admitted)]:
                    if choice := self._choices.get(owner.key):
                        self._fail(choice, from_error(error))
                for timeline in (t for step in steps for t in step.admitted):
                    # Whether its bank was prepared is not known, so nothing it holds can be trusted.
                    if timeline.bank is not None:
                        self.scheduler.forget(timeline.bank.index, 0)
            for bank in self.scheduler.banks:
                self._reconcile(bank)
        self._flush()

    def _reconcile(self, bank: Bank) -> None:
        """Makes engine and scheduler agree about a bank again."""
        length = self._session.length(bank.index)
        if length > len(bank.tokens):
            self._session.truncate(bank.index, len(bank.tokens))
        elif length < len(bank.tokens):
            if bank.owner is not None and (choice := self._choices.get(bank.owner.key)):
                self._fail(choice, ApiError(500, "The engine lost the state of this request.", code="engine"))
            self.scheduler.forget(bank.index, length)
        self._learn_floor(bank)

    def _fail(self, choice: Choice, error: ApiError) -> None:
        """Ends the whole request of a choice with an error. Holds the lock."""
        for other in choice.job.choices:
            self.scheduler.finish(other.timeline, "error")
            self._choices.pop(other.timeline.key, None)
        if choice.job.fail():
            self._metrics.failed += 1
            choice.job.account.error = error.code or "error"
            self._metrics.last = choice.job.account
            self._outbox.append((choice.job, Failed(error)))

    # ---- to the event loop ----------------------------------------------------------------------------------------

    def _flush(self) -> None:
        if self._outbox and not self._delivering:
            self._delivering = True
            try:
                self._loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:  # the event loop has closed: nobody listens any more
                self._outbox.clear()

    def _deliver(self) -> None:
        """On the event loop: hands events to their requests' channels and drops readers who leave too much unread."""
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

    def fail_all(self, error: Exception) -> None:
        """The engine thread is going down by a bug: tells every client."""
        with self._changed:
            self._stopping = True
            for choice in list(self._choices.values()):
                self._fail(choice, from_error(error))
        self._flush()

    def waiting(self) -> tuple[int, int]:
        """(running, waiting) sequences."""
        return len(self.scheduler.active), len(self.scheduler.queue)
