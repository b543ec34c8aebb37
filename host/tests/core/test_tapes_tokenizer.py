from __future__ import annotations

from collections.abc import Iterator

import pytest
from ds4.core import components
from ds4.core.tapes import tokenizer as tapes
from ds4.core.tapes.tokenizer import Bos, Decode, Encode, OracleTokenizer, Request, Stream, Texts
from ds4.core.tokenizer import Segment, Tokenizer
from ds4.core.vocabulary import Kind, Vocabulary
from ds4.errors import TokenizerError
from ds4.sys.tape import TapeError
from hypothesis import given
from hypothesis import strategies as st
from support.oracles import StandIn
from support.vocabularies import BYTE_CHARACTERS

TOKENS = ["<s>", "<think>", "  ", *BYTE_CHARACTERS.values(), "th", "the", "\u00e9"]
KINDS = [Kind.CONTROL, Kind.USER_DEFINED, Kind.USER_DEFINED, *[Kind.NORMAL] * 258, Kind.UNUSED]
VOCABULARY = tapes.byte_level("smollm", TOKENS, list(KINDS), [("t", "h"), ("th", "e")], 0, True)
OURS = Tokenizer(VOCABULARY)

PARTS = st.text(st.characters(exclude_categories=()), max_size=4) | st.sampled_from(["<s>", "<think>", "  ", "the"])
TEXT = st.lists(PARTS, max_size=4).map("".join)
IDS = st.lists(st.integers(0, len(TOKENS)) | st.just(-1), max_size=8).map(tuple)
REQUESTS = (
    st.builds(Encode, st.lists(st.builds(Segment, TEXT, st.booleans()), max_size=3).map(tuple))
    | st.builds(Bos, IDS)
    | st.builds(Decode, st.booleans(), IDS)
    | st.builds(Stream, st.booleans(), IDS)
)


@pytest.fixture(scope="module")
def theirs() -> Iterator[OracleTokenizer]:
    """With an oracle that the replacement answers, from what the setup tape tells it."""

    def opened(name: str, setup: bytes) -> StandIn:
        assert name == "tokenizer"
        tokenizer = Tokenizer(tapes.read_setup(setup))
        return StandIn(lambda tape: tapes.by_tape(tokenizer, tape))

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DS4_COMPONENT_TOKENIZER", "oracle")
        patch.setattr(tapes, "Oracle", opened)
        yield OracleTokenizer(VOCABULARY)


@given(REQUESTS)
def test_what_is_written_is_read_back(request_: Request) -> None:
    assert tapes.read_input(tapes.write_input(request_)) == request_
    result = tapes.run(OURS, request_)
    back = tapes.read_output(tapes.write_output(result))
    if isinstance(result, TokenizerError):
        assert isinstance(back, TokenizerError)
        assert (back.code, back.subject) == (result.code, result.subject)
    else:
        assert back == result


@given(REQUESTS)
def test_the_tokenizer_that_asks_an_oracle_is_a_tokenizer(theirs: OracleTokenizer, request_: Request) -> None:
    a, b = tapes.run(OURS, request_), tapes.run(theirs, request_)
    assert tapes.write_output(a) == tapes.write_output(b)


def test_its_other_doors_ask_the_oracle_too(theirs: OracleTokenizer) -> None:
    assert theirs.encode("the <s>", special=True) == OURS.encode("the <s>", special=True)
    assert theirs.encode_batch(["the", ""]) == OURS.encode_batch(["the", ""])
    assert theirs.special_tokens == OURS.special_tokens


@given(IDS)
def test_its_stream_holds_back_what_the_other_does(theirs: OracleTokenizer, ids: tuple[int, ...]) -> None:
    ours, asked = OURS.stream(), theirs.stream()
    for token in ids:
        if not 0 <= token < len(TOKENS):
            for stream in (ours, asked):
                with pytest.raises(TokenizerError, match="id"):
                    stream.push(token)
            continue
        assert ours.push(token) == asked.push(token)
        assert ours.pending == asked.pending
    assert ours.flush() == asked.flush()
    assert not asked.pending


def test_a_setup_is_read_back() -> None:
    assert tapes.read_setup(tapes.write_setup(VOCABULARY)) == VOCABULARY


HEAD = "pre smollm\nbos 0 1\n"


@pytest.mark.parametrize(
    "tape",
    ["", "pre smollm\n", HEAD, "pre nowhere\nbos 0 1\ntoken a 1\n", "bos 0 1\npre smollm\ntoken a 1\n"]
    + ["pre smollm\nbos 1 1\ntoken a 1\n", "pre smollm\nbos -2 1\ntoken a 1\n", "pre smollm\nbos 0 2\ntoken a 1\n"]
    + [HEAD + "token a\n", HEAD + "token a 1 1\n", HEAD + "token a x\n", HEAD + "token a 2147483648\n"]
    + [HEAD + "token %FF 1\n", HEAD + "token %ED%A0%80 1\n", HEAD + "token a 1\nmerge a a\n"]
    + [HEAD + "token a 1\ntoken aa 1\nmerge a %-\n", HEAD + "token a 1\ntoken aa 1\nmerge a a\ntoken b 1\n"]
    + [HEAD + "token a 1\n\n", HEAD + "token a 1"],
)
def test_a_setup_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_setup(tape.encode())


@pytest.mark.parametrize(
    "tape",
    ["", "encode 0\n", "encode 2 a\n", "encode 0 a 1\n", "encode 0 %C3\n", "bos x\n", "decode\n", "decode 2 1\n"]
    + ["stream\n", "stream 1 9223372036854775808\n", "decode 0 -9223372036854775809\n", "bos 1\nbos 1\n", "tell 1\n"]
    + ["\n", "encode  0 a\n", "encode 0 a"],
)
def test_a_tape_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_input(tape.encode())


@pytest.mark.parametrize("tape", ["", "ids x\n", "text\n", "text a b\n", "texts\n", "error a\n", "ids 1\nids 2\n"])
def test_an_output_that_is_none_is_refused(tape: str) -> None:
    with pytest.raises(TapeError):
        tapes.read_output(tape.encode())


def test_both_sides_of_an_unpromoted_tokenizer_are_compared(
    theirs: OracleTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DS4_COMPONENT_TOKENIZER")
    entry = components.Entry("tokenizer", "candidate", "2026-11-29")
    monkeypatch.setattr(components, "ledger", lambda: {"tokenizer": entry})
    components.seen.clear()
    watched = OracleTokenizer(VOCABULARY)
    assert watched.encode("the") == OURS.encode("the")
    assert watched.decode([4, 5]) == OURS.decode([4, 5])
    assert watched.stream().push(70) == OURS.stream().push(70)
    assert components.seen["tokenizer"] > 0
    assert components.seen["tokenizer differences"] == 0


def test_a_stream_of_texts_is_one_more_than_its_ids() -> None:
    assert tapes.run(OURS, Stream(True, ())) == Texts(("",))


def test_a_vocabulary_is_answered_by_the_side_that_the_ledger_names(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Vocabulary] = []
    monkeypatch.setattr(tapes, "OracleTokenizer", made.append)
    monkeypatch.setattr(Vocabulary, "from_metadata", lambda md: VOCABULARY)
    for side, count in (("python", 0), ("oracle", 1)):
        monkeypatch.setenv("DS4_COMPONENT_TOKENIZER", side)
        Tokenizer.from_metadata({})  # type: ignore[arg-type]
        assert len(made) == count
