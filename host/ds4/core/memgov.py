"""The memory governor: whether memory may be taken. An account of promises, and a verdict over it and what is seen.

What has been taken is missing from what the system reports as available; what has been promised and not taken yet is
not, so the governor keeps it in mind: leases. oracles/memgov/README.md is the contract.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ds4.errors import Ds4Error

Consumer = Literal["boot", "warm", "banks", "serial", "static", "model", "snapshot"]
CONSUMERS: tuple[Consumer, ...] = ("boot", "warm", "banks", "serial", "static", "model", "snapshot")
Mode = Literal["off", "observe", "enforce"]
MODES: tuple[Mode, ...] = ("off", "observe", "enforce")
Word = Literal["off", "fault", "unsupported", "retry_observation", "refuse_class", "admit", "refuse_live"]

LARGEST = (1 << 63) - 1
FLOOR = 512 << 20
"""Bytes that stay free unless somebody says otherwise."""

_STOPS = frozenset({"fault", "retry_observation", "refuse_class", "refuse_live"})


class Lease(NamedTuple):
    """What a consumer has been promised. intent: bytes it may grow to, of which `resident` are taken; reservation:
    bytes kept for it besides."""

    consumer: Consumer
    intent: int
    resident: int
    reservation: int = 0

    @property
    def fault(self) -> bool:
        return min(self.intent, self.resident, self.reservation) < 0 or self.resident > self.intent


class Verdict(NamedTuple):
    """required, available, deficit in bytes, where the word has them; retry: whether asking again later may help; go:
    whether the memory may be taken, in the mode that holds."""

    word: Word
    required: int = 0
    available: int = 0
    deficit: int = 0
    retry: bool = False
    go: bool = True


Observation = int | Literal["unsupported", "error"]
"""Bytes that the system says are available, or why it does not say."""


@dataclass(frozen=True, slots=True)
class Account:
    """floor: bytes that stay free; substrate: what the process takes besides all leases and has not taken yet."""

    floor: int = FLOOR
    substrate: int = 0
    observation: Observation = "unsupported"
    modes: Mapping[str, Mode] = field(default_factory=dict)  # enforce where nothing is said
    limits: Mapping[str, int] = field(default_factory=dict)
    leases: Mapping[int, Lease] = field(default_factory=dict)


def ask(account: Account, key: int, wanted: Lease, transient: int = 0) -> Verdict:
    """Whether the lease `key` may become `wanted`, with `transient` bytes more while that is done."""
    mode = account.modes.get(wanted.consumer, "enforce")
    if mode == "off":
        return Verdict("off")
    verdict = _judge(account, key, wanted, transient)
    return verdict._replace(go=mode == "observe" or verdict.word not in _STOPS)


def _judge(account: Account, key: int, wanted: Lease, transient: int) -> Verdict:
    if wanted.fault or transient < 0 or account.substrate < 0:
        return Verdict("fault")
    seen = account.observation
    if seen == "unsupported":
        return Verdict("unsupported")
    if seen == "error":
        return Verdict("retry_observation", retry=True)
    others = [lease for number, lease in account.leases.items() if number != key]
    of_class = wanted.intent + sum(lease.intent for lease in others if lease.consumer == wanted.consumer)
    if of_class > LARGEST:
        return Verdict("fault")
    limit = account.limits.get(wanted.consumer)
    if limit is not None and of_class > limit:
        return Verdict("refuse_class", of_class, limit, of_class - limit)
    own = account.floor + account.substrate + wanted.intent - wanted.resident + transient
    required = own + sum(lease.reservation + lease.intent - lease.resident for lease in others)
    if required > LARGEST:
        return Verdict("fault")
    if seen >= required:
        return Verdict("admit", required, seen)
    return Verdict("refuse_live", required, seen, required - seen, retry=own <= seen)


class Sums(NamedTuple):
    leases: int
    resident: int
    unfilled: int
    reserved: int


class Governor:
    """The account, kept. Who is let go tells by `lease`, and by `release` when the memory is given back."""

    def __init__(self, floor: int = FLOOR) -> None:
        self._floor, self._substrate = floor, 0
        self._observation: Observation = "unsupported"
        self._modes: dict[str, Mode] = {}
        self._limits: dict[str, int] = {}
        self.leases: dict[int, Lease] = {}

    @property
    def account(self) -> Account:
        return Account(self._floor, self._substrate, self._observation, self._modes, self._limits, self.leases)

    def mode(self, consumer: Consumer, mode: Mode) -> None:
        self._modes[consumer] = mode

    def limit(self, consumer: Consumer, nbytes: int) -> None:
        self._limits[consumer] = nbytes

    def substrate(self, nbytes: int) -> None:
        self._substrate = nbytes

    def observe(self, observation: Observation) -> None:
        self._observation = observation

    def lease(self, key: int, lease: Lease) -> None:
        """Puts a lease into the account. Ds4Error (lease): a negative number, or more is resident than intended."""
        if lease.fault:
            raise Ds4Error("no lease", expected="0 <= resident <= intent", found=repr(lease), code="lease")
        self.leases[key] = lease

    def release(self, key: int) -> None:
        """Ds4Error (key): there is no such lease."""
        if self.leases.pop(key, None) is None:
            raise Ds4Error("no such lease", found=key, code="key")

    def ask(self, key: int, wanted: Lease, transient: int = 0) -> Verdict:
        return ask(self.account, key, wanted, transient)

    def sums(self) -> Sums:
        """Ds4Error (overflow): more bytes than there can be."""
        leases = self.leases.values()
        sums = Sums(
            len(leases),
            sum(lease.resident for lease in leases),
            sum(lease.intent - lease.resident for lease in leases),
            sum(lease.reservation for lease in leases),
        )
        if max(sums) > LARGEST:
            raise Ds4Error("more bytes than there can be", found=max(sums), code="overflow")
        return sums
