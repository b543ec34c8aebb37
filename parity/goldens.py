"""Goldens: read with their digests checked, and changed only by a person's decision on a pending result.

    for case in goldens.read("stops/splits.jsonl"): ...
    goldens.open_pendings()                         what waits
    goldens.accept(pending, name, reason)           the golden, its digest in the manifest, an entry in CHANGES.md
    goldens.reject(pending, name, reason)           nothing but the pending goes

An accepted change is three files that are written together or not at all; committing them is the person's.
"""

from __future__ import annotations

import base64
import fcntl
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds4.errors import Ds4Error

from parity import golden_files, manifest, pending
from parity.pending import Broken, Pending

if TYPE_CHECKING:
    from parity.pending import Array

ROOT = Path(os.path.abspath(__file__)).parents[1] / "goldens"
"""The goldens that tests read: the checkout's, or Bazel's copy of them."""

CHANGES = "CHANGES.md"


class ReviewError(Ds4Error):
    """A decision that cannot be carried out."""

    code = "review"


class StaleError(ReviewError):
    """The golden is not any more what the pending was compared with."""

    code = "stale"


@dataclass(frozen=True)
class Case:
    """One case of a .jsonl golden. tape: None where the component resolves its own keys (fields) to one."""

    file: str
    name: str
    setup: str
    tape: bytes | None
    expected: bytes
    fields: Mapping[str, Any]


@dataclass(frozen=True)
class Standing:
    """Where a pending stands: its golden's provenance, whether the golden changed since, or says so already."""

    entry: manifest.Entry | None
    stale: str | None
    fulfilled: bool


@dataclass(frozen=True)
class Change:
    """What accepting wrote, from the repository's root."""

    files: tuple[str, ...]
    old: str | None
    new: str | None


def read(file: str, goldens: Path | None = None) -> list[Case]:
    """The cases of a .jsonl golden (relative to goldens/), its bytes being those of the manifest."""
    cases = []
    for row in golden_files.rows(file, read_bytes(file, goldens)):
        tape = None
        if "input" in row:
            tape = str(row["input"]).encode("utf-8", "surrogatepass")
        elif "input_b64" in row:
            tape = base64.b64decode(row["input_b64"], validate=True)
        expected = row["expected"].encode("utf-8", "surrogatepass")
        cases.append(Case(file, row["case"], str(row.get("setup", "")), tape, expected, row))
    return cases


def read_bytes(file: str, goldens: Path | None = None) -> bytes:
    """A golden's bytes, proven to be the frozen ones."""
    goldens = ROOT if goldens is None else goldens
    try:
        data = (goldens / file).read_bytes()
    except FileNotFoundError:
        raise manifest.ManifestError("does not exist", subject=f"goldens/{file}") from None
    manifest.check(manifest.read(goldens), file, data)
    return data


def value(file: str, case: str | None, goldens: Path | None = None) -> str | bytes | Array | None:
    """What a golden says of a case; None where there is no such file or case. case None: the file as a whole."""
    goldens = ROOT if goldens is None else goldens
    if not (goldens / file).is_file():
        return None
    return golden_files.extract(file, read_bytes(file, goldens), case)


def open_pendings(root: Path | None = None) -> tuple[list[tuple[Pending, Standing]], list[Broken]]:
    """What waits for a person, and the files that are no pendings. Those that the golden says already are left out."""
    root = pending.workspace() if root is None else root
    collected = pending.collect(root)
    waiting = [(one, standing(one, root)) for one in collected.pendings]
    return [(one, where) for one, where in waiting if not where.fulfilled], collected.broken


def standing(one: Pending, root: Path) -> Standing:
    goldens = root / "goldens"
    entry = manifest.entry_of(manifest.read(goldens), one.golden)
    try:
        now = value(one.golden, one.case, goldens)
    except (Ds4Error, ValueError) as error:
        return Standing(entry, str(error), False)
    if pending.same(now, one.proposal):
        return Standing(entry, None, True)
    if not pending.same(now, one.expected):
        was = "had no such case" if one.expected is None else "said something else"
        return Standing(entry, f"the golden changed since: when this was found it {was}; run the command again", False)
    return Standing(entry, None, False)


def accept(one: Pending, name: str, reason: str, root: Path | None = None) -> Change:
    """Makes the golden say what the pending proposes.

    Raises ReviewError without a name or a reason, StaleError where the golden changed since, ManifestError and
    GoldenFileError where the files are not as they must be. Nothing is written then.
    """
    root = pending.workspace() if root is None else root
    name, reason = _signed(name, reason)
    goldens = root / "goldens"
    with _locked(root):
        where = standing(one, root)
        if where.stale is not None:
            raise StaleError(where.stale, subject=f"goldens/{one.golden}")
        if where.fulfilled:
            raise StaleError("says so already", subject=f"goldens/{one.golden}")
        path = goldens / one.golden
        old = path.read_bytes() if path.is_file() else None
        new = golden_files.changed(one.golden, old, one)
        digests = [None if data is None else manifest.sha256(data) for data in (old, new)]
        today = date.today().isoformat()
        listing = (goldens / manifest.NAME).read_text(encoding="utf-8")
        listing = manifest.update(listing, one.golden, digests[1], today, _entry(one, today))
        changes = (goldens / CHANGES).read_text(encoding="utf-8") if (goldens / CHANGES).is_file() else _HEAD
        changes = changes.rstrip("\n") + "\n\n" + _note(one, name, reason, today, digests[0], digests[1])
        _write_together(
            {
                path: new,
                goldens / manifest.NAME: listing.encode("utf-8"),
                goldens / CHANGES: changes.encode("utf-8"),
            }
        )
        pending.settle(one, "accepted", root)
    files = (f"goldens/{one.golden}", f"goldens/{manifest.NAME}", f"goldens/{CHANGES}")
    return Change(files, digests[0], digests[1])


def reject(one: Pending, name: str, reason: str, root: Path | None = None) -> None:
    """Takes a pending away; the golden stays as it is. The name and reason are optional and kept with the decision."""
    root = pending.workspace() if root is None else root
    with _locked(root):
        said = ": ".join(filter(None, [" ".join(name.split()), " ".join(reason.split())]))
        pending.settle(one, f"rejected ({said})" if said else "rejected", root)


_HEAD = """\
# Changes of goldens

Each entry is a person's decision in the review (`./dev review`): what a golden says now, and why that is right.
"""


def _signed(name: str, reason: str) -> tuple[str, str]:
    name, reason = _line(name), _line(reason)
    for subject, text in (("name", name), ("reason", reason)):
        if not text.isprintable():
            raise ReviewError("cannot be written down", subject=subject, expected="text", found=ascii(text)[:80])
    if not name:
        raise ReviewError("accepting needs a name", subject="name", expected="who decides", found="nothing")
    if len(reason) < 8:
        raise ReviewError("accepting needs a reason", subject="reason", expected="why it is right", found=repr(reason))
    return name, reason


def _entry(one: Pending, today: str) -> manifest.Entry:
    """The manifest's entry for a golden in a folder that has none yet."""
    folder = one.golden.rpartition("/")[0]
    if one.golden.endswith(".ambr"):
        source = "our own text, as a person accepted it"
    else:
        source = "found by our own tests and accepted by a person; CHANGES.md gives each case's reason"
    reader = one.reader or f"parity/components/{one.component}.py"
    return manifest.Entry(folder, source, one.command, today, (reader,), {})


def _note(one: Pending, name: str, reason: str, today: str, old: str | None, new: str | None) -> str:
    what = "removed" if new is None or one.found is None else "new" if one.expected is None else "changed"
    case = "the whole file" if one.case is None else _line(one.case)
    return (
        f"## {today}: {one.golden}, {case}\n\n"
        f"{reason}\n\n"
        f"- {what} by {name}\n"
        f"- found: {_line(one.why)}, `{_line(one.command)}`\n"
        f"- sha256 of the file: {old or 'none'} to {new or 'none'}\n"
    )


def _line(text: str) -> str:
    return " ".join(text.split())


@contextmanager
def _locked(root: Path) -> Iterator[None]:
    """One decision at a time, whatever process takes it."""
    (root / ".dev").mkdir(exist_ok=True)
    with open(root / ".dev" / "goldens.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _write_together(files: Mapping[Path, bytes | None]) -> None:
    """Puts every file in place, or leaves all as they were. None removes a file."""
    staged: dict[Path, str] = {}
    before = {path: path.read_bytes() if path.is_file() else None for path in files}
    done: list[Path] = []
    try:
        for path, data in files.items():
            if data is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                handle, staged[path] = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
                with os.fdopen(handle, "wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                os.chmod(staged[path], 0o644)
        for path, data in files.items():
            done.append(path)
            if data is None:
                path.unlink()
            else:
                os.replace(staged[path], path)
    except OSError as error:
        for path in done:
            old = before[path]
            if old is None:
                path.unlink(missing_ok=True)
            else:
                path.write_bytes(old)
        raise ReviewError(f"could not be written, all is as it was: {error}", subject="goldens") from error
    finally:
        for name in staged.values():
            Path(name).unlink(missing_ok=True)
