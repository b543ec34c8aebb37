"""The reader agrees with the `gguf` package: on files that the package writes, and on the embedded model."""

from __future__ import annotations

import math
import os
from typing import Any

import gguf as reference
import numpy as np
import pytest
from ds4.core import bind, gguf, inventory
from ds4.core.ggml_types import TENSOR_TYPES, file_type_name
from hypothesis import given, settings
from hypothesis import strategies as st

EMBEDDED = os.environ.get("DS4_EMBEDDED_MODEL")

_text = st.text(max_size=12).filter(lambda s: not any(0xD800 <= ord(c) <= 0xDFFF for c in s))
_key = st.from_regex(r"[a-z]{1,6}(\.[a-z_]{1,8}){0,2}", fullmatch=True).filter(lambda k: not k.startswith("general."))

_scalars: dict[str, tuple[str, st.SearchStrategy[Any]]] = {
    "u8": ("add_uint8", st.integers(0, 2**8 - 1)),
    "i8": ("add_int8", st.integers(-(2**7), 2**7 - 1)),
    "u16": ("add_uint16", st.integers(0, 2**16 - 1)),
    "i16": ("add_int16", st.integers(-(2**15), 2**15 - 1)),
    "u32": ("add_uint32", st.integers(0, 2**32 - 1)),
    "i32": ("add_int32", st.integers(-(2**31), 2**31 - 1)),
    "u64": ("add_uint64", st.integers(0, 2**64 - 1)),
    "f32": ("add_float32", st.floats(width=32, allow_nan=False)),
    "f64": ("add_float64", st.floats(allow_nan=False)),
    "bool": ("add_bool", st.booleans()),
    "string": ("add_string", _text.filter(bool)),
}
_value = st.one_of(*(st.tuples(st.just(kind), values) for kind, (_, values) in _scalars.items()))
_array = st.one_of(
    st.lists(_text, min_size=1, max_size=6),
    st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=6),
    st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=6),
    st.lists(st.booleans(), min_size=1, max_size=6),
)


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(_key, st.one_of(_value, st.tuples(st.just("array"), _array)), max_size=8),
    st.lists(st.tuples(st.sampled_from(["F32", "F16", "Q8_0"]), st.integers(1, 3), st.integers(1, 3)), max_size=4),
    st.sampled_from([None, 8, 32, 256]),
)
def test_a_file_that_the_gguf_package_wrote_reads_back_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    keys: dict[str, tuple[str, Any]],
    shapes: list[tuple[str, int, int]],
    alignment: int | None,
) -> None:
    path = tmp_path_factory.mktemp("rt") / "x.gguf"
    writer = reference.GGUFWriter(path, "llama")
    if alignment is not None:
        writer.add_custom_alignment(alignment)
    for key, (kind, value) in keys.items():
        if kind == "array":
            writer.add_array(key, value)
        else:
            getattr(writer, _scalars[kind][0])(key, value)
    rng = np.random.default_rng(len(shapes))
    data: dict[str, bytes] = {}
    for index, (kind, rows, blocks) in enumerate(shapes):
        values = rng.standard_normal((rows, 32 * blocks)).astype(np.float32)
        qtype = reference.GGMLQuantizationType[kind]
        packed = reference.quantize(values, qtype)
        data[f"t{index}"] = packed.tobytes()
        writer.add_tensor(f"t{index}", packed, raw_dtype=qtype if kind == "Q8_0" else None)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()

    file = gguf.read(path)
    file.metadata.check()
    for key, (_, value) in keys.items():
        assert file.metadata[key] == value
    assert file.alignment == (alignment or 32)
    raw = path.read_bytes()
    assert {t.name: raw[t.offset : t.offset + t.nbytes] for t in file.tensors} == data
    _assert_same(file, reference.GGUFReader(path))


def _assert_same(file: gguf.GgufFile, theirs: reference.GGUFReader) -> None:
    """Directory and metadata as the package's own reader sees them."""
    assert file.data_offset == theirs.data_offset
    mine = [(t.name, list(t.dims), t.type, t.offset, t.nbytes) for t in file.tensors]
    assert mine == [
        (t.name, [int(d) for d in t.shape], int(t.tensor_type), int(t.data_offset), int(t.n_bytes))
        for t in theirs.tensors
    ]
    fields = {key: field for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert list(file.metadata) == list(fields)
    for key, field in fields.items():
        value, expected = file.metadata[key], field.contents()
        if isinstance(value, float) and math.isnan(value):
            continue
        assert value == expected, key


# Q8_1 exists only inside ggml's kernels, never in files; the package still describes its older form with two floats
# where ggml.h has two halves.
@pytest.mark.parametrize("number", [int(t) for t in reference.GGMLQuantizationType if t.name != "Q8_1"])
def test_the_block_table_is_that_of_the_gguf_package(number: int) -> None:
    kind = reference.GGMLQuantizationType(number)
    mine = TENSOR_TYPES[number]
    assert (mine.name, (mine.block, mine.nbytes)) == (kind.name, reference.GGML_QUANT_SIZES[kind])


def test_the_file_type_names_are_those_of_the_gguf_package() -> None:
    for kind in reference.LlamaFileType:
        if kind is not reference.LlamaFileType.GUESSED:
            assert kind.name.removeprefix("ALL_").removeprefix("MOSTLY_") == file_type_name(kind)


@pytest.mark.skipif(EMBEDDED is None, reason="DS4_EMBEDDED_MODEL is not set")
def test_the_embedded_model_reads_as_the_gguf_package_reads_it() -> None:
    assert EMBEDDED is not None
    _assert_same(gguf.read(EMBEDDED), reference.GGUFReader(EMBEDDED))


@pytest.mark.skipif(EMBEDDED is None, reason="DS4_EMBEDDED_MODEL is not set")
def test_every_byte_of_the_embedded_models_data_is_bound_once() -> None:
    assert EMBEDDED is not None
    found = inventory.load(EMBEDDED)
    plan = bind.plan(found)
    assert len(plan.slots) == len(found.tensors) == 272
    assert plan.tied and not found.aliased and not plan.ignored and not plan.notes
    assert plan.shards[0].data_offset + plan.weight_bytes == plan.shards[0].file_bytes
