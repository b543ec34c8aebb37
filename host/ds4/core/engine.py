"""The engine thread: the one thread that touches native handles, and a blocking door to it.

Native handles belong to one thread at a time. Rather than hope, every call on them goes through an EngineThread,
which runs calls one after another in the order they came. `call` blocks the caller (an asyncio program uses `submit`
and `asyncio.wrap_future`); both may be used from any thread. An exception of the call is raised to the caller.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from ds4.errors import EngineError
from ds4.sys.descriptors import Status

P = ParamSpec("P")
T = TypeVar("T")


class _Call:
    """A call on its way: what to run, and the lock that its caller sleeps on. Lighter than a Future, for every
    token.
    """

    __slots__ = ("args", "done", "error", "function", "kwargs", "result")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def run(self) -> None:
        try:
            self.result = self.function(*self.args, **self.kwargs)
        except BaseException as error:
            self.error = error
        finally:
            self.done.release()


class EngineThread:
    """Owns one thread until close(). Use as a context manager or close it; the interpreter's exit closes it too."""

    def __init__(self, name: str = "ds4-engine") -> None:
        self._queue: SimpleQueue[_Call | None] = SimpleQueue()
        self._pid = os.getpid()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=_serve, args=(self._queue,), name=name, daemon=True)
        self._thread.start()
        self._finalizer = weakref.finalize(self, _stop, self._queue, self._thread, self._pid)

    @property
    def closed(self) -> bool:
        return self._closed

    def inside(self) -> bool:
        """Whether the caller is the engine thread itself."""
        return threading.current_thread() is self._thread

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs function(*args, **kwargs) on the engine thread and returns its result. From the engine thread: at
        once.

        A signal (Ctrl-C) that ends the wait does not end the call; it runs on, and later calls run after it.
        """
        if self.inside():
            return function(*args, **kwargs)
        call = _Call(function, args, kwargs)
        self._put(call)
        call.done.acquire()
        if call.error is not None:
            try:
                raise call.error
            finally:
                del call  # breaks the cycle error -> traceback -> this frame -> call -> error
        result: T = call.result
        return result

    def submit(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Like call, without waiting. A future that is cancelled before its turn is skipped."""
        future: Future[T] = Future()

        def run() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    result = function(*args, **kwargs)
                except BaseException as error:
                    future.set_exception(error)
                else:
                    future.set_result(result)

        self._put(_Call(run, (), {}))
        return future

    def _put(self, call: _Call) -> None:
        if os.getpid() != self._pid:
            message = "the engine belongs to the process that opened it and does not survive a fork; open it afterwards"
            raise EngineError(message, status=Status.ARG, code="engine_forked")
        with self._closing:  # so that nothing is queued behind the end
            if self._closed:
                raise EngineError("the engine is closed", status=Status.ARG, code="engine_closed")
            self._queue.put(call)

    def close(self) -> None:
        """Lets the calls already made finish, then ends and joins the thread. May be called twice, and from
        anywhere.
        """
        with self._closing:
            self._closed = True
        if self.inside():
            self._queue.put(None)
        else:
            self._finalizer()

    def __enter__(self) -> EngineThread:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _serve(queue: SimpleQueue[_Call | None]) -> None:
    while (call := queue.get()) is not None:
        call.run()
        del call  # while waiting, hold on to nothing of the last caller's


def _stop(queue: SimpleQueue[_Call | None], thread: threading.Thread, pid: int) -> None:
    if os.getpid() == pid:
        queue.put(None)
        if threading.current_thread() is not thread:
            thread.join()
