"""The gate: proves again what has changed, remembers what has not, and says of each component whether it stands.

green   goldens, fuzz and speed hold, and the campaign in the repository is about these very files
yellow  they hold, but the campaign is about other files, or the component is not promoted; a release is refused
red     a side differs from a golden or from the other side, is too slow, or a deviation has expired
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ds4.core.components import State, ledger

from parity import deviations, evidence, golden_files, registry, speed, workers
from parity.component import AXES, Axis, Component
from parity.deviations import Deviation
from parity.digest import digest
from parity.evidence import Evidence, Fuzz, Goldens
from parity.fuzz import fuzz
from parity.registry import GateError
from parity.registry import components as registered
from parity.runner import Disagreement, check_goldens
from parity.runner import golden_files as golden_files_of

EXAMPLES = 5_000
"""Of the gate's own short fuzz."""

CAMPAIGN_EXAMPLES = 200_000
"""Below which a campaign is none."""

Verdict = Literal["green", "yellow", "red"]
Mark = Literal["pass", "fail", "kept", ""]


@dataclass
class Finding:
    """The gate's word on one component.

    marks: by axis; "kept" is a pass remembered for the same digest, "" an axis that the component cannot affect.
    notes: what makes it yellow. faults: what makes it red, each with the command that shows it.
    """

    component: Component
    state: State
    digest: str
    proof: Evidence
    campaign: Evidence | None
    fresh: bool
    marks: dict[Axis, Mark] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    faults: list[tuple[str, str]] = field(default_factory=list)
    differences: list[Disagreement] = field(default_factory=list)

    @property
    def verdict(self) -> Verdict:
        return "red" if self.faults else "yellow" if self.notes else "green"


@dataclass(frozen=True)
class Plan:
    """What to do. full: prove everything, whatever is remembered. seed: of the fuzz."""

    full: bool = False
    examples: int = EXAMPLES
    seed: int = 1
    speed: bool = True
    jobs: int = os.cpu_count() or 1


@dataclass(frozen=True)
class _Proven:
    goldens: Goldens
    differences: list[Disagreement]
    fuzz: Fuzz | None


def judge(chosen: Sequence[Component], plan: Plan, say: Callable[[str], None] = lambda text: None) -> list[Finding]:
    """Findings in the order of `chosen`. say: progress, one line each."""
    accepted = deviations.read()
    _listed(accepted)
    digests = {c.name: digest(c) for c in chosen}
    known = {c.name: _known(c, digests[c.name], plan) for c in chosen}
    work = [c for c in chosen if plan.full or known[c.name] is None]
    rest = [c for c in chosen if c not in work]
    if work:
        say(f"proving {', '.join(c.name for c in work)}: goldens and {plan.examples:,} examples each")
    if rest:
        say(f"unchanged since they were proven: {', '.join(c.name for c in rest)}")
    proven = _prove(work, plan, accepted, say)
    kept_speed = {c.name: e.speed for c in chosen if (e := evidence.kept(c.name)) is not None and e.speed is not None}
    timed = [c for c in work if "performance" in c.axes] if plan.speed else []
    if timed:
        say("measuring both sides")
    measured = speed.judged(timed, kept_speed)
    findings = []
    for component in chosen:
        name = component.name
        finding = _finding(component, digests[name], known[name], proven.get(name), measured.get(name), plan)
        findings.append(finding)
        if name in proven and not finding.faults:
            evidence.remember(finding.proof)
    _expired(findings, accepted)
    return findings


def _listed(accepted: tuple[Deviation, ...]) -> None:
    """GateError for a name in the ledger or the deviations that no component has: it would change nothing, unseen."""
    every = registered()
    for file, names in (
        ("parity/ledger.toml", set(ledger())),
        ("parity/deviations.toml", {d.component for d in accepted}),
    ):
        if wrong := sorted(names - set(every)):
            raise GateError("no such component", subject=file, expected=", ".join(every), found=", ".join(wrong))


def _known(component: Component, now: str, plan: Plan) -> Evidence | None:
    """What was already proven about these very files, here or by the campaign in the repository: at least as much as
    the plan asks for. A run with fewer examples, or without speed, is no proof for one with them."""
    for record in (evidence.remembered(component.name), evidence.kept(component.name)):
        if record is None or record.digest != now or record.goldens is None or record.goldens.failed:
            continue
        if plan.examples and (record.fuzz is None or record.fuzz.disagreements or record.fuzz.examples < plan.examples):
            continue
        if plan.speed and "performance" in component.axes and record.speed is None:
            continue
        return record
    return None


def _prove(
    work: Sequence[Component], plan: Plan, accepted: tuple[Deviation, ...], say: Callable[[str], None]
) -> dict[str, _Proven]:
    if plan.jobs < 2 or len(work) < 2:
        return {c.name: _prove_one(c.name, plan, accepted) for c in work}
    results = {}
    with workers.pool(min(plan.jobs, len(work))) as pool:
        waiting = {c.name: pool.submit(_prove_one, c.name, plan, accepted) for c in work}
        for name, future in waiting.items():
            results[name] = future.result()
            say(f"  {name}: {_summary(results[name])}")
    return results


def _summary(proven: _Proven) -> str:
    text = f"{proven.goldens.cases:,} goldens"
    if proven.fuzz is not None:
        text += f", {proven.fuzz.examples:,} examples in {proven.fuzz.seconds:.1f} s"
    return text + (f", {len(proven.differences)} differ" if proven.differences else "")


def _prove_one(name: str, plan: Plan, accepted: tuple[Deviation, ...]) -> _Proven:
    component = registered()[name]
    _readable(component)
    cases, differences = check_goldens(component)
    unexplained = [d for d in differences if deviations.covering(accepted, d) is None]
    goldens = Goldens(len(golden_files_of(component)), cases, len(unexplained))
    ran = None
    if plan.examples:
        outcome = fuzz(component, plan.examples, plan.seed, deviations=accepted)
        found = outcome.disagreement
        ran = Fuzz(outcome.examples, round(outcome.seconds, 2), plan.seed, int(found is not None), outcome.explained)
        if found is not None:
            unexplained.append(found)
    return _Proven(goldens, unexplained, ran)


def _readable(component: Component) -> None:
    """GateError or GoldenFileError for a golden that is not of its form, with its file and line."""
    for path in golden_files_of(component):
        name = path.relative_to(registry.ROOT).as_posix()
        try:
            golden_files.rows(name, path.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise GateError(f"cannot be read: {error}", subject=name) from None


def _finding(
    component: Component,
    now: str,
    known: Evidence | None,
    proven: _Proven | None,
    measured: tuple[evidence.SpeedResult, str] | None,
    plan: Plan,
) -> Finding:
    name, campaign = component.name, evidence.kept(component.name)
    entry = ledger().get(name)
    if proven is not None:
        command = f"./dev gate {name} --full"
        proof = Evidence(
            name, now, evidence.today(), command, evidence.machine(), proven.goldens, proven.fuzz,
            speed=measured[0] if measured else None,
        )  # fmt: skip
    else:
        assert known is not None
        proof = known
    fresh = campaign is not None and campaign.digest == now and is_campaign(campaign)
    finding = Finding(component, entry.state if entry else "unlisted", now, proof, campaign, fresh)
    differences = proven.differences if proven is not None else []
    finding.differences = differences
    for found in differences:
        finding.faults.append(_fault(found, plan))
    if proven is not None and proven.goldens.cases == 0:
        finding.faults.append(("the component has no goldens", f"ls goldens/{name}"))
    if measured is not None and measured[1]:
        finding.faults.append((f"too slow: {measured[1]}", f"./dev gate {name} --full"))
    for axis in AXES:
        if axis not in component.axes:
            finding.marks[axis] = ""
        elif axis == "performance":
            finding.marks[axis] = "kept" if measured is None else "fail" if measured[1] else "pass"
        else:
            finding.marks[axis] = "kept" if proven is None else "fail" if differences else "pass"
    if not component.native and finding.state not in ("promoted", "retired"):
        finding.notes.append(f"not promoted: {finding.state}")
    if campaign is None:
        finding.notes.append("no campaign yet")
    elif not fresh:
        finding.notes.append(f"the campaign of {campaign.date[:10]} is about other files")
    return finding


def is_campaign(record: Evidence) -> bool:
    """Whether a record is that of a whole campaign, with nothing unexplained in it."""
    return (
        record.goldens is not None
        and record.goldens.failed == 0
        and record.goldens.cases > 0
        and record.fuzz is not None
        and record.fuzz.disagreements == 0
        and record.fuzz.examples >= CAMPAIGN_EXAMPLES
        and record.soak is not None
        and record.soak.disagreements == 0
    )


def _fault(found: Disagreement, plan: Plan) -> tuple[str, str]:
    if found.golden:
        what = f"{found.golden}: {found.case}"
        return (
            f"{what}\n{found.summary()}",
            f"./dev gate show {found.component} --golden {found.golden} --case {shlex.quote(found.case)}",
        )
    reproduce = f"./dev gate {found.component} --full --examples {plan.examples} --seed {plan.seed}"
    return f"the sides differ on a generated input of {len(found.tape)} bytes\n{found.summary()}", reproduce


def _expired(findings: Sequence[Finding], accepted: tuple[Deviation, ...]) -> None:
    for finding in findings:
        for deviation in accepted:
            if deviation.component == finding.component.name and deviation.expired:
                text = f"deviation {deviation.id} of {deviation.owner} ended on {deviation.expires}: {deviation.reason}"
                finding.faults.append((text, "$EDITOR parity/deviations.toml"))
