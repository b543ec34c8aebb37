"""Which of many models are loaded: a pure policy over names and a clock that is passed in.

A model is out, loading, in, or leaving. Whoever wants one that is not in waits; `plan` says what is to be done for
those that wait, oldest first: load while there is room, else let go of the least recently used one that nobody holds.
Where all are held for longer than `patience`, the least recently used one takes no new requests, so that those of other
models do not wait for ever; its own wait behind them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Phase = Literal["loading", "in", "leaving"]
STATES: dict[Phase, str] = {"loading": "loading", "in": "loaded", "leaving": "unloading"}
"""The phases, as clients are told of them."""

Why = Literal["evicted", "idle", "asked"]
PATIENCE = 5.0
RETRY = 30.0


class Load(NamedTuple):
    name: str


class Unload(NamedTuple):
    name: str
    why: Why


Action = Load | Unload


@dataclass(eq=False, slots=True)
class Berth:
    """A model that takes a place. holds: requests that use it; used: when it was last taken or given back."""

    name: str
    phase: Phase
    since: float
    holds: int = 0
    used: float = 0.0
    closing: bool = False  # takes no new requests


@dataclass(slots=True)
class _Wish:
    count: int
    since: float


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a model could not be loaded, and until when nobody tries again."""

    error: Exception
    until: float


@dataclass
class Fleet:
    """most: models that are in, loading or leaving at once; idle: seconds without a request after which a model leaves
    (0: never); patience, retry: seconds."""

    most: int
    idle: float = 0.0
    patience: float = PATIENCE
    retry: float = RETRY
    berths: dict[str, Berth] = field(default_factory=dict)
    failures: dict[str, Failure] = field(default_factory=dict)
    loads: Counter[tuple[str, str]] = field(default_factory=Counter)  # (name, "loaded" or "failed")
    unloads: Counter[tuple[str, str]] = field(default_factory=Counter)  # (name, why)
    _wishes: dict[str, _Wish] = field(default_factory=dict)
    _cramped: set[str] = field(default_factory=set)  # names whose load wants the memory of another

    # ---- requests -----------------------------------------------------------------------------------------------

    def take(self, name: str, now: float) -> Berth | Failure | None:
        """A hold on the model, or why it cannot be had for now; None: it is not in, wish for it and wait."""
        berth = self.berths.get(name)
        if berth is not None and berth.phase == "in" and not berth.closing:
            berth.holds += 1
            berth.used = now
            return berth
        failure = self.failures.get(name)
        if failure is not None and berth is None:
            if now < failure.until:
                return failure
            del self.failures[name]
        return None

    def give_back(self, berth: Berth, now: float) -> None:
        berth.holds -= 1
        berth.used = now

    def wish(self, name: str, now: float) -> None:
        self._wishes.setdefault(name, _Wish(0, now)).count += 1

    def unwish(self, name: str) -> None:
        """One of those who wished has it, or waits no more."""
        wish = self._wishes[name]
        wish.count -= 1
        if not wish.count:
            del self._wishes[name]
            self._cramped.discard(name)

    def wishes(self, name: str) -> int:
        return self._wishes[name].count if name in self._wishes else 0

    # ---- what is to be done ---------------------------------------------------------------------------------------

    def plan(self, now: float) -> list[Action]:
        """What to begin now; each action is under way from here on, and ends with `loaded`, `failed`, `cramped` or
        `left`."""
        actions = list(self._serve_wishes(now))
        for berth in self.berths.values():
            if self.idle and self._free(berth) and now - berth.used >= self.idle and not self.wishes(berth.name):
                actions.append(self._leave(berth, "idle", now))
        return actions

    def _serve_wishes(self, now: float) -> Iterator[Action]:
        blocked = False
        for name, wish in sorted(self._wishes.items(), key=lambda item: item[1].since):
            failure = self.failures.get(name)
            if name in self.berths or blocked or (failure is not None and now < failure.until):
                continue
            if any(berth.phase != "in" for berth in self.berths.values()):
                break  # one at a time: what comes of it decides what fits
            if len(self.berths) < self.most and name not in self._cramped:
                self.berths[name] = Berth(name, "loading", now)
                yield Load(name)
                return
            blocked = True
            if (victim := self._victim()) is not None:
                self._cramped.discard(name)
                yield self._leave(victim, "evicted", now)
            elif now - wish.since >= self.patience and not any(berth.closing for berth in self.berths.values()):
                min(self.berths.values(), key=lambda berth: berth.used).closing = True
        if not blocked:
            for berth in self.berths.values():
                berth.closing = berth.closing and berth.phase == "leaving"

    def due(self, now: float) -> float | None:
        """Seconds after which `plan` may say something that it does not say now, if nothing else happens."""
        times = [wish.since + self.patience for name, wish in self._wishes.items() if name not in self.berths]
        if self.idle:
            times += [berth.used + self.idle for berth in self.berths.values() if self._free(berth)]
        ahead = [time - now for time in times if time > now]
        return min(ahead, default=None)

    def ask_to_leave(self, name: str, now: float) -> Unload | None:
        """An unload that somebody asks for. None: it is held, or neither in nor out."""
        berth = self.berths.get(name)
        return self._leave(berth, "asked", now) if berth is not None and self._free(berth) else None

    def _victim(self) -> Berth | None:
        return min(filter(self._free, self.berths.values()), key=lambda berth: berth.used, default=None)

    @staticmethod
    def _free(berth: Berth) -> bool:
        return berth.phase == "in" and not berth.holds

    def _leave(self, berth: Berth, why: Why, now: float) -> Unload:
        berth.phase, berth.since = "leaving", now
        self.unloads[berth.name, why] += 1
        return Unload(berth.name, why)

    # ---- what came of it --------------------------------------------------------------------------------------------

    def loaded(self, name: str, now: float) -> None:
        berth = self.berths[name]
        berth.phase, berth.since, berth.used = "in", now, now
        self.loads[name, "loaded"] += 1
        self.failures.pop(name, None)

    def failed(self, name: str, error: Exception, now: float) -> None:
        """It could not be loaded, or ended by itself."""
        self.berths.pop(name, None)
        self._cramped.discard(name)
        self.loads[name, "failed"] += 1
        self.failures[name] = Failure(error, now + self.retry)

    def cramped(self, name: str) -> bool:
        """Its load finds no memory beside the others. True: it waits for another one to leave; False: none can."""
        del self.berths[name]
        if not self.berths:
            return False
        self._cramped.add(name)
        return True

    def left(self, name: str) -> None:
        self.berths.pop(name, None)

    def has_idle(self) -> bool:
        """Whether a model could leave right now for another one."""
        return self._victim() is not None

    def wished(self) -> list[str]:
        """The models that somebody waits for, those that have waited longest first."""
        return sorted(self._wishes, key=lambda name: self._wishes[name].since)

    def facts(self) -> list[dict[str, object]]:
        """What is in, coming or going, and how many requests hold it."""
        return [
            {"model": berth.name, "state": STATES[berth.phase], "requests": berth.holds}
            for berth in list(self.berths.values())
        ]
