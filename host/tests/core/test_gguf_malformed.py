"""Every way to get a GGUF file wrong is answered by name: what it is about, what would be right, what was there."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from ds4.core import gguf
from ds4.errors import ModelFileError
from support.gguf_faults import FAULTS, nested
from support.gguf_writer import (
    ARRAY,
    BOOL,
    I32,
    STRING,
    TYPE_Q8_0,
    U16,
    GgufWriter,
    Tensor,
    scalar,
    string,
    tiny_llama,
)

W = GgufWriter


@pytest.mark.parametrize("name", FAULTS)
def test_a_malformed_file_names_what_is_wrong_what_was_expected_and_what_was_found(name: str) -> None:
    made, code, subject, expected, found = FAULTS[name]
    data = made if isinstance(made, bytes) else made.build()

    with pytest.raises(ModelFileError) as caught:
        gguf.parse(data, Path("x.gguf"))

    error = caught.value
    assert (error.code, error.subject) == (code, subject)
    assert expected in str(error.expected)
    assert found in str(error.found)
    assert "in x.gguf" in error.message
    assert str(error) == f"{subject}: {error.message} (expected {error.expected}, found {error.found})"


def test_the_list_of_faults_is_long_enough_to_be_called_full() -> None:
    assert len(FAULTS) >= 60


@pytest.mark.parametrize(
    "make",
    [
        lambda: tiny_llama(),
        lambda: W(),
        lambda: W(version=2).u32("a", 1),
        lambda: W(alignment=4096).u32("general.alignment", 4096).tensor("a", (8,)).tensor("b", (8,)),
        lambda: W().raw("a", ARRAY, nested(4)),
        lambda: W().array("a", I32, []),
        lambda: W().tensor("n" * 64, (1, 1, 1, 1)),
        lambda: W().string("k" * 65535, ""),
        lambda: W().string("a", "tab\tand newline\n are fine in a value"),
    ],
)
def test_a_file_at_the_edge_of_the_rules_is_read(make: Callable[[], GgufWriter]) -> None:
    writer = make()
    read = gguf.parse(writer.build(), Path("x.gguf"))

    assert len(read.metadata) == len(writer.keys)
    assert len(read.tensors) == len(writer.tensors)
    read.metadata.check()


def test_an_error_never_carries_a_control_character_of_the_file() -> None:
    with pytest.raises(ModelFileError) as caught:
        gguf.parse(W().raw("a", STRING, string("\x1b]0;owned\x07", length=4000)).build(), Path("\x1b[31m.gguf"))
    assert str(caught.value).isprintable()


def test_a_long_name_is_cut_in_messages() -> None:
    key = "k" * 5000
    with pytest.raises(ModelFileError) as caught:
        gguf.parse(W().raw(key, BOOL, b"\x07").build(), Path("x.gguf"))
    assert len(str(caught.value)) < 300


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        gguf.read(tmp_path / "none.gguf")
    assert caught.value.code == "file_missing"
    assert caught.value.subject == str(tmp_path / "none.gguf")
    assert "No such file" in caught.value.message


def test_a_path_with_a_nul_is_an_error_and_not_a_crash() -> None:
    with pytest.raises(ModelFileError) as caught:
        gguf.read("a\0b")
    assert caught.value.code == "file_io"


def test_a_directory_is_not_a_model(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        gguf.read(tmp_path)
    assert (caught.value.code, caught.value.expected, caught.value.found) == ("file_kind", "a GGUF file", "a directory")


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    with pytest.raises(ModelFileError) as caught:
        gguf.read(tmp_path / "pipe.gguf")
    assert (caught.value.code, caught.value.found) == ("file_kind", "a device, pipe or socket")


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the limit on a socket's path is short
    with socket.socket(socket.AF_UNIX) as s:
        s.bind("s.gguf")
        with pytest.raises(ModelFileError) as caught:
            gguf.read("s.gguf")
    assert caught.value.code == "file_io"


def test_an_empty_file_on_disk_is_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "x.gguf").write_bytes(b"")
    with pytest.raises(ModelFileError) as caught:
        gguf.read(tmp_path / "x.gguf")
    assert (caught.value.code, caught.value.found) == ("gguf_magic", "an empty file")


def test_reading_leaves_no_descriptor_of_its_own_behind(tmp_path: Path) -> None:
    path = tiny_llama().write(tmp_path / "x.gguf")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        gguf.read(path)
        with pytest.raises(ModelFileError):
            gguf.read(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_writer_under_these_tests_can_write_a_tensor_by_hand() -> None:
    tensor = Tensor("a", (32, 2), TYPE_Q8_0)
    assert len(tensor.payload()) == 2 * 34
    assert scalar(U16, 513) == b"\x01\x02"
