"""What the engine loop owes its clients when it ends, over the fake engine."""

from __future__ import annotations

import asyncio

import pytest
from ds4.core.sampling import Sampling
from ds4.server.engine_loop import EngineLoop
from ds4.server.events import Event, Failed
from ds4.server.job import Job
from ds4.server.metrics import Metrics
from ds4.server.request import GenerationRequest
from ds4.server.schedule.oracle import UNBOUNDED, scheduler
from ds4.sys.descriptors import SessionDesc
from support.fake_native import TINY, FakeModel, FakeSession
from support.live_server import ByteTokenizer


def ask(id: str) -> GenerationRequest:
    return GenerationRequest(id, [[1, 2, 3]], Sampling(temperature=0.0), max_tokens=4)


async def heard(job: Job) -> list[Event]:
    return await asyncio.wait_for(job.channel.take(), 5)


def test_who_waits_is_told_when_the_server_ends_before_anything_ran() -> None:
    async def talk() -> list[list[Event]]:
        engine = loop_of(asyncio.get_running_loop())
        jobs = [engine.submit(ask(name)) for name in ("a", "b")]
        engine.stop(now=True)
        await asyncio.get_running_loop().run_in_executor(None, engine.run)
        return [await heard(job) for job in jobs]

    for events in asyncio.run(talk()):
        (event,) = events
        assert isinstance(event, Failed) and event.error.status == 503


@pytest.mark.parametrize("banks", [1, 2])
def test_a_loop_that_is_stopped_ends_once_its_answers_have(banks: int) -> None:
    async def talk() -> list[list[Event]]:
        engine = loop_of(asyncio.get_running_loop(), banks)
        jobs = [engine.submit(ask(name)) for name in ("a", "b")]
        engine.stop()
        await asyncio.get_running_loop().run_in_executor(None, engine.run)
        return [await heard(job) for job in jobs]

    for events in asyncio.run(talk()):
        assert events and not any(isinstance(event, Failed) for event in events)


def loop_of(loop: asyncio.AbstractEventLoop, banks: int = 1) -> EngineLoop:
    tokenizer = ByteTokenizer()
    return EngineLoop(
        FakeSession(FakeModel(TINY), SessionDesc(banks, 64, 8, 8, 1)),
        scheduler(banks, 8, UNBOUNDED),
        tokenizer.stream,
        stop_ids=tokenizer.stop_ids,
        context=64,
        loop=loop,
        metrics=Metrics(),
    )
