"""Blocks that are written here are read back by the `gguf` package, and are near what they were made of."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import pytest
from ds4.core.ggml_types import TENSOR_TYPES
from ds4.errors import ModelFileError
from ds4.perf.synth.blocks import fast, random_blocks
from ds4.perf.synth.iq2 import GRID, POINTS
from ds4.perf.synth.quantize import MXFP4_STEPS, WRITERS, encode
from ds4.sys.descriptors import GgmlType
from gguf import GGMLQuantizationType
from gguf.quants import IQ2_XXS, dequantize

Floats = npt.NDArray[np.float32]

# Root mean square of the error on bell-shaped numbers, as part of theirs: what the types are good for, with some room.
BOUNDS = {
    "F32": 0.0,
    "F16": 3e-4,
    "BF16": 2e-3,
    "Q8_0": 0.006,
    "Q6_K": 0.02,
    "Q5_K": 0.04,
    "Q5_1": 0.045,
    "Q5_0": 0.05,
    "Q4_K": 0.08,
    "Q4_1": 0.09,
    "Q4_0": 0.1,
    "MXFP4": 0.12,
    "Q3_K": 0.16,
    "Q2_K": 0.3,
    "IQ2_XXS": 0.36,
}
FLOAT_TYPES = [kind for kind in WRITERS if kind != GgmlType.I32]


def _name(kind: int) -> str:
    return TENSOR_TYPES[kind].name


def _read(kind: int, raw: bytes, shape: tuple[int, ...]) -> Floats:
    code = {0: "<f4", 1: "<f2"}.get(kind, "u1")
    blocks = np.frombuffer(raw, code).reshape(shape[0], -1)
    out: Floats = dequantize(blocks, GGMLQuantizationType(kind)).reshape(shape).astype(np.float32)
    return out


def _bell(shape: tuple[int, ...], seed: int = 1, scale: float = 0.03) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32) * np.float32(scale)


def _error(x: Floats, y: Floats) -> float:
    return float(np.sqrt(np.square(y - x).mean() / np.square(x).mean()))


@pytest.mark.parametrize("kind", FLOAT_TYPES, ids=_name)
def test_blocks_read_back_near_what_they_were_made_of(kind: int) -> None:
    x = _bell((24, 512))
    raw = encode(kind, x)
    assert len(raw) == x.size // TENSOR_TYPES[kind].block * TENSOR_TYPES[kind].nbytes
    assert _error(x, _read(kind, raw, x.shape)) <= BOUNDS[_name(kind)]


@pytest.mark.parametrize("kind", FLOAT_TYPES, ids=_name)
def test_rows_of_nought_stay_nought_and_do_not_spoil_their_neighbours(kind: int) -> None:
    x = _bell((3, 256))
    x[1] = 0
    y = _read(kind, encode(kind, x), x.shape)
    assert np.abs(y[1]).max() < 1e-6
    assert _error(x, y) <= BOUNDS[_name(kind)] * 1.3


@pytest.mark.parametrize("kind", FLOAT_TYPES, ids=_name)
@pytest.mark.parametrize("scale", [2e-3, 50.0])
def test_small_and_large_rows_keep_their_scale(kind: int, scale: float) -> None:
    x = _bell((4, 256), seed=3, scale=scale)
    assert _error(x, _read(kind, encode(kind, x), x.shape)) <= max(BOUNDS[_name(kind)] * 1.3, 0.04)


@pytest.mark.parametrize("kind", FLOAT_TYPES, ids=_name)
def test_the_bytes_do_not_depend_on_how_a_tensor_is_cut(kind: int) -> None:
    x = _bell((130, 256))
    assert encode(kind, x) == b"".join(encode(kind, x[at : at + 7]) for at in range(0, 130, 7))


@pytest.mark.parametrize("kind", FLOAT_TYPES, ids=_name)
def test_what_a_type_can_say_exactly_it_says_exactly(kind: int) -> None:
    if _name(kind) in ("Q3_K", "Q2_K", "Q4_K", "Q5_K", "Q6_K", "IQ2_XXS", "Q4_1", "Q5_1"):
        pytest.skip("scales of scales: no simple fixed points")
    x = _read(kind, encode(kind, _bell((4, 256))), (4, 256))
    assert np.array_equal(_read(kind, encode(kind, x), x.shape), x)


def test_the_grid_is_the_published_one() -> None:
    IQ2_XXS.init_grid()
    assert IQ2_XXS.grid is not None
    assert np.array_equal(POINTS, IQ2_XXS.grid.reshape(256, 8))
    assert list(GRID) == sorted(set(GRID))


def test_iq2_xxs_finds_values_that_lie_on_its_points() -> None:
    rng = np.random.default_rng(4)
    points = POINTS[rng.integers(0, 256, (8, 32))].reshape(8, 256)
    points[:, 0], points[:, 32::32] = 43, 43  # each run reaches its largest magnitude
    signs = rng.choice([-1.0, 1.0], (8, 32, 8))
    signs[..., 7] = np.prod(signs[..., :7], axis=2)  # an even number of minus signs
    x = (points * signs.reshape(8, 256)).astype(np.float32)
    near = _error(x, _read(16, encode(16, x), x.shape))
    assert near < 0.2  # bell-shaped numbers cost 0.33


def test_mxfp4_takes_the_better_of_two_powers() -> None:
    x = np.zeros((2, 32), np.float32)
    x[0, :8] = MXFP4_STEPS
    x[1, :8] = -4 * MXFP4_STEPS
    assert np.array_equal(_read(39, encode(39, x), x.shape), x)
    large = np.full((1, 32), 7.9, np.float32)  # clamped to 6 at one power, rounded to 8 at the next
    assert np.array_equal(_read(39, encode(39, large), large.shape), np.full((1, 32), 8.0, np.float32))


@pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")
@pytest.mark.parametrize("kind", [GgmlType.F16, GgmlType.BF16, GgmlType.Q8_0])
def test_types_that_the_engine_writes_are_written_as_it_does(kind: GgmlType) -> None:
    from ds4.sys.probe import quantize

    x = _bell((16, 256), seed=9, scale=1.0)
    assert encode(kind, x) == quantize(kind, memoryview(x).cast("B"), x.size)


@pytest.mark.parametrize(
    ("kind", "values", "code"),
    [
        (20, np.zeros(256, np.float32), "tensor_type"),
        (12, np.zeros(128, np.float32), "tensor_blocks"),
        (8, np.full(32, np.nan, np.float32), "tensor_values"),
        (0, np.full(1, np.inf, np.float32), "tensor_values"),
        (1, np.full(1, 7e4, np.float32), "tensor_values"),
        (8, np.full(32, 1e9, np.float32), "tensor_values"),
    ],
)
def test_what_cannot_be_written_is_named(kind: int, values: Floats, code: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        encode(kind, values, "blk.0.x.weight")
    assert caught.value.code == code
    assert caught.value.subject in ("blk.0.x.weight", "scale")
    assert caught.value.expected is not None and caught.value.found is not None


@pytest.mark.parametrize("kind", [kind for kind in FLOAT_TYPES if fast(kind)], ids=_name)
def test_random_blocks_have_the_deviation_that_is_asked_for(kind: int) -> None:
    rng = np.random.default_rng(2)
    block = TENSOR_TYPES[kind].block
    count = (1 << 17) // block
    raw = random_blocks(kind, rng.bytes, count, 0.02)
    y = _read(kind, raw, (count, block))
    room = 1.5 if _name(kind) == "MXFP4" else 1.05  # its scale is a power of two
    assert 0.02 / room < float(y.std()) < 0.02 * room
    assert abs(float(y.mean())) < 0.003
