"""Native functions that need no model: against the gguf package and numpy."""

from __future__ import annotations

import os
from collections.abc import Callable

import gguf
import numpy as np
import pytest
from ds4.errors import EngineError
from ds4.sys import native
from ds4.sys.descriptors import GgmlType, Numeric, SamplerDesc
from support import tiny_model

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")


def test_the_library_says_what_it_is() -> None:
    assert native.version().count(".") == 2
    assert native.cpu_kernels() in ("portable", "avx2", "avx512", "neon")


@pytest.mark.parametrize("kind", list(GgmlType))
def test_a_block_has_the_size_that_the_format_says(kind: GgmlType) -> None:
    elements, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(int(kind))]
    assert native.type_block(kind) == (elements, size)


def test_dequantised_blocks_are_the_gguf_packages() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(size=256).astype(np.float32)
    blocks = gguf.quants.quantize(values, gguf.GGMLQuantizationType.Q8_0)
    expected = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType.Q8_0)
    assert np.array_equal(np.asarray(native.dequantize(GgmlType.Q8_0, blocks.tobytes(), 256)), expected)


@pytest.mark.parametrize(("count", "size"), [(33, 34), (64, 34), (32, 33), (-32, 0)])
def test_bytes_that_are_not_whole_blocks_are_refused(count: int, size: int) -> None:
    with pytest.raises(EngineError) as caught:
        native.dequantize(GgmlType.Q8_0, bytes(size), count)
    assert caught.value.code == "engine_argument"


def test_a_product_is_numpys() -> None:
    rng = np.random.default_rng(2)
    w, x = rng.normal(size=(5, 32)).astype(np.float32), rng.normal(size=(3, 32)).astype(np.float32)
    y = native.matmul_probe(GgmlType.F32, w.tobytes(), 5, 32, x.tobytes(), 3, numeric=Numeric.FLOAT)
    assert np.allclose(np.asarray(y).reshape(3, 5), x @ w.T, atol=1e-5)
    with pytest.raises(EngineError):
        native.matmul_probe(GgmlType.F32, w.tobytes(), 5, 31, x.tobytes(), 3)


def test_the_sampler_filters_in_place_and_ties_go_to_the_lowest_id() -> None:
    logits = np.array([1.0, 3.0, 3.0, 2.0], dtype=np.float32)
    assert native.sample_logits(SamplerDesc(), memoryview(bytearray(logits.tobytes()))) == 1
    store = bytearray(logits.tobytes())
    assert native.sample_logits(SamplerDesc(bias=((3, 5.0),)), store) == 3
    assert native.sample_logits(SamplerDesc(), bytearray(logits.tobytes()), mask=b"\x09\0\0\0") == 3
    penalised = SamplerDesc(repetition_penalty=10.0)
    assert native.sample_logits(penalised, bytearray(logits.tobytes()), [1, 2], 2) == 3


def test_the_sampler_refuses_what_does_not_fit() -> None:
    calls: list[Callable[[], int]] = [
        lambda: native.sample_logits(SamplerDesc(), bytearray(7)),
        lambda: native.sample_logits(SamplerDesc(), bytearray(8), [1], 2),
        lambda: native.sample_logits(SamplerDesc(), bytearray(4 * 64), mask=b"\xff\0\0\0"),
    ]
    for call in calls:
        with pytest.raises(EngineError):
            call()


def test_the_uniform_depends_on_seed_and_position_alone() -> None:
    values = {native.sample_uniform(seed, position) for seed in (0, 1, 2**64 - 1) for position in range(50)}
    assert len(values) == 150
    assert all(0.0 <= value < 1.0 for value in values)
    assert native.sample_uniform(1, 7) == native.sample_uniform(1, 7)


def test_a_position_of_the_cache_has_a_size() -> None:
    # 2 layers x (K and V) x 2 heads x 8 elements
    assert native.kv_bytes_per_position(tiny_model.HPARAMS, GgmlType.F32) == 2 * 2 * 16 * 4
    assert native.kv_bytes_per_position(tiny_model.HPARAMS, GgmlType.F16) == 2 * 2 * 16 * 2
    with pytest.raises(EngineError):
        native.kv_bytes_per_position(tiny_model.HPARAMS, GgmlType.Q4_0)
