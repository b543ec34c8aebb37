"""Who reads bodies, the request module of each surface or their oracle, as the ledger has it; and on which thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ds4.core import components
from ds4.server.request import Body
from ds4.server.service import Served
from ds4.server.surfaces import request_tapes
from ds4.server.surfaces.asked import Asked, Surface, model_of
from ds4.server.surfaces.tool_rules import check_held, held

T = TypeVar("T")


async def read(surface: Surface, body: Body, served: Served) -> Asked:
    """What a whole body asks for; ApiError for one that is refused."""
    pick = components.pick("request", python=request_tapes.replacement, oracle=request_tapes.by_oracle)
    model = model_of(served)
    if surface == "completions":  # which has no tools
        return pick(surface, body, model)
    return await aside(lambda: pick(surface, body, model), body, served)


async def aside(work: Callable[[], T], body: Body, served: Served) -> T:
    """Reads a body: at once, or beside the event loop where its tools bring schemas and grammars to be compiled."""
    tools = held(body.get("tools"))
    if not tools:
        return work()

    def source() -> list[object]:
        check_held(tools)
        return [made_of for _, made_of in tools]

    return await served.constraints.run(work, "tools", source)
