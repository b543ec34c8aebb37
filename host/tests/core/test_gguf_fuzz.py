"""Whatever bytes come, the reader answers with a file or a typed error, and takes little memory to find out."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from ds4.core import bind, gguf, identify, inventory
from ds4.errors import Ds4Error
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.gguf_writer import tiny_llama

VALID = tiny_llama().build()
META = gguf.parse(VALID, Path("x.gguf")).data_offset

# The valid file takes about 200 kB of Python objects; a hostile count must not buy more than a few times that.
BOUND = 1 << 20


def _read_everything(data: bytes) -> bool:
    """All that is done with a file before native sees it. True if it was accepted as a GGUF file."""
    tracemalloc.start()
    try:
        file = gguf.parse(data, Path("x.gguf"))
        file.metadata.check()
        found = inventory.merge((file,))
        identify.identify_inventory(found)
        bind.plan(found)
    except Ds4Error as e:
        assert e.subject and e.message
        return False
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < BOUND
    return True


def test_the_file_that_is_about_to_be_damaged_is_valid() -> None:
    assert _read_everything(VALID)


@settings(max_examples=200, deadline=None)
@given(st.integers(0, len(VALID) - 1))
@example(0)
@example(META - 1)
@example(META)
@example(len(VALID) - 1)
def test_a_truncated_file_is_refused_wherever_it_ends(length: int) -> None:
    assert not _read_everything(VALID[:length])


@settings(max_examples=500, deadline=None)
@given(st.lists(st.tuples(st.integers(0, META - 1), st.integers(1, 255)), min_size=1, max_size=4))
def test_flipped_bytes_end_in_a_file_or_a_typed_error(flips: list[tuple[int, int]]) -> None:
    data = bytearray(VALID)
    for position, mask in flips:
        data[position] ^= mask
    _read_everything(bytes(data))


@settings(max_examples=300, deadline=None)
@given(
    st.integers(0, META - 8),
    st.sampled_from([0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1]),
    st.sampled_from([4, 8]),
)
def test_wild_counts_lengths_and_offsets_end_in_a_file_or_a_typed_error(position: int, value: int, width: int) -> None:
    data = bytearray(VALID)
    data[position : position + width] = value.to_bytes(8, "little")[:width]
    _read_everything(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, META - 1), st.binary(min_size=1, max_size=24))
def test_inserted_bytes_end_in_a_file_or_a_typed_error(position: int, extra: bytes) -> None:
    _read_everything(VALID[:position] + extra + VALID[position:])


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_garbage_behind_a_good_header_ends_in_a_typed_error(tail: bytes) -> None:
    _read_everything(VALID[:24] + tail)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=64))
def test_bytes_that_do_not_begin_with_the_magic_are_refused(data: bytes) -> None:
    assert data[:4] == b"GGUF" or not _read_everything(data)
