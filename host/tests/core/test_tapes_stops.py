from __future__ import annotations

from collections.abc import Iterator

import pytest
from ds4.core.output.stops import StopMatcher
from ds4.core.output.utf8 import Utf8Stream
from ds4.core.tapes import stops as tapes
from ds4.sys.tape import TapeError
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import standing_in


@pytest.fixture(scope="module", autouse=True)
def answered_by_the_replacement() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tapes, "oracle", standing_in(tapes.by_tape))
        yield


INPUTS = st.builds(
    tapes.StopsInput,
    st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=3).map(tuple),
    st.lists(st.none() | st.binary(max_size=6), max_size=5).map(tuple),
)


@given(INPUTS)
def test_what_is_written_is_read_back(given_input: tapes.StopsInput) -> None:
    assert tapes.read_input(tapes.write_input(given_input)) == given_input
    result = tapes.run(given_input)
    assert tapes.read_output(tapes.write_output(result)) == result


@pytest.mark.parametrize(
    "tape",
    ["", "push a\n", "stops a", "stops a\nstops\n", "stops\npush\n", "stops\npush a b\n", "stops\nflush a\n"]
    + ["stops %FF\n", "stops %ED%A0%80\n", "stops\n\n", "stops\npush %2\n", "stops a  b\n", "stops\nshow a\n"],
)
def test_a_tape_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(tape.encode())


@pytest.mark.parametrize("tape", ["shown a 0\n", "stop a\n", "held a 0 0\n", "\n"])
def test_an_output_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_output(tape.encode())


def test_an_empty_stop_string_is_the_whole_verdict() -> None:
    assert tapes.by_tape(b"stops a %-\npush a\n") == b"error stop_empty stops\n"
    with pytest.raises(ValueError, match="empty"):
        tapes.OracleStopMatcher(["a", ""])


@given(st.lists(st.text("ab€", min_size=1, max_size=3), max_size=3), st.lists(st.none() | st.text("ab€", max_size=5)))
def test_the_matcher_that_asks_an_oracle_is_a_stop_matcher(stops: list[str], pieces: list[str | None]) -> None:
    ours, theirs = StopMatcher(stops), tapes.OracleStopMatcher(stops)
    for piece in pieces:
        if piece is None:
            assert ours.flush() == theirs.flush()
        else:
            assert ours.push(piece) == theirs.push(piece)
        assert (ours.matched, ours.held, ours.holding) == (theirs.matched, theirs.held, theirs.holding)


@given(st.lists(st.none() | st.binary(max_size=5) | st.sampled_from([b"\xf0\x9f", b"\x98\x80", b"\xed", b"\xa0"])))
def test_the_stream_that_asks_an_oracle_is_a_utf8_stream(pieces: list[bytes | None]) -> None:
    ours, theirs = Utf8Stream(), tapes.OracleUtf8Stream()
    for piece in pieces:
        if piece is None:
            assert ours.flush() == theirs.flush()
        else:
            assert ours.push(piece) == theirs.push(piece)
        assert (ours.held, ours.pending) == (theirs.held, theirs.pending)
