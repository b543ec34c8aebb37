"""The mutation check itself: faults are planted in a copy, and a trial sees no more than the gate would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from ds4.core.ledger import SessionLedger

from parity import mutation, trial
from parity.component import Input
from parity.components.ledger import COMPONENT
from parity.fuzz import BY_HYPOTHESIS, fuzz
from parity.registry import ROOT, GateError

FAULT = mutation.Mutation(
    "ledger", "what is appended is forgotten", "host/ds4/core/ledger.py", "        self._tokens.append(token)\n", ""
)
ROW = """
[[mutation]]
component = "ledger"
fault = "a word that stands often"
file = "host/ds4/core/ledger.py"
find = "self"
replace = "that"
"""


def test_the_list_holds_faults_for_every_host_component() -> None:
    found = [m.component for m in mutation.read()]
    for name in "bind frames gguf kvc ledger payload schedule stops template tokenizer".split():
        assert found.count(name) >= 5, name


def test_a_fault_has_to_say_where_it_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "faults.toml"
    file.write_text(ROW, encoding="utf-8")
    monkeypatch.setattr(mutation, "FILE", str(file))
    with pytest.raises(GateError, match="cannot be planted"):
        mutation.read()


def test_a_fault_is_planted_in_a_copy(tmp_path: Path) -> None:
    tree = mutation.planted(FAULT, tmp_path / "ds4")
    assert FAULT.find in (ROOT / FAULT.file).read_text(encoding="utf-8")
    assert FAULT.find not in (tree / FAULT.file).read_text(encoding="utf-8")
    assert (tree / "goldens/ledger").samefile(ROOT / "goldens/ledger")
    assert (tree / "parity/component.py").read_bytes() == (ROOT / "parity/component.py").read_bytes()


def test_a_planted_fault_is_seen_by_a_golden_and_by_an_example() -> None:
    found = mutation.attempt(FAULT, BY_HYPOTHESIS + 50, 1, both=True)
    assert found.golden.startswith("ledger/"), found
    assert found.fuzz.startswith("example "), found


def test_a_fault_that_breaks_an_import_is_no_success() -> None:
    broken = replace(FAULT, find="from __future__ import annotations\n", replace="from nowhere import annotations\n")
    found = mutation.attempt(broken, 300, 1)
    assert not found.caught and found.how.startswith("BROKEN"), found


def test_a_trial_that_fails_without_a_fault_ends_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    mutation.control("ledger", 1)
    monkeypatch.setenv("DS4_ORACLES", str(ROOT / "nowhere.so"))
    with pytest.raises(GateError, match="without a fault"):
        mutation.control("ledger", 1)


def test_a_sound_replacement_escapes() -> None:
    assert trial.by_goldens(COMPONENT) == ""
    assert trial.by_fuzz(COMPONENT, BY_HYPOTHESIS + 50, 1) == ""


def test_a_trial_takes_examples_that_the_gate_takes() -> None:
    taken: list[bytes] = []

    def make(data: bytes) -> Input:
        taken.append(data)
        return COMPONENT.inputs.make(data)

    watched = replace(COMPONENT, inputs=replace(COMPONENT.inputs, make=make))
    assert fuzz(watched, BY_HYPOTHESIS + 50, seed=3).disagreement is None
    assert list(trial._seeds(watched, BY_HYPOTHESIS + 50, 3)) == taken[-50:]


def test_a_generator_that_fails_over_the_replacement_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: SessionLedger, token: int) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(SessionLedger, "append", fails)
    assert "planted" in trial.by_fuzz(COMPONENT, BY_HYPOTHESIS + 200, 1)
