"""What is verified of families and files: runs the checks and writes parity/qualified.toml.

    ./dev gate qualify                    every family, and the model files that the build has
    ./dev gate qualify qwen3 gemma3       these families
    ./dev gate qualify --model FILE       this file: loader, state and the four surfaces on its real weights
    ./dev gate qualify --peer FILE        takes the performance axis from what ./dev bench peers llama_cpp printed
    ./dev gate qualify --list             the table, and which checks passed on other sources than these

A line of the table is a check that passed in a run of this command, and nothing else makes one. A check that runs again
replaces what it had shown before, or takes it away where it fails; exit status 1 then.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.etree import ElementTree

from ds4.core import inventory, qualified
from ds4.core.qualified import AXES, Proof, Row

from parity import qualify_file
from parity.evidence import replace_file, today
from parity.ledger import quoted
from parity.proof import PROPERTY, Claim, parse
from parity.registry import ROOT, GateError, workspace

HEAD = """\
# What has been verified of each family and of single model files, and up to where. Written by `./dev gate qualify`,
# compiled into the package; the serving plan's `qualified` and `ds4 --identify` read it. host/ds4/core/qualified.py
# says what the fields are.
"""
SOURCES = ("native/**/*.[ch]", "host/ds4/core/families/*.py", "host/ds4/core/bind.py", "host/ds4/core/inventory.py")
FILES = ("DS4_EMBEDDED_MODEL", "DS4_MINI_MODEL", "DS4_GEMMA3_MODEL")
PEER = "bench/peers/llama_cpp"


@dataclass(frozen=True)
class Suite:
    """A file of tests that prove something. model: variable of the file whose weights they run."""

    path: str
    families: tuple[str, ...]
    model: str = ""


SUITES = (
    Suite("parity/tests/test_families.py", ("gemma3", "llama", "qwen2", "qwen3", "qwen3moe", "smollm3")),
    Suite("parity/tests/test_logits_deepseek4.py", ("deepseek4",), "DS4_MINI_MODEL"),
    Suite("parity/tests/test_logits.py", ("llama",), "DS4_EMBEDDED_MODEL"),
    Suite("parity/tests/test_logits_gemma3.py", ("gemma3",), "DS4_GEMMA3_MODEL"),
)


@dataclass
class Outcome:
    """claims: (evidence, claim). ran: (artifact, evidence) of what earlier proofs fall away for; artifact None: any."""

    claims: list[tuple[str, Claim]] = field(default_factory=list)
    ran: set[tuple[str | None, str]] = field(default_factory=set)
    failures: list[str] = field(default_factory=list)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def sources() -> str:
    """Digest of what a proof depends on: the engine and how families are bound to it."""
    total = hashlib.sha256()
    for path in sorted({p for pattern in SOURCES for p in ROOT.glob(pattern) if "tests" not in p.parts}):
        total.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


# ---- tests ----


def run_suite(suite: Suite) -> Outcome:
    """Runs the tests of a file that prove something, in a process of its own; they count when all of them passed."""
    outcome = Outcome(ran={(None, suite.path)})
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "--rootdir=.", "-p", "no:cacheprovider"]
        command += ["-p", "parity.proving"]
        paths = os.pathsep.join(path for path in sys.path if path)
        ran = subprocess.run(
            [*command, f"--junitxml={report}", suite.path],
            cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if ran.returncode != 0 or not report.exists():
            outcome.failures.append(f"{suite.path}: {ran.stdout[-1500:]}{ran.stderr[-500:]}")
            return outcome
        found = list(claims_of(report.read_bytes(), suite.path))
    if not found:
        raise GateError("its tests prove nothing", subject=suite.path, expected="a claim", found="none")
    outcome.claims += found
    return outcome


def claims_of(report: bytes, path: str) -> Iterable[tuple[str, Claim]]:
    """(evidence, claim) of each passed test of a JUnit report."""
    for case in ElementTree.fromstring(report).iter("testcase"):
        if any(case.find(bad) is not None for bad in ("failure", "error", "skipped")):
            continue
        evidence = f"{path}::{case.get('name', '').partition('[')[0]}"
        for prop in case.iter("property"):
            if prop.get("name") == PROPERTY:
                yield evidence, parse(prop.get("value", ""))


# ---- the peer ----

_LINE = re.compile(
    r"^(?P<test>prefill|decode|depth|server) (?P<kind>\S+) t=(?P<threads>\d+)(?P<rest> clients=8 total)? "
    r"ratio (?P<ratio>[\d.]+) ",
    re.M,
)
_DEPTH = {"prefill": 512, "decode": 128, "depth": 2048 + 128, "server": 0}


def peer_claims(text: str, paths: Sequence[Path]) -> Outcome:
    """The performance axis of the files that a comparison measured: its least ratio of rates is 1 or more."""
    outcome = Outcome()
    measured: dict[str, list[re.Match[str]]] = {}
    for match in _LINE.finditer(text):
        measured.setdefault(match["kind"], []).append(match)
    if not measured:
        raise GateError("holds no comparison", subject="--peer", expected="what ./dev bench peers llama_cpp prints")
    for kind, lines in measured.items():
        mine = [path for path in paths if path.stem == kind or path.stem.endswith(f".{kind}")]
        if not mine:
            say(f"{kind} was compared, and is none of the files here")
        for path in mine:
            outcome.ran.add((path.name, PEER))
            least = min(lines, key=lambda line: float(line["ratio"]))
            if float(least["ratio"]) < 1:
                outcome.failures.append(f"{path.name}: slower than the peer: {least[0].strip()}")
                continue
            tests = ", ".join(sorted({line["test"] for line in lines}))
            outcome.claims.append((PEER, Claim(
                "performance", qualify_file.family_of(path),
                f"tokens/s over llama.cpp's: {least['ratio']} at least ({least['test']}, of {tests})",
                artifact=str(path), numeric="ship", kv="f16", context=max(_DEPTH[line["test"]] for line in lines),
                banks=8 if any(line["test"] == "server" for line in lines) else 1,
            )))  # fmt: skip
    return outcome


# ---- the table ----


def merged(before: Sequence[Row], outcome: Outcome, day: str, digest: str) -> list[Row]:
    """The rows after this run: what did not run again stays."""

    def stands(row: Row, proof: Proof) -> bool:
        return not any(
            artifact in (None, row.artifact) and proof.evidence.partition("::")[0] == evidence
            for artifact, evidence in outcome.ran
        )

    table = {(row.family, row.artifact): row for row in before}
    for key, row in table.items():
        kept = {axis: tuple(p for p in proofs if stands(row, p)) for axis, proofs in row.proofs.items()}
        table[key] = replace(row, proofs={axis: proofs for axis, proofs in kept.items() if proofs})
    grouped: dict[tuple[str, ...], list[tuple[str, Claim]]] = {}
    for evidence, claim in outcome.claims:
        same = (claim.family, claim.artifact, claim.axis, evidence, claim.what, claim.numeric, claim.kv, claim.backend)
        grouped.setdefault(same, []).append((evidence, claim))
    for claims in grouped.values():
        evidence, worst = max(claims, key=lambda one: one[1].value or 0.0)
        proof = Proof(
            day, evidence, worst.figure, worst.backend, worst.numeric, worst.kv,
            max(claim.context for _, claim in claims), max(claim.banks for _, claim in claims), digest,
        )  # fmt: skip
        row = _row_for(table, worst)
        table[row.family, row.artifact] = replace(
            row, proofs={**row.proofs, worst.axis: (*row.proofs.get(worst.axis, ()), proof)}
        )
    return [table[key] for key in sorted(table) if table[key].proofs]


def _row_for(table: dict[tuple[str, str], Row], claim: Claim) -> Row:
    """The row that a claim belongs to. Other weights under a known name start afresh."""
    if not claim.artifact:
        return table.get((claim.family, ""), Row(claim.family, "", "", "", {}))
    path = Path(claim.artifact)
    mark = qualified.mark(inventory.load(path))
    known = table.get((claim.family, path.name))
    if known is not None and known.mark == mark:
        return known
    with path.open("rb") as file:
        return Row(claim.family, path.name, hashlib.file_digest(file, "sha256").hexdigest(), mark, {})


def dump(table: Sequence[Row]) -> str:
    out = [HEAD]
    for row in table:
        out.append("\n[[row]]\n")
        names = ("family", "artifact", "sha256", "mark")
        out += [f"{name} = {quoted(getattr(row, name))}\n" for name in names if getattr(row, name)]
        for axis in AXES:
            for proof in row.proofs.get(axis, ()):
                out.append(f"\n[[row.{axis}]]\n")
                for name, value in proof.json().items():
                    out.append(f"{name} = {quoted(value) if isinstance(value, str) else value}\n")
    return "".join(out)


def path() -> Path:
    return workspace() / "parity" / "qualified.toml"


def show(table: Sequence[Row], digest: str) -> str:
    lines = []
    for row in table:
        lines.append(f"{row.family}: {row.artifact or 'models drawn from a seed'}")
        for axis in AXES:
            for proof in row.proofs.get(axis, ()):
                mode = "/".join(filter(None, (proof.numeric, proof.kv)))
                bounds = f"context {proof.context}, banks {proof.banks}" if proof.context else ""
                old = "" if proof.sources == digest else "  [on other sources]"
                text = "  ".join(filter(None, (axis.ljust(11), proof.verified, mode, bounds, proof.figure)))
                lines.append(f"  {text}{old}")
        if missing := [axis for axis in AXES if axis not in row.proofs]:
            lines.append(f"  not verified: {', '.join(missing)}")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 when every check that ran passed."""
    parser = argparse.ArgumentParser(
        "./dev gate qualify", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--model", action="append", default=[], metavar="FILE", help="only the checks of this file")
    parser.add_argument("--peer", metavar="FILE", help="output of ./dev bench peers llama_cpp")
    parser.add_argument("--list", action="store_true", help="print the table and check nothing")
    args = parser.parse_args(arguments)
    digest = sources()
    before = qualified.read(path()) if path().exists() else ()
    if args.list:
        sys.stdout.write(show(before, digest))
        return 0
    known = {family for suite in SUITES for family in suite.families}
    if unknown := set(args.families) - known:
        raise GateError("no such family", subject=min(unknown), expected=", ".join(sorted(known)), found=min(unknown))
    caller = os.environ.get("DS4_CALLER_DIR") or os.environ.get("BUILD_WORKING_DIRECTORY") or "."
    models = [Path(caller, name).absolute() for name in args.model]
    present = [Path(os.environ[name]).absolute() for name in FILES if os.environ.get(name)]
    if args.peer:
        checks: Iterable[Outcome] = [
            peer_claims(Path(caller, args.peer).read_text(encoding="utf-8"), models or present)
        ]
    else:
        checks = _checks(args.families, models, present)
    table, failures = list(before), []
    for outcome in checks:  # written after each, so that what has passed stands when the rest is stopped
        table = merged(table, outcome, today()[:10], digest)
        replace_file(path(), dump(table))
        failures += outcome.failures
    sys.stdout.write(show(table, digest))
    for failure in failures:
        say(f"NOT VERIFIED: {failure}")
    return int(bool(failures))


def _checks(families: Sequence[str], models: Sequence[Path], present: Sequence[Path]) -> Iterator[Outcome]:
    for suite in SUITES:
        weights = os.environ.get(suite.model, "") if suite.model else ""
        if suite.model and not weights:
            say(f"{suite.path}: left out, {suite.model} names no file")
        elif models and not (weights and any(Path(weights).samefile(model) for model in models)):
            continue
        elif not families or set(families) & set(suite.families):
            say(f"{suite.path} ...")
            yield run_suite(suite)
    for model in models or present:
        if not families or qualify_file.family_of(model) in families:
            say(f"{model.name}: loader, state, api ...")
            for evidence, check in qualify_file.CHECKS.items():
                outcome = Outcome(ran={(model.name, evidence)})
                try:
                    outcome.claims += [(evidence, claim) for claim in check(model)]
                except qualify_file.FAILURES as error:
                    outcome.failures.append(f"{model.name}: {evidence}: {error}")
                yield outcome
