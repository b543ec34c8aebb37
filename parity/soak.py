"""The soak of the components: large inputs to all of them, mixed, for minutes.

Differences fail it. How much memory grew is recorded, not judged: what a component remembers of its inputs is bounded
but may fill for longer than this lasts. The live soak, which fills it first, judges growth.
"""

from __future__ import annotations

import gc
import os
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from parity.component import Component, split
from parity.deviations import Deviation, covering
from parity.runner import Disagreement, sides

WARM_UP = 0.25
"""Part of the time after which the process is as large as it should ever be."""


@dataclass
class Tally:
    inputs: int = 0
    nbytes: int = 0
    explained: int = 0
    disagreement: Disagreement | None = None


@dataclass
class Outcome:
    seconds: float
    seed: int
    tallies: dict[str, Tally] = field(default_factory=dict)
    rss_drift_percent: float = 0.0


def resident_bytes() -> int:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def soak(
    components: Sequence[Component],
    seconds: float,
    seed: int,
    *,
    deviations: tuple[Deviation, ...] = (),
    progress: Callable[[float], None] = lambda part: None,
) -> Outcome:
    """Runs for `seconds`; the components take turns, each with inputs of its own random stream.

    A component that differs drops out with its disagreement; the others go on.
    """
    outcome = Outcome(seconds, seed, {c.name: Tally() for c in components})
    streams = {c.name: random.Random(f"{seed} {c.name}") for c in components}
    living = list(components)
    start = time.perf_counter()
    warm = 0
    while living and (now := time.perf_counter() - start) < seconds:
        for component in tuple(living):
            tally = outcome.tallies[component.name]
            value = component.soak(streams[component.name])
            tally.inputs += 1
            tally.nbytes += len(split(value)[1])
            found = sides(component).compare(value)
            if found is None:
                continue
            if covering(deviations, found):
                tally.explained += 1
                continue
            tally.disagreement = found
            living.remove(component)
        if warm == 0 and now >= WARM_UP * seconds:
            gc.collect()
            warm = resident_bytes()
        progress(now / seconds)
    gc.collect()
    if warm:
        outcome.rss_drift_percent = max(0.0, (resident_bytes() - warm) / warm * 100)
    outcome.seconds = time.perf_counter() - start
    return outcome
