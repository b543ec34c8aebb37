"""The checkpoint reader: right files are read, and every way to be wrong has a typed error and allocates nothing."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ds4.errors import ModelFileError
from ds4.perf.synth.safetensors import open_checkpoint, parse
from hypothesis import given, settings
from hypothesis import strategies as st
from support.checkpoints import header, safetensors


def _entry(**changes: Any) -> dict[str, Any]:
    return {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} | changes


def test_a_file_is_read_as_it_was_written() -> None:
    values = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3),
        "b": np.array([1.5, -2.0], np.float16),
        "c": np.array([[7, 8]], np.int64),
    }
    stored = {tensor.name: tensor for tensor in parse(safetensors(values), "x")}
    assert {name: tensor.shape for name, tensor in stored.items()} == {"a": (2, 3), "b": (2,), "c": (1, 2)}
    assert stored["a"].floats(1, 5).tolist() == [1.0, 2.0, 3.0, 4.0]
    assert stored["b"].floats(0, 2).tolist() == [1.5, -2.0]
    assert stored["c"].integers(0, 2).tolist() == [7, 8]


def test_bfloat16_is_the_upper_half_of_a_float() -> None:
    x = np.array([1.0, -0.75, 3.140625], np.float32)
    raw = (x.view(np.uint32) >> 16).astype("<u2").tobytes()
    data = header({"x": {"dtype": "BF16", "shape": [3], "data_offsets": [0, 6]}}) + raw
    assert np.array_equal(parse(data, "x")[0].floats(0, 3), x)


def test_numbers_and_integers_are_not_taken_for_one_another() -> None:
    stored = {t.name: t for t in parse(safetensors({"f": np.ones(2, np.float32), "i": np.ones(2, np.int32)}), "x")}
    for read, name in ((stored["i"].floats, "i"), (stored["f"].integers, "f")):
        with pytest.raises(ModelFileError) as caught:
            read(0, 2)
        assert (caught.value.code, caught.value.subject) == ("checkpoint_dtype", name)


BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "checkpoint_header"),
    "no header": (struct.pack("<Q", 100) + b"{}", "checkpoint_header"),
    "a header past all sense": (struct.pack("<Q", 2**63) + b"{}", "checkpoint_header"),
    "no JSON": (struct.pack("<Q", 2) + b"{!", "checkpoint_header"),
    "not UTF-8": (struct.pack("<Q", 2) + b"\xff\xfe", "checkpoint_header"),
    "nested past all sense": (struct.pack("<Q", 100000) + b"[" * 100000, "checkpoint_header"),
    "a list": (header([]), "checkpoint_header"),  # type: ignore[arg-type]
    "a name twice": (
        struct.pack("<Q", 15) + b'{"a":1,"a": 2} ',
        "checkpoint_header",
    ),
    "an entry that is none": (header({"a": 3}), "checkpoint_tensor"),
    "no dtype": (header({"a": {"shape": [1], "data_offsets": [0, 4]}}) + bytes(4), "checkpoint_tensor"),
    "an unknown dtype": (header({"a": _entry(dtype="F4")}) + bytes(24), "checkpoint_tensor"),
    "a shape that is none": (header({"a": _entry(shape="x")}) + bytes(24), "checkpoint_tensor"),
    "a negative size": (header({"a": _entry(shape=[-2, -3])}) + bytes(24), "checkpoint_tensor"),
    "a fractional size": (header({"a": _entry(shape=[2.0, 3])}) + bytes(24), "checkpoint_tensor"),
    "too many sizes": (header({"a": _entry(shape=[1] * 9)}) + bytes(24), "checkpoint_tensor"),
    "a size past all sense": (header({"a": _entry(shape=[2**61, 2**61])}) + bytes(24), "checkpoint_tensor"),
    "one offset": (header({"a": _entry(data_offsets=[0])}) + bytes(24), "checkpoint_tensor"),
    "offsets the wrong way": (header({"a": _entry(data_offsets=[24, 0])}) + bytes(24), "checkpoint_tensor"),
    "a length that does not follow": (header({"a": _entry(data_offsets=[0, 20])}) + bytes(24), "checkpoint_tensor"),
    "data past the end": (header({"a": _entry()}) + bytes(23), "checkpoint_tensor"),
    "data far past the end": (header({"a": _entry(data_offsets=[2**60, 2**60 + 24])}), "checkpoint_tensor"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_file_that_is_wrong_is_refused_by_name(name: str) -> None:
    raw, code = BAD[name]
    with pytest.raises(ModelFileError) as caught:
        parse(raw, "x.safetensors")
    assert caught.value.code == code and caught.value.subject


@settings(max_examples=300)
@given(st.data())
def test_any_bytes_are_tensors_within_the_file_or_a_typed_error(data: st.DataObject) -> None:
    raw = bytearray(safetensors({"a": np.ones((2, 2), np.float32), "b": np.ones(3, np.int64)}))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(raw[: data.draw(st.integers(0, len(raw)))])
    try:
        found = parse(cut, "x")
    except ModelFileError as error:
        assert error.code.startswith("checkpoint_")
        return
    for tensor in found:
        assert 0 <= tensor.start <= len(cut)


def _index(folder: Path, weight_map: object) -> None:
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}), encoding="utf-8")


def test_shards_are_joined(tmp_path: Path) -> None:
    _index(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    for file, name in (("one", "a"), ("two", "b")):
        (tmp_path / f"{file}.safetensors").write_bytes(safetensors({name: np.ones(1, np.float32)}))
    assert set(open_checkpoint(tmp_path)) == {"a", "b"}


FOLDERS: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda p: None, "checkpoint_missing"),
    "an index of nothing": (lambda p: _index(p, 3), "checkpoint_json"),
    "a path out of the folder": (lambda p: _index(p, {"a": "../../secret.safetensors"}), "checkpoint_json"),
    "a shard that is missing": (lambda p: _index(p, {"a": "one.safetensors"}), "file_missing"),
    "an index that is no JSON": (
        lambda p: (p / "model.safetensors.index.json").write_text("{"),
        "checkpoint_json",
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_that_is_wrong_is_refused_by_name(name: str, tmp_path: Path) -> None:
    make, code = FOLDERS[name]
    make(tmp_path)
    with pytest.raises(ModelFileError) as caught:
        open_checkpoint(tmp_path)
    assert caught.value.code == code


def test_a_tensor_in_two_shards_is_refused(tmp_path: Path) -> None:
    _index(tmp_path, {"a": "one.safetensors", "b": "two.safetensors"})
    for file in ("one", "two"):
        (tmp_path / f"{file}.safetensors").write_bytes(safetensors({"a": np.ones(1, np.float32)}))
    with pytest.raises(ModelFileError) as caught:
        open_checkpoint(tmp_path)
    assert (caught.value.code, caught.value.subject) == ("checkpoint_duplicate", "a")
