"""A job: one request on its way through the engine, and its choices."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from ds4.core.constraint.budget import Closing
from ds4.server import limits
from ds4.server.answer import Reader, Reason
from ds4.server.events import CallsVoid, Channel, Delta, Event, Finished, TokenLogprob
from ds4.server.ops.account import Account
from ds4.server.request import GenerationRequest
from ds4.server.schedule.sequence import Sequence as Timeline
from ds4.server.text import ChoiceText, Decoder
from ds4.sys.descriptors import SamplerDesc

IMPOSSIBLE = -9999.0
"""The least log-probability that a client is told."""
_ODD = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: seeds of one request's choices lie far apart


class Job:
    """A request, its channel, its choices. `abort` drops the connection without an answer; the surface sets it."""

    def __init__(self, request: GenerationRequest, now: float) -> None:
        self.request = request
        self.channel = Channel(now)
        self.account = request.account or Account(request.id, request.surface)
        self.unfinished = request.choices
        self.choices: list[Choice] = []
        self.abort: Callable[[], None] = lambda: None
        seed = request.sampling.seed
        self.seed = secrets.randbits(64) if seed is None else seed
        self.sampling = replace(request.sampling, seed=None)  # each choice has a seed of its own
        self.failed = False
        self.arrived = now
        self.key = 0  # in the waiting room
        self.record = 0  # of the tool turn that this request continues and is pinned for
        self.published: list[int] = []  # tool turns that its answers have ended with
        self.account.arrived = self.account.arrived or now  # a corrective turn belongs to the first one's

    def fail(self) -> bool:
        """True the first time: a request fails once, however many choices it has."""
        first, self.failed = not self.failed, True
        return first


class Choice:
    """One answer of a job: its timeline in the scheduler and its text so far. reader: of a chat's answer; matcher: of
    one that is held to a grammar."""

    __slots__ = (
        "first_token",
        "index",
        "job",
        "last_token",
        "closing",
        "matcher",
        "reader",
        "reasoning_tokens",
        "text",
        "timeline",
    )

    def __init__(self, job: Job, index: int, timeline: Timeline, decoder: Decoder) -> None:
        self.job, self.index, self.timeline = job, index, timeline
        self.text = ChoiceText(decoder, job.request.stop, job.request.logprobs is not None)
        self.reader = None if job.request.answer is None else Reader(job.request.answer, index)
        budget = job.request.budget
        self.closing = None if budget is None else Closing(budget)
        self.matcher = None if job.request.matcher is None else job.request.matcher.copy()
        self.first_token = self.last_token = 0.0
        self.reasoning_tokens = 0

    @property
    def calls(self) -> tuple[str, ...]:
        """Ids of the tool calls that the answer has made, once it has ended with them."""
        return self.reader.called if self.reader is not None else ()

    def mask(self) -> bytes | None:
        """What the next token may be; None: any. ConstraintError where a grammar cannot be followed."""
        held = None if self.matcher is None else self.matcher.mask(self.timeline.drawn)
        if self.closing is None or self.reader is None:
            return held
        return self.closing.mask(self.reasoning_tokens, self.reader.reasoning, held)

    def sampler(self) -> SamplerDesc:
        seed = (self.job.seed + self.index * _ODD) & limits.UINT64
        return self.job.sampling.desc(len(self.timeline.prompt), seed)

    def keep_logprobs(self, token: int, logprob: float, top: list[tuple[int, float]]) -> None:
        if self.text.logprobs is not None and token not in self.timeline.stop_ids:
            # JSON has no infinity: what is impossible is said as OpenAI's API says it.
            likeliest = [(other, max(value, IMPOSSIBLE)) for other, value in top]
            self.text.logprobs.append(TokenLogprob(token, max(logprob, IMPOSSIBLE), likeliest))

    def take(self, token: int, now: float) -> list[Event]:
        """What the client is told about a drawn token: text that may be shown, and the end if this is it."""
        text, timeline = self.text, self.timeline
        if not self.first_token:
            self.first_token = now
        self.last_token = now
        if self.reader is not None and self.reader.reasoning:
            self.reasoning_tokens += 1
        shown = "" if token in timeline.stop_ids else text.push(token)
        if timeline.finish is not None and not text.stopped:
            shown += text.flush()
        if self.reader is not None:
            return self._read(self.reader, shown)
        events: list[Event] = []
        if shown:
            events.append(Delta(self.index, shown, text.take_logprobs()))
        if timeline.finish is not None or text.stopped:
            events.append(self._finished(self._reason()))
        return events

    def settle(self) -> bool:
        """Writes the end of this choice into the request's account; True if it was the last one."""
        account, job = self.job.account, self.job
        account.completion_tokens += len(self.timeline.drawn)
        account.first_token = min(account.first_token or self.first_token, self.first_token)
        account.last_token = max(account.last_token, self.last_token)
        account.finish = self.timeline.finish
        job.unfinished -= 1
        return job.unfinished == 0

    def _read(self, reader: Reader, shown: str) -> list[Event]:
        text, timeline = self.text, self.timeline
        parts = reader.push(shown)
        reason: Reason | None = None
        if reader.complete:
            text.stopped = True
        if timeline.finish is not None or text.stopped:
            more, reason = reader.finish(self._reason(), cut=text.stop is not None)
            parts += more
        first = next((part for part in parts if not isinstance(part, CallsVoid)), None)
        if first is not None:
            first.logprobs = text.take_logprobs()
        events: list[Event] = [*parts]
        if reason is not None:
            events.append(self._finished(reason))
        return events

    def _reason(self) -> Literal["stop", "length"]:
        return "length" if self.timeline.finish == "length" and not self.text.stopped else "stop"

    def _finished(self, reason: Reason) -> Finished:
        timeline = self.timeline
        return Finished(
            self.index,
            reason,
            len(timeline.prompt),
            timeline.placement.keep if timeline.placement is not None else 0,
            len(timeline.drawn),
            timeline.arrived,
            self.first_token,
            self.last_token,
            self.reasoning_tokens,
            self.text.stop,
            None if self.reader is None or reason == "length" else self.reader.broken,
        )
