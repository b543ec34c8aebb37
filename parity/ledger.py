"""Changes of the promotion ledger, parity/ledger.toml: read by the host at run time, written only here."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass

from ds4.core.components import Entry, State, ledger

from parity.evidence import today
from parity.registry import workspace

HEAD = """\
# Which side decides, for each component of the host. Written by `./dev gate promote` and `./dev gate demote`, compiled
# into the package, honoured at run time.
#
#   oracle     production calls the C oracle
#   candidate  production calls the oracle; the Python replacement runs in sampled shadow, differences are logged
#   promoted   production calls the Python replacement
#   retired    as promoted; the oracle is no longer kept here (its baseline is in Git)
"""


@dataclass(frozen=True)
class Change:
    """Why a component's state changes."""

    name: str
    state: State
    reason: str


def write(change: Change) -> None:
    """Puts the change into the checkout's ledger, whole or not at all."""
    entries = {**ledger(), change.name: Entry(change.name, change.state, today()[:10])}
    reasons = _reasons()
    reasons[change.name] = change.reason
    text = HEAD
    for name in sorted(entries):
        entry = entries[name]
        text += (
            f'\n[{name}]\nstate = "{entry.state}"\nsince = "{entry.since}"\nreason = {_quoted(reasons.get(name, ""))}\n'
        )
    path = workspace() / "parity" / "ledger.toml"
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)
    ledger.cache_clear()


def _reasons() -> dict[str, str]:
    import tomllib

    raw = tomllib.loads((workspace() / "parity" / "ledger.toml").read_text(encoding="utf-8"))
    return {name: str(row.get("reason", "")) for name, row in raw.items()}


def _quoted(text: str) -> str:
    plain = "".join(c if c.isprintable() else " " for c in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
