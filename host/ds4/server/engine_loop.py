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
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ds4.errors import Cancelled, ConstraintError, Ds4Error
from ds4.server.delivery import Delivery
from ds4.server.errors import ApiError, TurnedAway, from_error, shed
from ds4.server.events import Failed, HungUp, Progress
from ds4.server.job import Choice, Job
from ds4.server.limits import Limits
from ds4.server.lobby import Lobby, offer
from ds4.server.metrics import Metrics
from ds4.server.pooling import pools_of, take_states
from ds4.server.progress import prompts_read
from ds4.server.request import GenerationRequest
from ds4.server.schedule.admission import Shed
from ds4.server.schedule.banks import Bank
from ds4.server.schedule.scheduler import IN_FLIGHT, LONG_STEP, Scheduler, Step
from ds4.server.schedule.sequence import Finish
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

    d_model: int

    def submit(self, rows: Sequence[Any]) -> int: ...
    def submit_embed(self, rows: Sequence[Any]) -> int: ...
    def embed(self, ticket: int, row: int, count: int, into: array[float]) -> None: ...
    def wait(self, ticket: int) -> Any: ...
    def set_sampler(self, bank: int, desc: SamplerDesc) -> None: ...
    def set_mask(self, bank: int, mask: bytes | None) -> None: ...
    def length(self, bank: int) -> int: ...
    def rewind_floor(self, bank: int) -> int: ...
    def truncate(self, bank: int, length: int) -> None: ...
    def copy(self, source: int, target: int, length: int) -> None: ...
    def cancel(self) -> None: ...


_LATE: tuple[TurnedAway, ...] = ("queue_age", "grammar_busy")
"""Why a request may yet be turned away when it has been queued."""


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
        self._metrics, self._limits, self._clock = metrics, limits or Limits(), clock
        self._rolling = rolling
        self._keys = itertools.count(1)
        self._choices: dict[int, Choice] = {}
        self._tickets: deque[int] = deque()
        self._changed = threading.Condition(threading.Lock())
        self._stopping = False
        self._masked: set[int] = set()  # banks that draw from some tokens only
        self._held: dict[int, Choice] = {}  # by key, those of _choices that are held to a grammar
        self._embedding = False  # the newest step in flight keeps its rows' states
        self.width = session.d_model
        self._delivery = Delivery(loop, metrics, self._limits)
        self.lobby = Lobby(scheduler, offer(len(scheduler.banks), context), self._limits)
        self.jobs = self._delivery.jobs

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
                # Where a grammar says when an answer is complete, nothing may follow it.
                stop_ids=frozenset() if request.ignore_eos and request.matcher is None else self._stop_ids,
                chain=not request.held,  # which tokens may come next, the last one has to tell
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
            if self._stopping:
                raise self._refuse(job, "stopping")
            if reason := self.lobby.join(job, timelines, job.arrived):
                raise self._refuse(job, reason)
            self._metrics.routed(job.account)
            self._choices.update((choice.timeline.key, choice) for choice in job.choices)
            if request.held:
                self._held.update((choice.timeline.key, choice) for choice in job.choices)
            self._changed.notify()
        self.jobs.add(job)
        return job

    def cancel(self, job: Job) -> None:
        """Ends whatever of the job has not ended: its client is gone. Its banks are free once the steps in flight are
        back; a long prefill that only the gone were waiting for is stopped between layers."""
        with self._changed:
            ended = [self._end(choice, "cancelled") for choice in job.choices]
            self.lobby.demote(job)
            for choice in job.choices:
                self._forget(choice.timeline.key)
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

    def _refuse(self, job: Job, reason: Shed) -> ApiError:
        job.account.error, self._metrics.last = reason, job.account
        return self._shed(reason)

    def _shed(self, reason: Shed) -> ApiError:
        self._metrics.shed(reason)
        return shed(reason)

    # ---- on the engine thread -------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serves until stopped. Two steps are in flight whenever the scheduler can tell what the second one is."""
        scheduler, clock, changed, tickets = self.scheduler, self._clock, self._changed, self._tickets
        while True:
            with changed:
                now = clock()
                for job in self.lobby.release(now):
                    self._fail(job.choices[0], shed("queue_age"))
                step = scheduler.plan(now)
                for timeline in step.admitted if step is not None else ():
                    self.lobby.admitted(self._choices[timeline.key].job, timeline)
                if step is None and not tickets:
                    self._delivery.flush()  # what was failed while nothing ran; the last of it, too
                    if self._stopping and self.idle:
                        return
                    changed.wait()
                    continue
            if step is not None and not self._start(step):
                continue
            if step is None or len(tickets) == IN_FLIGHT:
                self._collect()
            while tickets and self._embedding:  # its states are read before anything else is submitted
                self._collect()

    def _start(self, step: Step) -> bool:
        try:
            for timeline in step.admitted:
                self._prepare(timeline)
            if self._held:
                self._mask(step)
            self._embedding = step.prompt_rows > 0 and any(True for _ in pools_of(step, self._choices))
            submit = self._session.submit_embed if self._embedding else self._session.submit
            self._tickets.append(submit(step.rows))
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
        if bank in self._masked:
            self._session.set_mask(bank, None)
            self._masked.discard(bank)
        choice = self._choices.get(timeline.key)
        if choice is not None:  # else its client left a moment ago; its rows run once, unheard
            self._session.set_sampler(bank, choice.sampler())
            now, size = self._clock(), len(timeline.prompt)
            self._metrics.admitted(placement.reuse, timeline.miss, size, keep, now - timeline.arrived)
            choice.job.account.place(placement.reuse, timeline.miss, bank, size, keep, now)

    def _mask(self, step: Step) -> None:
        """Sets what the step's rows may draw, for those that are held to a grammar. Steps in flight keep the masks that
        they were submitted with."""
        for _, timeline in step.outputs:
            choice = self._held.get(timeline.key)
            if choice is None or timeline.bank is None or timeline.finish is not None:
                continue
            try:
                mask = choice.mask()
            except ConstraintError as error:
                with self._changed:
                    self._fail(choice, from_error(error))
                self._delivery.flush()
                continue
            self._session.set_mask(timeline.bank.index, mask)
            self._masked.add(timeline.bank.index)

    def _learn_floor(self, bank: Bank) -> None:
        """Tells the scheduler how far back a bank can go: what it has computed moves that."""
        if self._rolling:
            bank.floor = self._session.rewind_floor(bank.index)

    def _collect(self) -> None:
        ticket = self._tickets.popleft()
        try:
            result: StepResult = self._session.wait(ticket)
            step = self.scheduler.open[0]
            if self._embedding and not self._tickets:
                take_states(step, self._choices, self._session, ticket)
        except Ds4Error as error:
            self._undo(error)
            return
        now = self._clock()
        with self._changed:
            drawn = self.scheduler.complete(result.tokens, result.elapsed_ns, now)
            for bank, _ in step.spans:
                self._learn_floor(bank)
            self._metrics.step(step.decoding, step.prompt_rows, len(drawn), result.elapsed_ns)
            if step.prompt_rows:
                self._tell_progress(step)
            for timeline, token, row in drawn:
                choice = self._choices[timeline.key]
                if timeline.top:
                    choice.keep_logprobs(token, result.logprob(row), result.top(row, choice.job.request.logprobs or 0))
                self._metrics.token(now - (choice.last_token or timeline.arrived), first=not choice.last_token)
                if (trace := choice.job.request.trace) is not None:
                    trace.token(choice.index, token, step, result.elapsed_ns)
                for event in choice.take(token, now):
                    self._delivery.put(choice.job, event)
                if choice.text.stopped:
                    self.scheduler.finish(timeline, "stop")
                if timeline.finish is not None:
                    self.lobby.left(choice)
                    self.lobby.publish(choice, now)
                    self._forget(timeline.key)
                    self._metrics.finished(timeline.finish, now - timeline.arrived)
                    if choice.settle():
                        self._metrics.last = choice.job.account
        self._delivery.flush()

    def _tell_progress(self, step: Step) -> None:
        for timeline, computed in prompts_read(step, self.scheduler.open):
            choice = self._choices.get(timeline.key)
            if choice is not None and choice.job.request.progress:
                cached = timeline.placement.keep if timeline.placement is not None else 0
                self._delivery.put(choice.job, Progress(choice.index, len(timeline.prompt), computed, cached))

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
        self._delivery.flush()

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

    def _forget(self, key: int) -> None:
        """Nobody listens to this choice any more. Holds the lock."""
        self._choices.pop(key, None)
        self._held.pop(key, None)

    def _fail(self, choice: Choice, error: ApiError) -> None:
        """Ends the whole request of a choice with an error. Holds the lock."""
        for other in choice.job.choices:
            self._end(other, "error")
            self._forget(other.timeline.key)
        if choice.job.fail():
            if (reason := next((late for late in _LATE if late == error.code), None)) is not None:
                self._metrics.shed(reason)
            else:
                self._metrics.failed += 1
            choice.job.account.error = error.code or "error"
            self._metrics.last = choice.job.account
            self._delivery.put(choice.job, Failed(error))

    def fail_all(self, error: Exception) -> None:
        """The engine thread is going down by a bug: tells every client."""
        with self._changed:
            self._stopping = True
            for choice in list(self._choices.values()):
                self._fail(choice, from_error(error))
        self._delivery.flush()

    def _end(self, choice: Choice, reason: Finish) -> bool:
        """Ends a choice wherever it is. False if it had ended already. Holds the lock."""
        if self.lobby.waits(choice.job):
            self.lobby.drop(choice.job, reason)
            return True
        if not self.scheduler.finish(choice.timeline, reason):
            return False
        self.lobby.left(choice)
        return True

    @property
    def idle(self) -> bool:
        """Nobody waits and nobody runs."""
        standing = self.lobby.room.standing
        return not (standing.waiting or standing.running or self.scheduler.queue or self.scheduler.active)

    def waiting(self) -> tuple[int, int]:
        """(running, waiting) sequences."""
        return len(self.scheduler.active), len(self.scheduler.queue) + self.lobby.room.standing.sequences

    @property
    def queued_bytes(self) -> int:
        """Of the requests that wait."""
        return self.scheduler.queued_bytes + self.lobby.room.standing.nbytes
