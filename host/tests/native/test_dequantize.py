"""The engine's block formats against the `gguf` package's own routines, and its products against numpy's."""

from __future__ import annotations

import os

import gguf
import numpy as np
import pytest
from ds4.errors import EngineError
from ds4.sys.descriptors import GgmlType, Numeric
from ds4.sys.probe import dequantize, matmul_probe, type_block

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

TYPES = [kind for kind in GgmlType if kind != GgmlType.I32]  # a table of integers is never a matrix
Bytes = np.ndarray[tuple[int, ...], np.dtype[np.uint8]]
Floats = np.ndarray[tuple[int, ...], np.dtype[np.float32]]

# Where a block's fp16 scales stand. The rest of a block may hold any bits.
SCALES: dict[GgmlType, tuple[int, ...]] = {
    GgmlType.Q4_0: (0,),
    GgmlType.Q4_1: (0, 2),
    GgmlType.Q5_0: (0,),
    GgmlType.Q5_1: (0, 2),
    GgmlType.Q8_0: (0,),
    GgmlType.Q2_K: (80, 82),
    GgmlType.Q3_K: (108,),
    GgmlType.Q4_K: (0, 2),
    GgmlType.Q5_K: (0, 2),
    GgmlType.Q6_K: (208,),
    GgmlType.IQ2_XXS: (0,),
    GgmlType.MXFP4: (),
}


def random_blocks(kind: GgmlType, count: int, seed: int, spread: float | None = None) -> Bytes:
    """[count, block bytes] of random bits; finite scales of any size, or of about `spread`."""
    rng = np.random.default_rng(seed)
    elements, size = type_block(kind)
    if elements == 1:
        scale = rng.choice([1e-6, 1.0, 1e4], count) if spread is None else spread
        values = (rng.standard_normal(count) * scale).astype(np.float32)
        if kind == GgmlType.F32:
            return values.view(np.uint8).reshape(count, size)
        if kind == GgmlType.F16:
            return values.astype(np.float16).view(np.uint8).reshape(count, size)
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8).reshape(count, size)
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in SCALES[kind]:
        bits = rng.integers(0, 0x7C00, count, dtype=np.uint16) | rng.integers(0, 2, count, dtype=np.uint16) << 15
        if spread is not None:
            bits = (rng.standard_normal(count) * spread).astype(np.float16).view(np.uint16)
        blocks[:, at : at + 2] = bits.view(np.uint8).reshape(count, 2)
    if kind == GgmlType.MXFP4 and spread is not None:
        blocks[:, 0] = 127 + np.log2(spread).astype(int) + rng.integers(-1, 2, count)  # an exponent, not an fp16
    return blocks


def reference(kind: GgmlType, blocks: Bytes) -> Floats:
    with np.errstate(over="ignore"):
        values = gguf.quants.dequantize(blocks.reshape(-1), gguf.GGMLQuantizationType(int(kind)))
    return np.asarray(values, dtype=np.float32).reshape(-1)


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_a_block_s_size_is_the_gguf_package_s(kind: GgmlType) -> None:
    assert type_block(kind) == gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(int(kind))]


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_random_blocks_become_the_gguf_package_s_values_to_the_bit(kind: GgmlType) -> None:
    blocks = random_blocks(kind, 2000, seed=int(kind))
    expected = reference(kind, blocks)
    found = np.asarray(dequantize(kind, blocks.tobytes(), expected.size), np.float32)
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("kernels", ["portable", None])
@pytest.mark.parametrize("numeric", list(Numeric), ids=lambda numeric: numeric.name)
@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_products_are_those_of_the_gguf_package_s_values(kind: GgmlType, numeric: Numeric, kernels: str | None) -> None:
    n_out, n_in, n_rows = 37, 768, 5
    elements, _ = type_block(kind)
    blocks = random_blocks(kind, n_out * n_in // elements, seed=100 + int(kind), spread=0.02)
    weights = reference(kind, blocks).reshape(n_out, n_in).astype(np.float64)
    x = np.random.default_rng(7).standard_normal((n_rows, n_in)).astype(np.float32)
    values = matmul_probe(
        kind, blocks.tobytes(), n_out, n_in, x.tobytes(), n_rows, numeric=numeric, n_threads=2, kernels=kernels
    )
    found = np.asarray(values, np.float32).reshape(n_rows, n_out)
    size = np.abs(x.astype(np.float64)) @ np.abs(weights).T
    # 8-bit activations: rounding errors of up to half of absmax / 127, of random sign.
    tolerance = 2e-6 if numeric == Numeric.FLOAT or elements == 1 or kernels == "portable" else 0.1 / np.sqrt(n_in)
    assert np.all(np.abs(found - x.astype(np.float64) @ weights.T) <= tolerance * size + 1e-6)


def test_a_kernel_set_that_cannot_run_here_is_refused_by_name() -> None:
    with pytest.raises(EngineError, match="sse9"):
        matmul_probe(GgmlType.F32, bytes(64), 4, 4, bytes(16), 1, kernels="sse9")
