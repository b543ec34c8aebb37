"""Evidence: what was run on a component, and what came of it, tied to the digest of what it was run on.

Two kinds of file hold the same record: parity/evidence/<component>.json, in the repository, written by a campaign; and
.dev/gate/<component>.json, this machine's memory of the last gate.
"""

from __future__ import annotations

import json
import os
import platform
import tempfile
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from parity.registry import ROOT, workspace


@dataclass(frozen=True)
class Goldens:
    sets: int
    cases: int
    failed: int


@dataclass(frozen=True)
class Fuzz:
    """disagreements: distinct failures met (a run ends at the first). explained: examples that a deviation covers."""

    examples: int
    seconds: float
    seed: int
    disagreements: int
    explained: int = 0


@dataclass(frozen=True)
class Soak:
    inputs: int
    nbytes: int
    seconds: float
    seed: int
    disagreements: int
    rss_drift_percent: float


@dataclass(frozen=True)
class SpeedResult:
    """Microseconds a request, least of all rounds, both sides in one run."""

    replacement_us: float
    oracle_us: float

    @property
    def ratio(self) -> float:
        return self.replacement_us / self.oracle_us if self.oracle_us else float("inf")


@dataclass(frozen=True)
class Evidence:
    component: str
    digest: str
    date: str
    command: str
    machine: str
    goldens: Goldens | None = None
    fuzz: Fuzz | None = None
    soak: Soak | None = None
    speed: SpeedResult | None = None

    def dump(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"


def load(path: Path) -> Evidence | None:
    """The record at `path`; None where there is none or it is of another shape, so that it is made again."""
    try:
        raw: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        parts: dict[str, Any] = {"goldens": Goldens, "fuzz": Fuzz, "soak": Soak, "speed": SpeedResult}
        for name, kind in parts.items():
            if raw.get(name) is not None:
                raw[name] = _numbers(kind(**raw[name]))
        record = Evidence(**raw)
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    texts = (record.component, record.digest, record.date, record.command, record.machine)
    return record if all(isinstance(text, str) for text in texts) else None


def _numbers(part: Any) -> Any:
    """A part of the record, whose fields are all numbers. TypeError where one is not."""
    if not all(type(getattr(part, one.name)) in (int, float) for one in fields(part)):
        raise TypeError("not a number")
    return part


def kept(name: str) -> Evidence | None:
    """The repository's evidence of a component."""
    return load(ROOT / "parity" / "evidence" / f"{name}.json")


def remembered(name: str) -> Evidence | None:
    """This machine's last gate of a component."""
    return load(_memory() / f"{name}.json")


def keep(evidence: Evidence) -> Path:
    """Writes a campaign's evidence into the checkout."""
    return _write(workspace() / "parity" / "evidence" / f"{evidence.component}.json", evidence)


def remember(evidence: Evidence) -> None:
    """Writes this machine's memory; where that cannot be written (a test's sandbox) the next gate just works again."""
    try:
        _write(_memory() / f"{evidence.component}.json", evidence)
    except OSError:
        return


def _memory() -> Path:
    return workspace() / ".dev" / "gate"


def _write(path: Path, evidence: Evidence) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, evidence.dump())
    return path


def replace_file(path: Path, text: str) -> None:
    """Puts a file in place whole, or, when that is interrupted, not at all and without a trace."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def today() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def machine() -> str:
    """The processor and the interpreter; nothing that names the machine itself."""
    model = platform.machine()
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
        model = next(line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return f"{model}, {os.cpu_count()} threads, CPython {platform.python_version()}"
