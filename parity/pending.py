"""Pending results: what a test found where a golden says otherwise or says nothing, kept until a person decides.

A pending is one JSON file. Under Bazel it lies in the test's undeclared outputs, else in .dev/pending/ of the checkout:

    pending      1, the version of this form
    component    whose behaviour it is: a component's name, or the room of a snapshot
    golden       file of the golden, relative to goldens/: "stops/splits.jsonl", "snapshots/cli/test_help.ambr"
    case         the case in it; null: the file as a whole
    setup        name of the component's setup, mostly ""
    kind         how to look at it: tape, text, events, array, binary
    input        what was asked, or null
    expected     what the golden says, or null where it has no such case
    oracle       what the oracle answered, where it was asked (a new case takes this, not what was found), or null
    found        what came out; null: nothing asks for the case any more
    why          mismatch at the gate | fuzz, shrunk | new case | snapshot | unused
    command      what reproduces it
    reader       who reads the golden, from the repository's root; "": the component's own file
    created      UTC, ISO 8601

Values are {"as": "text" | "bytes" | "npy", and "text", "base64", or "file" with "sha256" for one that is large}; such a
file lies beside the JSON. Writing needs nothing but the standard library, except for arrays.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import io
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from ds4.errors import Ds4Error

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Array = npt.NDArray[np.generic]

Kind = Literal["tape", "text", "events", "array", "binary"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Why = Literal["mismatch at the gate", "fuzz, shrunk", "new case", "snapshot", "unused"]

VERSION = 1
REVIEW = "./dev review"
INLINE = 1 << 20  # bytes of a value that stands in the JSON itself
LARGEST = 256 << 20  # bytes of any value
_FIELDS = ("component", "golden", "kind", "why", "command", "created")
_GOLDEN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)+")
_CODE = re.compile(r"(review|tests|goldens)/.*|.*(\.(py|bzl|sh|js|css|html)|(^|/)BUILD(\.bazel)?)")


class PendingError(Ds4Error):
    """A pending that cannot be written or read."""

    code = "pending"


@dataclass(frozen=True)
class Pending:
    """One result that waits. Values are text (str), raw (bytes) or an array."""

    component: str
    golden: str
    case: str | None
    setup: str
    kind: Kind
    input: str | bytes | Array | None
    expected: str | bytes | Array | None
    oracle: str | bytes | Array | None
    found: str | bytes | Array | None
    why: str
    command: str
    created: str
    reader: str = ""
    id: str = ""
    source: str = ""
    copies: tuple[str, ...] = ()
    """Ids of the same pending's other, older files; they are settled with it."""

    @property
    def title(self) -> str:
        return self.case if self.case is not None else self.golden.rpartition("/")[2]

    @property
    def proposal(self) -> str | bytes | Array | None:
        """What the golden would say: for a case that is new, the oracle's answer where there is one."""
        return self.oracle if self.expected is None and self.oracle is not None else self.found


@dataclass(frozen=True)
class Broken:
    """A file that lies among the pendings and is none."""

    source: str
    message: str


@dataclass(frozen=True)
class Collected:
    pendings: list[Pending]
    broken: list[Broken]


def workspace() -> Path:
    """The checkout: BUILD_WORKSPACE_DIRECTORY (set by `bazel run` and ./dev), or where this file really lies."""
    named = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    return Path(named) if named else Path(__file__).resolve().parents[1]


def folder() -> Path:
    """Where this process writes its pendings."""
    outputs = os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR")
    return Path(outputs, "pending") if outputs else workspace() / ".dev" / "pending"


def same(a: str | bytes | Array | None, b: str | bytes | Array | None) -> bool:
    """Whether two values are equal; text equals its bytes, arrays are compared by dtype, shape and bits."""
    if isinstance(a, str | bytes) and isinstance(b, str | bytes):
        return raw(a) == raw(b)
    if a is None or b is None or isinstance(a, str | bytes) or isinstance(b, str | bytes):
        return a is b
    return npy(a) == npy(b)


def write(
    *,
    component: str,
    golden: str,
    case: str | None,
    kind: Kind,
    found: str | bytes | Array | None,
    why: Why,
    command: str,
    expected: str | bytes | Array | None = None,
    oracle: str | bytes | Array | None = None,
    input: str | bytes | Array | None = None,
    setup: str = "",
    reader: str = "",
    into: Path | None = None,
) -> Path:
    """Writes one pending and returns its file. A later one of the same case takes an earlier one's place.

    golden: relative to goldens/ (or with that in front). For an input that has no golden yet: `new_cases(component)`.
    Raises PendingError for a golden whose name leads elsewhere, an unknown kind or a value above LARGEST bytes.
    """
    golden = golden.removeprefix("goldens/")
    if not _is_golden(golden):
        raise PendingError("no golden's name", expected="folder/file, relative to goldens/", found=repr(golden))
    if kind not in KINDS:
        raise PendingError("no such kind", subject=golden, expected=" | ".join(KINDS), found=kind)
    where = folder() if into is None else into
    where.mkdir(parents=True, exist_ok=True)
    stem = _stem(golden, case)
    body: dict[str, Any] = {
        "pending": VERSION,
        "component": component,
        "golden": golden,
        "case": case,
        "setup": setup,
        "kind": kind,
    }
    for name, value in (("input", input), ("expected", expected), ("oracle", oracle), ("found", found)):
        body[name] = _dump(value, where, f"{stem}.{name}")
    now = datetime.now(UTC).isoformat(timespec="microseconds")
    body |= {"why": why, "command": command, "reader": reader, "created": now}
    path = where / f"{stem}.json"
    _replace(path, json.dumps(body, ensure_ascii=True, indent=1).encode("ascii") + b"\n")
    return path


def _is_golden(name: str) -> bool:
    """Whether a file of goldens/ can be a golden: nothing that runs, and nothing that leads elsewhere."""
    return _GOLDEN.fullmatch(name) is not None and _CODE.fullmatch(name) is None


def new_cases(component: str) -> str:
    """The golden that cases without outside truth go to (found by a fuzz, asked for by a person)."""
    return f"{component}/found/cases.jsonl"


def discard(golden: str, case: str | None, *, into: Path | None = None) -> None:
    """Removes what `write` may have left for this case earlier: it passes now."""
    golden = golden.removeprefix("goldens/")
    where = folder() if into is None else into
    if where.is_dir():
        stem = _stem(golden, case)
        for path in [where / f"{stem}.json", *where.glob(f"{stem}.*.bin")]:
            path.unlink(missing_ok=True)


def clear(component: str, *, into: Path | None = None) -> None:
    """Removes what earlier runs left for a component that is about to be judged anew."""
    where = folder() if into is None else into
    for path in where.glob("*.json") if where.is_dir() else ():
        try:
            body = json.loads(_bounded_file(path))
            if body["component"] == component:
                discard(body["golden"], body["case"], into=where)
        except Exception:
            continue  # no pending; the review tells of it


def collect(root: Path | None = None) -> Collected:
    """Every pending of the checkout: of .dev/pending/ and of the tests' last outputs, as folders or as outputs.zip.

    Of several for one case the newest counts. What a person settled already is left out.
    """
    root = workspace() if root is None else root
    settled = _settled(root)
    newest: dict[tuple[str, str | None], Pending] = {}
    broken: list[Broken] = []
    for source, read, read_side in _files(root):
        try:
            found = _load(read(), source, read_side)
        except Exception as error:  # anybody may have written the file: it is told of, and hides no other
            broken.append(Broken(source, f"{type(error).__name__}: {error}"))
            continue
        if found.id in settled:
            continue
        key = (found.golden, found.case)
        other = newest.get(key)
        if other is not None:
            new, old = (found, other) if found.created > other.created else (other, found)
            found = replace(new, copies=(*new.copies, old.id, *old.copies))
        newest[key] = found
    return Collected(list(newest.values()), broken)


def settle(pending: Pending, verdict: str, root: Path | None = None) -> None:
    """Takes a pending (and its older copies) out of what `collect` finds: removes our own file, and remembers the
    others, which are Bazel's to keep."""
    root = workspace() if root is None else root
    state = root / ".dev"
    state.mkdir(exist_ok=True)
    with open(state / "reviewed.jsonl", "a", encoding="ascii") as file:
        for identity in (pending.id, *pending.copies):
            entry = {"id": identity, "golden": pending.golden, "case": pending.case, "verdict": verdict}
            file.write(json.dumps(entry, ensure_ascii=True) + "\n")
    discard(pending.golden, pending.case, into=state / "pending")


def _stem(golden: str, case: str | None) -> str:
    digest = hashlib.sha256(f"{golden}\0{case}".encode("utf-8", "surrogatepass")).hexdigest()[:12]
    words = re.sub(r"[^A-Za-z0-9]+", "-", case if case is not None else "").strip("-")[:48].lower()
    return "-".join(filter(None, [re.sub(r"[^A-Za-z0-9]+", "-", golden.rpartition(".")[0])[:60], words, digest]))


def raw(value: str | bytes) -> bytes:
    return value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value


def npy(array: Array) -> bytes:
    import numpy as np

    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(array), allow_pickle=False)
    return buffer.getvalue()


def _replace(path: Path, data: bytes) -> None:
    """Writes a file so that a reader sees the old bytes or the new ones."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _dump(value: str | bytes | Array | None, where: Path, stem: str) -> dict[str, Any] | None:
    if value is None:
        return None
    form = "text" if isinstance(value, str) else "bytes" if isinstance(value, bytes) else "npy"
    data = raw(value) if isinstance(value, str | bytes) else npy(value)
    if len(data) > LARGEST:
        raise PendingError("too large to keep", subject=stem, expected=f"at most {LARGEST} bytes", found=len(data))
    side = where / f"{stem}.bin"
    if len(data) > INLINE:
        _replace(side, data)
        return {"as": form, "file": side.name, "sha256": hashlib.sha256(data).hexdigest()}
    side.unlink(missing_ok=True)
    if form != "npy":
        try:
            return {"as": form, "text": data.decode("utf-8")}
        except UnicodeDecodeError:
            pass
    return {"as": form, "base64": base64.b64encode(data).decode("ascii")}


def _files(root: Path) -> Iterator[tuple[str, Callable[[], bytes], Callable[[str], bytes]]]:
    """(name, reader of the JSON, reader of a file beside it) of every file that may be a pending."""
    folders = [root / ".dev" / "pending"]
    archives: list[Path] = []
    logs = root / "bazel-testlogs"
    if logs.is_dir():
        outputs = sorted(logs.glob("**/test.outputs"))
        folders += [path / "pending" for path in outputs]
        archives += [path / "outputs.zip" for path in outputs]
    for where in folders:
        for path in sorted(where.glob("*.json")):
            yield _relative(path, root), functools.partial(_bounded_file, path), _beside(where)
    for archive in archives:
        if not archive.is_file():
            continue
        try:
            with zipfile.ZipFile(archive) as file:
                names = [name for name in file.namelist() if name.startswith("pending/") and name.endswith(".json")]
        except (OSError, zipfile.BadZipFile):
            names = [""]  # reading it says what is wrong
        for name in names:
            yield f"{_relative(archive, root)}:{name}", _member(archive, name), _member_beside(archive)


def _relative(path: Path, root: Path) -> str:
    return str(path.relative_to(root))


def _beside(where: Path) -> Callable[[str], bytes]:
    return lambda name: _bounded_file(where / name)


def _bounded_file(path: Path) -> bytes:
    if not path.is_file():
        raise PendingError("is no file", subject=path.name)
    if path.stat().st_size > LARGEST:
        raise PendingError("too large", subject=path.name, expected=LARGEST, found=path.stat().st_size)
    return path.read_bytes()


def _member(archive: Path, name: str) -> Callable[[], bytes]:
    def read() -> bytes:
        with zipfile.ZipFile(archive) as file:
            size = file.getinfo(name).file_size
            if size > LARGEST:
                raise PendingError("too large", subject=name, expected=LARGEST, found=size)
            return file.read(name)

    return read


def _member_beside(archive: Path) -> Callable[[str], bytes]:
    return lambda name: _member(archive, f"pending/{name}")()


def _load(data: bytes, source: str, beside: Callable[[str], bytes]) -> Pending:
    body = json.loads(data)
    if not isinstance(body, dict) or body.get("pending") != VERSION:
        found = body.get("pending") if isinstance(body, dict) else type(body).__name__
        raise PendingError("no pending of this form", expected=f"version {VERSION}", found=found)
    case = body.get("case")
    texts: dict[str, Any] = {name: body.get(name) for name in _FIELDS}
    texts |= {name: body.get(name, "") for name in ("setup", "reader")}
    for name, text in (texts | ({} if case is None else {"case": case})).items():
        if not isinstance(text, str):
            raise PendingError("no text", subject=name, expected="text", found=type(text).__name__)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise PendingError("no text", subject=name, expected="no lone surrogate", found=ascii(text)[:80]) from None
    if not _is_golden(body["golden"]) or body["kind"] not in KINDS:
        raise PendingError("no golden's name or kind", found=f"{body['golden']!r}, {body['kind']!r}")
    return Pending(
        component=body["component"],
        golden=body["golden"],
        case=case,
        setup=texts["setup"],
        kind=body["kind"],
        input=_value(body.get("input"), "input", beside),
        expected=_value(body.get("expected"), "expected", beside),
        oracle=_value(body.get("oracle"), "oracle", beside),
        found=_value(body.get("found"), "found", beside),
        why=body["why"],
        command=body["command"],
        created=body["created"],
        reader=texts["reader"],
        id=hashlib.sha256(data).hexdigest()[:16],
        source=source,
    )


def _value(entry: Any, name: str, beside: Callable[[str], bytes]) -> str | bytes | Array | None:
    if entry is None:
        return None
    if not isinstance(entry, dict) or entry.get("as") not in ("text", "bytes", "npy"):
        raise PendingError("no value", subject=name, expected="as: text | bytes | npy", found=repr(entry)[:80])
    if "text" in entry:
        data = str(entry["text"]).encode("utf-8", "surrogatepass")
    elif "base64" in entry:
        data = base64.b64decode(entry["base64"], validate=True)
    else:
        file = str(entry["file"])
        if "/" in file or file.startswith("."):
            raise PendingError("leads elsewhere", subject=name, expected="a file beside the pending", found=file)
        data = beside(file)
        digest = hashlib.sha256(data).hexdigest()
        if digest != entry.get("sha256"):
            raise PendingError("is another file", subject=file, expected=entry.get("sha256"), found=digest)
    if entry["as"] == "text":
        return data.decode("utf-8", "surrogatepass")
    if entry["as"] == "bytes":
        return data
    import numpy as np

    array: Array = np.load(io.BytesIO(data), allow_pickle=False)
    return array


def _settled(root: Path) -> set[str]:
    path = root / ".dev" / "reviewed.jsonl"
    if not path.is_file():
        return set()
    identities: set[str] = set()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            identities.add(str(json.loads(line)["id"]))
        except (ValueError, KeyError, TypeError, RecursionError):
            continue  # the last line of a process that was killed: its pending shows again
    return identities
