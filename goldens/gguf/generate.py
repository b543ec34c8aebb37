"""Writes the goldens of component `gguf`.

    PYTHONPATH=host:host/tests:goldens/gguf python goldens/gguf/generate.py MODEL VOCABS

MODEL is SmolLM2-135M-Instruct.Q4_1.gguf, VOCABS the folder of vocabulary-only files (models/ of llama.cpp, as the sdist
of llama-cpp-python carries it). The `gguf` package says what is in right files; verdicts on wrong ones are worked out
by hand from docs/gguf.md and the component's contract (malformed.py), and the package's own view stands beside them.
"""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import malformed
import numpy as np
from ds4.sys.tape import escape
from gguf import GGUFReader, GGUFValueType

HERE = Path(__file__).parent
TYPES = "u8 i8 u16 i16 u32 i32 f32 bool string array u64 i64 f64".split()
VOCABS = ("ggml-vocab-llama-bpe.gguf", "ggml-vocab-bert-bge.gguf", "ggml-vocab-llama-spm.gguf")


def view(path: Path) -> str:
    """The output tape that says what the package's reader sees in one file."""
    reader = GGUFReader(path)
    fields = [(name, field) for name, field in reader.fields.items() if not name.startswith("GGUF.")]
    version = int(reader.fields["GGUF.version"].parts[-1][0])
    size = path.stat().st_size
    counts = f"{len(fields)} {len(reader.tensors)}"
    out = ["ok 1", f"shard 0 0 {version} {reader.alignment} {reader.data_offset} {size} {counts}"]
    for name, field in fields:
        out.append(f"key {escape(name).decode()} {_value(field)}")
    for tensor in reader.tensors:
        numbers = (0, int(tensor.tensor_type), tensor.data_offset, tensor.n_bytes, *tensor.shape)
        out.append(f"tensor {escape(tensor.name).decode()} {' '.join(str(int(n)) for n in numbers)}")
    out += list(_aliases(reader))
    return "\n".join(out) + "\n"


def _value(field: gguf.ReaderField) -> str:
    kind = field.types[0]
    word, value = TYPES[kind], field.parts[3]
    if kind == GGUFValueType.ARRAY:
        element, count = int(field.parts[3][0]), int(field.parts[4][0])
        start = int(field.offset) + sum(part.nbytes for part in field.parts[:5])
        raw = b"".join([part.tobytes() for part in field.parts[5:]])
        return f"array {TYPES[element]} {count} {start} {len(raw)} {zlib.crc32(raw):08X}"
    if kind == GGUFValueType.STRING:
        return f"string {escape(field.parts[4].tobytes()).decode()}"
    if kind in (GGUFValueType.FLOAT32, GGUFValueType.FLOAT64):
        raw = value.tobytes()[::-1]
        return f"{word} nan" if np.isnan(value[0]) else f"{word} {raw.hex().upper()}"
    return f"{word} {int(value[0])}"


def _aliases(reader: GGUFReader) -> Iterator[str]:
    spans = [(int(t.data_offset), -int(t.n_bytes), i, t.name) for i, t in enumerate(reader.tensors)]
    groups: list[list[tuple[int, int, str]]] = []
    end = -1
    for offset, minus, _, name in sorted(spans):
        if offset >= end:
            groups.append([])
        groups[-1].append((offset, offset - minus, name))
        end = max(end, offset - minus) if offset < end else offset - minus
    for group in groups:
        if len(group) > 1:
            names = " ".join(escape(name).decode() for _, _, name in group)
            yield f"alias 0 {group[0][0]} {max(e for _, e, _ in group) - group[0][0]} {names}"


def published(model: Path, vocabs: Path) -> Iterator[dict[str, Any]]:
    """Real files: only their names and how much of them a tape needs are stored."""
    files: list[tuple[Path, dict[str, str]]] = [(model, {"model": "smollm2"})]
    files += [(vocabs / name, {"vocab": name}) for name in VOCABS]
    for path, key in files:
        reader = GGUFReader(path)
        head = min(int(reader.data_offset), path.stat().st_size)
        yield {"case": f"published: {path.name}", **key, "head": head, "expected": view(path)}


def written(folder: Path) -> Iterator[dict[str, Any]]:
    """Small files that the package's own writer made, and some by hand that it reads."""
    for name, make in (("of every type", _every_type), ("with alignment 256", _aligned), ("without keys", _bare)):
        path = folder / "m.gguf"
        writer = gguf.GGUFWriter(path, "llama")
        make(writer)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        yield _stored(f"the package's writer: {name}", path, "check")
    for name, raw in malformed.RIGHT.items():
        path = folder / "m.gguf"
        path.write_bytes(raw)
        yield _stored(f"by hand: {name}", path, "check")


def _stored(case: str, path: Path, command: str) -> dict[str, Any]:
    raw = path.read_bytes()
    tape = b"%s 1\nfile m.gguf %d %d\n" % (command.encode(), len(raw), len(raw)) + raw
    return {"case": case, "input_b64": base64.b64encode(tape).decode(), "expected": view(path)}


def _every_type(writer: gguf.GGUFWriter) -> None:
    writer.add_uint8("t.u8", 255)
    writer.add_int8("t.i8", -128)
    writer.add_uint16("t.u16", 65535)
    writer.add_int16("t.i16", -32768)
    writer.add_uint32("t.u32", 2**32 - 1)
    writer.add_int32("t.i32", -(2**31))
    writer.add_uint64("t.u64", 2**64 - 1)
    writer.add_int64("t.i64", -(2**63))
    writer.add_float32("t.f32", 0.1)
    writer.add_float64("t.f64", -0.0)
    writer.add_bool("t.yes", True)
    writer.add_bool("t.no", False)
    writer.add_string("t.text", "naïve 日本 😀\n\0%")
    writer.add_array("t.ints", [1, 2, -3])
    writer.add_array("t.floats", [0.5, 1e30])
    writer.add_array("t.bools", [True, False])
    writer.add_array("t.strings", ["", "a", "é" * 40])
    rng = np.random.default_rng(7)
    writer.add_tensor("one", rng.standard_normal((3, 5)).astype(np.float32))
    writer.add_tensor("half", rng.standard_normal((2, 3, 4)).astype(np.float16))
    writer.add_tensor("bytes", np.arange(7, dtype=np.int8))
    writer.add_tensor("doubles", np.arange(2, dtype=np.float64))
    q8 = gguf.quants.quantize(rng.standard_normal((2, 64)).astype(np.float32), gguf.GGMLQuantizationType.Q8_0)
    writer.add_tensor("quantised", q8, raw_dtype=gguf.GGMLQuantizationType.Q8_0)


def _aligned(writer: gguf.GGUFWriter) -> None:
    writer.add_custom_alignment(256)
    for index in range(3):
        writer.add_tensor(f"t{index}", np.full(index + 1, index, dtype=np.float32))


def _bare(writer: gguf.GGUFWriter) -> None:
    """general.architecture alone, which the writer adds by itself."""


READER = """
import resource, sys, warnings
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
warnings.simplefilter("ignore")
import logging
logging.disable()
from gguf import GGUFReader
try:
    reader = GGUFReader(sys.argv[1])
    [tensor.data.shape for tensor in reader.tensors]
except MemoryError:
    print("runs out of memory")
except Exception as error:
    print(f"refuses ({type(error).__name__})")
else:
    print("reads it")
"""


def package_view(raw: bytes, folder: Path) -> str:
    """What the package's reader does with a file, within ten seconds and 4 GiB."""
    path = folder / "m.gguf"
    path.write_bytes(raw)
    try:
        done = subprocess.run([sys.executable, "-c", READER, str(path)], capture_output=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return "does not come to an end"
    return done.stdout.decode().strip() or f"ends with signal {-done.returncode}"


def wrong(folder: Path) -> Iterator[dict[str, Any]]:
    """The malformed corpus. package: the view of the `gguf` package of the opened file, where all of it is stored."""
    for case in malformed.cases():
        tape = b"%s %d\n" % (case.command.encode(), len(case.files))
        for name, size, head in case.files:
            tape += b"file %s %d %d\n" % (escape(name), size, len(head)) + head
        row = {"case": case.name, "input_b64": base64.b64encode(tape).decode(), "expected": case.expected}
        name, size, head = case.files[0]
        if size == len(head):
            row["package"] = package_view(head, folder)
        yield row


def check_tables() -> None:
    """The contract's table of block sizes against the package's."""
    text = (HERE.parents[1] / "oracles/gguf/README.md").read_text(encoding="utf-8")
    rows = [row for row in text.split("\n") if row.startswith("| ") and row.count("|") == 10]
    cells = [cell.strip() for row in rows for cell in row.strip("|").split("|")]
    stated = {
        int(t.split()[0]): (int(b), int(n)) for t, b, n in zip(*[iter(cells)] * 3, strict=True) if t[:1].isdigit()
    }
    known = {int(kind): sizes for kind, sizes in gguf.GGML_QUANT_SIZES.items()}
    known[9] = (32, 36)  # the package has Q8_1 with two floats; ggml-common.h made them halves
    assert {kind: stated[kind] for kind in known} == known, {k: (stated.get(k), v) for k, v in known.items()}
    print(f"types that the package does not know: {sorted(set(stated) - set(known))}")


def main() -> None:
    model, vocabs = map(Path, sys.argv[1:3])
    assert struct.pack("=I", 1) == struct.pack("<I", 1)
    check_tables()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name, rows in (
            ("package/published", published(model, vocabs)),
            ("package/written", written(folder)),
            ("malformed/files", wrong(folder)),
        ):
            path = HERE / f"{name}.jsonl"
            path.parent.mkdir(exist_ok=True)
            text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
            path.write_text(text, encoding="utf-8")
            print(path.name, text.count("\n"), "cases", len(text), "bytes")


if __name__ == "__main__":
    main()
