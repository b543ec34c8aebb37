from __future__ import annotations

import struct

import numpy as np
import pytest
from ds4.dist import activations
from ds4.errors import FrameError
from hypothesis import given
from hypothesis import strategies as st

FLOATS = st.lists(st.integers(0, 2**32 - 1), max_size=40).map(lambda bits: struct.pack(f"<{len(bits)}I", *bits))


def bits(data: bytes) -> np.ndarray:
    return np.frombuffer(data, dtype="<u4")


def pack8(*values: float) -> list[int]:
    return list(activations.pack_python(struct.pack(f"<{len(values)}f", *values), 8))


def unpack8(*codes: int) -> list[float]:
    return list(struct.unpack(f"<{len(codes)}f", activations.unpack_python(bytes(codes), 8)))


@given(FLOATS)
def test_32_bits_change_nothing(values: bytes) -> None:
    for width in (0, 32):
        assert activations.unpack_python(activations.pack_python(values, width), width) == values


@given(FLOATS)
def test_halves_are_numpys_but_for_the_payload_of_a_nan(values: bytes) -> None:
    wide = np.frombuffer(values, dtype="<f4")
    with np.errstate(all="ignore"):
        expected = wide.astype("<f2").view("<u2").copy()
    expected[np.isnan(wide)] = 0x7E00 | (bits(values)[np.isnan(wide)] >> 31 << 15)
    assert activations.pack_python(values, 16) == expected.tobytes()


def test_every_half_is_read_as_numpy_reads_it() -> None:
    codes = np.arange(1 << 16, dtype="<u2")
    expected = codes.view("<f2").astype("<f4").view("<u4").copy()
    nan = np.isnan(codes.view("<f2"))
    expected[nan] = 0x7FC00000 | codes[nan].astype("<u4") >> 15 << 31
    assert activations.unpack_python(codes.tobytes(), 16) == expected.tobytes()


def test_every_half_but_a_nan_comes_back() -> None:
    codes = np.arange(1 << 16, dtype="<u2")
    codes = codes[~np.isnan(codes.view("<f2"))]
    assert activations.pack_python(activations.unpack_python(codes.tobytes(), 16), 16) == codes.tobytes()


def test_one_value_beyond_the_halves_does_not_change_the_others() -> None:
    values = struct.pack("<5f", 1.5, 1e6, -1e6, float("nan"), -65519.0)
    assert activations.pack_python(values, 16) == struct.pack("<5H", 0x3E00, 0x7C00, 0xFC00, 0x7E00, 0xFBFF)


def test_every_8_bit_code_that_is_written_comes_back() -> None:
    codes = bytes(code for code in range(256) if code & 0x7F <= 0x77 or code & 0x7F == 0x7F)
    assert activations.pack_python(activations.unpack_python(codes, 8), 8) == codes


def test_codes_that_are_never_written_are_read_as_the_largest() -> None:
    assert unpack8(*range(0x77, 0x7F)) == [240.0] * 8
    assert unpack8(*range(0xF7, 0xFF)) == [-240.0] * 8


def test_8_bits_go_to_the_nearest_and_ties_to_the_even_code() -> None:
    assert pack8(1.0, 1.0624, 1.0625, 1.0626, 1.1875, 1.1874) == [0x38, 0x38, 0x38, 0x39, 0x3A, 0x39]
    assert pack8(2**-9, 2**-10, 1.5 * 2**-10, 3 * 2**-10, 7.5 * 2**-9, 2**-6) == [1, 0, 1, 2, 8, 8]


def test_8_bits_end_at_240() -> None:
    assert pack8(231.9, 232.0, 232.1, 240.0, 241.0, 3e38, float("inf")) == [0x76, 0x76, 0x77, 0x77, 0x77, 0x77, 0x77]
    assert pack8(-240.0, float("-inf"), -0.0, float("nan")) == [0xF7, 0xF7, 0x80, 0x7F]


@given(st.floats(width=32, allow_nan=False))
def test_no_other_8_bit_value_is_nearer(value: float) -> None:
    (code,) = pack8(value)
    (found,) = unpack8(code)
    clipped = max(-240.0, min(240.0, value))
    assert abs(found - clipped) == min(abs(other - clipped) for other in unpack8(*range(0x78), *range(0x80, 0xF8)))


@pytest.mark.parametrize("width", [1, 4, 7, 24, 64, -8])
def test_an_unknown_width_is_refused(width: int) -> None:
    for call in (activations.pack_python, activations.unpack_python):
        with pytest.raises(FrameError) as error:
            call(b"", width)
        assert error.value.code == "frame_bits"


@pytest.mark.parametrize(("width", "length"), [(16, 1), (16, 3), (32, 2), (0, 5)])
def test_half_a_value_is_refused(width: int, length: int) -> None:
    with pytest.raises(FrameError) as error:
        activations.unpack_python(bytes(length), width)
    assert error.value.code == "frame_activations"
    with pytest.raises(FrameError):
        activations.pack_python(bytes(3), width)
