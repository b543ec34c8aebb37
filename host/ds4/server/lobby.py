"""Between arrival and a bank: the lane of a request, its turn, and the bank that is kept for it.

The engine loop asks, the policies of `ds4.server.schedule` decide: `route` names the lane, `waiting` whose turn it is,
`continuation` which bank a tool turn comes back to. Everything here happens under the engine loop's lock.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ds4.server.errors import ApiError
from ds4.server.request import GenerationRequest
from ds4.server.schedule.admission import Shed
from ds4.server.schedule.continuation import Registry
from ds4.server.schedule.route import ALL_NEEDS, Ask, Fact, Need, NoRoute, Offer, Route, decide
from ds4.server.schedule.scheduler import Scheduler
from ds4.server.schedule.sequence import Finish
from ds4.server.schedule.sequence import Sequence as Timeline
from ds4.server.schedule.tapes_admission import room
from ds4.server.schedule.tapes_continuation import registry
from ds4.server.schedule.waiting import Arrival, Room, RoomLimits

if TYPE_CHECKING:
    from ds4.server.job import Choice, Job
    from ds4.server.limits import Limits

CONTINUOUS = ALL_NEEDS & ~int(Need.IMAGE | Need.AUDIO | Need.PRIVATE)
"""What the scheduler can do for a family that reads text."""

_PINNED = 1 << 32
"""Added to the rank of a bank whose turn has arrived: that one is not only likely to come."""


def offer(banks: int, context: int, needs: int = CONTINUOUS) -> Offer:
    """What a server of so many banks has. needs: what its family's forward can do. One bank is a lane as well: the
    static one stays closed, as the scheduler lets requests join whenever it has a bank."""
    return Offer(banks, context, context, 5, needs, 0, needs | int(Need.PRIVATE))


def facts_of(request: GenerationRequest, live: bool = False) -> int:
    """What the request says, as a sum of Fact."""
    answer = request.answer
    said = (
        (request.stream, Fact.STREAM),
        (request.sampling.temperature > 0, Fact.SAMPLING),
        (answer is not None and answer.prompt.thinking, Fact.THINKING),
        (bool(request.stop), Fact.STOPS),
        (answer is not None and answer.prompt.tools, Fact.TOOLS),
        (request.logprobs is not None, Fact.LOGPROBS),
        (request.matcher is not None, Fact.GRAMMAR),
        (request.stored, Fact.STORE),
        (live, Fact.LIVE),
        (request.cache_prompt, Fact.CACHED),
        (request.include_usage, Fact.USAGE),
    )
    return sum(int(fact) for holds, fact in said if holds)


def _protocol(request: GenerationRequest) -> bytes:
    """Within what call ids are known again: a surface, and the scope of a key. Another key's turns are nobody's."""
    return f"{request.surface}.{request.scope}".encode()


def _ns(seconds: float) -> int:
    return max(0, round(seconds * 1e9))


class Lobby:
    """offer: the server's lanes; limits: of the line; budget: positions that all credits together may have."""

    def __init__(self, scheduler: Scheduler, offer: Offer, limits: Limits, budget: int | None = None) -> None:
        self.offer = offer
        self._scheduler = scheduler
        slots, queue = len(scheduler.banks), limits.queue
        self.room: Room = room(
            RoomLimits(
                slots,
                offer.capacity,
                slots * offer.capacity if budget is None else budget,
                queue.max_queue,
                queue.max_bytes,
                queue.client_queue,
                _ns(queue.max_age),
                limits.clients,
            )
        )
        self.turns: Registry = registry()
        self._jobs: dict[int, Job] = {}  # those that wait, by the room's key
        self._generations = [0] * slots
        self._published: dict[int, int] = {}  # bank to its newest record

    def route(self, request: GenerationRequest, live: bool) -> Route:
        """The lane of a request. ApiError where there is none."""
        prompt = max(map(len, request.prompts))
        budget = self.offer.capacity if request.max_tokens is None else request.max_tokens
        found = decide(self.offer, Ask(request.surface, facts_of(request, live), prompt, budget, request.choices))
        if isinstance(found, NoRoute):
            raise ApiError(
                found.status, _told(found), code=found.reason, retry_after=10 if found.status == 503 else None
            )
        return found

    def join(self, job: Job, timelines: Sequence[Timeline], now: float) -> Shed | None:
        """The request waits from now on, or why it may not. ApiError where no lane can answer it."""
        request, at = job.request, _ns(now)
        calls = [call.encode("utf-8", "replace") for call in request.calls]
        turn = self.turns.resolve(_protocol(request), at, calls)
        live = turn.kind == "live"
        route = self.route(request, live)
        job.account.routed(route, turn.kind)
        longest = max(timelines, key=lambda one: len(one.prompt) + one.max_tokens)
        arrival = Arrival(
            request.client.encode("utf-8", "replace"),
            route.lane,
            len(timelines),
            len(longest.prompt),
            longest.max_tokens,
            request.nbytes,
        )
        job.key, reason = self.room.arrive(arrival, at)
        if reason is not None:
            return reason
        self._jobs[job.key] = job
        if live:
            job.record = turn.record
            self.turns.pin(turn.record, at)
            timelines[0].home = turn.owner
        return None

    def waits(self, job: Job) -> bool:
        return job.key in self._jobs

    def release(self, now: float) -> list[Job]:
        """Hands those whose turn it is to the scheduler. Returns those that have waited too long, ended."""
        expired: list[Job] = []
        if self._jobs:
            done = self.room.release(_ns(now))
            for key in done.expired:
                job = self._jobs.pop(key)
                self._unpin(job)
                for choice in job.choices:
                    choice.timeline.finish = "queue_age"
                expired.append(job)
            for key in done.released:
                job = self._jobs.pop(key)
                refused = self._scheduler.arrive([choice.timeline for choice in job.choices], now)
                assert refused is None, f"the scheduler has no bounds of its own, and says {refused}"
                for choice in job.choices:
                    choice.timeline.arrived = job.arrived
        if self._scheduler.queue:
            self._guard(_ns(now))
        return expired

    def _guard(self, now: int) -> None:
        """Tells the scheduler which banks are kept."""
        ranks = dict(self.turns.ranks(now)) if self.turns.records or self._published else {}
        pinned = {record.owner for record in self.turns.records if record.pinned(now)}
        for bank in self._scheduler.banks:
            rank = ranks.get(bank.index, 0)
            bank.guard = rank + (_PINNED if rank and bank.index in pinned else 0)

    def drop(self, job: Job, reason: Finish) -> None:
        """A waiting request goes."""
        del self._jobs[job.key]
        self.room.cancel(job.key)
        self._unpin(job)
        for choice in job.choices:
            choice.timeline.finish = reason

    def admitted(self, job: Job, timeline: Timeline) -> None:
        """A timeline of the job has a bank, which is told apart from now on from what it held before."""
        assert timeline.placement is not None
        index = timeline.placement.bank.index
        self._generations[index] += 1
        self.turns.moved(index, self._generations[index], timeline.placement.keep)
        if (record := self._published.pop(index, 0)) and any(one.number == record for one in self.turns.records):
            self.turns.demote(record)
        self._unpin(job, consumed=True)

    def left(self, choice: Choice) -> None:
        """A timeline that had been let go has ended."""
        timeline = choice.timeline
        self.room.leave(choice.job.key, len(timeline.prompt) + len(timeline.drawn))
        self._unpin(choice.job)

    def publish(self, choice: Choice, now: float) -> None:
        """The answer has ended with calls: its bank is kept for the turn that brings their results."""
        bank, calls = choice.timeline.bank, choice.calls
        if bank is None or not calls:
            return
        protocol = _protocol(choice.job.request)
        generation, ids = self._generations[bank.index], [call.encode() for call in calls]
        number = self.turns.publish(protocol, bank.index, generation, len(bank.tokens), _ns(now), ids)
        if number:
            self._published[bank.index] = number
            choice.job.published.append(number)

    def demote(self, job: Job) -> None:
        """The client has gone before it heard of its calls: nobody will come back."""
        for number in job.published:
            if any(record.number == number for record in self.turns.records):
                self.turns.demote(number)

    def _unpin(self, job: Job, *, consumed: bool = False) -> None:
        """The turn does not wait any more; consumed: it is being answered."""
        if job.record and any(record.number == job.record and record.refs for record in self.turns.records):
            self.turns.unpin(job.record)
            if consumed:
                self.turns.demote(job.record)
        job.record = 0

    def facts(self) -> dict[str, Any]:
        """For /v1/stats."""
        standing = self.room.standing
        live = sum(record.live for record in self.turns.records)
        return {
            "waiting_requests": standing.waiting,
            "waiting_sequences": standing.sequences,
            "waiting_bytes": standing.nbytes,
            "running_sequences": standing.running,
            "credit_held": standing.credit,
            "credit_budget": self.room.limits.budget,
            "clients": standing.clients,
            "turns_live": live,
            "turns_replay_only": len(self.turns.records) - live,
        }


def _told(found: NoRoute) -> str:
    subject = found.subject.replace("_", " ")
    match found.reason:
        case "need":
            return f"This model does not do what the request asks for: {subject}."
        case "surface":
            return f"This endpoint does not take {subject}."
        case "prompt_too_long":
            return "The prompt leaves no room for an answer in this server's context."
        case "prompt_empty":
            return "The prompt must come to at least one token."
        case "no_common_lane":
            return "This server does each of the things that the request asks for, but not all of them at once."
        case _:
            return "This server has no lane to answer on."
