"""The vocabularies that llama.cpp tests its tokenizer with: both sides give its reference ids for every one we know."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ds4.core import gguf
from ds4.core.pretokenizers import TABLE
from ds4.core.tapes.tokenizer import Encode, OracleTokenizer, by_tape, write_input, write_setup
from ds4.core.tokenizer import Segment, Tokenizer
from ds4.core.vocabulary import Vocabulary
from ds4.errors import TokenizerError
from ds4.sys.oracles import Oracle

from parity import vocabularies
from parity.vocabularies import fetched

pytestmark = pytest.mark.skipif("DS4_VOCABS" not in os.environ, reason="DS4_VOCABS names no folder of vocabularies")

BYTE_LEVEL = (
    *("command-r", "deepseek-coder", "deepseek-llm", "falcon", "gpt-2", "llama-bpe", "mpt"),
    *("qwen2", "qwen35", "refact", "starcoder"),
)
# Which the oracle leaves alone.
SENTENCEPIECE = ("llama-spm", "phi-3")
UNSUPPORTED = ("bert-bge", "gemma-4", "nomic-bert-moe")
NAMELESS = ("aquila", "gpt-neox")
NO_REFERENCE = ("baichuan",)


def path(name: str) -> Path:
    return fetched("DS4_VOCABS", "the folder of the vocabulary-only GGUF files") / f"ggml-vocab-{name}.gguf"


def vocabulary(name: str) -> Vocabulary:
    return Vocabulary.from_metadata(gguf.read(path(name)).metadata)


def references(name: str) -> list[tuple[str, list[int]]]:
    """Texts with llama.cpp's ids for them."""
    texts = Path(f"{path(name)}.inp").read_bytes().decode("utf-8").split("\n__ggml_vocab_test__\n")
    lines = Path(f"{path(name)}.out").read_text(encoding="utf-8").split("\n")
    pairs = [(text, [int(word) for word in line.split()]) for text, line in zip(texts, lines, strict=False)]
    assert len(pairs) >= 47
    return pairs


def check(name: str, encode: Callable[[str], list[int]]) -> None:
    assert [(text, encode(text)) for text, _ in references(name)] == references(name)


@pytest.mark.parametrize("name", BYTE_LEVEL)
def test_both_sides_give_llama_cpps_ids(name: str) -> None:
    found = vocabulary(name)
    tokenizer, oracle = Tokenizer(found), Oracle("tokenizer", write_setup(found))

    def encode(text: str) -> list[int]:
        tape = write_input(Encode((Segment(text, False),)))
        assert oracle.run(tape) == by_tape(tokenizer, tape)
        return tokenizer.encode(text)

    check(name, encode)


@pytest.mark.parametrize("name", SENTENCEPIECE)
def test_sentencepiece_vocabularies_give_llama_cpps_ids(name: str) -> None:
    check(name, Tokenizer(vocabulary(name)).encode)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_other_kinds_of_vocabulary_are_refused_by_name(name: str) -> None:
    with pytest.raises(TokenizerError, match="unknown vocabulary"):
        vocabulary(name)


@pytest.mark.parametrize("name", NAMELESS)
def test_a_vocabulary_that_names_no_pre_tokenizer_is_refused(name: str) -> None:
    with pytest.raises(TokenizerError, match="unknown pre-tokenizer"):
        Tokenizer(vocabulary(name))


def test_every_file_of_the_folder_is_accounted_for() -> None:
    known = {*BYTE_LEVEL, *SENTENCEPIECE, *UNSUPPORTED, *NAMELESS, *NO_REFERENCE}
    files = path("gpt-2").parent.glob("*.gguf")
    assert {file.name.removeprefix("ggml-vocab-").removesuffix(".gguf") for file in files} == known


def test_the_tiny_vocabularies_cover_every_row_of_the_table() -> None:
    assert {TABLE[name] for name in vocabularies.ROWS} == set(TABLE.values())


@pytest.mark.parametrize("setup", ["worked", "tiny/smollm", "tiny/qwen2"])
def test_the_tokenizer_that_asks_the_oracle_is_a_tokenizer(setup: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DS4_COMPONENT_TOKENIZER", "oracle")
    found = vocabularies.vocabulary(setup)
    ours, theirs = Tokenizer(found), OracleTokenizer(found)
    text = "<s>the test, ab  abc 123 \u4e2d\u6587 caf\u0065\u0301 \U0001f44d<|im_end|>"
    for special in (False, True):
        ids = ours.encode(text, special=special)
        assert theirs.encode(text, special=special) == ids
        assert theirs.decode(ids, special=special) == ours.decode(ids, special=special)
        a, b = ours.stream(special=special), theirs.stream(special=special)
        assert [a.push(i) for i in ids] == [b.push(i) for i in ids]
    assert theirs.with_bos([1]) == ours.with_bos([1])
