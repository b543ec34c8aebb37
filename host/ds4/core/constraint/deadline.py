"""Work of the grammar library that may not come to an end, with a time after which nobody waits for it any more.

The library bounds a step's items, not how often each is looked at: an ambiguous grammar (`a: a a | "x"`) makes one
mask take seconds or minutes, and nothing stops it. So it is done on a thread of its own, and what is late is left to
itself: its request fails, the others go on. While too many such threads compute, no other is risked.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final

from ds4.errors import ConstraintError

SECONDS: Final = 0.5
"""Wall time that a mask may take: usual ones take well below a millisecond, on a loaded machine some."""
MOST_LATE: Final = 2
"""Threads left to themselves beyond which new work is refused while they last."""


class _Worker:
    """A thread that does one thing at a time, in daemon mode: a process does not wait for it to end."""

    def __init__(self, name: str) -> None:
        self._asked: SimpleQueue[Callable[[], Any] | None] = SimpleQueue()
        self._done = threading.Semaphore(0)
        self._result: Any = None
        self._error: BaseException | None = None
        self._leaves: Callable[[], None] | None = None
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def _run(self) -> None:
        while (work := self._asked.get()) is not None:
            try:
                self._result, self._error = work(), None
            except BaseException as error:
                self._result, self._error = None, error
            with self._lock:
                if self._leaves is not None:
                    self._leaves()
                    return
                self._done.release()

    def do(self, work: Callable[[], Any], seconds: float, late: Callable[[], None], back: Callable[[], None]) -> bool:
        """False, and `late` was called, where the work is not done in time; `back` is called once it is. Then the
        worker is of no use any more."""
        self._asked.put(work)
        if self._done.acquire(timeout=seconds):
            return True
        with self._lock:
            if self._done.acquire(blocking=False):
                return True
            late()
            self._leaves = back
            return False

    def take(self) -> Any:
        result, error = self._result, self._error
        self._result = self._error = None
        if error is not None:
            raise error
        return result

    def end(self) -> None:
        self._asked.put(None)


class Deadline:
    """For any thread: each caller has a worker for itself while its work lasts. name: of the workers' threads; code: of
    the error of what is late."""

    def __init__(
        self,
        seconds: float = SECONDS,
        most_late: int = MOST_LATE,
        *,
        name: str = "ds4-mask",
        code: str = "complexity",
    ) -> None:
        self._seconds, self._most, self._name, self._code = seconds, most_late, name, code
        self._idle: list[_Worker] = []
        self._lock = threading.Lock()
        self.late = 0

    def __del__(self) -> None:
        for worker in self._idle:
            worker.end()

    def run(self, work: Callable[[], Any]) -> Any:
        """What the work returns or raises. ConstraintError: `code` where it takes too long, busy where others still
        do."""
        with self._lock:
            if self.late >= self._most:
                raise ConstraintError("others still compute", subject="grammar", code="busy")
            worker = self._idle.pop() if self._idle else None
        worker = worker or _Worker(self._name)
        if not worker.do(work, self._seconds, lambda: self._count(1), lambda: self._count(-1)):
            raise ConstraintError("too complex to follow", subject="grammar", code=self._code)
        try:
            return worker.take()
        finally:
            with self._lock:
                self._idle.append(worker)

    def _count(self, change: int) -> None:
        with self._lock:
            self.late += change


LINE: Final = Deadline()
"""The process's: what is late takes a core from all of its models."""
