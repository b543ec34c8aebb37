"""Worker processes that go when their parent goes: on Ctrl-C without a word, and when it is killed."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import connection, get_context, parent_process
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Pool(ProcessPoolExecutor):
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """A worker that starts here inherits the blocked signal, so that Ctrl-C, which a terminal sends to every
        process, is the parent's alone. One that comes meanwhile reaches the parent right after."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def pool(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """An executor of `jobs` processes. Leaving it by an exception ends what runs, and starts nothing that waits."""
    executor = _Pool(jobs, mp_context=get_context("spawn"), initializer=_watch)
    try:
        yield executor
    except BaseException:
        workers: list[Any] = list((executor._processes or {}).values())
        executor.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.kill()
        raise
    executor.shutdown()


def _watch() -> None:
    """In a worker: ends it when its parent is gone, however that went."""
    parent = parent_process()
    assert parent is not None

    def wait() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=wait, daemon=True, name="parent").start()
