"""The gate's findings as a table for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from parity.component import AXES
from parity.gate import Finding

SIGNS = {"pass": "ok", "kept": "·", "fail": "FAIL", "": ""}
COLOURS = {"green": "32", "yellow": "33", "red": "31"}


def cells(finding: Finding) -> list[str]:
    """One row: component, state, the axes, cases, examples, soak, verdict."""
    proof, campaign = finding.proof, finding.campaign
    cases = f"{proof.goldens.cases:,}" if proof.goldens else "-"
    examples = f"{proof.fuzz.examples:,}" if proof.fuzz else "-"
    if campaign and campaign.fuzz and campaign is not proof:
        examples += f" ({campaign.fuzz.examples:,})"
    soak = f"{campaign.soak.seconds / 60:.0f} min" if campaign and campaign.soak else "-"
    return [
        finding.component.name, finding.state, *(SIGNS[finding.marks[axis]] for axis in AXES), cases, examples, soak,
        finding.verdict,
    ]  # fmt: skip


HEADINGS = ["component", "state", *AXES, "goldens", "examples", "soak", "verdict"]


def table(findings: Sequence[Finding], colour: bool) -> str:
    """The table, then what makes components yellow, then the first fault with the command that reproduces it."""
    rows = [HEADINGS, *(cells(f) for f in findings)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    lines = []
    for at, row in enumerate(rows):
        parts = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if colour and at:
            parts[-1] = f"\x1b[{COLOURS[findings[at - 1].verdict]}m{parts[-1]}\x1b[0m"
        lines.append("  ".join(parts).rstrip())
    notes = [f"{f.component.name}: {'; '.join(f.notes)}" for f in findings if f.notes]
    faults = [(f.component.name, text, command) for f in findings for text, command in f.faults]
    if notes:
        lines += ["", *notes]
    for name, text, command in faults:
        lines += ["", f"{name}: {text}", f"  reproduce: {command}"]
    return "\n".join(lines) + "\n"
