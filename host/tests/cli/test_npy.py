"""The .npy that we write is the one that NumPy reads."""

from __future__ import annotations

from array import array
from pathlib import Path

import numpy
import pytest
from ds4.cli.npy import NpyWriter


def rows(*values: list[float]) -> list[memoryview[float]]:
    return [memoryview(array("f", value)) for value in values]


def test_numpy_reads_back_what_was_written_row_by_row(tmp_path: Path) -> None:
    with NpyWriter(tmp_path / "x.npy", 3) as file:
        for row in rows([1, 2, 3], [4.5, -5, float("inf")]):
            file.append(row)
    loaded = numpy.load(tmp_path / "x.npy")
    assert loaded.dtype == numpy.float32
    assert loaded.tolist() == [[1, 2, 3], [4.5, -5, float("inf")]]
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]


def test_no_rows_make_an_empty_matrix(tmp_path: Path) -> None:
    with NpyWriter(tmp_path / "x.npy", 7):
        pass
    assert numpy.load(tmp_path / "x.npy").shape == (0, 7)


def test_the_data_starts_at_a_multiple_of_64(tmp_path: Path) -> None:
    with NpyWriter(tmp_path / "x.npy", 1) as file:
        file.append(*rows([1]))
    assert (tmp_path / "x.npy").stat().st_size - 4 == 128


def test_a_row_of_another_width_or_type_is_refused_and_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected 3 float32"), NpyWriter(tmp_path / "x.npy", 3) as file:
        file.append(*rows([1, 2]))
    with pytest.raises(ValueError, match="expected 1 float32"), NpyWriter(tmp_path / "x.npy", 1) as file:
        file.append(memoryview(array("i", [1])))
    assert list(tmp_path.iterdir()) == []


def test_a_failure_midway_keeps_the_file_that_was_there(tmp_path: Path) -> None:
    (tmp_path / "x.npy").write_bytes(b"old")
    with pytest.raises(RuntimeError), NpyWriter(tmp_path / "x.npy", 1) as file:
        file.append(*rows([1]))
        raise RuntimeError
    assert (tmp_path / "x.npy").read_bytes() == b"old"


def test_a_device_is_not_replaced_by_a_file() -> None:
    with pytest.raises(OSError, match="not a regular file"):
        NpyWriter(Path("/dev/null"), 1)


def test_rows_may_have_dims_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "x.npy"
    with NpyWriter(path, 2, 3) as file:
        for start in (0, 6, 12):
            file.append(memoryview(numpy.arange(start, start + 6, dtype=numpy.float32)))
    found = numpy.load(path)
    assert found.shape == (3, 2, 3) and found.ravel().tolist() == list(range(18))
