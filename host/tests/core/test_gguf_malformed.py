"""Every way to get a GGUF file wrong is answered by name: what it is about, what would be right, what was there."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from ds4.core import gguf
from ds4.errors import ModelFileError
from support.gguf_writer import (
    ARRAY,
    BOOL,
    F32,
    I32,
    STRING,
    TYPE_F16,
    TYPE_Q4_K,
    TYPE_Q8_0,
    U8,
    U16,
    U32,
    U64,
    GgufWriter,
    Tensor,
    array,
    scalar,
    string,
    tiny_llama,
    u32,
    u64,
)

W = GgufWriter


def _nested(levels: int) -> bytes:
    payload = array(U8, [1, 2])
    for _ in range(levels - 1):
        payload = array(ARRAY, [payload])
    return payload


def _keys_then_cut(cut: int) -> GgufWriter:
    return GgufWriter(cut=cut, alignment=1).string("general.name", "x" * 40)


# name: (writer or bytes, code, subject, expected, found)
CASES: dict[str, tuple[GgufWriter | bytes, str, str, str, str]] = {
    # ---- what is no GGUF file at all
    "an empty file": (b"", "gguf_magic", "magic", "b'GGUF'", "an empty file"),
    "two bytes": (b"GG", "gguf_magic", "magic", "b'GGUF'", "bytes b'GG'"),
    "another magic": (W(magic=b"GGUX"), "gguf_magic", "magic", "b'GGUF'", "bytes b'GGUX'"),
    "a git-lfs pointer": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
        "gguf_magic",
        "magic",
        "b'GGUF'",
        "a Git LFS pointer",
    ),
    "a pytorch archive": (b"PK\x03\x04" + bytes(60), "gguf_magic", "magic", "b'GGUF'", "a ZIP archive"),
    "a safetensors file": (u64(100) + b'{"a":{}}' + bytes(20), "gguf_magic", "magic", "b'GGUF'", "a safetensors file"),
    "an older ggml file": (b"tjgg" + bytes(60), "gguf_magic", "magic", "b'GGUF'", "older than GGUF"),
    "a web page": (b"<!DOCTYPE html><html></html>", "gguf_magic", "magic", "b'GGUF'", "an HTML page"),
    # ---- header
    "version 0": (W(version=0), "gguf_version", "version", "2 or 3", "0"),
    "version 1": (W(version=1), "gguf_version", "version", "2 or 3", "1"),
    "a future version": (W(version=4), "gguf_version", "version", "2 or 3", "4"),
    "a garbage version": (W(version=0x12345678), "gguf_version", "version", "2 or 3", "305419896"),
    "a big-endian file": (
        b"GGUF" + (3).to_bytes(4, "big") + bytes(16),
        "gguf_big_endian",
        "version",
        "a little-endian file",
        "big-endian version 3",
    ),
    "a header cut in the version": (b"GGUF\x03\x00", "gguf_truncated", "version", "4 bytes", "2 bytes left"),
    "a header cut in the tensor count": (
        b"GGUF" + u32(3) + bytes(3),
        "gguf_truncated",
        "tensor count",
        "8 bytes",
        "3 bytes left",
    ),
    "a header cut in the key count": (
        b"GGUF" + u32(3) + u64(0) + bytes(7),
        "gguf_truncated",
        "key count",
        "8 bytes",
        "7 bytes left",
    ),
    "a tensor count past the end": (
        W(n_tensors=2**61),
        "gguf_count",
        "tensor count",
        "at most 0 in 16 bytes",
        str(2**61),
    ),
    "a tensor count of all ones": (W(n_tensors=2**64 - 1), "gguf_count", "tensor count", "at most 0", str(2**64 - 1)),
    "a key count past the end": (
        W(n_keys=1000).string("a", "b"),
        "gguf_count",
        "key count",
        "at most 2 in 40 bytes",
        "1000",
    ),
    "a key count of all ones": (W(n_keys=2**64 - 1), "gguf_count", "key count", "at most 0", str(2**64 - 1)),
    "more keys than the reader takes": (
        W(n_keys=70_000).raw("a", ARRAY, u32(U8) + u64(1_000_000) + bytes(1_000_000)),
        "gguf_count",
        "key count",
        "at most 65536",
        "70000",
    ),
    "more tensors than the reader takes": (
        W(n_tensors=300_000).raw("a", ARRAY, u32(U8) + u64(10_000_000) + bytes(10_000_000)),
        "gguf_count",
        "tensor count",
        "at most 262144",
        "300000",
    ),
    "one key more than there are": (
        W(n_keys=2, alignment=1).string("general.name", "a name as long as two"),
        "gguf_truncated",
        "key 1",
        "8 bytes",
        "0 bytes left",
    ),
    "one tensor more than there are": (
        W(n_tensors=2, alignment=1).tensor("a", (64,), data=b""),
        "gguf_count",
        "tensor count",
        "at most 1",
        "2",
    ),
    # ---- keys
    "an empty key": (W().u32("", 1), "gguf_name", "key 0", "at least 1 byte", "0 bytes"),
    "a key longer than the file": (
        W().raw("key", U32, u32(1), key_length=60_000),
        "gguf_truncated",
        "key 0",
        "60000 bytes",
        "bytes left",
    ),
    "a key longer than the format allows": (
        W().raw("key", U32, u32(1), key_length=2**63),
        "gguf_string_length",
        "key 0",
        "at most 65535 bytes",
        f"{2**63} bytes",
    ),
    "a key that is not utf-8": (
        W().raw(b"ab\xff", U32, u32(1)),
        "gguf_utf8",
        "key 0",
        "valid UTF-8",
        "byte 0xff at 2 of 3",
    ),
    "a key with a nul": (W().u32("a\0b", 1), "gguf_name", "key 0", "printable characters", "a\\x00b"),
    "a key with an escape sequence": (W().u32("a\x1b[2J", 1), "gguf_name", "key 0", "printable", "a\\x1b[2J"),
    "a key twice": (W().u32("a.b", 1).u32("a.b", 1), "gguf_duplicate_key", "a.b", "one", "two"),
    "a key twice with other types": (W().u32("a.b", 1).string("a.b", "c"), "gguf_duplicate_key", "a.b", "one", "two"),
    "a key without a type": (
        W(alignment=1).raw("abcdefgh", U32, b"").build()[:-2],
        "gguf_truncated",
        "abcdefgh",
        "4 bytes",
        "2 bytes left",
    ),
    # ---- values
    "a value type of 13": (W().raw("a", 13, bytes(8)), "gguf_value_type", "a", "0..12", "13"),
    "a value type of all ones": (W().raw("a", 2**32 - 1, bytes(8)), "gguf_value_type", "a", "0..12", "4294967295"),
    "a number cut short": (
        _keys_then_cut(0).raw("ab", U64, bytes(3)),
        "gguf_truncated",
        "ab",
        "8 bytes",
        "3 bytes left",
    ),
    "a boolean of 2": (W().raw("a", BOOL, b"\x02"), "gguf_bool", "a", "0 or 1", "2"),
    "a string longer than the file": (
        W().raw("a", STRING, string("abc", length=4000)),
        "gguf_truncated",
        "a",
        "4000 bytes",
        "bytes left",
    ),
    "a string of 2^64-1 bytes": (
        W().raw("a", STRING, string("abc", length=2**64 - 1)),
        "gguf_truncated",
        "a",
        f"{2**64 - 1} bytes",
        "bytes left",
    ),
    "a string that is not utf-8": (
        W().string("general.name", b"abc\xc3\x28"),
        "gguf_utf8",
        "general.name",
        "valid UTF-8",
        "byte 0xc3 at 3 of 5",
    ),
    "a string with an encoded surrogate": (
        W().string("general.name", b"\xed\xa0\x80"),
        "gguf_utf8",
        "general.name",
        "valid UTF-8",
        "byte 0xed",
    ),
    "a string cut in its length": (_keys_then_cut(44), "gguf_truncated", "general.name", "8 bytes", "4 bytes left"),
    "a string cut in its text": (_keys_then_cut(10), "gguf_truncated", "general.name", "40 bytes", "30 bytes left"),
    # ---- arrays
    "an array of a bad element type": (W().raw("a", ARRAY, u32(99) + u64(0)), "gguf_value_type", "a", "0..12", "99"),
    "an array longer than the file": (
        W(alignment=1).raw("a", ARRAY, array(F32, [1.0], count=1000)),
        "gguf_array_count",
        "a",
        "at most 1 elements of f32 in 4 bytes",
        "1000 elements",
    ),
    "an array that is longer than the file by one element": (
        W(alignment=1).raw("a", ARRAY, array(F32, [1.0], count=2)),
        "gguf_array_count",
        "a",
        "at most 1 elements of f32 in 4 bytes",
        "2 elements",
    ),
    "an array whose size wraps": (
        W(alignment=1).raw("a", ARRAY, array(U64, [1], count=2**61 + 1)),
        "gguf_array_count",
        "a",
        "at most 1 elements of u64",
        f"{2**61 + 1} elements",
    ),
    "an array of more strings than the file": (
        W(alignment=1).raw("a", ARRAY, array(STRING, ["x"], count=2**32)),
        "gguf_array_count",
        "a",
        "at most 1 elements of string in 9 bytes",
        f"{2**32} elements",
    ),
    "an array string longer than the file": (
        W(alignment=1).raw("a", ARRAY, u32(STRING) + u64(3) + string("x") + string("yy", length=5000) + string("z")),
        "gguf_truncated",
        "a[1]",
        "5000 bytes",
        "11 bytes left",
    ),
    "an array string of 2^64-1 bytes": (
        W(alignment=1).raw("a", ARRAY, u32(STRING) + u64(3) + string("x", length=2**64 - 1) + bytes(30)),
        "gguf_truncated",
        "a[0]",
        f"{2**64 - 1} bytes",
        "31 bytes left",
    ),
    "a last array string that ends past the end": (
        W(alignment=1).raw("a", ARRAY, u32(STRING) + u64(2) + string("x") + string("y", length=2)),
        "gguf_truncated",
        "a[1]",
        "2 bytes",
        "1 bytes left",
    ),
    "an array cut in its count": (
        W(alignment=1).raw("ab", ARRAY, u32(U8) + bytes(5)),
        "gguf_truncated",
        "ab",
        "8 bytes",
        "5 bytes left",
    ),
    "arrays nested too deeply": (
        W().raw("a", ARRAY, _nested(5)),
        "gguf_array_depth",
        "a",
        "at most 4 levels",
        "5 or more",
    ),
    "arrays nested a thousand deep": (
        W().raw("a", ARRAY, _nested(1000)),
        "gguf_array_depth",
        "a",
        "at most 4 levels",
        "5 or more",
    ),
    "an inner array longer than the file": (
        W(alignment=1).raw("a", ARRAY, array(ARRAY, [array(U16, [1], count=9)])),
        "gguf_array_count",
        "a",
        "at most 1 elements of u16 in 2 bytes",
        "9 elements",
    ),
    # ---- alignment
    "an alignment of 0": (
        W().u32("general.alignment", 0),
        "gguf_alignment",
        "general.alignment",
        "a power of two",
        "0",
    ),
    "an alignment of 4": (W().u32("general.alignment", 4), "gguf_alignment", "general.alignment", "8..1048576", "4"),
    "an alignment of 48": (W().u32("general.alignment", 48), "gguf_alignment", "general.alignment", "a power", "48"),
    "an alignment of 2^31": (
        W().u32("general.alignment", 2**31),
        "gguf_alignment",
        "general.alignment",
        "8..1048576",
        str(2**31),
    ),
    "an alignment of another type": (
        W().number("general.alignment", U64, 32),
        "gguf_alignment",
        "general.alignment",
        "u32",
        "u64",
    ),
    "an alignment that is an array": (
        W().array("general.alignment", U32, [32]),
        "gguf_alignment",
        "general.alignment",
        "u32",
        "array of 1 u32",
    ),
    "an alignment that the offsets do not keep": (
        W(alignment=32).u32("general.alignment", 64).tensor("a", (8,)).tensor("b", (8,)),
        "gguf_offset",
        "b",
        "a multiple of 64",
        "offset 32",
    ),
    # ---- the tensor directory
    "a tensor without a name": (W().tensor("", (8,)), "gguf_name", "tensor 0", "at least 1 byte", "0 bytes"),
    "a tensor name of 65 bytes": (
        W().tensor("n" * 65, (8,)),
        "gguf_string_length",
        "tensor 0",
        "at most 64 bytes",
        "65 bytes",
    ),
    "a tensor name of 2^64-1 bytes": (
        W().tensor("n", (8,), name_length=2**64 - 1),
        "gguf_string_length",
        "tensor 0",
        "at most 64 bytes",
        f"{2**64 - 1} bytes",
    ),
    "a tensor name that is not utf-8": (
        W().tensor(b"\x80", (8,)),
        "gguf_utf8",
        "tensor 0",
        "valid UTF-8",
        "byte 0x80 at 0 of 1",
    ),
    "a tensor name with a nul": (W().tensor("a\0", (8,)), "gguf_name", "tensor 0", "printable", "a\\x00"),
    "a tensor without dimensions": (W().tensor("a", (), data=b""), "gguf_dims", "a", "1..4", "0"),
    "a tensor of five dimensions": (W().tensor("a", (1, 1, 1, 1, 1)), "gguf_dims", "a", "1..4", "5"),
    "a tensor of 2^32-1 dimensions": (
        W().tensor("a", (8,), n_dims=2**32 - 1),
        "gguf_dims",
        "a",
        "1..4",
        "4294967295",
    ),
    "a zero dimension": (W().tensor("a", (8, 0, 8)), "gguf_dims", "a", "at least 1", "[8, 0, 8]"),
    "a dimension of 2^63": (
        W().tensor("a", (2**63,), data=b""),
        "gguf_dims",
        "a",
        "less than 2^63",
        "9223372036854775808",
    ),
    "dimensions whose product overflows": (
        W().tensor("a", (2**32, 2**31), data=b""),
        "gguf_dims",
        "a",
        "less than 2^63",
        "4294967296 x 2147483648",
    ),
    "dimensions whose product wraps to a small one": (
        W().tensor("a", (2**32, 2**32, 2**32, 8), data=b""),
        "gguf_dims",
        "a",
        "less than 2^63",
        "4294967296 x 4294967296 x 4294967296 x 8",
    ),
    "a size in bytes that overflows": (
        W().tensor("a", (2**62,), data=b""),
        "gguf_dims",
        "a",
        "less than 2^63",
        str(2**64),
    ),
    "a quantised size in bytes that overflows": (
        W().tensor("a", (2**63 - 32,), TYPE_Q8_0, data=b""),
        "gguf_dims",
        "a",
        "less than 2^63",
        str((2**63 - 32) // 32 * 34),
    ),
    "a tensor type that nobody knows": (
        W().tensor("a", (32,), 99, data=b""),
        "gguf_tensor_type",
        "a",
        "a type of TENSOR_TYPES",
        "type 99",
    ),
    "a tensor type of all ones": (
        W().tensor("a", (32,), 2**32 - 1, data=b""),
        "gguf_tensor_type",
        "a",
        "a type of TENSOR_TYPES",
        "type 4294967295",
    ),
    "a tensor type that is gone": (
        W().tensor("a", (32,), 31, data=b""),
        "gguf_tensor_type",
        "a",
        "a current type",
        "Q4_0_4_4 (type 31)",
    ),
    "rows that are not whole blocks": (
        W().tensor("a", (48, 2), TYPE_Q8_0, data=b""),
        "gguf_blocks",
        "a",
        "a multiple of 32",
        "48",
    ),
    "rows that are not whole super-blocks": (
        W().tensor("a", (576, 4), TYPE_Q4_K, data=b""),
        "gguf_blocks",
        "a",
        "a multiple of 256",
        "576",
    ),
    "an offset that is not aligned": (
        W().tensor("a", (8,), offset=8),
        "gguf_offset",
        "a",
        "a multiple of 32",
        "offset 8",
    ),
    "an offset past 2^63": (
        W().tensor("a", (8,), offset=2**63),
        "gguf_offset",
        "a",
        "less than 2^63",
        str(2**63),
    ),
    "an offset whose end wraps": (
        W().tensor("a", (8,), offset=2**64 - 32),
        "gguf_offset",
        "a",
        "less than 2^63",
        str(2**64 - 32),
    ),
    "an offset past the end": (
        W().tensor("a", (8,), offset=3200),
        "gguf_tensor_past_end",
        "a",
        "an end within 64 bytes",
        "bytes 3264..3296",
    ),
    "data that is too short by a byte": (
        W(cut=1).tensor("a", (8,)),
        "gguf_tensor_past_end",
        "a",
        "an end within 95 bytes",
        "bytes 64..96",
    ),
    "data that is missing": (
        W(cut=32).tensor("a", (8,)),
        "gguf_tensor_past_end",
        "a",
        "an end within 64 bytes",
        "bytes 64..96",
    ),
    "a tensor larger than any file": (
        W().tensor("a", (2**40,), data=b""),
        "gguf_tensor_past_end",
        "a",
        "an end within 64 bytes",
        f"bytes 64..{2**42 + 64}",
    ),
    "a tensor twice": (W().tensor("a", (8,)).tensor("a", (8,)), "gguf_duplicate_tensor", "a", "one", "two"),
    "a directory cut in a name": (
        W(alignment=1).tensor("a" * 40, (8,), data=b"").build()[:-40],
        "gguf_truncated",
        "tensor 0",
        "40 bytes",
        "24 bytes left",
    ),
    "a directory cut in the dimensions": (
        W(alignment=1).tensor("abcdefghijkl", (8, 8, 8, 8), data=b"").build()[:-20],
        "gguf_truncated",
        "abcdefghijkl",
        "8 bytes",
        "0 bytes left",
    ),
    "a directory cut in the offset": (
        W(alignment=1).tensor("abcd", (8,), TYPE_F16, data=b"").build()[:-1],
        "gguf_truncated",
        "abcd",
        "8 bytes",
        "7 bytes left",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_malformed_file_names_what_is_wrong_what_was_expected_and_what_was_found(name: str) -> None:
    made, code, subject, expected, found = CASES[name]
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
    assert len(CASES) >= 60


@pytest.mark.parametrize(
    "make",
    [
        lambda: tiny_llama(),
        lambda: W(),
        lambda: W(version=2).u32("a", 1),
        lambda: W(alignment=4096).u32("general.alignment", 4096).tensor("a", (8,)).tensor("b", (8,)),
        lambda: W().raw("a", ARRAY, _nested(4)),
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
