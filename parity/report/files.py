"""The gate's findings as JSON, as JUnit XML, and as one HTML page that needs nothing beside it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import jinja2

from parity.component import AXES
from parity.evidence import machine, today
from parity.gate import Finding
from parity.report.table import HEADINGS, SIGNS, cells


def as_dict(finding: Finding) -> dict[str, Any]:
    """Everything that is known of a finding, as JSON has it."""
    return {
        "component": finding.component.name,
        "about": finding.component.about,
        "state": finding.state,
        "native": finding.component.native,
        "verdict": finding.verdict,
        "axes": {axis: mark for axis, mark in finding.marks.items() if mark},
        "digest": finding.digest,
        "campaign_fresh": finding.fresh,
        "proof": asdict(finding.proof),
        "campaign": asdict(finding.campaign) if finding.campaign else None,
        "notes": finding.notes,
        "faults": [{"text": text, "reproduce": command} for text, command in finding.faults],
    }


def json_text(findings: Sequence[Finding]) -> str:
    """The report as JSON."""
    value = {"date": today(), "machine": machine(), "components": [as_dict(f) for f in findings]}
    return json.dumps(value, indent=2) + "\n"


def junit(findings: Sequence[Finding]) -> str:
    """JUnit XML: a suite for each component, a case for each axis that it can affect."""
    root = ET.Element("testsuites", name="parity")
    for finding in findings:
        axes = [axis for axis in AXES if finding.marks[axis]]
        failures = sum(finding.marks[axis] == "fail" for axis in axes)
        extra = 1 if finding.faults and not failures else 0
        name = finding.component.name
        suite = ET.SubElement(
            root, "testsuite", name=f"parity.{name}", tests=str(len(axes) + extra), failures=str(failures + extra)
        )
        texts = "\n".join(f"{text}\nreproduce: {command}" for text, command in finding.faults)
        for axis in axes:
            case = ET.SubElement(suite, "testcase", classname=f"parity.{name}", name=axis)
            if finding.marks[axis] == "fail":
                ET.SubElement(case, "failure", message=f"{name}: {axis}").text = _clean(texts)
        if extra:
            case = ET.SubElement(suite, "testcase", classname=f"parity.{name}", name="rules")
            ET.SubElement(case, "failure", message=name).text = _clean(texts)
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _clean(text: str) -> str:
    """Without the characters that XML cannot hold."""
    return "".join(c if c in "\t\n" or c >= " " and c not in "\ufffe\uffff" else "\ufffd" for c in text)


def html(findings: Sequence[Finding]) -> str:
    """The page, for a CI artefact."""
    source = (Path(__file__).parent / "page.html.jinja").read_text(encoding="utf-8")
    page = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(source)
    return page.render(
        findings=findings, rows=[cells(f) for f in findings], headings=HEADINGS, axes=AXES, signs=SIGNS, date=today(),
        machine=machine(),
    )  # fmt: skip


def write(folder: Path, findings: Sequence[Finding]) -> None:
    """gate.json, gate.xml and gate.html in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in (("json", json_text(findings)), ("xml", junit(findings)), ("html", html(findings))):
        (folder / f"gate.{name}").write_text(text, encoding="utf-8")
