"""SentencePiece's merges: by ranks where those say what comes first, and by the text itself where they do not."""

from __future__ import annotations

import pytest
from ds4.core.sentencepiece import Joiner
from ds4.core.tokenizer import Tokenizer
from ds4.core.vocabulary import Vocabulary
from hypothesis import given
from hypothesis import strategies as st
from support.vocabularies import sentencepiece_vocabulary

LETTERS = {"a": -50.0, "b": -51.0, "c": -52.0, "▁": -53.0}


def vocabulary(pieces: dict[str, float], added: tuple[str, ...] = ()) -> Vocabulary:
    return sentencepiece_vocabulary({**LETTERS, **pieces}, space_prefix=False, added=added)


def by_text(found: Vocabulary) -> Joiner:
    ids = {text: index for index, text in enumerate(found.tokens) if not found.special(index)}
    return Joiner(found, ids, [ids[f"<0x{byte:02X}>"] for byte in range(256)])


def ranked(found: Vocabulary) -> Tokenizer:
    tokenizer = Tokenizer(found)
    assert not isinstance(tokenizer._core, Joiner)
    return tokenizer


def split(pieces: dict[str, float], text: str) -> list[str]:
    tokenizer = Tokenizer(vocabulary(pieces))
    assert isinstance(tokenizer._core, Joiner)
    return [tokenizer.vocabulary.tokens[token] for token in tokenizer.encode(text)]


@pytest.mark.parametrize("pieces", [{"ab": -1.0, "bc": -1.0}, {"bc": -1.0, "ab": -1.0}])
def test_of_pairs_with_equal_scores_the_leftmost_is_joined(pieces: dict[str, float]) -> None:
    assert split(pieces, "abc") == ["ab", "c"]
    assert split({**pieces, "ca": -1.0}, "bcab") == ["bc", "ab"]
    assert split({**pieces, "ca": -1.0}, "cabc") == ["ca", "bc"]


def test_a_better_score_goes_before_what_stands_further_left() -> None:
    assert split({"ab": -2.0, "ba": -2.0, "bc": -1.0}, "abc") == ["a", "bc"]
    assert split({"ab": -2.0, "ba": -2.0, "bc": -1.0}, "aba") == ["ab", "a"]


def test_added_text_is_taken_whole_and_bytes_stand_for_what_has_no_piece() -> None:
    found = vocabulary({"ab": -1.0, "bc": -1.0}, added=("\n\n",))
    tokenizer = Tokenizer(found)
    assert isinstance(tokenizer._core, Joiner)
    ids = tokenizer.encode("abc\n\n\n é")
    assert [found.tokens[index] for index in ids] == ["ab", "c", "\n\n", "<0x0A>", "▁", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(ids) == "abc\n\n\n é"


def test_a_score_shared_by_pieces_that_nothing_joins_to_is_no_tie() -> None:
    ranked(vocabulary({"ab": -1.0, "<odd>": -1.0, "<pad>": -1.0}))


TEXTS = st.text("abc ", max_size=40)
# No piece of them can be cut in two ways that overlap, as "aaa" can.
PIECES = ("ab", "bc", "ca", "abc", "▁a", "▁ab", "c▁", "bca", "cab", "▁abc")


@given(text=TEXTS, order=st.permutations(PIECES))
def test_ranks_join_as_the_text_does_where_all_scores_differ(text: str, order: list[str]) -> None:
    found = vocabulary({piece: -1.0 - at for at, piece in enumerate(order)})
    assert ranked(found).encode(text) == by_text(found).encode(text)


@given(text=st.text("aa b", max_size=60), lengths=st.sets(st.integers(2, 16)), letter=st.floats(-9, -1))
def test_ranks_join_runs_of_equal_score_from_the_left(text: str, lengths: set[int], letter: float) -> None:
    runs = {character * length: -20.0 for length in lengths | {2} for character in "▁a"}
    found = vocabulary({**runs, "▁b": letter})
    assert ranked(found).encode(text) == by_text(found).encode(text)
