"""What `--models-max` beyond 1 sets up: the board that switches between models, and how each of them is opened."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from ds4.core import catalog
from ds4.core.memory_plan import DEFAULT_BANKS, MemoryPlanError
from ds4.core.options import CTX, MODEL, MODEL_DIR
from ds4.core.settings import Settings, Value
from ds4.server import arguments as args
from ds4.server.fleet import Fleet
from ds4.server.fleet_memory import FleetMemory
from ds4.server.plan import ServingPlan
from ds4.server.roster import OfferedModel, Roster
from ds4.server.switching import Owner, Runner, Switchboard

if TYPE_CHECKING:
    from ds4.server.service import Service

Open = Callable[[ServingPlan, "Service", Owner, asyncio.AbstractEventLoop], Runner]
"""Makes the thread of a planned model's engine."""


class Opening:
    """Plans with what memory is left beside the loaded models, by the server's own settings."""

    def __init__(self, settings: Settings, service: Service, open: Open) -> None:
        self._settings, self._service, self._open = settings, service, open
        self.memory = FleetMemory()

    def plan(self, offer: OfferedModel, *, narrow: bool) -> ServingPlan:
        plan = ServingPlan.make(settings_of(self._settings, offer), self.memory.room())
        memory = plan.memory
        asked = self._settings[CTX], self._settings[args.MAX_SEQS]
        wanted = (asked[0] or memory.wanted_ctx, asked[1] or DEFAULT_BANKS)
        if not narrow and (memory.ctx, memory.banks) < wanted:
            raise MemoryPlanError(
                "less than wished fits beside the loaded models",
                subject=offer.name,
                expected=f"{wanted[1]} x {wanted[0]} positions",
                found=f"{memory.banks} x {memory.ctx}",
            )
        self.memory.admit(offer.name, memory)
        return plan

    def runner(self, plan: ServingPlan, owner: Owner) -> Runner:
        return self._open(plan, self._service, owner, asyncio.get_running_loop())

    def closed(self, name: str) -> None:
        self.memory.release(name)
        # A loaded model is kept from the collector's eyes; what is left of this one must not be.
        gc.unfreeze()
        gc.collect()
        gc.freeze()


def settings_of(settings: Settings, offer: OfferedModel) -> Settings:
    """The server's settings, for another model."""
    values = dict(settings.values)
    for option, value in ((MODEL, str(offer.path)), (args.MODEL_ID, offer.name), (args.EXPECT_PLAN, None)):
        values[option.name] = Value(value, values[option.name].source)
    return replace(settings, values=values)


def many_models(plan: ServingPlan, service: Service, open: Open) -> Switchboard:
    """plan: of the default model, which is loaded first. Raises what the catalog raises."""
    settings = plan.settings
    roster = Roster(OfferedModel(plan.model_id, plan.path), lambda: catalog.entries(settings[MODEL_DIR]))
    opening = Opening(settings, service, open)
    opening.memory.admit(plan.model_id, plan.memory)
    fleet = Fleet(settings[args.MODELS_MAX], idle=settings[args.MODEL_IDLE])
    return Switchboard(service, fleet, roster, opening, settings[args.LOAD_TIMEOUT])
