"""What has been verified of a family and of single model files, and how far a configuration stays inside of it.

The rows are parity/qualified.toml, written by the gate (`./dev gate qualify`); the build puts a copy into this package.
A row is of a family, on models drawn from a seed, or of one file with real weights; under each axis stand the checks
that passed, each with what it ran at:

    [[row]]
    family = "llama"
    artifact = "NAME.gguf"          # with sha256, and mark as `mark` makes it; absent in a family's own row
    [[row.forward]]
    verified = "2026-11-30"         # the day
    evidence = "parity/tests/..."   # the check
    figure = "..."                  # what it measured
    backend = "cpu"
    numeric = "ship"                # absent where a check does not depend on it; so kv
    kv = "f16"
    context = 2048                  # positions of a bank that it went up to, and banks in use
    banks = 4
    sources = "..."                 # digest of the engine that it passed on

Bounds are taken one by one: a context that was verified in one bank is not asked for again in each of four.
"""

from __future__ import annotations

import functools
import hashlib
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ds4.core.identify import Identity
from ds4.core.inventory import Inventory
from ds4.errors import SettingsError

AXES = ("loader", "forward", "api", "state", "performance")

_HERE = Path(__file__).parent
_PIECES, _PIECE = 64, 4096


@dataclass(frozen=True, slots=True)
class Configuration:
    """How a model is served. context: positions of one bank."""

    backend: str
    numeric: str
    kv: str
    context: int
    banks: int


@dataclass(frozen=True, slots=True)
class Proof:
    """A check that passed. numeric, kv: empty where it does not depend on them, as context and banks are 0 there.
    sources: digest of the engine and families that it passed on."""

    verified: str
    evidence: str
    figure: str
    backend: str
    numeric: str = ""
    kv: str = ""
    context: int = 0
    banks: int = 0
    sources: str = ""

    def is_of(self, served: Configuration) -> bool:
        """Whether it ran the arithmetic that is served."""
        return (
            self.backend == served.backend
            and self.numeric in ("", served.numeric)
            and self.kv in ("", served.kv)
        )  # fmt: skip

    def json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in ("", 0)}


@dataclass(frozen=True, slots=True)
class Row:
    """artifact: a file's name; empty for the family itself."""

    family: str
    artifact: str
    sha256: str
    mark: str
    proofs: dict[str, tuple[Proof, ...]]


@dataclass(frozen=True, slots=True)
class Standing:
    """artifact: the verified file that this one is, if any. exceeds: in words, by axis. unverified: axes of which
    nothing has been verified with this very file."""

    family: str | None
    artifact: str | None
    verified: tuple[tuple[str, str, Proof], ...]  # (axis, "artifact" | "family", the check)
    exceeds: tuple[str, ...]
    unverified: tuple[str, ...]

    def json(self) -> dict[str, Any]:
        return {
            "family": self.family,
            "artifact": self.artifact,
            "verified": [{"axis": axis, "of": of, **proof.json()} for axis, of, proof in self.verified],
            "exceeds": list(self.exceeds),
            "unverified": list(self.unverified),
        }

    def axes(self, of: str) -> list[str]:
        """Those verified of the "artifact" or of its "family"."""
        return [axis for axis in AXES if any(a == axis and whose == of for a, whose, _ in self.verified)]

    @property
    def line(self) -> str:
        """In one line, for a person."""
        own, kin = self.axes("artifact"), self.axes("family")
        parts = [f"this file: {', '.join(own)}"] if own else []
        parts += [f"its family: {', '.join(kin)}"] if kin and not own else []
        parts += [f"beyond it: {'; '.join(self.exceeds)}"] if self.exceeds else []
        parts += [f"not verified: {', '.join(self.unverified)}"] if own and self.unverified else []
        return ". ".join(parts) or "nothing of this family or file"


def _file() -> Path:
    packaged = _HERE / "qualified.toml"
    if packaged.is_file():
        return packaged
    roots = _HERE.resolve().parents[2:4]
    return next((p for p in (root / "parity/qualified.toml" for root in roots) if p.is_file()), packaged)


@functools.cache
def rows() -> tuple[Row, ...]:
    """The rows that this build came with. SettingsError where they cannot be read."""
    return read(_file())


def read(path: Path) -> tuple[Row, ...]:
    """The rows in a file. SettingsError, naming the row, for one that cannot be read."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"the table of what is qualified cannot be read: {error}", subject=path.name) from None
    return tuple(_row(path, number, row) for number, row in enumerate(raw.get("row", ()), start=1))


def _row(path: Path, number: int, raw: dict[str, Any]) -> Row:
    names = ("family", "artifact", "sha256", "mark")
    try:
        fields = {name: str(raw.get(name, "")) for name in names}
        if unknown := raw.keys() - {*names, *AXES}:
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
        if not fields["family"] or bool(fields["artifact"]) != bool(fields["mark"]):
            raise ValueError("a row is of a family, and of a file only together with its mark")
        proofs = {axis: tuple(Proof(**proof) for proof in raw[axis]) for axis in AXES if axis in raw}
    except (TypeError, ValueError) as error:
        raise SettingsError(f"no row of what is qualified: {error}", subject=f"{path.name}: row {number}") from None
    return Row(**fields, proofs=proofs)


def mark(inventory: Inventory) -> str:
    """What a model's files are known by: sizes, everything before the weights, and 64 pieces of the weights of each.

    A hash of all would take minutes for the largest models; this takes the same few milliseconds for each of them, and
    tells other weights under the same header apart.
    """
    digest = hashlib.sha256()
    for shard in inventory.shards:
        digest.update(f"{shard.file_bytes} {shard.data_offset}\n".encode())
        with shard.path.open("rb") as file:
            left = shard.data_offset
            while left and (piece := file.read(min(left, 1 << 20))):
                digest.update(piece)
                left -= len(piece)
            room = max(0, shard.file_bytes - shard.data_offset - _PIECE)
            for number in range(_PIECES):
                file.seek(shard.data_offset + room * number // (_PIECES - 1))
                digest.update(file.read(_PIECE))
    return digest.hexdigest()


def standing(
    family: str | None,
    mark: Callable[[], str],
    served: Configuration | None = None,
    table: Iterable[Row] | None = None,
) -> Standing:
    """What is verified of a model of `family` (its architecture). mark: asked for only where some file of the family
    has a row. served: what it is held to; None leaves `exceeds` empty."""
    known = [row for row in (rows() if table is None else table) if family is not None and row.family == family]
    files = [row for row in known if row.artifact]
    own = mark() if files else ""
    artifact = next((row for row in files if row.mark == own), None)
    kin = next((row for row in known if not row.artifact), None)
    verified = [
        (axis, of, proof)
        for axis in AXES
        for of, row in (("artifact", artifact), ("family", kin))
        if row is not None
        for proof in row.proofs.get(axis, ())
    ]
    unverified = tuple(axis for axis in AXES if artifact is None or not artifact.proofs.get(axis))
    exceeds: list[str] = []
    if served is not None:
        for axis in AXES:
            row = kin if axis in unverified else artifact
            exceeds += _beyond(axis, row.proofs.get(axis, ()) if row is not None else (), served)
    return Standing(family, artifact.artifact if artifact else None, tuple(verified), tuple(exceeds), unverified)


def of_model(identity: Identity, files: Inventory, served: Configuration | None = None) -> Standing:
    """The standing of an identified model, of which nothing is verified where it cannot be served."""
    return standing(identity.architecture, lambda: mark(files), served)


def _beyond(axis: str, proofs: Sequence[Proof], served: Configuration) -> list[str]:
    """What `served` asks for and no check of the axis went up to; nothing where there is no check at all."""
    if not proofs:
        return []
    same = [proof for proof in proofs if proof.is_of(served)]
    if not same:
        modes = sorted({"/".join(filter(None, (p.numeric, p.kv, p.backend))) for p in proofs})
        return [f"{axis} with {served.numeric}/{served.kv}/{served.backend}, verified with {', '.join(modes)}"]
    found = []
    for what, asked in (("context", served.context), ("banks", served.banks)):
        most = max(getattr(proof, what) for proof in same)
        if 0 < most < asked:
            found.append(f"{axis} at {what} {asked}, verified up to {most}")
    return found
