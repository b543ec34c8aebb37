"""Threads that compile what clients ask for: a bounded number, none of which a hostile grammar keeps.

    waits for a thread  --WAIT_SECONDS-->  busy: its grammar never ran, so it is not to blame
    runs                --RUN_SECONDS--->  slow: its thread is left to itself until it ends, and the pool has another

The compiler's limits and the bounds of `core.constraint` end all that is known long before; this is for the rest. What
was slow is not tried again for a while, and while too many of its threads still compute, nothing new is begun.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from ds4.core.constraint.deadline import Deadline
from ds4.core.constraint.slow import Slow, name_of
from ds4.errors import ConstraintError

T = TypeVar("T")

WAIT_SECONDS: Final = 10.0
"""How long a request waits for a thread."""
RUN_SECONDS: Final = 10.0
"""How long its work may then take."""
_THREADS: Final = 2
_MOST_LATE: Final = 2


class GrammarPool:
    """wait, run: seconds."""

    def __init__(self, wait: float = WAIT_SECONDS, run: float = RUN_SECONDS) -> None:
        self.wait_seconds, self.run_seconds = wait, run
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="ds4-grammar")
        self._line = Deadline(run, _MOST_LATE, name="ds4-grammar", code="slow")
        self._slow = Slow()

    @property
    def late(self) -> int:
        """Threads that still compute what nobody waits for any more."""
        return self._line.late

    async def run(self, work: Callable[[], T], source: Callable[[], object] | None = None) -> T:
        """What the work returns or raises. source: gives what it is made of, as JSON, by which it is known again.

        ConstraintError: slow where it takes too long or lately did, busy where it was not begun.
        """
        loop, begun = asyncio.get_running_loop(), asyncio.Event()

        def job() -> T:
            loop.call_soon_threadsafe(begun.set)
            return self._do(work, source)

        task = self._threads.submit(job)
        future = asyncio.wrap_future(task)
        try:
            async with asyncio.timeout(self.wait_seconds):
                await begun.wait()
        except TimeoutError:
            if task.cancel():
                raise ConstraintError("no thread is free", subject="grammar", code="busy") from None
        except asyncio.CancelledError:
            task.cancel()
            raise
        return await future

    def _do(self, work: Callable[[], T], source: Callable[[], object] | None) -> T:
        name = None if source is None else name_of(source())
        if name is not None and name in self._slow:
            raise ConstraintError("it took too long a short while ago", subject="grammar", code="slow")
        try:
            done: T = self._line.run(work)
        except ConstraintError as error:
            if error.code == "slow" and name is not None:
                self._slow.add(name)
            raise
        return done

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
