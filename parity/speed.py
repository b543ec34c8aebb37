"""The performance axis: what a typical request costs the replacement and its oracle, measured in one run.

The measuring is pytest-benchmark's, over parity/benchmarks; absolute times mean nothing on a shared machine, so what is
judged is the ratio of the two sides, or a time so small that nobody waits for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from parity.component import Component
from parity.evidence import SpeedResult
from parity.registry import ROOT, GateError

ROUNDS = 3
"""Measurements of a component that fails, before it is believed, and of each in a campaign. The least of each side
counts: noise only ever makes one slower."""

SLOWDOWN = 2.0
"""Against the ratio of its last campaign, from which a replacement that is not cheap counts as a regression."""


def measure(components: Sequence[Component]) -> dict[str, SpeedResult]:
    """Both sides of each component."""
    if not components:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "benchmarks.json"
        names = ",".join(c.name for c in components)
        done = subprocess.run(
            [
                sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
            "-o",
            "addopts=", "-c", str(ROOT / "pytest.ini"),
                f"--rootdir={ROOT}", str(ROOT / "parity" / "benchmarks" / "bench_components.py"), "--benchmark-only",
                "--benchmark-disable-gc", f"--benchmark-json={report}", "--benchmark-warmup=on",
                "--benchmark-warmup-iterations=3", "--benchmark-min-rounds=10", "--benchmark-max-time=0.2",
            ],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p), "DS4_BENCH_COMPONENTS": names},
            capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if done.returncode != 0:
            raise GateError(f"the benchmarks failed:\n{done.stdout[-4000:]}{done.stderr[-2000:]}")
        raw = json.loads(report.read_text(encoding="utf-8"))
    least: dict[str, float] = {row["name"]: row["stats"]["min"] * 1e6 for row in raw["benchmarks"]}
    return {
        c.name: SpeedResult(least[f"test_a_request[{c.name}-replacement]"], least[f"test_a_request[{c.name}-oracle]"])
        for c in components
    }


def _least(one: SpeedResult, other: SpeedResult) -> SpeedResult:
    return SpeedResult(min(one.replacement_us, other.replacement_us), min(one.oracle_us, other.oracle_us))


def slow(component: Component, now: SpeedResult, then: SpeedResult | None) -> str:
    """Why the replacement is too slow; empty when it is not. then: its last campaign's measurement."""
    speed = component.speed
    if now.replacement_us > speed.micros and now.ratio > speed.ratio:
        limit = f"at most {speed.micros:.0f} µs or {speed.ratio:g}x"
        return f"{now.replacement_us:.0f} µs and {now.ratio:.1f}x its oracle; {limit}"
    if then is not None and now.replacement_us > speed.micros and now.ratio > SLOWDOWN * then.ratio:
        return f"{now.ratio:.2f}x its oracle; {then.ratio:.2f}x at its campaign"
    return ""


def judged(
    components: Sequence[Component], kept: dict[str, SpeedResult], *, thorough: bool = False
) -> dict[str, tuple[SpeedResult, str]]:
    """Each component's measurement with why it fails (empty: it does not). One that fails is measured again; thorough:
    each is."""
    results: dict[str, tuple[SpeedResult, str]] = {}
    left = list(components)
    for _ in range(ROUNDS):
        for name, now in measure(left).items():
            component = next(c for c in left if c.name == name)
            if name in results:
                now = _least(now, results[name][0])
            results[name] = now, slow(component, now, kept.get(name))
        left = [c for c in left if thorough or results[c.name][1]]
    return results
