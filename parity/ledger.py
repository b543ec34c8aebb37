"""Changes of the promotion ledger, parity/ledger.toml: read by the host at run time, written only here."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from ds4.core import components
from ds4.core.components import Entry, State

from parity.evidence import replace_file, today
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


def entries() -> dict[str, Entry]:
    """The checkout's ledger: not the copy that was built into this program, which an earlier change has passed by."""
    return components.read(_path())


def write(change: Change) -> None:
    """Puts the change into the checkout's ledger, whole or not at all."""
    after = {**entries(), change.name: Entry(change.name, change.state, today()[:10])}
    reasons = {**_reasons(), change.name: change.reason}
    text = HEAD
    for name in sorted(after):
        head = name if name.isidentifier() and name.isascii() else quoted(name)
        since, reason = quoted(after[name].since), quoted(reasons.get(name, ""))
        text += f'\n[{head}]\nstate = "{after[name].state}"\nsince = {since}\nreason = {reason}\n'
    replace_file(_path(), text)
    components.ledger.cache_clear()


def _path() -> Path:
    return workspace() / "parity" / "ledger.toml"


def _reasons() -> dict[str, str]:
    raw = tomllib.loads(_path().read_text(encoding="utf-8"))
    return {name: str(row.get("reason", "")) for name, row in raw.items()}


def quoted(text: str) -> str:
    plain = "".join(c if c.isprintable() else " " for c in text)
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'
