"""The mutation check: would the gate notice? Plants faults, one at a time, into the Python replacements.

    ./dev gate mutate [NAME ...]     tries the faults of parity/mutations.toml (of these components)

Each fault is a text that stands once in a file and what it is replaced by. A trial (parity.trial) runs on a copy of the
tree that holds the fault: goldens, then the gate's short fuzz, up to the first difference. A fault that nothing sees
has escaped; an equivalent one, which no input can show, does not belong in the list. One that breaks an import needs no
gate to be noticed: it counts as escaped, so that it is replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ds4.sys import oracles

from parity.fuzz import BY_HYPOTHESIS
from parity.registry import ROOT, GateError, chosen
from parity.trial import BROKEN

FILE = "parity/mutations.toml"
AIM = 0.95
"""Of the faults that the gate must catch."""
PATIENCE = 600
"""Seconds of a trial; a fault that never comes back is noticed too."""


@dataclass(frozen=True)
class Mutation:
    """One fault. file: from the repository's root. find: stands there once."""

    component: str
    fault: str
    file: str
    find: str
    replace: str

    @property
    def name(self) -> str:
        return f"{self.component}: {self.fault}"


@dataclass(frozen=True)
class Trial:
    """What a trial saw of a fault. golden, fuzz: the first difference that each met, "" for none. broken: why the fault
    cannot even be imported."""

    mutation: Mutation
    golden: str
    fuzz: str
    broken: str = ""

    @property
    def caught(self) -> bool:
        return bool(self.golden or self.fuzz)

    @property
    def how(self) -> str:
        """One line."""
        if self.broken:
            return f"BROKEN ({self.broken})"
        met = [f"{by} ({text.partition(chr(10))[0]})" for by, text in (("golden", self.golden), ("fuzz", self.fuzz))
               if text]  # fmt: skip
        return f"caught by {' and '.join(met)}" if met else "ESCAPED"


def read() -> list[Mutation]:
    """All of them. GateError for one whose text does not stand once in its file."""
    raw = tomllib.loads((ROOT / FILE).read_text(encoding="utf-8"))
    found = []
    for row in raw.get("mutation", []):
        mutation = Mutation(**row)
        count = (ROOT / mutation.file).read_text(encoding="utf-8").count(mutation.find)
        if count != 1 or mutation.find == mutation.replace:
            raise GateError(
                f"a fault that cannot be planted in {mutation.file}",
                subject=mutation.name, expected="its text once", found=f"{count} times",
            )  # fmt: skip
        found.append(mutation)
    return found


def attempt(mutation: Mutation, examples: int, seed: int, both: bool = False) -> Trial:
    """Tries the fault's component on a tree that holds the fault."""
    with tempfile.TemporaryDirectory() as folder:
        tree = planted(mutation, Path(folder) / "ds4")
        elsewhere = [p for p in sys.path if p and Path(p).resolve() not in {ROOT.resolve(), (ROOT / "host").resolve()}]
        env = {
            **os.environ,
            **_places(),
            "PYTHONPATH": os.pathsep.join([str(tree / "host"), str(tree), *elsewhere]),
            "BUILD_WORKSPACE_DIRECTORY": str(tree),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [
            sys.executable, "-m", "parity.trial", mutation.component,
            "--examples", str(examples), "--seed", str(seed), *(["--both"] if both else []),
        ]  # fmt: skip
        try:
            done = subprocess.run(
                command, cwd=folder, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE
            )
        except subprocess.TimeoutExpired:
            return Trial(mutation, "", f"no end within {PATIENCE} s")
    last = done.stderr.strip().rpartition("\n")[2][:200]
    if done.returncode == BROKEN:
        return Trial(mutation, "", "", broken=last)
    if done.returncode:  # a gate would have stopped here too
        return Trial(mutation, "", f"exit status {done.returncode}: {last}")
    said = json.loads(done.stdout)
    return Trial(mutation, said["golden"], said["fuzz"])


def _places() -> dict[str, str]:
    """What was built and fetched, from wherever a trial runs."""
    places = {name: Path(value) for name, value in os.environ.items() if name.startswith("DS4_")}
    places.update([("DS4_ORACLES", path) for path in oracles.candidates() if path.is_file()][:1])
    return {name: str(path.absolute()) for name, path in places.items() if path.exists()}


def control(component: str, seed: int) -> None:
    """A trial without a fault. GateError if it meets a difference all the same: then no trial says anything."""
    found = attempt(Mutation(component, "no fault at all", "", "", ""), BY_HYPOTHESIS + 100, seed, both=True)
    if found.caught or found.broken:
        raise GateError("a trial without a fault does not pass", subject=component, found=found.how)


def planted(mutation: Mutation, tree: Path) -> Path:
    """A new tree, the checkout but for the fault."""
    tree.mkdir()
    for entry in ROOT.iterdir():
        if entry.name.startswith((".", "bazel-")):
            continue
        if entry.name in ("host", "parity"):
            # Real files: a link would lead the import system back to the tree without the fault.
            shutil.copytree(entry, tree / entry.name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            (tree / entry.name).symlink_to(entry.resolve())
    if not mutation.find:
        return tree
    file = tree / mutation.file
    text = file.read_text(encoding="utf-8").replace(mutation.find, mutation.replace)
    file.unlink()
    file.write_text(text, encoding="utf-8")
    return tree


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 when at least AIM of the faults are caught."""
    parser = argparse.ArgumentParser(
        "./dev gate mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--examples", type=int, default=5_000, help="of the fuzz, as the gate counts them")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--only", metavar="TEXT", default="", help="faults whose name has this text")
    parser.add_argument("--both", action="store_true", help="fuzz also what a golden has caught")
    args = parser.parse_args(arguments)
    wanted = {c.name for c in chosen(args.names)}
    mutations = [m for m in read() if m.component in wanted and args.only in m.name]
    if not mutations:
        raise GateError(f"no faults to plant: {FILE} has none for these components")
    trials: list[Trial] = []
    with ThreadPoolExecutor(args.jobs) as pool:
        list(pool.map(lambda name: control(name, args.seed), dict.fromkeys(m.component for m in mutations)))
        start = time.perf_counter()
        for trial in pool.map(lambda m: attempt(m, args.examples, args.seed, args.both), mutations):
            trials.append(trial)
            spent = time.perf_counter() - start
            print(f"[{len(trials)}/{len(mutations)}, {spent:.0f} s] {trial.mutation.name}: {trial.how}", flush=True)
    escaped = [t for t in trials if not t.caught]
    caught = len(trials) - len(escaped)
    by_golden, by_fuzz = sum(1 for t in trials if t.golden), sum(1 for t in trials if t.fuzz)
    print(f"{caught} of {len(trials)} caught ({caught / len(trials):.0%}): {by_golden} by goldens, {by_fuzz} by fuzz")
    for trial in escaped:
        print(f"escaped: {trial.mutation.name} ({trial.mutation.file})")
    return int(caught < AIM * len(trials))
