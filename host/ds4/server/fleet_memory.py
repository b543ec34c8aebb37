"""Whether another model fits beside those that are loaded: the memory governor's account with a lease for each.

Weights are a file mapping: the system counts their pages among what is available even while they are in use, so a lease
counts them as not taken yet. Caches and working memory are anonymous; what the process has grown by since the account
was opened counts as theirs, up to what was promised to each.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

from ds4.core.memgov import Governor, Lease
from ds4.core.memory_plan import WORKING, MemoryPlan, MemoryPlanError
from ds4.sys.memory import available_bytes, rss_anonymous


class FleetMemory:
    """available, taken: bytes that the system can give, and anonymous ones that the process has. Safe to use from
    several threads: one plans a model while another lets go of one."""

    def __init__(
        self, available: Callable[[], int] = available_bytes, taken: Callable[[], int] = rss_anonymous
    ) -> None:
        self._available, self._taken = available, taken
        self._before = taken()
        self._governor = Governor(floor=0)  # each plan brings its own
        self._keys = itertools.count(1)
        self._held: dict[str, tuple[int, MemoryPlan]] = {}
        self._lock = threading.Lock()

    def room(self) -> int:
        """Bytes that a further model may plan with."""
        with self._lock:
            self._refresh()
            return max(0, self._available() - self._governor.sums().unfilled)

    def admit(self, name: str, plan: MemoryPlan) -> None:
        """Promises a model its memory. MemoryPlanError with the sizes, where the governor says no."""
        with self._lock:
            self._admit(name, plan)

    def _admit(self, name: str, plan: MemoryPlan) -> None:
        self._refresh()
        self._governor.observe(self._available())
        key, lease = next(self._keys), Lease("model", promised(plan), 0)
        verdict = self._governor.ask(key, lease, plan.floor)
        if not verdict.go:
            raise MemoryPlanError(
                "the model does not fit into memory beside those that are loaded",
                subject=name,
                expected=f"at most {verdict.available >> 20} MiB, with what the loaded ones may still take",
                found=f"{verdict.required >> 20} MiB, of which {plan.floor >> 20} MiB stay free",
            )
        self._governor.lease(key, lease)
        self._held[name] = key, plan

    def release(self, name: str) -> None:
        """The model is closed, or was never opened."""
        with self._lock:
            held = self._held.pop(name, None)
            if held is not None:
                self._governor.release(held[0])

    def promised(self, name: str) -> int:
        """Bytes that a model has been promised; 0 for one that has no lease."""
        held = self._held.get(name)
        return 0 if held is None else promised(held[1])

    def _refresh(self) -> None:
        grown = max(0, self._taken() - self._before)
        for key, plan in self._held.values():
            resident = min(grown, plan.kv_bytes + WORKING)
            grown -= resident
            self._governor.lease(key, Lease("model", promised(plan), resident))


def promised(plan: MemoryPlan) -> int:
    return plan.model_bytes + plan.kv_bytes + WORKING
