"""Shrinks a difference that the seeded generator met.

hypothesis takes what its database holds for smallest already, unless it reads fewer choices than the entry has: so the
entry gets one too many, and is replayed.
"""

from __future__ import annotations

from hypothesis.database import choices_from_bytes, choices_to_bytes

from parity.component import Component
from parity.deviations import Deviation
from parity.fuzz import _Search
from parity.runner import Disagreement


def shrunk(component: Component, found: Disagreement, deviations: tuple[Deviation, ...] = ()) -> Disagreement:
    """The smallest difference that hypothesis reaches from what the fuzz has left in the database; `found` itself where
    there is no database (a sandbox)."""
    search = _Search(component, deviations)
    for entry in list(search.database.fetch(search.key)):
        choices = choices_from_bytes(entry)
        if choices:
            search.database.delete(search.key, entry)
            search.database.save(search.key, choices_to_bytes((choices[0], 0)))
    search.replay()
    return search.found[-1] if search.found else found
