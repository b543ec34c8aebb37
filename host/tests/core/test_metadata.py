"""Typed getters: what they take, and what their errors name."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from ds4.core import gguf
from ds4.core.metadata import Metadata
from ds4.errors import ModelFileError
from support.gguf_writer import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    STRING,
    U8,
    U16,
    U32,
    U64,
    GgufWriter,
    array,
    scalar,
    string,
    u32,
    u64,
)


def _metadata(writer: GgufWriter) -> Metadata:
    return gguf.parse(writer.build(), Path("x.gguf")).metadata


EVERY_TYPE = (
    (U8, 200),
    (I8, -5),
    (U16, 60000),
    (I16, -300),
    (U32, 4_000_000_000),
    (I32, -70000),
    (U64, 2**63 + 1),
    (I64, -(2**40)),
    (F32, 0.5),
    (F64, 1e300),
    (BOOL, 1),
)


def test_every_scalar_type_keeps_its_value() -> None:
    writer = GgufWriter()
    for kind, value in EVERY_TYPE:
        writer.number(f"k{kind}", kind, value)
    writer.string("text", "grüße\n")
    md = _metadata(writer)
    assert {key: md[key] for key in md} == {f"k{kind}": value for kind, value in EVERY_TYPE} | {"text": "grüße\n"}
    assert md["k7"] is True


def test_every_array_type_keeps_its_values() -> None:
    writer = GgufWriter()
    for kind, value in EVERY_TYPE:
        writer.array(f"k{kind}", kind, [value, 0, value])
    md = _metadata(writer)
    assert {key: md[key] for key in md} == {f"k{kind}": [value, 0, value] for kind, value in EVERY_TYPE}
    assert md["k7"] == [True, False, True]


def test_nested_arrays_become_nested_lists() -> None:
    inner = [array(STRING, ["a", ""]), array(I8, [-1]), array(ARRAY, [array(BOOL, [1])]), array(F32, [])]
    md = _metadata(GgufWriter().raw("n", ARRAY, array(ARRAY, inner)).u32("behind", 7))
    assert md["n"] == [["a", ""], [-1], [[True]], []]
    assert md["behind"] == 7
    assert md.type_of("n") == "array of 4 array"


def test_an_array_tells_its_type_and_count_without_being_decoded() -> None:
    md = _metadata(GgufWriter().array("a", STRING, [b"\xff", "b"]).u32("n", 1))
    assert md.type_of("a") == "array of 2 string"
    assert md.count("a") == 2
    assert md.count("none") is None
    with pytest.raises(ModelFileError) as caught:
        md.count("n")
    assert (caught.value.subject, caught.value.expected, caught.value.found) == ("n", "array", "u32")


def test_a_byte_that_is_not_utf8_inside_a_vocabulary_names_its_token() -> None:
    md = _metadata(GgufWriter().array("tokenizer.ggml.tokens", STRING, ["a", "b", b"c\xf0\x9f"]))
    for read in (lambda: md["tokenizer.ggml.tokens"], lambda: md.strings("tokenizer.ggml.tokens"), md.check):
        with pytest.raises(ModelFileError) as caught:
            read()
        error = caught.value
        assert (error.code, error.subject, error.found) == (
            "gguf_utf8",
            "tokenizer.ggml.tokens[2]",
            "byte 0xf0 at 1 of 3",
        )


def test_an_array_of_booleans_that_holds_a_two_names_its_place() -> None:
    md = _metadata(GgufWriter().array("flags", BOOL, [1, 0, 2]))
    with pytest.raises(ModelFileError) as caught:
        md.check()
    assert (caught.value.code, caught.value.subject, caught.value.found) == ("gguf_bool", "flags[2]", 2)


@pytest.mark.parametrize("kind", [U8, I8, U16, I16, U32, I32, U64, I64])
def test_an_integer_of_any_width_serves_as_u32_where_it_fits(kind: int) -> None:
    assert _metadata(GgufWriter().number("n", kind, 100)).u32("n") == 100


# getter, writer, code, expected, found
WRONG: dict[str, tuple[Callable[[Metadata], object], GgufWriter, str, str, str]] = {
    "a string for a u32": (lambda m: m.u32("k"), GgufWriter().string("k", "9"), "metadata_type", "u32", "string"),
    "a float for a u32": (lambda m: m.u32("k"), GgufWriter().f32("k", 9.0), "metadata_type", "u32", "f32"),
    "a bool for a u32": (lambda m: m.u32("k"), GgufWriter().number("k", BOOL, 1), "metadata_type", "u32", "bool"),
    "an array for a u32": (
        lambda m: m.u32("k"),
        GgufWriter().array("k", U32, [1, 2]),
        "metadata_type",
        "u32",
        "array of 2 u32",
    ),
    "a negative u32": (
        lambda m: m.u32("k"),
        GgufWriter().number("k", I32, -1),
        "metadata_range",
        "0..4294967295",
        "-1",
    ),
    "a u32 that is too large": (
        lambda m: m.u32("k"),
        GgufWriter().number("k", U64, 2**32),
        "metadata_range",
        "u32",
        str(2**32),
    ),
    "an i32 that is too small": (
        lambda m: m.i32("k"),
        GgufWriter().number("k", I64, -(2**31) - 1),
        "metadata_range",
        "i32",
        str(-(2**31) - 1),
    ),
    "a negative u64": (lambda m: m.u64("k"), GgufWriter().number("k", I64, -1), "metadata_range", "u64", "-1"),
    "an integer for an f32": (lambda m: m.f32("k"), GgufWriter().u32("k", 1), "metadata_type", "f32", "u32"),
    "a number for a string": (lambda m: m.string("k"), GgufWriter().u32("k", 1), "metadata_type", "string", "u32"),
    "an integer for a bool": (
        lambda m: m.boolean("k"),
        GgufWriter().number("k", U8, 1),
        "metadata_type",
        "bool",
        "u8",
    ),
    "one string for strings": (
        lambda m: m.strings("k"),
        GgufWriter().string("k", "a"),
        "metadata_type",
        "array of string",
        "string",
    ),
    "numbers for strings": (
        lambda m: m.strings("k"),
        GgufWriter().array("k", U32, [1]),
        "metadata_type",
        "array of string",
        "array of 1 u32",
    ),
    "int8 scores read as floats": (
        lambda m: m.floats("k"),
        GgufWriter().array("k", I8, [1, 2, 3]),
        "metadata_type",
        "array of f32",
        "array of 3 i8",
    ),
    "strings for ints": (
        lambda m: m.ints("k"),
        GgufWriter().array("k", STRING, ["1"]),
        "metadata_type",
        "array of i32",
        "array of 1 string",
    ),
    "floats for ints": (
        lambda m: m.ints("k"),
        GgufWriter().array("k", F32, [1.0]),
        "metadata_type",
        "array of i32",
        "array of 1 f32",
    ),
    "booleans for ints": (
        lambda m: m.ints("k"),
        GgufWriter().array("k", BOOL, [1]),
        "metadata_type",
        "array of i32",
        "array of 1 bool",
    ),
    "arrays for ints": (
        lambda m: m.ints("k"),
        GgufWriter().raw("k", ARRAY, array(ARRAY, [array(I32, [1])])),
        "metadata_type",
        "array of i32",
        "array of 1 array",
    ),
    "no u32": (lambda m: m.u32("k"), GgufWriter(), "metadata_missing", "u32", "nothing"),
    "no string": (lambda m: m.string("k"), GgufWriter(), "metadata_missing", "string", "nothing"),
    "no strings": (lambda m: m.strings("k"), GgufWriter(), "metadata_missing", "array of string", "nothing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_getter_names_the_key_the_expected_type_and_the_found_one(name: str) -> None:
    get, writer, code, expected, found = WRONG[name]
    with pytest.raises(ModelFileError) as caught:
        get(_metadata(writer))
    assert (caught.value.code, caught.value.subject) == (code, "k")
    assert expected in str(caught.value.expected)
    assert str(caught.value.found) == found
    assert "in x.gguf" in caught.value.message


def test_a_default_stands_in_for_a_missing_key_but_not_for_a_wrong_type() -> None:
    md = _metadata(GgufWriter().string("k", "text"))
    assert md.u32("none", 7) == 7
    assert md.string("none", None) is None
    assert md.floats("none", []) == []
    with pytest.raises(ModelFileError):
        md.u32("k", 7)


def test_floats_may_be_infinite_or_nan_until_somebody_names_a_range() -> None:
    md = _metadata(GgufWriter().f32("inf", math.inf).number("nan", F64, math.nan))
    assert md.f32("inf") == math.inf
    assert math.isnan(md.f32("nan"))


def test_keys_keep_the_order_of_the_file() -> None:
    md = _metadata(GgufWriter().u32("z", 1).u32("a", 2).u32("m", 3))
    assert list(md) == ["z", "a", "m"]
    assert "z" in md and "none" not in md
    with pytest.raises(KeyError):
        md["none"]


def test_empty_strings_and_empty_arrays_are_values() -> None:
    md = _metadata(GgufWriter().string("s", "").array("a", STRING, []).array("t", STRING, ["", ""]))
    assert (md.string("s"), md.strings("a"), md.strings("t")) == ("", [], ["", ""])


def test_the_bytes_of_a_string_array_are_what_the_table_in_the_reader_says() -> None:
    payload = u32(STRING) + u64(1) + u64(2) + b"hi"
    assert payload == array(STRING, ["hi"]) == u32(8) + u64(1) + string("hi")
    assert scalar(I64, -1) == b"\xff" * 8
