"""The parity gate: every component's goldens, and what has changed since its campaign proven again."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from parity import gate
from parity.component import Component
from parity.gate import Finding
from parity.registry import components
from parity.report import files
from parity.report.table import table
from parity.runner import check_goldens


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    """One run of the gate over everything; its report is left with the test's outputs."""
    found = gate.judge(list(components().values()), gate.Plan(), lambda text: print(text, file=sys.stderr))
    print(table(found, colour=False))
    if outputs := os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR"):
        files.write(Path(outputs), found)
    return {f.component.name: f for f in found}


@pytest.mark.parametrize("name", components())
def test_the_gate_is_not_red(name: str, findings: dict[str, Finding]) -> None:
    finding = findings[name]
    assert finding.verdict != "red", "\n".join(f"{text}\n  reproduce: {command}" for text, command in finding.faults)


@pytest.mark.parametrize("component", components().values(), ids=components().keys())
def test_both_sides_answer_every_golden(component: Component) -> None:
    count, differences = check_goldens(component)
    assert count > 0
    assert not differences, "\n".join(f"{d.golden}: {d.case}\n{d.summary()}" for d in differences[:5])
