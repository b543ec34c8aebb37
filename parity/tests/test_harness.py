"""The harness itself, on a component made for the purpose: it sees what differs, shrinks it, remembers, and refuses."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from ds4.core import components as ledger_module
from ds4.core.components import ledger

from parity import deviations, digest, evidence, gate, mutation, promotion, registry, runner, soak, speed
from parity.component import Component, Generated, Input, Run, Speed, plain
from parity.evidence import Evidence, Fuzz, Goldens, Soak, SpeedResult
from parity.fuzz import fuzz
from parity.registry import GateError
from parity.report import files
from parity.report.table import table
from parity.runner import Sides


def doubled(tape: bytes) -> bytes:
    return b"%d\n" % (2 * len(tape))


def wrong_from_ten(tape: bytes) -> bytes:
    """Doubles, but where the input is long."""
    return doubled(tape) if len(tape) < 10 else b"0\n"


class Toy(Sides):
    """Two Python functions as the sides."""

    def __init__(self, oracle: Run, replacement: Run, component: Component) -> None:
        super().__init__(component)
        self._made[""] = oracle, replacement


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty tree to judge, with a ledger, a golden and a source of the toy."""
    for module in (registry, digest, evidence, runner, deviations):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(digest, "HARNESS", ())
    monkeypatch.setattr(ledger_module, "_file", lambda: tmp_path / "parity/ledger.toml")
    for folder in ("goldens/toy", "parity/evidence", "host"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "parity/ledger.toml").write_text('[toy]\nstate = "promoted"\nsince = "2026-01-01"\n')
    (tmp_path / "parity/deviations.toml").write_text("")
    (tmp_path / "host/toy.py").write_text("length = len\n")
    (tmp_path / "requirements.lock").write_text("hypothesis==1 \\\n  --hash=a\nfalcon==2 \\\n  --hash=b\n")
    golden(tmp_path, expected="6\n")
    clear()
    yield tmp_path
    clear()


def clear() -> None:
    ledger.cache_clear()
    digest._hash.cache_clear()
    digest.lock_lines.cache_clear()


def golden(root: Path, expected: str) -> None:
    case = {"case": "three bytes", "input": "abc", "expected": expected}
    (root / "goldens/toy/cases.jsonl").write_text(json.dumps(case) + "\n")


def toy(monkeypatch: pytest.MonkeyPatch, replacement: Run = doubled, call: Callable[[], object] = int) -> Component:
    component = Component(
        name="toy",
        about="twice the length of the input",
        axes=("token", "performance"),
        replacement=plain(replacement),
        inputs=Generated(lambda data: data, 0, 40),
        soak=lambda chance: chance.randbytes(chance.randint(0, 60)),
        speed=Speed(lambda: (call, b"abc")),
        sources=("host/toy.py",),
        locks=("falcon",),
    )
    both = Toy(doubled, replacement, component)
    for module in ("parity.runner", "parity.fuzz", "parity.soak"):
        monkeypatch.setattr(f"{module}.sides", lambda _: both)
    monkeypatch.setattr(gate, "registered", lambda: {"toy": component})
    return component


def judged(component: Component, **plan: object) -> gate.Finding:
    options = {"examples": 500, "speed": False, "jobs": 1, **plan}
    return gate.judge([component], gate.Plan(**options))[0]  # type: ignore[arg-type]


def campaign(component: Component, **changes: object) -> Evidence:
    """A whole campaign's evidence about the tree as it is."""
    record = Evidence(
        "toy", digest.digest(component), "2026-01-02T00:00:00Z", "command", "machine", Goldens(1, 1, 0),
        Fuzz(gate.CAMPAIGN_EXAMPLES, 1.0, 7, 0), Soak(10, 100, 60.0, 7, 0, 0.0), SpeedResult(2.0, 1.0),
    )  # fmt: skip
    return replace(record, **changes)  # type: ignore[arg-type]


# ---- fuzz ----


def test_sides_that_agree_are_compared_as_often_as_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = fuzz(toy(monkeypatch), 1_000, seed=1)
    assert (outcome.examples, outcome.disagreement) == (1_000, None)


def test_a_difference_is_shrunk_to_the_smallest_input(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = fuzz(toy(monkeypatch, wrong_from_ten), 1_000, seed=1).disagreement
    assert found is not None
    assert found.tape == bytes(10)
    assert found.oracle == b"20\n" and found.replacement == b"0\n"
    assert "line 1: 20" in found.summary()


def test_a_rare_difference_that_only_the_generator_meets_is_shrunk_too(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rare = toy(monkeypatch, lambda tape: b"0\n" if len(tape) > 38 and tape[:1] > b"\xf0" else doubled(tape))
    found = fuzz(rare, 20_000, seed=3).disagreement
    assert found is not None and found.tape == b"\xf1" + bytes(38)


def test_a_failure_is_remembered_and_tried_first(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    component = toy(monkeypatch, wrong_from_ten)
    fuzz(component, 1_000, seed=1)
    assert fuzz(component, 1, seed=2).disagreement is not None


def test_an_exception_of_the_replacement_is_a_difference(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(tape: bytes) -> bytes:
        return bytes(tape[100])

    found = fuzz(toy(monkeypatch, broken), 10, seed=1).disagreement
    assert found is not None and found.replacement.startswith(b"raised IndexError")


# ---- the gate ----


def test_a_sound_component_without_a_campaign_is_yellow(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = judged(toy(monkeypatch))
    assert (finding.verdict, finding.marks["token"], finding.notes) == ("yellow", "pass", ["no campaign yet"])


def test_a_campaign_about_these_files_makes_it_green_without_work(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    component = toy(monkeypatch)
    evidence.keep(campaign(component))
    finding = judged(component)
    assert (finding.verdict, finding.marks["token"]) == ("green", "kept")


def test_a_changed_source_is_proven_again_and_its_campaign_is_stale(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    component = toy(monkeypatch)
    evidence.keep(campaign(component))
    (root / "host/toy.py").write_text("length = len  # again\n")
    clear()
    finding = judged(component)
    assert (finding.verdict, finding.marks["token"]) == ("yellow", "pass")
    assert finding.notes == ["the campaign of 2026-01-02 is about other files"]


@pytest.mark.parametrize("change", ["golden", "lock line"])
def test_goldens_and_named_lock_lines_belong_to_the_digest(
    root: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    component = toy(monkeypatch)
    before = digest.digest(component)
    if change == "golden":
        golden(root, "6 \n")
    else:
        (root / "requirements.lock").write_text("hypothesis==1 \\\n  --hash=a\nfalcon==3 \\\n  --hash=b\n")
    clear()
    assert digest.digest(component) != before


def test_another_packages_lock_line_does_not(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    component = toy(monkeypatch)
    before = digest.digest(component)
    (root / "requirements.lock").write_text("hypothesis==9 \\\n  --hash=a\nfalcon==2 \\\n  --hash=b\n")
    clear()
    assert digest.digest(component) == before


def test_what_was_proven_here_is_not_proven_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    component = toy(monkeypatch)
    judged(component)
    assert judged(component).marks["token"] == "kept"
    assert judged(component, full=True).marks["token"] == "pass"


def test_a_regression_turns_it_red_and_is_not_remembered(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    component = toy(monkeypatch, wrong_from_ten)
    for _ in range(2):
        finding = judged(component)
        assert (finding.verdict, finding.marks["token"]) == ("red", "fail")
    text, command = finding.faults[0]
    assert "differ on a generated input of 10 bytes" in text
    assert command == "./dev gate toy --full --examples 500 --seed 1"


def test_a_golden_that_both_sides_miss_is_red(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    golden(root, "7\n")
    finding = judged(toy(monkeypatch))
    assert finding.verdict == "red" and "toy/cases.jsonl: three bytes" in finding.faults[0][0]


def test_a_component_without_goldens_is_red(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "goldens/toy/cases.jsonl").write_text("")
    assert judged(toy(monkeypatch)).verdict == "red"


@pytest.mark.parametrize(
    ("now", "then", "fault"),
    [
        (SpeedResult(200.0, 20.0), None, "200 µs and 10.0x its oracle"),
        (SpeedResult(40.0, 1.0), None, ""),
        (SpeedResult(200.0, 80.0), None, ""),
        (SpeedResult(200.0, 80.0), SpeedResult(90.0, 90.0), "2.50x its oracle; 1.00x at its campaign"),
    ],
    ids=["both limits passed", "cheap", "near its oracle", "slower than its campaign"],
)
def test_a_regression_of_speed_is_told(
    root: Path, monkeypatch: pytest.MonkeyPatch, now: SpeedResult, then: SpeedResult | None, fault: str
) -> None:
    assert speed.slow(toy(monkeypatch), now, then).startswith(fault)
    assert bool(speed.slow(toy(monkeypatch), now, then)) == bool(fault)


def test_a_slow_component_turns_red_once_it_was_measured_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []

    def measure(components: list[Component]) -> dict[str, SpeedResult]:
        runs.append([c.name for c in components])
        return {c.name: SpeedResult(1_000.0, 1.0) for c in components}

    monkeypatch.setattr(speed, "measure", measure)
    finding = judged(toy(monkeypatch), speed=True)
    assert (finding.verdict, finding.marks["performance"]) == ("red", "fail")
    assert runs[: speed.ROUNDS] == [["toy"]] * speed.ROUNDS


def test_a_campaign_keeps_the_least_of_each_side(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    component, measured = toy(monkeypatch), iter([(9.0, 30.0), (7.0, 40.0), (8.0, 20.0)])
    monkeypatch.setattr(speed, "measure", lambda components: {"toy": SpeedResult(*next(measured))})
    assert speed.judged([component], {}, thorough=True) == {"toy": (SpeedResult(7.0, 20.0), "")}


# ---- deviations ----


def deviation(days: int = 1) -> str:
    day: date = (datetime.now(UTC) + timedelta(days=days)).date()
    return (
        '[[deviation]]\nid = "long"\ncomponent = "toy"\ninput = ".{10,}"\noracle = ".*"\npython = "0\\n"\n'
        f'owner = "somebody"\nreason = "because"\nexpires = {day}\n'
    )


def test_an_accepted_difference_is_counted_and_passes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "parity/deviations.toml").write_text(deviation())
    finding = judged(toy(monkeypatch, wrong_from_ten))
    assert finding.verdict == "yellow"
    assert finding.proof.fuzz is not None and finding.proof.fuzz.explained > 0


def test_an_expired_deviation_is_red(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (root / "parity/deviations.toml").write_text(deviation(days=-1))
    finding = judged(toy(monkeypatch))
    assert finding.verdict == "red" and "deviation long of somebody" in finding.faults[0][0]


def test_a_deviation_that_is_not_whole_is_refused(root: Path) -> None:
    (root / "parity/deviations.toml").write_text(deviation().replace('owner = "somebody"\n', ""))
    with pytest.raises(GateError, match="not whole"):
        deviations.read()


# ---- promotion ----


def state(root: Path) -> str:
    ledger.cache_clear()
    return ledger()["toy"].state


def test_promotion_refuses_without_a_campaign(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GateError, match="no campaign"):
        promotion.promote(toy(monkeypatch))


def test_promotion_refuses_a_campaign_about_other_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    component = toy(monkeypatch)
    evidence.keep(campaign(component, digest="0" * 64))
    with pytest.raises(GateError, match="about other files"):
        promotion.promote(component)


@pytest.mark.parametrize(
    "changes",
    [
        {"fuzz": Fuzz(gate.CAMPAIGN_EXAMPLES - 1, 1.0, 7, 0)},
        {"fuzz": Fuzz(gate.CAMPAIGN_EXAMPLES, 1.0, 7, 1)},
        {"soak": None},
        {"soak": Soak(10, 100, 60.0, 7, 1, 0.0)},
        {"goldens": Goldens(1, 1, 1)},
    ],
    ids=["too few examples", "a disagreement", "no soak", "a soak that differed", "a golden that failed"],
)
def test_promotion_refuses_a_campaign_that_is_not_whole(
    root: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    component = toy(monkeypatch)
    evidence.keep(campaign(component, **changes))
    with pytest.raises(GateError, match="not whole"):
        promotion.promote(component)


def test_promotion_and_demotion_change_the_ledger(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    component = toy(monkeypatch)
    evidence.keep(campaign(component))
    promotion.demote(component, 'a "fire"')
    assert state(root) == "oracle"
    assert judged(component).notes == ["not promoted: oracle"]
    promotion.promote(component, "candidate")
    assert state(root) == "candidate"
    promotion.promote(component)
    assert state(root) == "promoted"
    assert "campaign of 2026-01-02: 1 goldens, 200000 examples" in (root / "parity/ledger.toml").read_text()


def test_a_demotion_needs_a_reason(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GateError, match="--reason"):
        promotion.demote(toy(monkeypatch), " ")


def test_native_components_are_not_switched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(GateError, match="nothing to switch"):
        promotion.promote(replace(toy(monkeypatch), native=True))


# ---- soak ----


def test_a_soak_counts_its_inputs_and_finds_what_differs(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    good = soak.soak([toy(monkeypatch)], 0.3, 1).tallies["toy"]
    assert good.inputs > 10 and good.disagreement is None
    assert soak.soak([toy(monkeypatch, wrong_from_ten)], 5.0, 1).tallies["toy"].disagreement is not None


# ---- reports ----


def test_the_reports_tell_the_fault_and_how_to_see_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finding = judged(toy(monkeypatch, lambda tape: wrong_from_ten(tape) + b"\x01\xff\n"))
    text = table([finding], colour=False)
    assert "red" in text and "reproduce: ./dev gate" in text
    raw = json.loads(files.json_text([finding]))
    assert raw["components"][0]["verdict"] == "red"
    suite = ET.fromstring(files.junit([finding])).find("testsuite")
    assert suite is not None and suite.get("failures") == "1"
    page = files.html([finding])
    assert "twice the length" in page and "http" not in page.replace("http-equiv", "")


def test_evidence_survives_being_written(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = campaign(toy(monkeypatch))
    assert evidence.load(evidence.keep(record)) == record


def test_evidence_of_another_shape_is_none(root: Path) -> None:
    (root / "parity/evidence/toy.json").write_text('{"component": "toy"}')
    assert evidence.kept("toy") is None


# ---- the repository's own ----


def test_every_listed_component_exists_and_every_fault_can_be_planted() -> None:
    everything = registry.components()
    assert set(ledger()) <= set(everything)
    assert {m.component for m in mutation.read()} <= set(everything)


@pytest.mark.parametrize("component", registry.components().values(), ids=registry.components().keys())
def test_both_sides_read_and_agree_on_a_soak_input(component: Component) -> None:
    value: Input = component.soak(random.Random(1))
    found = runner.sides(component).compare(value)
    assert found is None, found.summary()


def test_the_sources_of_every_component_are_there() -> None:
    for component in registry.components().values():
        assert len(digest.files(component)) >= 5
