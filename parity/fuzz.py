"""The differential fuzz: hypothesis makes inputs, both sides answer, and a difference is shrunk."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.database import DirectoryBasedExampleDatabase

from parity.component import Component, Input
from parity.deviations import Deviation, covering
from parity.registry import workspace
from parity.runner import Disagreement, sides

CHUNK = 5_000
"""Examples of one hypothesis run. It remembers what it has tried, so a campaign is many runs, each with its seed."""


@dataclass
class Outcome:
    examples: int = 0
    explained: int = 0
    seconds: float = 0.0
    disagreement: Disagreement | None = None
    deviations: set[str] = field(default_factory=set)


class _Differs(Exception):
    def __init__(self, found: Disagreement) -> None:
        self.found = found
        super().__init__(found.summary())


def fuzz(
    component: Component,
    examples: int,
    seed: int,
    *,
    deviations: tuple[Deviation, ...] = (),
    progress: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """Compares both sides on `examples` inputs, the first seeded with `seed`. Ends at the first unexplained difference.

    A strategy whose whole space is smaller than asked for ends early, with fewer examples.
    """
    both, outcome = sides(component), Outcome()
    start = time.perf_counter()

    def compare(value: Input) -> None:
        outcome.examples += 1
        found = both.compare(value)
        if found is None:
            return
        if covered := covering(deviations, found):
            outcome.explained += 1
            outcome.deviations.add(covered.id)
            return
        raise _Differs(found)

    run = 0
    while outcome.examples < examples:
        before = outcome.examples
        try:
            _once(component, compare, min(CHUNK, examples - before), seed + run)
        except _Differs as error:
            outcome.disagreement = error.found
            break
        run += 1
        progress(outcome.examples)
        if outcome.examples == before:
            break
    outcome.seconds = time.perf_counter() - start
    return outcome


def _once(component: Component, compare: Callable[[Input], None], examples: int, seed: int) -> None:
    settings = hypothesis.settings(
        max_examples=examples,
        database=_database(component),
        deadline=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
    )
    hypothesis.seed(seed)(settings(hypothesis.given(component.inputs)(compare)))()


def _database(component: Component) -> DirectoryBasedExampleDatabase | None:
    """Failures are kept in the checkout's .dev, so that the next run tries them first; a sandbox keeps none."""
    folder = workspace() / ".dev" / "hypothesis" / component.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return DirectoryBasedExampleDatabase(folder) if os.access(folder, os.W_OK) else None
