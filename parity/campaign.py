"""The campaign: the long fuzz and the soak whose evidence a promotion asks for."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

from parity import deviations, evidence, soak, speed, workers
from parity.component import Component
from parity.digest import digest
from parity.evidence import Evidence, Fuzz, Goldens, Soak
from parity.fuzz import STEP, fuzz
from parity.gate import CAMPAIGN_EXAMPLES, is_campaign
from parity.registry import components as registered
from parity.runner import Disagreement, check_goldens, golden_files


@dataclass(frozen=True)
class Plan:
    """soak_seconds: of all chosen components together, each process its share of them."""

    examples: int = CAMPAIGN_EXAMPLES
    soak_seconds: float = 300.0
    seed: int | None = None
    jobs: int = os.cpu_count() or 1


@dataclass(frozen=True)
class Result:
    """evidence: as it was written; None when the component failed, with the differences that it failed by."""

    evidence: Evidence | None
    differences: list[Disagreement]
    reason: str = ""


def run(chosen: Sequence[Component], plan: Plan, say: Callable[[str], None]) -> dict[str, Result]:
    """Runs goldens, fuzz and soak of each component, and writes the evidence of those that hold into the checkout.

    say: progress, one line each. The digest is taken first and again at the end: a file that changes under a campaign
    voids it.
    """
    seed = plan.seed if plan.seed is not None else random.SystemRandom().randrange(1 << 31)
    digests = {c.name: digest(c) for c in chosen}
    results: dict[str, Result] = {}
    proven: dict[str, tuple[Goldens, Fuzz]] = {}
    say(f"campaign over {len(chosen)} components: {plan.examples:,} examples each, seed {seed}, {plan.jobs} processes")
    start = time.monotonic()
    with workers.pool(plan.jobs) as pool:
        parts = {c.name: _chunks(plan.examples, seed) for c in chosen}
        futures: dict[Future[tuple[Goldens | None, Fuzz, list[Disagreement]]], str] = {}
        for c in chosen:
            for i, (count, first) in enumerate(parts[c.name]):
                futures[pool.submit(_part, c.name, count, first, i == 0)] = c.name
        gathered: dict[str, list[tuple[Goldens | None, Fuzz, list[Disagreement]]]] = {c.name: [] for c in chosen}
        waiting = set(futures)
        while waiting:
            done, waiting = wait(waiting, return_when="FIRST_COMPLETED")
            for future in done:
                name = futures[future]
                if (error := future.exception()) is not None:
                    results[name] = Result(None, [], f"{type(error).__name__}: {error}")
                    continue
                gathered[name].append(future.result())
                if len(gathered[name]) == len(parts[name]):
                    say(f"  {(time.monotonic() - start) / 60:5.1f} min  {_fuzzed(name, gathered[name])}")
        for c in [c for c in chosen if c.name not in results]:
            goldens = next(g for g, _, _ in gathered[c.name] if g is not None)
            differences = [d for _, _, found in gathered[c.name] for d in found]
            ran = [f for _, f, _ in gathered[c.name]]
            total = Fuzz(
                sum(f.examples for f in ran), round(sum(f.seconds for f in ran), 1), seed,
                sum(f.disagreements for f in ran), sum(f.explained for f in ran),
            )  # fmt: skip
            if differences:
                results[c.name] = Result(None, differences, "the sides differ, or a golden and a side")
            else:
                proven[c.name] = goldens, total
        living = [c for c in chosen if c.name in proven]
        say(f"soak of {len(living)} components, {plan.soak_seconds / 60:.1f} min")
        soaks = _soak(living, plan, seed, pool)
    timed = speed.judged([c for c in living if "performance" in c.axes], {}, thorough=True)
    for c in living:
        name, (tally, outcome) = c.name, soaks[c.name]
        if tally.disagreement is not None:
            results[name] = Result(None, [tally.disagreement], "the sides differ on a soak input")
            continue
        if name in timed and timed[name][1]:
            results[name] = Result(None, [], f"too slow: {timed[name][1]}")
            continue
        if _digest_now(c) != digests[name]:
            results[name] = Result(None, [], "its files changed under the campaign")
            continue
        goldens, ran_fuzz = proven[name]
        record = Evidence(
            name, digests[name], evidence.today(), f"./dev gate campaign {name} --seed {seed}",
            evidence.machine(), goldens, ran_fuzz,
            Soak(tally.inputs, tally.nbytes, round(outcome.seconds, 1), seed, 0, round(outcome.rss_drift_percent, 3)),
            timed[name][0] if name in timed else None,
        )  # fmt: skip
        if plan.examples >= CAMPAIGN_EXAMPLES and is_campaign(record):
            evidence.keep(record)
        results[name] = Result(record, [])
    return results


def _chunks(examples: int, seed: int) -> list[tuple[int, int]]:
    """(examples, seed of the first) of each part, so that no two parts share a seed."""
    size = 4 * STEP
    count = -(-examples // size)
    return [(min(size, examples - i * size), seed + 1000 * i) for i in range(count)]


def _part(name: str, examples: int, seed: int, first: bool) -> tuple[Goldens | None, Fuzz, list[Disagreement]]:
    component, accepted = registered()[name], deviations.read()
    goldens, found = None, []
    if first:
        cases, differences = check_goldens(component)
        found = [d for d in differences if deviations.covering(accepted, d) is None]
        goldens = Goldens(len(golden_files(component)), cases, len(found))
    outcome = fuzz(component, examples, seed, deviations=accepted)
    if outcome.disagreement is not None:
        found.append(outcome.disagreement)
    differs = int(outcome.disagreement is not None)
    return goldens, Fuzz(outcome.examples, outcome.seconds, seed, differs, outcome.explained), found


def _fuzzed(name: str, parts: Sequence[tuple[Goldens | None, Fuzz, list[Disagreement]]]) -> str:
    examples = sum(f.examples for _, f, _ in parts)
    differ = sum(len(found) for _, _, found in parts)
    return f"{name}: {examples:,} examples, " + (f"{differ} DIFFER" if differ else "no difference")


def _soak(
    living: Sequence[Component], plan: Plan, seed: int, pool: ProcessPoolExecutor
) -> dict[str, tuple[soak.Tally, soak.Outcome]]:
    """Each process soaks its share of the components, mixed."""
    shares = [living[i :: plan.jobs] for i in range(plan.jobs) if living[i :: plan.jobs]]
    futures = [pool.submit(_soak_share, [c.name for c in share], plan.soak_seconds, seed) for share in shares]
    outcomes = [future.result() for future in futures]
    return {name: (tally, outcome) for outcome in outcomes for name, tally in outcome.tallies.items()}


def _soak_share(names: list[str], seconds: float, seed: int) -> soak.Outcome:
    return soak.soak([registered()[n] for n in names], seconds, seed, deviations=deviations.read())


def _digest_now(component: Component) -> str:
    from parity import digest as module

    module._hash.cache_clear()
    return digest(component)
