"""The mutation check: would the gate notice? Plants faults, one at a time, into the Python replacements.

    ./dev gate mutate [NAME ...]     tries the faults of parity/mutations.toml (of these components)

Each fault is a text that stands once in a file and what it is replaced by. The gate runs on a copy of the tree that
holds the fault: goldens and its short fuzz, nothing remembered. A fault that the gate lets through has escaped; an
equivalent one, which no input can show, does not belong in the list.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from parity.registry import ROOT, GateError, chosen

FILE = "parity/mutations.toml"
AIM = 0.95
"""Of the faults that the gate must catch."""


@dataclass(frozen=True)
class Mutation:
    """One fault. file: from the repository's root. find: stands there once."""

    component: str
    fault: str
    file: str
    find: str
    replace: str


@dataclass(frozen=True)
class Trial:
    """What the gate said with the fault in place. how: what it was caught by, its first fault's first line."""

    mutation: Mutation
    caught: bool
    how: str


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
                subject=f"{mutation.component}: {mutation.fault}", expected="its text once", found=f"{count} times",
            )  # fmt: skip
        found.append(mutation)
    return found


def attempt(mutation: Mutation, examples: int, seed: int) -> Trial:
    """Runs the gate of the fault's component on a tree that holds the fault."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "ds4"
        tree.mkdir()
        for entry in ROOT.iterdir():
            if entry.name.startswith((".", "bazel-")):
                continue
            if entry.name in ("host", "parity"):
                # Real files: a link would lead the import system back to the tree without the fault.
                shutil.copytree(entry, tree / entry.name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                (tree / entry.name).symlink_to(entry.resolve())
        file = tree / mutation.file
        text = file.read_text(encoding="utf-8").replace(mutation.find, mutation.replace)
        file.unlink()
        file.write_text(text, encoding="utf-8")
        report = Path(folder) / "report"
        elsewhere = [p for p in sys.path if p and Path(p).resolve() not in {ROOT.resolve(), (ROOT / "host").resolve()}]
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(tree / "host"), str(tree), *elsewhere]),
            "BUILD_WORKSPACE_DIRECTORY": str(tree),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            [
                sys.executable, "-m", "parity", mutation.component, "--full", "--no-speed", "--jobs", "1",
                "--examples", str(examples), "--seed", str(seed), "--report", str(report),
            ],
            cwd=folder, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        if (report / "gate.json").is_file():
            faults = json.loads((report / "gate.json").read_text(encoding="utf-8"))["components"][0]["faults"]
            return Trial(mutation, bool(faults), faults[0]["text"].partition("\n")[0] if faults else "")
        # The gate itself could not run, which nobody would overlook either.
        return Trial(mutation, done.returncode != 0, done.stderr.strip().rpartition("\n")[2][:200])


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 when at least AIM of the faults are caught."""
    parser = argparse.ArgumentParser(
        "./dev gate mutate", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--examples", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args(arguments)
    wanted = {c.name for c in chosen(args.names)}
    mutations = [m for m in read() if m.component in wanted]
    if not mutations:
        raise GateError(f"no faults to plant: {FILE} has none for these components")
    escaped: list[Trial] = []
    with ThreadPoolExecutor(args.jobs) as pool:
        for done, trial in enumerate(pool.map(lambda m: attempt(m, args.examples, args.seed), mutations), start=1):
            if not trial.caught:
                escaped.append(trial)
            verdict = f"caught by {trial.how}" if trial.caught else "ESCAPED"
            print(
                f"[{done}/{len(mutations)}] {trial.mutation.component}: {trial.mutation.fault}: {verdict}", flush=True
            )
    caught = len(mutations) - len(escaped)
    print(f"{caught} of {len(mutations)} caught ({caught / len(mutations):.0%})")
    for trial in escaped:
        print(f"escaped: {trial.mutation.component}: {trial.mutation.fault} ({trial.mutation.file})")
    return int(caught < AIM * len(mutations))
