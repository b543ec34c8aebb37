"""What evidence is about: the bytes of both sides, contract, goldens and harness, and the lock lines they name."""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

from parity.component import Component
from parity.registry import ROOT, GateError

HARNESS = (
    # Not the command, not the table, which only lists what there is, and not what single components bring along.
    "oracles/common/library.c",
    "oracles/common/names.[ch]",
    "oracles/common/oracle.h",
    "oracles/common/subject.[ch]",
    "oracles/common/tape.[ch]",
    "oracles/common/utf8.[ch]",
    "host/ds4/sys/tape.py",
    "host/ds4/sys/oracles.py",
    "parity/component.py",
    "parity/fuzz.py",
    "parity/runner.py",
)
"""What judges: when it changes, everything is proven again."""

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)==", re.MULTILINE)


@functools.cache
def _hash(path: Path) -> bytes:
    return hashlib.sha256(path.read_bytes()).digest()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def lock_lines() -> dict[str, str]:
    """Each locked package with its pin and hashes, as the lock has it."""
    found: dict[str, str] = {}
    for lock in sorted(ROOT.glob("requirements*.lock")):
        text = lock.read_text(encoding="utf-8")
        starts = list(_PIN.finditer(text))
        for i, match in enumerate(starts):
            end = starts[i + 1].start() if i + 1 < len(starts) else len(text)
            found[_normal(match[1])] = text[match.start() : end]
    return found


def files(component: Component) -> list[Path]:
    """The files that the digest covers. GateError for a glob that matches nothing: it would silently cover nothing."""
    found: set[Path] = set()
    for pattern in (*component.sources, *HARNESS, f"goldens/{component.name}/**"):
        every = ROOT.glob(pattern + "/*" if pattern.endswith("/**") else pattern)
        here = {path for path in every if path.is_file() and "__pycache__" not in path.parts}
        if not here:
            raise GateError("the component lists sources that are not there", subject=f"{component.name}: {pattern}")
        found |= here
    return sorted(found)


def digest(component: Component) -> str:
    """SHA-256 over names and contents of all that the component's evidence depends on."""
    total = hashlib.sha256()
    for path in files(component):
        total.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + _hash(path))
    for name in sorted(component.locks):
        line = lock_lines().get(_normal(name))
        if line is None:
            raise GateError("the component names a package that is not locked", subject=f"{component.name}: {name}")
        total.update(line.encode())
    return total.hexdigest()
