from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from ds4.core import gguf
from ds4.core.tokenizer import Tokenizer
from ds4.core.vocabulary import Vocabulary
from ds4.errors import Ds4Error, ModelFileError, TokenizerError
from support.gguf_writer import BOOL, F32, I32, STRING, GgufWriter
from support.vocabularies import BYTE_CHARACTERS

K = "tokenizer.ggml."
BYTES = [BYTE_CHARACTERS[byte] for byte in range(256)]


def bpe(w: GgufWriter) -> GgufWriter:
    w.string("general.architecture", "llama")
    w.string(K + "model", "gpt2").string(K + "pre", "gpt-2")
    w.array(K + "tokens", STRING, ["<|endoftext|>", "<|im_end|>", *BYTES, "ab"])
    w.array(K + "token_type", I32, [3, 3, *[1] * 257])
    w.array(K + "merges", STRING, ["a b"])
    w.u32(K + "bos_token_id", 0).u32(K + "eos_token_id", 1)
    return w


def spm(w: GgufWriter) -> GgufWriter:
    w.string("general.architecture", "llama")
    w.string(K + "model", "llama")
    w.array(K + "tokens", STRING, ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "a", "▁a"])
    w.array(K + "token_type", I32, [2, 3, 3, *[6] * 256, 1, 1, 1])
    w.array(K + "scores", F32, [0.0] * 259 + [-3.0, -2.0, -1.0])
    return w


def array(w: GgufWriter, name: str, kind: int, values: Sequence[object]) -> None:
    w.without(K + name).array(K + name, kind, values)


def read(tmp_path: Path, *changes: Callable[[GgufWriter], object]) -> gguf.GgufFile:
    w = GgufWriter()
    for change in changes:
        change(w)
    w.write(tmp_path / "v.gguf")
    return gguf.read(tmp_path / "v.gguf")


def test_a_byte_level_vocabulary_is_read_from_its_keys(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_metadata(read(tmp_path, bpe).metadata)
    assert tokenizer.encode("ab<|im_end|>b", special=True) == [258, 1, 2 + ord("b")]
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.add_bos) == (0, 1, False)
    assert tokenizer.stop_ids == {0, 1}


def test_a_sentencepiece_vocabulary_is_read_from_its_keys(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_metadata(read(tmp_path, spm).metadata)
    assert tokenizer.encode("a a") == [261, 261]
    assert (tokenizer.bos_id, tokenizer.eos_id, tokenizer.unk_id, tokenizer.add_bos) == (1, 2, 0, True)
    assert tokenizer.decode(tokenizer.encode("a\n")) == "a\n"


def test_what_the_file_says_of_bos_and_spaces_is_kept(tmp_path: Path) -> None:
    def say_no(w: GgufWriter) -> None:
        w.number(K + "add_bos_token", BOOL, 0).number(K + "add_space_prefix", BOOL, 0)

    tokenizer = Tokenizer.from_metadata(read(tmp_path, spm, say_no).metadata)
    assert not tokenizer.add_bos
    assert tokenizer.encode("a") == [260]


def test_an_id_of_all_ones_means_that_there_is_none(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_metadata(
        read(tmp_path, bpe, lambda w: w.u32(K + "padding_token_id", 0xFFFFFFFF)).metadata
    )
    assert tokenizer.vocabulary.pad_id is None


def test_an_end_of_turn_that_the_file_names_is_a_stop(tmp_path: Path) -> None:
    vocabulary = Vocabulary.from_metadata(read(tmp_path, bpe, lambda w: w.u32(K + "eot_token_id", 5)).metadata)
    assert vocabulary.stop_ids == {0, 1, 5}


@pytest.mark.parametrize(("others", "stops"), [(["x", "y"], {2, 259}), (["<strong>", "</strong>"], {2})])
def test_struck_through_text_ends_no_answer_where_the_vocabulary_has_html_s_tags(
    tmp_path: Path, others: list[str], stops: set[int]
) -> None:
    tokens = ["<unk>", "<s>", "</sys>", *(f"<0x{b:02X}>" for b in range(256)), "</s>", *others]

    def change(w: GgufWriter) -> None:
        array(w, "tokens", STRING, tokens)
        array(w, "token_type", I32, [2, 3, 3, *[6] * 256, 4, 4, 4])

    assert Vocabulary.from_metadata(read(tmp_path, spm, change).metadata).stop_ids == stops


@pytest.mark.parametrize(("pre", "wants"), [("llama-bpe", True), ("tekken", True), ("smollm", False), ("qwen2", False)])
def test_a_file_that_does_not_say_takes_bos_by_the_habit_of_its_pre_tokenizer(
    tmp_path: Path, pre: str, wants: bool
) -> None:
    def change(w: GgufWriter) -> None:
        w.without(K + "pre").string(K + "pre", pre)

    assert Vocabulary.from_metadata(read(tmp_path, bpe, change).metadata).add_bos == wants


BROKEN: dict[str, tuple[Callable[[GgufWriter], object], type[Ds4Error], str]] = {
    "no model": (lambda w: w.without(K + "model"), ModelFileError, "model"),
    "a foreign model": (lambda w: w.without(K + "model").string(K + "model", "bert"), TokenizerError, "bert"),
    "no tokens": (lambda w: w.without(K + "tokens"), ModelFileError, "tokens"),
    "an empty vocabulary": (lambda w: array(w, "tokens", STRING, []), TokenizerError, "no tokens"),
    "tokens that are numbers": (lambda w: array(w, "tokens", I32, [1]), ModelFileError, "tokens"),
    "fewer kinds than tokens": (lambda w: array(w, "token_type", I32, [1]), TokenizerError, "token_type"),
    "no merges": (lambda w: w.without(K + "merges"), ModelFileError, "merges"),
    "a merge of one token": (lambda w: array(w, "merges", STRING, ["ab"]), TokenizerError, r"merges\[0\]"),
    "a merge with nothing after it": (lambda w: array(w, "merges", STRING, ["a "]), TokenizerError, r"merges\[0\]"),
    "a merge of unknown tokens": (lambda w: array(w, "merges", STRING, ["a xy"]), TokenizerError, "merges"),
    "no pre-tokenizer": (lambda w: w.without(K + "pre"), TokenizerError, "pre"),
    "an end past the vocabulary": (
        lambda w: w.without(K + "eos_token_id").u32(K + "eos_token_id", 259),
        TokenizerError,
        "eos_token_id",
    ),
    "an end that is text": (
        lambda w: w.without(K + "eos_token_id").string(K + "eos_token_id", "</s>"),
        ModelFileError,
        "eos_token_id",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_vocabulary_is_an_error_that_names_its_key(tmp_path: Path, name: str) -> None:
    change, error, named = BROKEN[name]
    file = read(tmp_path, bpe, change)
    with pytest.raises(error, match=named):
        Tokenizer.from_metadata(file.metadata)


def test_broken_sentencepiece_vocabularies_are_errors_too(tmp_path: Path) -> None:
    changes: list[tuple[Callable[[GgufWriter], object], type[Ds4Error], str]] = [
        (lambda w: w.without(K + "scores"), ModelFileError, "scores"),
        (lambda w: array(w, "scores", I32, [1] * 262), ModelFileError, "scores"),
        (lambda w: array(w, "scores", F32, [0.0]), TokenizerError, "scores"),
        (lambda w: array(w, "tokens", STRING, ["<unk>", "<s>", "</s>", *["<0xZZ>"] * 259]), TokenizerError, "byte"),
    ]
    for change, error, named in changes:
        with pytest.raises(error, match=named):
            Tokenizer.from_metadata(read(tmp_path, spm, change).metadata)


def test_tokens_of_absurd_length_are_refused_before_they_cost_anything(tmp_path: Path) -> None:
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{b:02X}>" for b in range(256)), "▁", "a", "x" * 20_000]
    file = read(tmp_path, spm, lambda w: array(w, "tokens", STRING, tokens))
    with pytest.raises(TokenizerError, match="too long"):
        Tokenizer.from_metadata(file.metadata)
