"""Who reads bodies: the request module of each surface, or their oracle, as the ledger has it."""

from __future__ import annotations

from ds4.core import components
from ds4.server.request import Body
from ds4.server.surfaces import request_tapes
from ds4.server.surfaces.asked import Asked, Model, Surface


def read(surface: Surface, body: Body, model: Model) -> Asked:
    """What a whole body asks for; ApiError for one that is refused."""
    pick = components.pick("request", python=request_tapes.replacement, oracle=request_tapes.by_oracle)
    return pick(surface, body, model)
