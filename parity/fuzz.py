"""The differential fuzz: generated inputs to both sides, and a difference shrunk to its smallest form.

Most inputs come straight from a seeded generator: hypothesis costs several times what a component does. It makes the
first ones, remembers failures in its database and replays them, and shrinks whatever either of them finds.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
import unittest
from collections.abc import Callable
from dataclasses import dataclass, field

import hypothesis
from hypothesis import HealthCheck, Phase
from hypothesis.database import (
    DirectoryBasedExampleDatabase,
    ExampleDatabase,
    InMemoryExampleDatabase,
    choices_to_bytes,
)
from hypothesis.errors import NoSuchExample

from parity.component import Component
from parity.deviations import Deviation, covering
from parity.registry import workspace
from parity.runner import Disagreement, sides

BY_HYPOTHESIS = 250
"""Examples of each run that hypothesis makes itself."""

STEP = 5_000
"""Examples between two words of progress."""

SHRINKS = 1_000
"""Most inputs that a shrinking tries."""


@dataclass
class Outcome:
    """examples: inputs compared, those of the shrinking left out. deviations: ids of those that explained one."""

    examples: int = 0
    explained: int = 0
    seconds: float = 0.0
    disagreement: Disagreement | None = None
    deviations: set[str] = field(default_factory=set)


def fuzz(
    component: Component,
    examples: int,
    seed: int,
    *,
    deviations: tuple[Deviation, ...] = (),
    progress: Callable[[int], None] = lambda done: None,
) -> Outcome:
    """Compares both sides on `examples` inputs that follow from `seed`. Ends at the first unexplained difference."""
    start, inputs = time.perf_counter(), component.inputs
    search = _Search(component, deviations)
    outcome = search.outcome
    if not search.replay():
        search.generate(min(BY_HYPOTHESIS, examples), seed)
    chance = random.Random(f"{seed} {component.name}")
    while not search.found and outcome.examples < examples:
        data = chance.randbytes(chance.randint(inputs.least, inputs.most))
        if search.fails(data):
            search.shrink(data)
        outcome.examples += 1
        if outcome.examples % STEP == 0:
            progress(outcome.examples)
    outcome.disagreement = search.found[-1] if search.found else None
    outcome.seconds = time.perf_counter() - start
    return outcome


class _Search:
    """found: the differences met, each smaller than the one before. tried: inputs since that was last set."""

    def __init__(self, component: Component, deviations: tuple[Deviation, ...]) -> None:
        self.component, self.deviations = component, deviations
        self.both = sides(component)
        self.key = component.name.encode()
        self.database = _database(component)
        self.outcome = Outcome()
        self.found: list[Disagreement] = []
        self.smallest = b""
        self.tried = 0

    def fails(self, data: bytes) -> bool:
        self.tried += 1
        difference = self.both.compare(self.component.inputs.make(data))
        if difference is None:
            return False
        if covered := covering(self.deviations, difference):
            self.outcome.explained += 1
            self.outcome.deviations.add(covered.id)
            return False
        self.found.append(difference)
        self.smallest = data
        return True

    def replay(self) -> bool:
        """Tries what failed before, and shrinks it."""
        self._find(None, self.database, SHRINKS, (Phase.reuse, Phase.shrink))
        return bool(self.found)

    def generate(self, examples: int, seed: int) -> None:
        """Tries hypothesis's own inputs. Given a seed it leaves its database alone, so the failure is kept here."""
        self.tried = 0
        self._find(random.Random(seed), None, max(1, examples), (Phase.generate, Phase.shrink))
        self.outcome.examples += min(self.tried, examples)
        if self.found:
            self.database.save(self.key, choices_to_bytes((self.smallest,)))

    def shrink(self, data: bytes) -> None:
        """Makes the failing input the database's, and replays it from there.

        hypothesis takes what its database holds for smallest already, unless it reads fewer choices than the entry has:
        so the entry gets one too many.
        """
        entry = choices_to_bytes((data, 0))
        self.database.save(self.key, entry)
        self.replay()
        self.database.delete(self.key, entry)
        self.database.save(self.key, choices_to_bytes((self.smallest,)))

    def _find(
        self, chance: random.Random | None, database: ExampleDatabase | None, examples: int, phases: tuple[Phase, ...]
    ) -> None:
        settings = hypothesis.settings(
            max_examples=examples,
            database=database,
            deadline=None,
            derandomize=False,
            print_blob=False,
            report_multiple_bugs=False,
            verbosity=hypothesis.Verbosity.quiet,
            suppress_health_check=list(HealthCheck),
            phases=phases,
        )
        choices = self.component.inputs.choices
        # Its last failing call is the smallest one: it ends by calling it again. It skips when nothing is to replay.
        with contextlib.suppress(NoSuchExample, unittest.SkipTest):
            hypothesis.find(choices, self.fails, settings=settings, random=chance, database_key=self.key)


def _database(component: Component) -> ExampleDatabase:
    """Failures are kept in the checkout's .dev, so that the next run tries them first; a sandbox keeps none."""
    folder = workspace() / ".dev" / "hypothesis" / component.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return InMemoryExampleDatabase()
    return DirectoryBasedExampleDatabase(folder) if os.access(folder, os.W_OK) else InMemoryExampleDatabase()
