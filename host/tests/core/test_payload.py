from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from dataclasses import replace

import pytest
from ds4.core import payload
from ds4.core.payload import DEEPSEEK, LAYOUTS, Layout, Payload, Shape
from ds4.core.tapes import payload as tapes
from ds4.errors import PayloadError
from ds4.sys.tape import TapeError
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import standing_in

U32 = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module", autouse=True)
def answered_by_the_replacement() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tapes, "oracle", standing_in(tapes.by_tape))
        yield


@st.composite
def written(draw: st.DrawFn) -> tuple[Shape, list[int]]:
    """A shape and tokens that fit each other."""
    layout: Layout = draw(st.sampled_from(list(LAYOUTS.values())))
    tokens = draw(st.lists(st.integers(0, 999), max_size=9))
    window = draw(st.integers(0, 2**24)) if layout is DEEPSEEK else 0
    live = len(tokens) if layout.rows_are_tokens else draw(U32)
    sizes = draw(st.tuples(U32, U32, U32, U32, U32, U32))
    shape = Shape(
        layout=layout,
        ctx=len(tokens) + draw(st.integers(1, 50)),
        prefill_width=sizes[0],
        raw_capacity=sizes[1],
        raw_window=window,
        compressed_capacity=sizes[2],
        layers=sizes[3],
        head_dim=sizes[4],
        indexer_head_dim=sizes[5],
        vocab=1000,
        live_rows=live,
    )
    return shape, tokens


SHAPE = Shape(DEEPSEEK, 8192, 64, 8192, 512, 2048, 61, 128, 64, 129280, 3)


@given(written(), st.binary(max_size=20))
def test_a_payload_that_was_written_is_read_back_with_its_tail(
    given_payload: tuple[Shape, list[int]], tail: bytes
) -> None:
    shape, tokens = given_payload
    raw = payload.encode_python(shape, tokens) + tail
    found = payload.decode_python(raw, family=shape.layout.family)
    assert (found.version, found.shape, list(found.tokens)) == (3, shape, tokens)
    assert raw[found.tail :] == tail and found.tail_bytes == len(tail)
    assert payload.decode_python(memoryview(raw)) == found


@given(written())
def test_a_payload_cut_anywhere_is_truncated(given_payload: tuple[Shape, list[int]]) -> None:
    raw = payload.encode_python(*given_payload)
    for cut in range(len(raw)):
        with pytest.raises(PayloadError) as error:
            payload.decode_python(raw[:cut])
        assert error.value.code == "payload_truncated"
        assert error.value.subject == ("header" if cut < 52 else "ids")


def test_a_count_that_the_bytes_cannot_hold_allocates_nothing() -> None:
    raw = bytearray(payload.encode_python(replace(SHAPE, ctx=2**32 - 1), [1, 2, 3]))
    struct.pack_into("<I", raw, 28, 2**32 - 2)
    with pytest.raises(PayloadError, match="17179869176 bytes, found 12 bytes left"):
        payload.decode_python(raw)


@pytest.mark.parametrize(("layout", "most"), [("deepseek", 7), ("solar", 7), ("qwen", 8), ("qwen-fp8", 8)])
def test_a_context_leaves_room_for_one_more_token_but_for_qwen(layout: str, most: int) -> None:
    for count in range(12):
        window = SHAPE.raw_window if layout == "deepseek" else 0
        shape = replace(SHAPE, layout=LAYOUTS[layout], raw_window=window, live_rows=count)
        raw = payload.encode_python(shape, range(count))
        if count <= most:
            assert len(payload.decode_python(raw, ctx=8).tokens) == count
        else:
            with pytest.raises(PayloadError) as error:
                payload.decode_python(raw, ctx=8)
            assert error.value.code == "payload_context"


def test_the_readers_context_stands_before_the_writers() -> None:
    raw = bytearray(payload.encode_python(SHAPE, [1, 2, 3]))
    struct.pack_into("<I", raw, 8, 1)
    assert payload.decode_python(raw, ctx=4).shape.ctx == 1
    with pytest.raises(PayloadError, match="less than 1"):
        payload.decode_python(raw)


def test_both_qwen_layouts_are_for_one_family() -> None:
    raw = payload.encode_python(replace(SHAPE, layout=LAYOUTS["qwen-fp8"], raw_window=0), [1])
    assert payload.decode_python(raw, family="qwen").shape.layout.name == "qwen-fp8"


def test_a_payload_of_another_family_is_told_apart() -> None:
    raw = payload.encode_python(SHAPE, [1, 2, 3])
    with pytest.raises(PayloadError) as error:
        payload.decode_python(raw, family="solar")
    assert (error.value.code, error.value.expected, error.value.found) == ("payload_family", "solar", "deepseek")


@pytest.mark.parametrize("name", payload.SHAPE_FIELDS)
@pytest.mark.parametrize("value", [-1, 2**32])
def test_a_number_that_is_no_u32_is_named(name: str, value: int) -> None:
    with pytest.raises(PayloadError) as error:
        payload.encode_python(replace(SHAPE, **{name: value}), [1, 2, 3])
    assert (error.value.code, error.value.subject) == ("payload_range", name)


@pytest.mark.parametrize("token", [-1, 2**32])
def test_an_id_that_is_no_u32_is_named(token: int) -> None:
    with pytest.raises(PayloadError) as error:
        payload.encode_python(SHAPE, [1, token, 3])
    assert (error.value.code, error.value.subject, error.value.found) == ("payload_range", "ids", token)


def test_a_window_must_not_read_as_a_layout() -> None:
    for layout in LAYOUTS.values():
        if layout.tag:
            with pytest.raises(PayloadError, match="payload_layout|another layout"):
                payload.encode_python(replace(SHAPE, raw_window=layout.tag), [1])


@given(st.binary(max_size=120))
def test_any_bytes_are_a_payload_or_an_error(data: bytes) -> None:
    raw = struct.pack("<2I", payload.MAGIC, 3) + data
    try:
        found = payload.decode_python(raw)
    except PayloadError as error:
        assert error.code.startswith("payload_") and error.subject
    else:
        assert found.tail + found.tail_bytes == len(raw)


# ---- on tapes, and answered by an oracle ----


@given(written(), st.binary(max_size=9))
def test_requests_and_results_are_read_back_from_their_tapes(
    given_payload: tuple[Shape, list[int]], tail: bytes
) -> None:
    shape, tokens = given_payload
    raw = payload.encode_python(shape, tokens) + tail
    for request in (tapes.Encode(shape, tokens), tapes.Decode(raw, shape.layout.family, 7), tapes.Decode(raw)):
        assert tapes.read_input(tapes.write_input(request)) == request
    assert tapes.read_output(tapes.write_output(raw)) == raw
    found = payload.decode_python(raw)
    again = tapes.read_output(tapes.write_output(found))
    assert isinstance(again, Payload) and again == found and isinstance(again.tokens, array)


@given(written())
def test_the_oracles_answers_are_those_of_the_functions(given_payload: tuple[Shape, list[int]]) -> None:
    shape, tokens = given_payload
    raw = tapes.encode_by_oracle(shape, tokens)
    assert raw == payload.encode_python(shape, tokens)
    assert tapes.decode_by_oracle(raw, family=shape.layout.family) == payload.decode_python(raw)
    with pytest.raises(PayloadError) as error:
        tapes.decode_by_oracle(raw[:-1] if tokens else raw[:3])
    assert error.value.code == "payload_truncated"


@pytest.mark.parametrize(
    "tape",
    [b"", b"decode", b"decode\n", b"decode any\n", b"decode nobody 0\n", b"decode any 4294967296\n", b"decode any -1\n",
     b"decode qwen-fp8 0\n", b"encode deepseek 1 2 3\nids\n", b"encode nobody 1 2 3 4 5 6 7 8 9 10\nids\n",
     b"encode deepseek 1 2 3 4 5 6 7 8 9 10\n", b"encode deepseek 1 2 3 4 5 6 7 8 9 10\nid 1\n",
     b"encode deepseek 1 2 3 4 5 6 7 8 9 10\nids 1\nids 2\n", b"encode deepseek 1 2 3 4 5 6 7 8 9 10\nids -1\n",
     b"encode deepseek 1 2 3 4 5 6 7 8 9 18446744073709551616\nids\n", b"read any 0\n"],
)  # fmt: skip
def test_bytes_that_are_no_tape_are_refused(tape: bytes) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(tape)
