"""Many models behind one server: requests wait for theirs, which is loaded and unloaded as the policy says.

Everything here happens on the event loop, but for what is slow (reading a file's metadata, joining a thread), which
others do meanwhile. A request holds its model from when it has it to when its answer is out, so what is unloaded has
nothing to do.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ds4.core.memory_plan import MemoryPlanError
from ds4.errors import Ds4Error
from ds4.server.disconnect import Connection
from ds4.server.errors import ApiError, ClientGone, shed
from ds4.server.fleet import Action, Berth, Failure, Fleet, Load
from ds4.server.fleet_memory import FleetMemory
from ds4.server.roster import OfferedModel, Roster

if TYPE_CHECKING:
    from ds4.server.service import Served, Service

log = logging.getLogger("ds4.server")


class Owner(Protocol):
    """Whom the thread of an engine tells: of its loading from that thread, of the rest on the event loop."""

    def load_progress(self, part: float) -> None: ...
    def model_loaded(self, served: Served, seconds: float) -> None: ...
    def engine_ended(self) -> None: ...


class Runner(Protocol):
    """A thread that opens a model and serves it until it is stopped."""

    error: Exception | None

    def start(self) -> None: ...
    def stop(self, *, now: bool = False) -> None: ...
    def join(self, timeout: float | None = None) -> None: ...


class Source(Protocol):
    """How models are opened. plan, closed: off the event loop; plan raises Ds4Error or OSError, and MemoryPlanError
    where there is no room, or less than wished and `narrow` is False."""

    memory: FleetMemory

    def plan(self, offer: OfferedModel, *, narrow: bool) -> Any: ...
    def runner(self, plan: Any, owner: Owner) -> Runner: ...
    def closed(self, name: str) -> None: ...


class Member:
    """A model from the beginning of its loading to the end of its thread."""

    def __init__(self, board: Switchboard, name: str) -> None:
        self._board, self.name = board, name
        self.runner: Runner | None = None
        self.served: Served | None = None
        self.progress = 0.0
        self.told: Callable[[Served, float], None] = lambda served, seconds: log.info(
            "loaded %s in %.1f s", name, seconds
        )
        self.lost: Callable[[Exception | None], None] = lambda error: log.error("%s: %s", name, error)

    def load_progress(self, part: float) -> None:
        self.progress = part
        self._board.load_progress(part)

    def model_loaded(self, served: Served, seconds: float) -> None:
        self._board.loaded(self, served, seconds)

    def engine_ended(self) -> None:
        self._board.ended(self)


class Switchboard:
    """load_timeout: seconds that a request waits for its model to load."""

    def __init__(
        self, service: Service, fleet: Fleet, roster: Roster, source: Source, load_timeout: float = 600.0
    ) -> None:
        self.service, self.fleet, self.roster, self.source = service, fleet, roster, source
        self._load_timeout = load_timeout
        self._clock = time.monotonic
        self._members: dict[str, Member] = {}
        self._tight: dict[str, MemoryPlanError] = {}  # why a load waits for another model to leave
        self._waiting: set[asyncio.Future[None]] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._stopping = self._closed = False

    # ---- requests ---------------------------------------------------------------------------------------------------

    async def offer(self, name: str | None) -> OfferedModel:
        """The model that a name means. ApiError (404) with what there is."""
        found = self.roster.find(name)
        if found is None and self.roster.stale:
            await self._away(self.reread)
            found = self.roster.find(name)
        if found is None:
            assert name is not None
            raise self.roster.missing(name)
        return found

    def reread(self) -> None:
        """Reads the catalog again; what cannot be read leaves it as it was."""
        try:
            self.roster.refresh()
        except (Ds4Error, OSError) as error:
            log.warning("the models' folder: %s", error)

    async def model(self, name: str | None, connection: Connection) -> Served:
        """The model of a request, loaded, and held until the connection's request is over. ApiError where it cannot be
        had, ClientGone where nobody waits for it any more."""
        offer = await self.offer(name)
        began, wished, future = self._clock(), False, self._loop.create_future()

        def hung_up() -> None:
            if not future.done():
                future.set_result(None)

        try:
            while True:
                self.service.check()
                if connection.gone:
                    raise ClientGone
                found = self.fleet.take(offer.name, self._clock())
                if isinstance(found, Failure):
                    raise self._refusal(offer, found)
                if found is not None:
                    connection.on_end(self._giving_back(found))
                    served = self._members[offer.name].served
                    assert served is not None
                    return served
                if not wished:
                    wished = True
                    self.fleet.wish(offer.name, began)
                    self._soon()
                    connection.on_hang_up(hung_up)
                patience = self._deadline(offer, began) - self._clock()
                self._waiting.add(future)
                try:
                    async with asyncio.timeout(max(0.0, patience)):
                        await future
                except TimeoutError:
                    raise self._too_late(offer) from None
                finally:
                    self._waiting.discard(future)
                future = self._loop.create_future()
        finally:
            if wished:
                self.fleet.unwish(offer.name)
                if not self.fleet.wishes(offer.name):
                    self._tight.pop(offer.name, None)
                self._soon()

    def hold(self, served: Served) -> Callable[[], None]:
        """Another hold on a model that is held, and how to give it back."""
        for name, member in self._members.items():
            if member.served is served:
                berth = self.fleet.berths[name]
                berth.holds += 1
                return self._giving_back(berth)
        raise Ds4Error("the model is not loaded", subject=served.model_id, code="model_gone")

    async def unload(self, name: str) -> OfferedModel:
        """Unloads a model that nobody uses; one that is not loaded is as it should be. ApiError (409) for others."""
        offer = await self.offer(name)
        berth = self.fleet.berths.get(offer.name)
        if berth is None:
            return offer
        if berth.phase != "leaving":
            action = self.fleet.ask_to_leave(offer.name, self._clock())
            if action is None:
                doing = f"answers {berth.holds} request(s)" if berth.phase == "in" else "is being loaded"
                raise ApiError(409, f"The model {offer.name!r} {doing}.", code="model_in_use", param="model")
            self._begin(action)
        while self.fleet.berths.get(offer.name) is berth:
            future = self._loop.create_future()
            self._waiting.add(future)
            try:
                await future
            finally:
                self._waiting.discard(future)
        return offer

    def member(self, name: str) -> Member | None:
        return self._members.get(name)

    def _giving_back(self, berth: Berth) -> Callable[[], None]:
        def give_back() -> None:
            self.fleet.give_back(berth, self._clock())
            self._soon()

        return give_back

    def _deadline(self, offer: OfferedModel, began: float) -> float:
        berth = self.fleet.berths.get(offer.name)
        if berth is not None and berth.phase == "loading":
            return berth.since + self._load_timeout
        return began + self.service.limits.queue.max_age

    def _too_late(self, offer: OfferedModel) -> ApiError:
        berth = self.fleet.berths.get(offer.name)
        if berth is not None and berth.phase == "loading":
            self.service.metrics.shed("loading")
            return shed("loading")
        if (tight := self._tight.get(offer.name)) is not None:
            return ApiError(503, self._told(offer, tight), code="model_memory", param="model", retry_after=30)
        self.service.metrics.shed("queue_age")
        return shed("queue_age")

    def _refusal(self, offer: OfferedModel, failure: Failure) -> ApiError:
        later = max(1, round(failure.until - self._clock()))
        told = self._told(offer, failure.error)
        if isinstance(failure.error, MemoryPlanError):
            return ApiError(400, told, code="model_memory", param="model")
        return ApiError(503, told, code="load_failed", param="model", retry_after=later)

    @staticmethod
    def _told(offer: OfferedModel, error: Exception) -> str:
        """An error for clients, who are not told where files lie."""
        if not isinstance(error, Ds4Error):
            return f"The model {offer.name!r} could not be loaded; the server's log says why."
        told = str(error).replace(str(offer.path), offer.name).replace(str(offer.path.parent), "...")
        return f"The model {offer.name!r} could not be loaded: {told}"

    # ---- loading and unloading --------------------------------------------------------------------------------------

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def _away(self, function: Callable[..., Any], *args: Any) -> Any:
        return await self._loop.run_in_executor(None, function, *args)

    def first(
        self, plan: Any, told: Callable[[Served, float], None], lost: Callable[[Exception | None], None]
    ) -> Member:
        """Loads the default model, whose plan is made: the server is ready when it is, and ends if it cannot be."""
        name = self.roster.default.name
        self.fleet.berths[name] = Berth(name, "loading", self._clock())
        member = self._run(name, plan)
        usual = member.lost

        def told_first(served: Served, seconds: float) -> None:
            member.lost = usual
            told(served, seconds)

        member.told, member.lost = told_first, lost
        return member

    async def _begin_run(self, name: str, plan: Any) -> None:
        try:
            self._run(name, plan)
        except BaseException:  # its thread never came to be, so nobody else gives back what its plan was promised
            self._members.pop(name, None)
            await self._away(self.source.closed, name)
            raise

    def _run(self, name: str, plan: Any) -> Member:
        member = self._members[name] = Member(self, name)
        member.runner = self.source.runner(plan, member)
        member.runner.start()
        return member

    def _soon(self) -> None:
        """Does what the policy wants now, and tells everybody who waits."""
        if not self._stopping:
            now = self._clock()
            for action in self.fleet.plan(now):
                self._begin(action)
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if (due := self.fleet.due(now)) is not None:
                self._timer = self._loop.call_later(due + 0.001, self._soon)
        self._wake()

    def _wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    def _begin(self, action: Action) -> None:
        if isinstance(action, Load):
            self._task(self._load(action.name))
            return
        log.info("unloading %s (%s)", action.name, action.why)
        member = self._members[action.name]
        assert member.runner is not None
        member.runner.stop()

    def _task(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _load(self, name: str) -> None:
        offer = next((one for one in self.roster.offers() if one.name == name), None)
        try:
            if offer is None:
                raise Ds4Error("the model is no longer there", subject=name, code="model_gone")
            narrow = not self.fleet.has_idle()  # less context or fewer banks than wished, before others have to go
            plan = await self._away(lambda: self.source.plan(offer, narrow=narrow))
            if self._stopping:
                self.fleet.left(name)
            else:
                await self._begin_run(name, plan)
        except MemoryPlanError as error:
            if self.fleet.cramped(name):
                self._tight[name] = error
            else:
                self._failed(name, error)
        except Exception as error:
            self._failed(name, error)
        self._soon()

    def _failed(self, name: str, error: Exception) -> None:
        log.error("%s could not be loaded: %s", name, error, exc_info=None if isinstance(error, Ds4Error) else error)
        self.fleet.failed(name, error, self._clock())

    # ---- from a model's thread --------------------------------------------------------------------------------------

    def load_progress(self, part: float) -> None:
        if self.service.state == "loading":
            self.service.progress = part

    def loaded(self, member: Member, served: Served, seconds: float) -> None:
        member.served = served
        self.service.serve(served)
        self.fleet.loaded(member.name, self._clock())
        member.told(served, seconds)
        self._soon()

    def ended(self, member: Member) -> None:
        """Its thread is about to end: asked to, or by an error."""
        if self._closed:
            return  # nobody is left for whom to keep account, nor a thread that could wait for this one
        if member.served is not None:
            self.service.retire(member.served)
        self.fleet.berths[member.name].phase = "leaving"
        self._task(self._bury(member))

    async def _bury(self, member: Member) -> None:
        assert member.runner is not None
        error, was_served = member.runner.error, member.served is not None
        member.served = None
        await self._away(member.runner.join)
        await self._away(self.source.closed, member.name)
        del self._members[member.name]
        if error is not None:
            self.fleet.failed(member.name, error, self._clock())
            member.lost(error)
        else:
            self.fleet.left(member.name)
            if not was_served and self.service.state == "loading":
                member.lost(None)
        self._soon()

    # ---- the end ----------------------------------------------------------------------------------------------------

    def stop(self, *, now: bool) -> None:
        """No model is loaded any more; those that load are stopped. now: so are those that answer."""
        self._stopping = True
        if self._timer is not None:
            self._timer.cancel()
        for member in self._members.values():
            if member.runner is not None and (now or member.served is None):
                member.runner.stop(now=True)
        self._wake()

    def close(self) -> None:
        """The event loop is about to end. Whoever waits for the `runners` waits for all of this."""
        self.stop(now=True)
        self._closed = True

    def runners(self) -> list[Runner]:
        return [member.runner for member in self._members.values() if member.runner is not None]
