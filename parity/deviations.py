"""Accepted differences, from parity/deviations.toml: each has an owner, a reason and a day on which it ends."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

from parity.registry import ROOT, GateError
from parity.runner import Disagreement

FIELDS = {"id", "component", "input", "oracle", "python", "owner", "reason", "expires"}


@dataclass(frozen=True)
class Deviation:
    """input, oracle, python: regular expressions that the tape and both outputs must match, whole, to be covered."""

    id: str
    component: str
    input: re.Pattern[bytes]
    oracle: re.Pattern[bytes]
    python: re.Pattern[bytes]
    owner: str
    reason: str
    expires: date

    @property
    def expired(self) -> bool:
        return datetime.now(UTC).date() > self.expires

    def covers(self, found: Disagreement) -> bool:
        return (
            found.component == self.component
            and self.input.fullmatch(found.tape) is not None
            and self.oracle.fullmatch(found.oracle) is not None
            and self.python.fullmatch(found.replacement) is not None
        )


def read() -> tuple[Deviation, ...]:
    """All of them, the expired too. GateError for a file or an entry that is not of its form."""
    try:
        raw = tomllib.loads((ROOT / "parity" / "deviations.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise GateError(f"cannot be read: {error}", subject="parity/deviations.toml") from None
    rows = raw.get("deviation", [])
    if raw.keys() - {"deviation"} or not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        found = ", ".join(raw)
        raise GateError("is not of its form", subject="parity/deviations.toml", expected="[[deviation]]", found=found)
    entries: dict[str, Deviation] = {}
    for row in rows:
        one = _entry(row)
        if one.id in entries:
            raise GateError("two deviations of one id", subject=one.id, expected="one", found="two")
        entries[one.id] = one
    return tuple(entries.values())


def _entry(row: Mapping[str, Any]) -> Deviation:
    name = str(row.get("id"))
    if set(row) != FIELDS or not all(row.values()):
        found = ", ".join(sorted(key for key in row if row[key]))
        raise GateError("a deviation that is not whole", subject=name, expected=", ".join(sorted(FIELDS)), found=found)
    if type(row["expires"]) is not date:  # a time of day is a date to isinstance, and cannot be compared with one
        raise GateError("a deviation needs the day it ends", subject=name, expected="a date", found=row["expires"])
    for key in FIELDS - {"expires"}:
        if not isinstance(row[key], str):
            raise GateError("is no text", subject=f"{name}: {key}", expected="text", found=repr(row[key]))
    try:
        patterns = {key: re.compile(row[key].encode(), re.DOTALL) for key in ("input", "oracle", "python")}
    except re.error as error:
        raise GateError(f"a pattern that does not compile: {error}", subject=name) from None
    return Deviation(**{**row, **patterns})


def covering(deviations: tuple[Deviation, ...], found: Disagreement) -> Deviation | None:
    """The deviation, still valid, that accepts this difference."""
    return next((d for d in deviations if not d.expired and d.covers(found)), None)
