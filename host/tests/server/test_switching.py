"""The board of several models, over models of the test's own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from ds4.server.disconnect import Connection
from ds4.server.errors import ApiError
from ds4.server.fleet import Fleet
from ds4.server.fleet_memory import FleetMemory
from ds4.server.roster import OfferedModel, Roster
from ds4.server.service import Service
from ds4.server.switching import Owner, Runner, Switchboard


class Threadless:
    """A source whose plans are good, in a process that can have no more threads."""

    def __init__(self) -> None:
        self.memory = FleetMemory()
        self.events: list[str] = []

    def plan(self, offer: OfferedModel, *, narrow: bool) -> Any:
        self.events.append(f"planned {offer.name}")
        return object()

    def runner(self, plan: Any, owner: Owner) -> Runner:
        raise RuntimeError("can't start new thread")

    def closed(self, name: str) -> None:
        self.events.append(f"closed {name}")


def test_a_model_whose_thread_cannot_be_started_gives_back_what_it_was_promised() -> None:
    async def talk() -> list[str]:
        service, source = Service(), Threadless()
        service.state = "ready"
        board = Switchboard(service, Fleet(2), Roster(OfferedModel("m", Path("m.gguf")), lambda: []), source)
        try:
            with pytest.raises(ApiError) as refused:
                await asyncio.wait_for(board.model("m", Connection(b"")), 5)
        finally:
            service.close()
        assert (refused.value.status, refused.value.code) == (503, "load_failed")
        assert board.member("m") is None and board.runners() == []
        return source.events

    assert asyncio.run(talk()) == ["planned m", "closed m"]
