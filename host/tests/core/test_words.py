from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from ds4.core import words
from ds4.core.pretokenizers import TABLE
from ds4.core.tokenizer import byte_alphabet
from ds4.core.words import Words
from hypothesis import given
from hypothesis import strategies as st

BYTES = byte_alphabet()
QUICK = {name: row for name, row in TABLE.items() if row.quick}
BUILT = {name: row.build() for name, row in QUICK.items()}
ORDINARY = st.text("\t\n\r aAsStTdlvemMrR019.,'!-_~`{/$", max_size=30)
MIXED = st.text("\t\n aAsStz01.'\u00e9\u017f\u0301\u4e2d\u3000\u00a0\U0001f44d\x0b\x00", max_size=30)


def cut(name: str, text: str) -> list[str]:
    """By the pre-tokenizer itself."""
    pieces = BUILT[name].pre_tokenize_str(text)
    return [bytes(BYTES[character] for character in piece).decode("utf-8", "replace") for piece, _ in pieces]


@given(st.sampled_from(sorted(QUICK)), ORDINARY)
def test_the_quick_expression_cuts_ordinary_text_as_the_pre_tokenizer_does(name: str, text: str) -> None:
    assert re.findall(QUICK[name].quick, text, re.ASCII) == cut(name, text)


class Spelling:
    """An encoder that gives the pieces' code points with a mark in front of each piece, and keeps what it was asked."""

    def __init__(self, name: str) -> None:
        self.name, self.asked = name, list[str]()

    def __call__(self, texts: list[str]) -> list[Sequence[int]]:
        self.asked += texts
        return [[code for piece in cut(self.name, text) for code in (-1, *map(ord, piece))] for text in texts]


@given(st.sampled_from(sorted(QUICK)), st.lists(MIXED, max_size=4))
def test_whatever_the_text_its_pieces_are_those_of_the_whole(name: str, texts: list[str]) -> None:
    encode = Spelling(name)
    quick = Words(QUICK[name].quick, encode)
    for _ in range(2):  # then with everything known
        assert quick.encode(texts) == [list(ids) for ids in Spelling(name)(texts)]


def test_a_word_is_asked_for_once() -> None:
    encode = Spelling("gpt-2")
    quick = Words(QUICK["gpt-2"].quick, encode)
    quick.encode(["to be or not to be", "not to be"])
    quick.encode([" be or not"])
    assert sorted(encode.asked) == [" be", " not", " or", " to", "not", "to"]


def test_a_stretch_with_other_characters_reaches_from_one_safe_place_to_the_next() -> None:
    encode = Spelling("gpt-2")
    Words(QUICK["gpt-2"].quick, encode).encode(["so a caf\u00e9 au lait, please"])
    assert sorted(encode.asked) == [" a", " caf\u00e9 au", " lait", " please", ",", "so"]


def test_long_words_are_not_kept_and_too_many_words_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_MOST", 3)
    encode = Spelling("gpt-2")
    quick = Words(QUICK["gpt-2"].quick, encode)
    for text in ("x" * 25, "x" * 25, "a b c d", "a", "e"):
        quick.encode([text])
    assert encode.asked == ["x" * 25] * 2 + ["a", " b", " c", " d", "e"]
    quick.encode(["a"])
    assert encode.asked[-1] == "a"


def test_words_are_forgotten_under_the_hands_of_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "_MOST", 10)
    quick = Words(QUICK["gpt-2"].quick, Spelling("gpt-2"))
    texts = [" ".join(f"w{chr(97 + (i * j) % 26)}" for i in range(30)) for j in range(40)]
    alone = [list(ids) for ids in Spelling("gpt-2")(texts)]
    with ThreadPoolExecutor(4) as pool:
        assert [ids for (ids,) in pool.map(lambda text: quick.encode([text]), texts)] == alone
