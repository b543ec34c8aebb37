"""The promotion ledger decides which side runs, and a candidate's shadow sees differences without letting them out."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from ds4.core import components
from ds4.errors import SettingsError


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An own ledger file, read afresh, and empty counters."""
    path = tmp_path / "components.toml"
    path.write_text("")
    monkeypatch.setattr(components, "_file", lambda: path)
    components.ledger.cache_clear()
    components.seen.clear()
    components._budgets.clear()
    yield path
    components.ledger.cache_clear()


def python(x: int) -> str:
    return f"python {x}"


def oracle(x: int) -> str:
    return f"oracle {x}"


@pytest.mark.parametrize(
    ("state", "side"), [("oracle", "oracle"), ("promoted", "python"), ("retired", "python"), ("candidate", "oracle")]
)
def test_the_state_names_the_side(ledger: Path, state: str, side: str) -> None:
    ledger.write_text(f'[stops]\nstate = "{state}"\nsince = "2026-01-02"\n')
    assert components.pick("stops", python=python, oracle=oracle)(1) == f"{side} 1"


def test_an_unlisted_component_is_pythons_and_the_table_says_nothing_of_it(ledger: Path) -> None:
    assert components.pick("stops", python=python, oracle=oracle) is python
    assert components.table() == []


def test_a_variable_forces_a_side(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger.write_text('[stops]\nstate = "promoted"\n')
    monkeypatch.setenv("DS4_COMPONENT_STOPS", "oracle")
    assert components.pick("stops", python=python, oracle=oracle) is oracle
    assert components.table()[0].why == "DS4_COMPONENT_STOPS"


def test_a_variable_that_names_no_side_is_refused(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS4_COMPONENT_STOPS", "rust")
    with pytest.raises(SettingsError, match="oracle or python"):
        components.pick("stops", python=python, oracle=oracle)


def test_a_variable_that_is_wrong_is_told_before_anything_begins(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    components.check()
    monkeypatch.setenv("DS4_COMPONENT_STOPS", "rust")
    with pytest.raises(SettingsError, match="oracle or python"):
        components.check()
    monkeypatch.delenv("DS4_COMPONENT_STOPS")
    monkeypatch.setenv("DS4_COMPONENT_STOPZ", "oracle")
    assert [row.name for row in components.table()] == ["stopz"]
    monkeypatch.setattr("ds4.sys.oracles.names", lambda: ["stops"])
    with pytest.raises(SettingsError, match="DS4_COMPONENT_STOPZ: no such component"):
        components.check()


def test_an_unknown_state_is_refused(ledger: Path) -> None:
    ledger.write_text('[stops]\nstate = "perhaps"\n')
    with pytest.raises(SettingsError, match="perhaps"):
        components.choice("stops")


def test_a_candidates_differences_are_logged_and_kept_from_the_caller(
    ledger: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger.write_text('[stops]\nstate = "candidate"\n')
    call = components.pick("stops", python=python, oracle=oracle)
    with caplog.at_level(logging.WARNING, "ds4.components"):
        assert [call(i) for i in range(3 * components.SAMPLE)] == [f"oracle {i}" for i in range(3 * components.SAMPLE)]
    assert components.seen["stops differences"] >= 1
    assert "python 0" in caplog.text and "oracle 0" in caplog.text


def test_a_candidate_that_agrees_is_counted(ledger: Path) -> None:
    ledger.write_text('[stops]\nstate = "candidate"\n')
    components.pick("stops", python=oracle, oracle=oracle)(1)
    assert dict(components.seen) == {"stops": 1}


def test_errors_of_one_kind_agree_and_reach_the_caller(ledger: Path) -> None:
    ledger.write_text('[stops]\nstate = "candidate"\n')

    def refuses(x: int) -> str:
        raise SettingsError("no", code="settings_no")

    call = components.pick("stops", python=refuses, oracle=refuses)
    with pytest.raises(SettingsError):
        call(1)
    assert components.seen["stops differences"] == 0


class Counter:
    def __init__(self, step: int = 1) -> None:
        self.step, self.total = step, 0

    def add(self) -> int:
        self.total += self.step
        return self.total


class Doubled(Counter):
    def add(self) -> int:
        return super().add() * 2


def test_objects_with_state_are_shadowed_call_by_call(ledger: Path) -> None:
    ledger.write_text('[stops]\nstate = "candidate"\n')
    make = components.pick("stops", python=Doubled, oracle=Counter)
    counter = make(step=3)
    assert [counter.add(), counter.add(), counter.total] == [3, 6, 6]
    assert components.seen["stops differences"] == 2


def test_a_call_site_that_picks_for_every_answer_still_shadows_a_sample(ledger: Path) -> None:
    ledger.write_text('[stops]\nstate = "candidate"\n')
    for _ in range(2 * components.SAMPLE):
        components.pick("stops", python=Doubled, oracle=Counter)().add()
    assert 1 <= components.seen["stops differences"] <= 2
    assert components.seen.total() <= 2


def test_the_repositorys_ledger_can_be_read() -> None:
    components.ledger.cache_clear()
    assert all(row.side in ("oracle", "python") for row in components.table())
