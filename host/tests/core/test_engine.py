from __future__ import annotations

import asyncio
import gc
import os
import threading
import weakref

import pytest
from ds4.core.engine import EngineThread
from ds4.errors import EngineError


def test_calls_run_on_one_thread_that_is_not_the_callers() -> None:
    with EngineThread() as engine:
        threads = {engine.call(threading.get_ident) for _ in range(3)}
        assert len(threads) == 1
        assert threading.get_ident() not in threads


def test_arguments_go_in_and_results_come_out() -> None:
    with EngineThread() as engine:
        assert engine.call(divmod, 7, 2) == (3, 1)
        assert engine.call(int, "ff", base=16) == 255


def test_an_exception_reaches_its_caller_and_harms_nobody_else() -> None:
    with EngineThread() as engine:
        with pytest.raises(ZeroDivisionError):
            engine.call(divmod, 1, 0)
        assert engine.call(abs, -1) == 1


def test_many_threads_are_served_one_call_at_a_time() -> None:
    running, most, results = 0, 0, []

    def work(value: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        running -= 1
        return value

    with EngineThread() as engine:
        threads = [threading.Thread(target=lambda v=v: results.append(engine.call(work, v))) for v in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(results) == list(range(16))
    assert most == 1


def test_a_call_from_the_engine_thread_itself_runs_at_once() -> None:
    with EngineThread() as engine:
        assert engine.call(lambda: engine.call(abs, -3)) == 3


def test_an_event_loop_awaits_without_being_blocked() -> None:
    async def main() -> tuple[int, list[str]]:
        order: list[str] = []
        release = threading.Event()
        with EngineThread() as engine:
            waiting = asyncio.wrap_future(engine.submit(lambda: release.wait(10) and 5))
            order.append("loop runs")
            release.set()
            return int(await waiting), order

    assert asyncio.run(main()) == (5, ["loop runs"])


def test_a_future_cancelled_before_its_turn_is_skipped() -> None:
    ran: list[int] = []
    release = threading.Event()
    with EngineThread() as engine:
        engine.submit(release.wait, 10)
        future = engine.submit(ran.append, 1)
        assert future.cancel()
        release.set()
        engine.call(abs, 0)
    assert ran == []


def test_close_lets_earlier_calls_finish_and_refuses_later_ones() -> None:
    engine = EngineThread()
    futures = [engine.submit(abs, -n) for n in range(50)]
    engine.close()
    assert [future.result(0) for future in futures] == list(range(50))
    assert engine.closed
    for attempt in (engine.call, engine.submit):
        with pytest.raises(EngineError, match="closed") as caught:
            attempt(abs, 1)
        assert caught.value.code == "engine_closed"
    engine.close()


def test_the_engine_thread_may_close_itself() -> None:
    engine = EngineThread()
    engine.call(engine.close)
    engine.close()
    assert engine.closed


def test_an_engine_that_nobody_holds_ends_its_thread() -> None:
    engine = EngineThread("ds4-forgotten")
    engine.call(abs, 1)
    watch = weakref.ref(engine)
    del engine
    gc.collect()
    assert watch() is None
    assert not [thread for thread in threading.enumerate() if thread.name == "ds4-forgotten"]


def test_arguments_and_results_are_not_kept_alive_by_the_idle_thread() -> None:
    class Thing:
        pass

    with EngineThread() as engine:
        thing = Thing()
        watch = weakref.ref(thing)
        engine.call(lambda value: None, thing)
        del thing
        engine.call(abs, 1)
        gc.collect()
        assert watch() is None


def test_a_forked_child_is_told_that_the_engine_stayed_behind() -> None:
    read, write = os.pipe()
    with EngineThread() as engine:
        child = os.fork()
        if child == 0:
            try:
                engine.call(abs, 1)
            except EngineError as error:
                os.write(write, error.code.encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.read(read, 100) == b"engine_forked"
        assert engine.call(abs, -2) == 2
    os.close(read)
    os.close(write)
