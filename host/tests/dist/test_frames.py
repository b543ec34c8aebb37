from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest
from ds4.dist import frames, tapes
from ds4.dist.chain import START
from ds4.dist.messages import (
    Failure,
    Hello,
    Hop,
    Message,
    Result,
    Return,
    SnapshotBegin,
    SnapshotChunk,
    SnapshotDone,
    SnapshotLoad,
    SnapshotSave,
    Telemetry,
    Work,
    numbers,
)
from ds4.errors import FrameError
from ds4.sys.tape import TapeError
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import standing_in

U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)
BITS = st.sampled_from([0, 8, 16, 32])
NAME = st.binary(max_size=12).map(lambda data: data.replace(b"\0", b"0"))
HOST = NAME.map(lambda data: data or b"h")
TOKENS = st.lists(U32, max_size=5).map(tuple)
WHOLE = st.binary(max_size=6).map(lambda data: data * 4)
HOPS = st.lists(st.builds(Hop, HOST, U32, U32, U32, U32), min_size=1, max_size=3).map(tuple)
ROUTES = st.just(((), None)) | st.tuples(HOPS, st.builds(Return, U32, NAME, U32))


@st.composite
def works(draw: st.DrawFn) -> Work:
    hops, back = draw(ROUTES)
    ids = draw(TOKENS) or (7,)
    return Work(*(draw(U32 if i in (0, 5, 6, 7) else U64) for i in range(8)), draw(st.integers(0, 15)), draw(BITS),
                draw(U32), ids, draw(WHOLE), hops, back)  # fmt: skip


TELEMETRY = st.builds(Telemetry, *[U32] * 10)
MESSAGES: st.SearchStrategy[Message] = st.one_of(
    st.builds(Hello, *[U32] * 9, NAME),
    st.builds(Failure, st.binary(max_size=20)),
    works(),
    st.builds(Result, U64, U64, U32, st.integers(0, 2), BITS, st.lists(TELEMETRY, max_size=2).map(tuple), WHOLE),
    st.builds(SnapshotSave, U32, U64, U64, U64, U32, U32, U32),
    st.builds(SnapshotBegin, U32, U64, U64, U64, U32, U32, U64, U32, TOKENS, st.binary(max_size=9)),
    st.builds(SnapshotChunk, U64, st.binary(max_size=20)),
    st.builds(SnapshotDone, U64, U32, st.binary(max_size=20)),
    st.builds(SnapshotLoad, U32, U64, U64, U64, U32, U32, U64, U32, TOKENS),
)
WORK = Work(
    1, 9, 3, START, 5, 0, 0, 21, 7, 16, 0, (7, 8), b"\0\x3c\0\xc0", (Hop(b"b", 9000, 22, 42, 1),), Return(1, b"", 0)
)


@pytest.fixture(scope="module", autouse=True)
def answered_by_the_replacement() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tapes, "oracle", standing_in(tapes.by_tape))
        yield


def verdict(raw: bytes) -> tuple[str, str | None]:
    with pytest.raises(FrameError) as error:
        frames.decode_python(raw)
    return error.value.code, error.value.subject


@given(MESSAGES)
def test_a_message_that_was_written_is_read_back(message: Message) -> None:
    raw = frames.encode_python(message)
    assert frames.decode_python(raw) == message
    assert frames.decode_python(memoryview(raw)) == message
    head = frames.read_header(raw)
    assert head.length == len(raw) - 12 and 1 <= head.type <= 9


@given(MESSAGES)
def test_a_frame_cut_anywhere_is_truncated(message: Message) -> None:
    raw = frames.encode_python(message)
    for cut in range(len(raw)):
        assert verdict(raw[:cut]) == ("frame_truncated", "header" if cut < 12 else "body")
    assert verdict(raw + b"\0") == ("frame_trailing", "body")


@given(MESSAGES, st.data())
def test_a_body_cut_anywhere_is_refused_or_another_message(message: Message, data: st.DataObject) -> None:
    raw = bytearray(frames.encode_python(message))
    del raw[data.draw(st.integers(12, len(raw))) :]
    struct.pack_into(">I", raw, 8, len(raw) - 12)
    try:
        found = frames.decode_python(raw)
    except FrameError as error:
        assert error.code.startswith("frame_") and error.subject
    else:
        assert frames.encode_python(found) == raw


@given(MESSAGES, st.data())
def test_a_frame_with_one_number_changed_is_a_message_or_an_error(message: Message, data: st.DataObject) -> None:
    raw = bytearray(frames.encode_python(message))
    at = 4 * data.draw(st.integers(0, len(raw) // 4 - 1))
    struct.pack_into(">I", raw, at, data.draw(U32 | st.integers(0, 8)))
    try:
        found = frames.decode_python(raw)
    except FrameError as error:
        assert error.code.startswith("frame_") and error.subject
    else:
        assert frames.encode_python(found) == raw


def test_the_bytes_of_a_work_frame_are_those_of_the_table() -> None:
    fixed = struct.pack(">I4Q11I", 1, 9, 3, START, 5, 0, 2, 0, 21, 7, 8, 4, 16, 1, 0, 33)
    route = struct.pack(">5I", 1, 9000, 22, 42, 1) + b"b" + struct.pack(">3I", 1, 0, 0)
    body = fixed + struct.pack(">2I", 7, 8) + b"\0\x3c\0\xc0" + route
    assert frames.encode_python(WORK) == struct.pack(">4s2I", b"DS4D", 3, len(body)) + body


@pytest.mark.parametrize("number", range(1, 10))
def test_a_length_from_the_wire_is_refused_before_anybody_allocates_it(number: int) -> None:
    with pytest.raises(FrameError) as error:
        frames.read_header(struct.pack(">4s2I", b"DS4D", number, 2**32 - 1))
    assert error.value.code == "frame_length"


@pytest.mark.parametrize(
    ("offset", "value"),
    [(40, 2**30), (56, 2**32 - 4), (60, 2**32 - 1), (68, 2**32 - 1), (76, 2**32 - 1)],
)
def test_hostile_counts_and_lengths_of_work_are_refused(offset: int, value: int) -> None:
    raw = bytearray(frames.encode_python(WORK))
    struct.pack_into(">I", raw, 12 + offset, value)
    assert verdict(bytes(raw))[0] in ("frame_tokens", "frame_sizes", "frame_truncated")


def test_lengths_that_add_up_only_in_32_bits_are_refused() -> None:
    raw = bytearray(frames.encode_python(WORK))
    struct.pack_into(">I", raw, 12 + 60, 2**32 - 4)
    struct.pack_into(">I", raw, 12 + 76, 33 + 8)
    assert verdict(bytes(raw)) == ("frame_sizes", "body")


@pytest.mark.parametrize(
    "cls", [Hello, Work, Result, SnapshotSave, SnapshotBegin, SnapshotLoad, SnapshotChunk, SnapshotDone]
)
def test_each_number_that_does_not_fit_is_named(cls: type) -> None:
    rest = {"name": b"", "tokens": (1,), "message": b"", "chunk": b""}
    fields = numbers(cls)
    extra = {name: value for name, value in rest.items() if name in cls.__annotations__}
    for name, most in fields.items():
        for value in (-1, most + 1):
            with pytest.raises(FrameError) as error:
                frames.encode_python(cls(**(dict.fromkeys(fields, 0) | {name: value}), **extra))
            assert (error.value.code, error.value.subject) == ("frame_range", name)


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (replace(WORK, flags=16), "frame_flags"),
        (replace(WORK, activation_bits=4), "frame_bits"),
        (replace(WORK, tokens=()), "frame_tokens"),
        (replace(WORK, tokens=(2**32,)), "frame_range"),
        (replace(WORK, activations=b"abc"), "frame_activations"),
        (replace(WORK, hops=(Hop(b"", 1, 2, 3, 0),)), "frame_host"),
        (replace(WORK, hops=(Hop(b"h" * 1025, 1, 2, 3, 0),)), "frame_host"),
        (replace(WORK, hops=(Hop(b"a\0", 1, 2, 3, 0),)), "frame_host"),
        (replace(WORK, hops=(Hop(b"a", 2**32, 2, 3, 0),)), "frame_range"),
        (replace(WORK, back=Return(1, b"\0", 0)), "frame_host"),
        (Hello(*[0] * 9, b"n" * 128), "frame_name"),
        (Hello(*[0] * 9, b"a\0"), "frame_name"),
        (Result(1, 2, 0, 3, 16), "frame_kind"),
        (Result(1, 2, 0, 1, 16, (), b"abc"), "frame_activations"),
        (Failure(b"x" * 65537), "frame_length"),
        (SnapshotChunk(1, bytes(8388609)), "frame_length"),
    ],
)
def test_a_message_that_no_reader_would_take_is_not_written(message: Message, code: str) -> None:
    with pytest.raises(FrameError) as error:
        frames.encode_python(message)
    assert error.value.code == code


def test_a_failed_result_may_carry_any_bytes() -> None:
    message = Result(1, 2, 1, 1, 32, (), b"odd")
    assert frames.decode_python(frames.encode_python(message)) == message


def test_a_route_has_a_way_back_exactly_if_it_has_hops() -> None:
    for wrong in (replace(WORK, back=None), replace(WORK, hops=())):
        with pytest.raises(ValueError, match="return address"):
            frames.encode_python(wrong)


# ---- on tapes, and answered by an oracle ----

REQUESTS: st.SearchStrategy[tapes.Request] = st.one_of(
    st.builds(tapes.Encode, MESSAGES),
    st.builds(tapes.Decode, MESSAGES.map(frames.encode_python) | st.binary(max_size=60)),
    st.builds(tapes.Chain, U64, TOKENS),
    st.builds(tapes.Convert, st.sampled_from(["pack", "unpack"]), st.integers(0, 40), WHOLE | st.binary(max_size=9)),
)


@given(REQUESTS)
def test_requests_and_answers_are_read_back_from_their_tapes(request: tapes.Request) -> None:
    assert tapes.read_input(tapes.write_input(request)) == request
    answer = tapes.run(request)
    again = tapes.read_output(tapes.write_output(answer))
    assert (again == answer) or (isinstance(answer, FrameError) and isinstance(again, FrameError))
    assert tapes.write_output(again) == tapes.write_output(answer)


@given(MESSAGES)
def test_the_oracles_answers_are_those_of_the_functions(message: Message) -> None:
    raw = tapes.encode_by_oracle(message)
    assert raw == frames.encode_python(message)
    assert tapes.decode_by_oracle(raw) == message
    with pytest.raises(FrameError) as error:
        tapes.decode_by_oracle(raw[:-1])
    assert error.value.code == "frame_truncated"


WORK_LINE = b"work 1 9 3 4 5 0 0 21 7 16 0"
RESULT_LINE = b"result 1 2 0 0 16"
TELEMETRY_LINE = b"telemetry 1 2 3 4 5 6 7 8 9 10"
HOP, BACK, IDS, HOT = b"hop a 1 2 3 4", b"return 1 %- 0", b"tokens 1", b"activations %-"


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [b""],
        [b"nothing"],
        [HOP],
        [b"failure"],
        [b"failure a b"],
        [b"failure a", b"failure b"],
        [WORK_LINE],
        [WORK_LINE, IDS],
        [WORK_LINE, HOT, IDS],
        [WORK_LINE, IDS, HOT, BACK],
        [WORK_LINE, IDS, HOT, HOP],
        [WORK_LINE, IDS, HOT, b"hop a 1 2 3", BACK],
        [WORK_LINE, IDS, HOT, HOP, BACK, BACK],
        [WORK_LINE, IDS, HOT, BACK, HOP],
        [WORK_LINE + b" 1", IDS, HOT],
        [RESULT_LINE],
        [RESULT_LINE, b"payload %-", TELEMETRY_LINE],
        [RESULT_LINE, TELEMETRY_LINE],
        [b"snapshot-done 1 -2 %-"],
        [b"snapshot-load 1 2 3 4 5 6 7 8", b"tokens", b"message %-"],
        [b"snapshot-begin 1 2 3 4 5 6 7 8", b"tokens"],
    ],
)
def test_lines_that_are_no_message_are_refused(lines: list[bytes]) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(b"encode\n" + b"".join([line + b"\n" for line in lines]))


@pytest.mark.parametrize(
    "tape",
    [b"", b"decode", b"decode 1\n", b"read\n", b"encode 1\nfailure a\n", b"hash\n", b"hash 1\n2\n", b"hash -1\n",
     b"hash 18446744073709551616\n", b"pack\n", b"pack 8 8\n", b"unpack x\n"],
)  # fmt: skip
def test_bytes_that_are_no_tape_are_refused(tape: bytes) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(tape)
