"""The files that goldens are kept in: one value read out of them, and the file's bytes with one value changed.

.jsonl   a case a line: {"case", "setup"?, "input" | "input_b64" | keys of the component, "expected"}
.ambr    syrupy's snapshots by name
.npz     arrays by name
.npy     one array;  any other file is one value, text or bytes
"""

from __future__ import annotations

import base64
import io
import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ds4.errors import Ds4Error

from parity.pending import Pending, npy, raw

if TYPE_CHECKING:
    from syrupy.data import SnapshotCollection

    from parity.pending import Array


class GoldenFileError(Ds4Error):
    """A golden that is not of its form, or a result that its form cannot hold."""

    code = "golden_file"


def extract(file: str, data: bytes, case: str | None) -> str | bytes | Array | None:
    """What a golden file says of a case; None where it has no such case. case None: the whole file."""
    form = file.rpartition(".")[2]
    if case is None:
        return _load_npy(data, file) if form == "npy" else data
    if form == "jsonl":
        found = [row for row in rows(file, data) if row["case"] == case]
        return str(found[0]["expected"]) if found else None
    if form == "ambr":
        snapshot = _read_amber(data).get(case)
        return None if snapshot is None else str(snapshot.data)
    if form == "npz":
        return _load_npz(data, file).get(case)
    raise GoldenFileError("has no cases", subject=file, expected=".jsonl, .ambr or .npz", found=f".{form}")


def changed(file: str, data: bytes | None, pending: Pending) -> bytes | None:
    """The golden file's bytes after the pending is accepted; None when nothing is left in it."""
    form, value = file.rpartition(".")[2], pending.proposal
    if pending.case is None:
        if value is None:
            return None
        if form == "npy" and isinstance(value, str | bytes):
            raise GoldenFileError("holds an array", subject=file, expected="an array", found=type(value).__name__)
        return raw(value) if isinstance(value, str | bytes) else npy(value)
    if form == "jsonl":
        return _change_jsonl(file, data or b"", pending)
    if form == "ambr":
        return _change_amber(data, pending.case, None if value is None else _text(value, file))
    if form == "npz":
        return _change_npz(file, data, pending)
    raise GoldenFileError("has no cases", subject=file, expected=".jsonl, .ambr or .npz", found=f".{form}")


def rows(file: str, data: bytes) -> list[dict[str, Any]]:
    """The lines of a .jsonl golden. GoldenFileError for one that is no case, or a case's second."""
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(data.decode("utf-8").split("\n"), start=1):
        if not line:
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise GoldenFileError(f"is no JSON: {error}", subject=f"{file}:{number}") from None
        if not isinstance(row, dict) or not all(isinstance(row.get(key), str) for key in ("case", "expected")):
            raise GoldenFileError("is no case", subject=f"{file}:{number}", expected="case, expected", found=line[:60])
        if row["case"] in found:
            raise GoldenFileError("is there twice", subject=f"{file}:{number}", expected="one", found=row["case"])
        found[row["case"]] = row
    return list(found.values())


def input_fields(value: str | bytes) -> dict[str, str]:
    """The input of a case as its line has it."""
    if isinstance(value, bytes):
        try:
            return {"input": value.decode("utf-8")}
        except UnicodeDecodeError:
            return {"input_b64": base64.b64encode(value).decode("ascii")}
    return {"input": value}


def _change_jsonl(file: str, data: bytes, pending: Pending) -> bytes | None:
    rows(file, data)
    value = pending.proposal
    lines, done = [], False
    for line in data.decode("utf-8").split("\n"):
        if line and json.loads(line)["case"] == pending.case:
            done = True
            if value is None:
                continue
            line = _line({**json.loads(line), "expected": _text(value, file)}, line)
        lines.append(line)
    if not done and value is not None:
        if pending.input is None or not isinstance(pending.input, str | bytes):
            raise GoldenFileError("a new case needs its input", subject=file, expected="a tape", found="none")
        row = {"case": pending.case, **({"setup": pending.setup} if pending.setup else {})}
        row |= {**input_fields(pending.input), "expected": _text(value, file)}
        if lines and not lines[-1]:
            lines.pop()
        lines += [_line(row, lines[-1] if lines else ""), ""]
    text = "\n".join(lines)
    return text.encode("utf-8") if text.strip() else None


def _line(row: dict[str, Any], like: str) -> str:
    """A row as JSON, escaped or not as the line that it takes the place of (or follows)."""
    text = json.dumps(row, ensure_ascii=like.isascii())
    return text if _is_utf8(text) else json.dumps(row)


def _is_utf8(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _text(value: str | bytes | Array, file: str) -> str:
    if isinstance(value, str):
        return value
    if not isinstance(value, bytes):
        raise GoldenFileError("holds text", subject=file, expected="text", found="an array")
    try:
        return value.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise GoldenFileError(f"holds text: {error}", subject=file) from None


def _read_amber(data: bytes) -> SnapshotCollection:
    from syrupy.extensions.amber.serializer import AmberDataSerializer

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "golden.ambr")
        path.write_bytes(data)
        return AmberDataSerializer.read_file(str(path))


def _change_amber(data: bytes | None, name: str, value: str | None) -> bytes | None:
    from syrupy.data import Snapshot, SnapshotCollection
    from syrupy.extensions.amber.serializer import AmberDataSerializer

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "golden.ambr")
        snapshots = SnapshotCollection(location=str(path))
        if data is not None:
            path.write_bytes(data)
            snapshots.merge(AmberDataSerializer.read_file(str(path)))
        if value is None:
            snapshots.remove(name)
        else:
            snapshots.add(Snapshot(name=name, data=value))
        if not snapshots.has_snapshots:
            return None
        AmberDataSerializer.write_file(snapshots)
        return path.read_bytes()


def _load_npy(data: bytes, file: str) -> Array:
    import numpy as np

    try:
        array: Array = np.load(io.BytesIO(data), allow_pickle=False)
    except (ValueError, OSError) as error:
        raise GoldenFileError(f"is no array: {error}", subject=file) from None
    return array


def _load_npz(data: bytes, file: str) -> dict[str, Array]:
    import numpy as np

    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file_:
            return {name: file_[name] for name in file_.files}
    except (ValueError, OSError, AttributeError) as error:
        raise GoldenFileError(f"holds no arrays: {error}", subject=file) from None


def _change_npz(file: str, data: bytes | None, pending: Pending) -> bytes | None:
    import numpy as np

    arrays: dict[str, Any] = _load_npz(data, file) if data is not None else {}
    value = pending.proposal
    assert pending.case is not None
    if isinstance(value, str | bytes):
        raise GoldenFileError("holds arrays", subject=file, expected="an array", found=type(value).__name__)
    if value is None:
        arrays.pop(pending.case, None)
    else:
        arrays[pending.case] = value
    if not arrays:
        return None
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()
