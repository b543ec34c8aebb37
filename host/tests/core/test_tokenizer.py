from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ds4.core.tokenizer import Segment
from ds4.errors import TokenizerError
from hypothesis import given, settings
from hypothesis import strategies as st
from support import embedded
from support.embedded import needs_model
from support.vocabularies import byte_level, sentencepiece

CASES = json.loads((Path(__file__).parent / "data" / "smollm2_tokens.json").read_text(encoding="utf-8"))["cases"]
PLAIN = byte_level(
    merges=[("h", "e"), ("l", "l"), ("he", "ll"), ("hell", "o"), (" ", "hello")], added=["<think>", "  "]
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


@needs_model
@pytest.mark.parametrize("case", CASES, ids=[str(i) for i in range(len(CASES))])
def test_smollm2_ids_equal_the_published_layout(case: dict[str, object]) -> None:
    text = str(case["text"])
    tokenizer = embedded.tokenizer()
    assert tokenizer.encode(text, special=True) == case["ids"]
    assert tokenizer.encode(text) == case["plain"]
    assert tokenizer.decode(tokenizer.encode(text)) == text


@needs_model
def test_smollm2_knows_its_ends_and_wants_no_bos() -> None:
    tokenizer = embedded.tokenizer()
    assert (tokenizer.n_vocab, tokenizer.bos_id, tokenizer.eos_id, tokenizer.add_bos) == (49152, 1, 2, False)
    assert tokenizer.stop_ids == {0, 2}
    assert len(tokenizer.special_tokens) == 17


@needs_model
@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 49151), max_size=30))
def test_streamed_pieces_join_to_the_decoded_whole_for_any_ids(ids: list[int]) -> None:
    tokenizer = embedded.tokenizer()
    stream = tokenizer.stream()
    pieces = [stream.push(token) for token in ids]
    assert "".join([*pieces, stream.flush()]) == tokenizer.decode(ids)
    assert tokenizer.decode(ids) == b"".join(map(tokenizer.token_bytes, ids)).decode("utf-8", "replace")


@needs_model
def test_many_threads_get_the_ids_that_one_gets() -> None:
    tokenizer = embedded.tokenizer()
    texts = [f"{case['text']} {n}" * 3 for n in range(8) for case in CASES[:8]]
    alone = [tokenizer.encode(text) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tokenizer.encode, texts)) == alone
    assert tokenizer.encode_batch(texts) == alone


@given(TEXT)
def test_text_survives_the_round_trip(text: str) -> None:
    assert PLAIN.decode(PLAIN.encode(text)) == text
    assert PLAIN.encode_batch([text])[0] == PLAIN.encode(text)


@given(st.lists(st.sampled_from(["<|im_start|>", "<|im_end|>", "<think>", "<|im_", "end|>", "hello", " ", "\n"])))
def test_text_that_spells_special_tokens_never_yields_them(parts: list[str]) -> None:
    text = "".join(parts)
    special = set(PLAIN.special_tokens.values())
    assert not special.intersection(PLAIN.encode(text))
    assert not special.intersection(PLAIN.encode_segments([Segment(part, False) for part in parts]))
    assert PLAIN.decode(PLAIN.encode(text)) == text


def test_a_special_token_split_over_segments_is_text() -> None:
    start = PLAIN.special_tokens["<|im_start|>"]
    assert PLAIN.encode_segments([Segment("<|im_start|>", True)]) == [start]
    for parts in (("<|im_", "start|>"), ("<|", "im_start|>"), ("<|im_start|", ">")):
        for flags in ((True, False), (False, True), (False, False)):
            segments = [Segment(text, flag) for text, flag in zip(parts, flags, strict=True)]
            assert start not in PLAIN.encode_segments(segments)


def test_segments_that_no_special_token_parts_are_tokenised_as_one() -> None:
    segments = [Segment("<|im_start|>say he", True), Segment("llo", False), Segment(" hello<|im_end|>", True)]
    whole = PLAIN.encode("<|im_start|>say hello hello<|im_end|>", special=True)
    assert PLAIN.encode_segments(segments) == whole


def test_the_longest_special_token_wins() -> None:
    tokenizer = byte_level(special=("<a>", "<a><b>"))
    assert tokenizer.encode("<a><b><a>", special=True) == [1, 0]


def test_added_white_space_is_text_and_added_markup_is_not() -> None:
    assert len(PLAIN.encode("  ")) == 1
    assert len(PLAIN.encode("<think>")) == len("<think>")
    assert len(PLAIN.encode("<think>", special=True)) == 1


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "😀\ud83d"])
def test_a_lone_surrogate_is_refused_by_name(text: str) -> None:
    for encode in (PLAIN.encode, lambda t: PLAIN.encode_batch([t])):
        with pytest.raises(TokenizerError, match="lone surrogate") as caught:
            encode(text)
        assert "U+D" in str(caught.value.found)


def test_a_character_in_pieces_is_held_back_until_it_is_whole() -> None:
    ids = PLAIN.encode("€😀")
    stream = PLAIN.stream()
    assert [stream.push(token) for token in ids] == ["", "", "€", "", "", "", "😀"]
    assert stream.flush() == ""


def test_a_character_cut_off_by_the_end_is_one_replacement_at_flush() -> None:
    stream = PLAIN.stream()
    assert [stream.push(token) for token in PLAIN.encode("a€")[:-1]] == ["a", "", ""]
    assert stream.pending
    assert stream.flush() == "\ufffd"
    assert not stream.pending


def test_control_tokens_decode_to_nothing_where_they_are_not_wanted() -> None:
    ids = PLAIN.encode("<|im_start|>hello<|im_end|>", special=True)
    assert PLAIN.decode(ids) == "<|im_start|>hello<|im_end|>"
    assert PLAIN.decode(ids, special=False) == "hello"


@pytest.mark.parametrize("token", [-1, 10**6])
def test_an_id_outside_the_vocabulary_is_refused(token: int) -> None:
    with pytest.raises(TokenizerError, match="no such token"):
        PLAIN.decode([token])


def test_bos_is_added_once_and_only_where_the_model_wants_it() -> None:
    spm = sentencepiece({"▁": -1.0})
    assert spm.with_bos([5]) == [1, 5]
    assert spm.with_bos([1, 5]) == [1, 5]
    assert PLAIN.with_bos([5]) == [5]


def test_an_unknown_pre_tokenizer_is_an_error_and_not_a_guess() -> None:
    with pytest.raises(TokenizerError, match=r"tokenizer\.ggml\.pre"):
        byte_level(pre="of-tomorrow")


def test_merges_of_tokens_that_do_not_exist_are_refused() -> None:
    with pytest.raises(TokenizerError, match="merges"):
        byte_level(merges=[("he", "llo")])


class TestSentencePiece:
    PIECES = {"▁": -9.0, "a": -8.0, "b": -8.0, "c": -8.0, "ab": -2.0, "bc": -1.0, "▁a": -3.0, "▁ab": -4.0}

    def pieces(self, text: str, **options: bool) -> list[str]:
        tokenizer = sentencepiece(self.PIECES, **options)
        return [tokenizer.vocabulary.tokens[token] for token in tokenizer.encode(text)]

    def test_the_pair_with_the_best_score_is_merged_first(self) -> None:
        assert self.pieces("abc", space_prefix=False) == ["a", "bc"]
        assert self.pieces("ab", space_prefix=False) == ["ab"]

    def test_a_space_is_put_before_the_text_where_the_model_has_that_habit(self) -> None:
        assert self.pieces("ab") == ["▁ab"]
        assert self.pieces("") == []

    def test_what_has_no_piece_falls_back_to_bytes(self) -> None:
        assert self.pieces("€", space_prefix=False) == ["<0xE2>", "<0x82>", "<0xAC>"]

    def test_the_space_that_was_put_before_is_taken_off_again(self) -> None:
        tokenizer = sentencepiece(self.PIECES)
        for text in ("ab c", " ab", "a\nb", "€"):
            assert tokenizer.decode(tokenizer.encode(text)) == text

    def test_a_continuation_keeps_its_leading_space(self) -> None:
        tokenizer = sentencepiece(self.PIECES)
        ids = tokenizer.encode("ab")
        stream = tokenizer.stream()
        assert "".join(map(stream.push, ids)) == " ab" == tokenizer.decode(ids, continuation=True)

    def test_the_prefix_comes_again_after_a_special_token_but_not_between_segments(self) -> None:
        tokenizer = sentencepiece(self.PIECES)
        ids = tokenizer.encode_segments([Segment("a", True), Segment("b</s>", False), Segment("</s>a", True)])
        tokens = [tokenizer.vocabulary.tokens[token] for token in ids]
        assert tokens[0] == "▁ab"
        assert tokens[-2:] == ["</s>", "▁a"]

    def test_pieces_that_spell_an_added_token_do_not_become_it(self) -> None:
        pieces = {"<": -9.0, "x>": -9.0, "<x": -8.0, ">": -9.0, "x": -9.0}
        tokenizer = sentencepiece(pieces, added=["<x>"], space_prefix=False)
        added = tokenizer.special_tokens["<x>"]
        assert added not in tokenizer.encode("<x>")
        assert tokenizer.encode("<x>", special=True) == [added]

    def test_an_added_run_of_spaces_is_taken_whole_from_any_text(self) -> None:
        tokenizer = sentencepiece({"▁": -9.0, "a": -8.0}, added=["   "], space_prefix=False)
        tokens = [tokenizer.vocabulary.tokens[token] for token in tokenizer.encode("a    a")]
        assert tokens == ["a", "   ", "▁", "a"]

    def test_tags_of_html_are_text_only_where_the_vocabulary_has_them_as_such(self) -> None:
        pieces = {"<": -9.0, ">": -9.0, "b": -9.0}
        for html in (False, True):
            tokenizer = sentencepiece(pieces, added=["<b>", "<think>"], html=html, space_prefix=False)
            added = tokenizer.vocabulary.tokens.index("<b>")
            assert (tokenizer.encode("<b>") == [added]) == html
            assert ("<b>" in tokenizer.special_tokens) != html
            assert "<think>" in tokenizer.special_tokens

    def test_bytes_that_make_a_character_are_decoded_when_it_is_whole(self) -> None:
        tokenizer = sentencepiece(self.PIECES, space_prefix=False)
        stream = tokenizer.stream()
        assert [stream.push(token) for token in tokenizer.encode("a€b")] == ["a", "", "", "€", "b"]
        assert stream.flush() == ""

    def test_the_name_of_a_byte_token_is_only_text(self) -> None:
        tokenizer = sentencepiece(self.PIECES, space_prefix=False)
        assert tokenizer.decode(tokenizer.encode("<0x41>")) == "<0x41>"
        assert len(tokenizer.encode("<0x41>")) == 6


def test_a_run_on_which_the_regular_expressions_give_up_is_an_error() -> None:
    tokenizer = byte_level(pre="dbrx")
    with pytest.raises(TokenizerError, match="too long a run") as caught:
        tokenizer.encode(" " * 11_000_000 + "a")
    assert caught.value.subject == "text"
    assert tokenizer.decode(tokenizer.encode("still here")) == "still here"
