from __future__ import annotations

from collections.abc import Iterator

import pytest
from ds4.core.output.dsml import DsmlParser
from ds4.core.tapes import output as tapes
from ds4.sys.tape import TapeError
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import standing_in


@pytest.fixture(scope="module", autouse=True)
def answered_by_the_replacement() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tapes, "oracle", standing_in(tapes.by_tape))
        yield


PIECES = st.lists(
    st.sampled_from(
        ["</think>", "a", "<", "/think>", "\n\n", "<tool_calls>", '<invoke name="f">', "</invoke>", "</tool_calls>"]
    )
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    max_size=8,
)
INPUTS = st.builds(tapes.OutputInput, st.booleans(), st.booleans(), PIECES.map(tuple), st.booleans())


@given(INPUTS)
def test_what_is_written_is_read_back(given_input: tapes.OutputInput) -> None:
    assert tapes.read_input(tapes.write_input(given_input)) == given_input
    result = tapes.run(given_input)
    assert tapes.read_output(tapes.write_output(result)) == result


@pytest.mark.parametrize(
    "tape",
    [
        "",
        "push a\n",
        "output 1\n",
        "output 1 2\n",
        "output 1 1 1\n",
        "output 0 0",
        "output 0 0\npush\n",
        "output 0 0\n\n",
    ]
    + [
        "output 0 0\nfinish\npush a\n",
        "output 0 0\nfinish\nfinish\n",
        "output 0 0\npush a b\n",
        "output 0 0\nfinish x\n",
    ]
    + ["output 0 0\npush %FF\n", "output 0 0\npush %ED%A0%80\n", "output 0 0\nshow a\n", "output 0 0\npush %2\n"],
)
def test_a_tape_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(tape.encode())


@pytest.mark.parametrize(
    "tape", ["content a\n", "now here\n", "finish stop\nnow done\n", "call x f\n", "finish\n", "end\n"]
)
def test_an_output_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_output(tape.encode())


@given(st.booleans(), st.booleans(), PIECES)
def test_the_parser_that_asks_an_oracle_is_a_parser(thinking: bool, tools: bool, pieces: list[str]) -> None:
    ours = DsmlParser(thinking=thinking, tools=tools)
    theirs = tapes.OracleDsmlParser(thinking=thinking, tools=tools)
    for piece in pieces:
        assert theirs.mode == ours.mode
        assert theirs.push(piece) == ours.push(piece)
    assert (theirs.mode, theirs.finish()) == (ours.mode, ours.finish())
