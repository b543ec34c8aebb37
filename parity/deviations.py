"""Accepted differences, from parity/deviations.toml: each has an owner, a reason and a day on which it ends."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from datetime import UTC, date, datetime

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
    """All of them, the expired too. GateError for an entry that is not whole."""
    raw = tomllib.loads((ROOT / "parity" / "deviations.toml").read_text(encoding="utf-8"))
    entries = []
    for row in raw.get("deviation", []):
        if set(row) != FIELDS or not all(row.values()):
            raise GateError(
                "a deviation that is not whole", subject=str(row.get("id")), expected=", ".join(sorted(FIELDS))
            )
        if not isinstance(row["expires"], date):
            raise GateError(
                "a deviation needs the day it ends", subject=row["id"], expected="a date", found=row["expires"]
            )
        patterns = {key: re.compile(row[key].encode(), re.DOTALL) for key in ("input", "oracle", "python")}
        entries.append(Deviation(**{**row, **patterns}))
    return tuple(entries)


def covering(deviations: tuple[Deviation, ...], found: Disagreement) -> Deviation | None:
    """The deviation, still valid, that accepts this difference."""
    return next((d for d in deviations if not d.expired and d.covers(found)), None)
