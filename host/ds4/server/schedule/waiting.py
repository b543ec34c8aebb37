"""The waiting room in front of the scheduler: who is turned away, and whose turn it is.

A request holds a credit from the moment it is let go until the last of its sequences has ended: the positions that it
may come to need. So what has begun can be finished, and the engine is never promised more than it has. Between clients
the one that has been given least goes first (its account is put right when an answer ends early), so a client with a
hundred requests waits longer for each of them, and nobody waits for all of its. Within a client first come is first
served. oracles/admission/README.md is the contract.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from ds4.errors import Ds4Error
from ds4.server.schedule.admission import Shed
from ds4.server.schedule.route import Lane


class RoomLimits(NamedTuple):
    """slots: banks; capacity: positions of one; budget: positions that all credits together may have; max_queue,
    max_bytes, client_queue: sequences, bytes of requests, and sequences of one client that may wait; max_age: how long,
    in the caller's unit; max_clients: connections at once."""

    slots: int
    capacity: int
    budget: int
    max_queue: int = 256
    max_bytes: int = 256 << 20
    client_queue: int = 192
    max_age: int = 600 * 10**9
    max_clients: int = 256


class Arrival(NamedTuple):
    """A request at the door. prompt, tokens: positions of each of its sequences, and most tokens it may draw; patience:
    its own bound on waiting, 0 for none."""

    client: bytes
    lane: Lane
    sequences: int
    prompt: int
    tokens: int
    nbytes: int
    patience: int = 0


class Released(NamedTuple):
    """expired: keys of those that waited too long; released: keys of those whose turn it is, in order."""

    expired: list[int]
    released: list[int]


class Standing(NamedTuple):
    """How full the room is: requests, sequences and bytes that wait; sequences that run; credit held; clients."""

    waiting: int = 0
    sequences: int = 0
    nbytes: int = 0
    running: int = 0
    credit: int = 0
    clients: int = 0


@dataclass(slots=True, eq=False)
class _Client:
    name: bytes
    served: int
    last: int = 0
    queue: deque[_Request] = field(default_factory=deque)
    waiting: int = 0  # sequences
    running: int = 0


@dataclass(slots=True, eq=False)
class _Request:
    key: int
    given: Arrival
    client: _Client
    credit: int
    charge: int
    arrived: int
    left: int  # sequences that have not ended
    used: int = 0
    round: int = 0  # the `release` that let it go


def connects(connected: int, most: int) -> Shed | None:
    """Whether one more connection may be made beside those there are, also before there is a room to ask."""
    return "clients" if connected >= most else None


class Room:
    """limits are fixed. Keys are given out by `arrive`, from 1 on, to those that are turned away as well."""

    def __init__(self, limits: RoomLimits) -> None:
        self.limits = limits
        self.stopped = False
        self._keys = self._releases = self._rounds = 0
        self._waiting: dict[int, _Request] = {}  # in order of arrival
        self._running: dict[int, _Request] = {}
        self._clients: dict[bytes, _Client] = {}
        self._sequences = self._bytes = self._active = self._credit = 0

    @property
    def standing(self) -> Standing:
        return Standing(
            len(self._waiting), self._sequences, self._bytes, self._active, self._credit, len(self._clients)
        )

    def clients(self) -> list[tuple[bytes, int, int, int]]:
        """(name, positions charged, sequences waiting, sequences running) of each client that has any."""
        return [(c.name, c.served, c.waiting, c.running) for c in self._clients.values()]

    def connect(self, connected: int) -> Shed | None:
        """Whether one more connection may be made beside those there are."""
        return connects(connected, self.limits.max_clients)

    def stop(self) -> None:
        """Nobody joins any more."""
        self.stopped = True

    def arrive(self, given: Arrival, now: int) -> tuple[int, Shed | None]:
        """The key, and why the request is turned away if it is."""
        self._keys += 1
        limits = self.limits
        size = min(given.prompt + given.tokens, limits.capacity)
        credit, charge = min(given.sequences, limits.slots) * size, given.sequences * size
        if reason := self._refuses(given, credit):
            return self._keys, reason
        client = self._clients.get(given.client)
        if client is None:
            # Who was away has saved nothing up, and owes nothing either: it begins with the least that others have had.
            least = min((other.served for other in self._clients.values()), default=0)
            client = self._clients[given.client] = _Client(given.client, least)
        request = _Request(self._keys, given, client, credit, charge, now, given.sequences)
        self._waiting[request.key] = request
        client.queue.append(request)
        client.waiting += given.sequences
        self._sequences += given.sequences
        self._bytes += given.nbytes
        return request.key, None

    def _refuses(self, given: Arrival, credit: int) -> Shed | None:
        limits = self.limits
        if self.stopped:
            return "stopping"
        if credit > limits.budget:
            return "kv_budget"
        if not self._waiting:
            return None
        if self._sequences + given.sequences > limits.max_queue:
            return "queue_depth"
        if self._bytes + given.nbytes > limits.max_bytes:
            return "queue_bytes"
        client = self._clients.get(given.client)
        own = client.waiting if client is not None else 0
        if own + given.sequences > limits.client_queue and own < self._sequences:
            return "client_share"
        return None

    def release(self, now: int) -> Released:
        """Those that have waited too long, and those whose turn it is now."""
        if not self._waiting:
            return Released([], [])
        limits = self.limits
        expired = [
            request
            for request in self._waiting.values()
            if now - request.arrived > limits.max_age or now - request.arrived > request.given.patience > 0
        ]
        for request in expired:
            self._drop(request)
        self._rounds += 1
        released = []
        while self._waiting and self._active < limits.slots:
            client = min(
                (client for client in self._clients.values() if client.queue),
                key=lambda c: (c.served, c.last, c.queue[0].key),
            )
            request = client.queue[0]
            if not self._may_share(request.given.lane) or self._credit + request.credit > limits.budget:
                break
            self._take_out(request)
            self._run(request)
            released.append(request.key)
        return Released([request.key for request in expired], released)

    def _may_share(self, lane: Lane) -> bool:
        """Whether a request of this lane may join those that run."""
        if not self._running:
            return True
        if any(other.given.lane != lane for other in self._running.values()):
            return False
        batch = all(other.round == self._rounds for other in self._running.values())
        return lane == "continuous" or (lane == "static" and batch)

    def _run(self, request: _Request) -> None:
        client = request.client
        self._releases += 1
        client.last = self._releases
        client.served += request.charge
        client.running += request.left
        request.round = self._rounds
        self._running[request.key] = request
        self._active += request.left
        self._credit += request.credit

    def leave(self, key: int, used: int) -> int:
        """One sequence of a request that was let go has ended with `used` positions taken. How many go on.
        Ds4Error (key): no such request runs."""
        request = self._running.get(key)
        if request is None:
            raise Ds4Error("no such request runs", found=key, code="key")
        client = request.client
        request.used += used
        request.left -= 1
        client.running -= 1
        self._active -= 1
        if not request.left:
            del self._running[key]
            self._credit -= request.credit
            client.served = max(0, client.served - max(0, request.charge - request.used))
            self._forget(client)
        return request.left

    def cancel(self, key: int) -> None:
        """A waiting request goes. Ds4Error (key): no such request waits."""
        request = self._waiting.get(key)
        if request is None:
            raise Ds4Error("no such request waits", found=key, code="key")
        self._drop(request)

    def waits(self, key: int) -> bool:
        return key in self._waiting

    def keys(self) -> Iterable[int]:
        """Of those that wait, in order of arrival."""
        return list(self._waiting)

    def _drop(self, request: _Request) -> None:
        self._take_out(request)
        self._forget(request.client)

    def _take_out(self, request: _Request) -> None:
        given, client = request.given, request.client
        del self._waiting[request.key]
        client.queue.remove(request)
        client.waiting -= given.sequences
        self._sequences -= given.sequences
        self._bytes -= given.nbytes

    def _forget(self, client: _Client) -> None:
        if not client.queue and not client.running:
            del self._clients[client.name]
