"""The differential fuzz: generated inputs to both sides, and a difference shrunk to its smallest form.

Most inputs come straight from a seeded generator: hypothesis costs several times what a component does. It makes the
first ones, remembers failures in its database and replays them, and shrinks whatever either of them finds.
"""

from __future__ import annotations

import os
import random
import time
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

from parity.component import Component, Input
from parity.deviations import Deviation, covering
from parity.registry import workspace
from parity.runner import Disagreement, sides

HYPOTHESIS_EXAMPLES = 250
"""Of each run that hypothesis makes itself."""

STEP = 5_000
"""Examples between two words of progress."""


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
    both, outcome = sides(component), Outcome()
    start = time.perf_counter()

    def differs(value: Input) -> Disagreement | None:
        found = both.compare(value)
        if found is not None and (covered := covering(deviations, found)):
            outcome.explained += 1
            outcome.deviations.add(covered.id)
            return None
        return found

    database = _database(component)
    outcome.disagreement = _hypothesis(component, differs, min(HYPOTHESIS_EXAMPLES, examples), seed, database, outcome)
    chance = random.Random(f"{seed} {component.name}")
    inputs = component.inputs
    while outcome.disagreement is None and outcome.examples < examples:
        data = chance.randbytes(chance.randint(inputs.least, inputs.most))
        outcome.examples += 1
        if differs(inputs.make(data)) is not None:
            outcome.disagreement = _shrunk(component, differs, data, database)
        elif outcome.examples % STEP == 0:
            progress(outcome.examples)
    outcome.seconds = time.perf_counter() - start
    return outcome


def _hypothesis(
    component: Component,
    differs: Callable[[Input], Disagreement | None],
    examples: int,
    seed: int,
    database: ExampleDatabase,
    outcome: Outcome,
) -> Disagreement | None:
    """Replays what failed before, then tries new inputs; the smallest that fails, if any."""
    found: list[Disagreement] = []
    tried = 0

    def fails(value: Input) -> bool:
        nonlocal tried
        tried += 1
        if (difference := differs(value)) is not None:
            found.append(difference)
        return difference is not None

    _find(component, fails, examples, seed, database)
    outcome.examples += min(tried, examples)
    return found[-1] if found else None


def _shrunk(
    component: Component,
    differs: Callable[[Input], Disagreement | None],
    data: bytes,
    database: ExampleDatabase,
) -> Disagreement:
    """The smallest failing input that hypothesis reaches from this one, which stays in the database."""
    first = differs(component.inputs.make(data))
    assert first is not None
    smallest = [first]

    def fails(value: Input) -> bool:
        if (difference := differs(value)) is not None:
            smallest.append(difference)
        return difference is not None

    database.save(_key(component), choices_to_bytes((data,)))
    _find(component, fails, 1, 0, database)
    return smallest[-1]


def _find(
    component: Component, fails: Callable[[Input], bool], examples: int, seed: int, database: ExampleDatabase
) -> None:
    settings = hypothesis.settings(
        max_examples=max(1, examples),
        database=database,
        deadline=None,
        derandomize=False,
        print_blob=False,
        report_multiple_bugs=False,
        verbosity=hypothesis.Verbosity.quiet,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.reuse, Phase.generate, Phase.shrink),
    )
    try:
        # The last failing call is the smallest one: find ends by calling it once more.
        hypothesis.find(
            component.inputs.strategy,
            fails,
            settings=settings,
            random=random.Random(seed),
            database_key=_key(component),
        )
    except NoSuchExample:
        return


def _key(component: Component) -> bytes:
    return component.name.encode()


def _database(component: Component) -> ExampleDatabase:
    """Failures are kept in the checkout's .dev, so that the next run tries them first; a sandbox keeps none."""
    folder = workspace() / ".dev" / "hypothesis" / component.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return InMemoryExampleDatabase()
    return DirectoryBasedExampleDatabase(folder) if os.access(folder, os.W_OK) else InMemoryExampleDatabase()
