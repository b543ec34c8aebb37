"""The threads that compile grammars: nobody is blamed for the grammar of another, and none of them is lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from ds4.errors import ConstraintError
from ds4.server.constraints import Constraints
from ds4.server.errors import ApiError
from ds4.server.grammar_pool import GrammarPool
from support.live_server import ByteTokenizer


async def until(there: Callable[[], bool]) -> None:
    while not there():
        await asyncio.sleep(0.001)


async def code_of(pool: GrammarPool, work: Callable[[], Any], source: object = None) -> str:
    try:
        return str(await pool.run(work, lambda: source))
    except ConstraintError as error:
        return error.code


def test_who_waited_in_vain_for_a_thread_is_told_that_others_were_busy() -> None:
    async def play() -> None:
        pool, over = GrammarPool(wait=0.05, run=60.0), threading.Event()
        hostile = [asyncio.create_task(code_of(pool, over.wait, n)) for n in range(2)]
        await asyncio.sleep(0)
        assert await code_of(pool, lambda: "served") == "busy"
        over.set()
        assert await asyncio.gather(*hostile) == ["True", "True"]
        assert await code_of(pool, lambda: "served") == "served"
        pool.close()

    asyncio.run(play())


def test_a_grammar_that_ran_too_long_is_at_fault_and_its_thread_is_replaced() -> None:
    async def play() -> None:
        pool, over = GrammarPool(wait=60.0, run=0.05), threading.Event()
        assert await code_of(pool, over.wait, "a") == "slow" and pool.late == 1
        assert await code_of(pool, lambda: "served", "good") == "served"
        ran: list[int] = []
        assert await code_of(pool, lambda: ran.append(1), "a") == "slow" and not ran
        assert await code_of(pool, over.wait, "b") == "slow" and pool.late == 2
        assert await code_of(pool, lambda: "served", "good") == "busy"  # two cores are lost to them for now
        over.set()
        await until(lambda: not pool.late)
        assert await code_of(pool, lambda: "served", "good") == "served"
        assert await code_of(pool, lambda: ran.append(1), "a") == "slow" and not ran
        pool.close()

    asyncio.run(play())


def test_the_same_hostile_grammar_from_many_runs_on_no_more_threads_than_there_are() -> None:
    async def play() -> None:
        pool, over, ran = GrammarPool(wait=60.0, run=0.05), threading.Event(), list[int]()

        def work() -> None:
            ran.append(1)
            over.wait()

        told = await asyncio.gather(*[code_of(pool, work, "same") for _ in range(30)])
        assert set(told) == {"slow"} and len(ran) <= 2, (told, ran)
        over.set()
        await until(lambda: not pool.late)
        pool.close()

    asyncio.run(play())


def test_who_hangs_up_does_not_hold_a_place() -> None:
    async def play() -> None:
        pool, over, ran = GrammarPool(), threading.Event(), list[int]()
        running = [asyncio.create_task(code_of(pool, over.wait)) for _ in range(2)]
        gone = asyncio.create_task(pool.run(lambda: ran.append(1)))
        await asyncio.sleep(0.01)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        over.set()
        await asyncio.gather(*running)
        assert await code_of(pool, lambda: "served") == "served" and not ran
        pool.close()

    asyncio.run(play())


@pytest.mark.parametrize(("code", "status", "told"), [("busy", 503, "grammar_busy"), ("slow", 400, "grammar_timeout")])
def test_a_client_is_told_whose_fault_it_was_and_only_the_servers_is_counted(code: str, status: int, told: str) -> None:
    counted: list[str] = []

    def work() -> None:
        raise ConstraintError("so", code=code)

    async def play() -> ApiError:
        tokenizer: Any = ByteTokenizer()
        constraints = Constraints(tokenizer, frozenset(), counted.append)
        with pytest.raises(ApiError) as caught:
            await constraints.run(work, "regex")
        constraints.close()
        return caught.value

    error = asyncio.run(play())
    assert (error.status, error.code) == (status, told)
    assert counted == (["grammar_busy"] if status == 503 else [])
    assert error.retry_after == (5 if status == 503 else None)
    assert error.param == ("regex" if status == 400 else None)
