from __future__ import annotations

from collections.abc import Iterator

import pytest
from ds4.core.ledger import SessionLedger
from ds4.core.tapes import ledger as tapes
from ds4.core.tapes.ledger import LedgerInput, Op
from ds4.sys.tape import TapeError
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import standing_in


@pytest.fixture(scope="module", autouse=True)
def answered_by_the_replacement() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tapes, "oracle", standing_in(tapes.by_tape))
        yield


TOKENS = st.lists(st.integers(0, 2), max_size=5).map(tuple)
SMALL = st.integers(-1, 6)
OPS = st.one_of(
    st.builds(Op, st.sampled_from(["plan", "adopt"]), st.just(()), TOKENS),
    st.builds(Op, st.just("commit"), st.tuples(st.integers(0, 6), st.integers(0, 1), SMALL), TOKENS),
    st.builds(Op, st.just("extend"), st.tuples(SMALL), TOKENS),
    st.builds(Op, st.just("append"), st.tuples(st.integers(0, 2))),
    st.builds(Op, st.just("rewind"), st.tuples(SMALL)),
    st.builds(Op, st.sampled_from(["invalidate", "tokens"])),
)
INPUTS = st.builds(LedgerInput, st.integers(1, 6), st.lists(OPS, max_size=12).map(tuple))


@given(INPUTS)
def test_what_is_written_is_read_back(given_input: LedgerInput) -> None:
    assert tapes.read_input(tapes.write_input(given_input)) == given_input
    result = tapes.run(given_input)
    assert tapes.read_output(tapes.write_output(result)) == result


@pytest.mark.parametrize(
    "line",
    ["plan -1", "plan 2147483648", "plan x", "commit 1 0", "commit 1 2 1", "commit -1 0 1", "extend", "append"]
    + ["append 1 2", "append -1", "rewind", "rewind 1 1", "rewind 9223372036854775808", "invalidate 1", "tokens 1"]
    + ["", "ctx 4", "keep 1", "plan  1"],
)
def test_a_line_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(b"ctx 4\n" + line.encode() + b"\n")


@pytest.mark.parametrize("tape", ["", "plan 1\n", "ctx 0\n", "ctx 2147483648\n", "ctx\n", "ctx 1 1\n", "ctx 4"])
def test_a_tape_without_its_context_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(tape.encode())


@pytest.mark.parametrize("tape", ["plan 1 1\n", "ok 1\n", "error\n", "fine\n"])
def test_an_output_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_output(tape.encode())


@given(INPUTS)
def test_the_ledger_that_asks_an_oracle_is_a_session_ledger(given_input: LedgerInput) -> None:
    ours, theirs = SessionLedger(given_input.ctx), tapes.OracleSessionLedger(given_input.ctx)
    for op in given_input.ops:
        assert tapes.step(ours, op) == tapes.step(theirs, op)
        assert (ours.tokens, len(ours), ours.valid, ours.generation) == (
            theirs.tokens,
            len(theirs),
            theirs.valid,
            theirs.generation,
        )
