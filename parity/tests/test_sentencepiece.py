"""Gemma 3's vocabulary, out of a real file: Hugging Face's ids for thousands of strings, and its texts for ids."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

import pytest
from ds4.core import gguf
from ds4.core.tapes.tokenizer import by_tape
from ds4.core.tokenizer import Segment, Tokenizer

from parity import goldens
from parity.vocabularies import fetched

pytestmark = pytest.mark.skipif("DS4_GEMMA3_MODEL" not in os.environ, reason="DS4_GEMMA3_MODEL names no file")

GOLDEN = "sentencepiece/gemma3.jsonl"


@functools.cache
def tokenizer() -> Tokenizer:
    path = fetched("DS4_GEMMA3_MODEL", "gemma-3-270m-q4_k_m.gguf")
    return Tokenizer.from_metadata(gguf.read(path).metadata)


def wrong(verb: str) -> Iterator[tuple[str, bytes, bytes]]:
    """The cases of a kind that come out otherwise: name, what was expected, what was found."""
    for case in goldens.read(GOLDEN):
        if case.tape is not None and case.tape.startswith(f"{verb} ".encode()):
            found = by_tape(tokenizer(), case.tape)
            if found != case.expected:
                yield case.name, case.expected, found


def strings() -> set[bytes]:
    tapes = [case.tape for case in goldens.read(GOLDEN) if case.tape is not None]
    return {tape.split(b" ", 2)[2] for tape in tapes if tape.startswith(b"encode ")}


def test_there_are_two_thousand_strings_and_more() -> None:
    assert len(strings()) >= 2000


@pytest.mark.parametrize("verb", ["encode", "decode", "stream"])
def test_every_case_comes_out_as_the_reference_has_it(verb: str) -> None:
    assert list(wrong(verb)) == []


def test_what_a_user_writes_never_becomes_markup() -> None:
    ours = tokenizer()
    markup = set(ours.special_tokens.values())
    for text in ours.special_tokens:
        for shape in ("{0}", " {0}", "x{0}y", "{0}{0}", "<{0}>"):
            assert not markup.intersection(ours.encode(shape.format(text))), (text, shape)
    assert ours.encode("<start_of_turn>", special=True) == [105]


def test_the_pieces_of_a_special_token_do_not_join_over_the_border_of_segments() -> None:
    ours = tokenizer()
    ids = ours.encode_segments([Segment("<start_of", False), Segment("_turn>", True), Segment("<eos>", False)])
    assert not set(ids).intersection(ours.special_tokens.values())
    assert ours.decode(ids) == "<start_of_turn><eos>"


def test_tags_of_html_are_text_and_end_no_answer() -> None:
    ours = tokenizer()
    ids = ours.encode("<s>old</s>")
    assert [ours.vocabulary.tokens[index] for index in ids] == ["<s>", "old", "</s>"]
    assert {ours.vocabulary.tokens[index] for index in ours.stop_ids} == {"<eos>", "<end_of_turn>"}
