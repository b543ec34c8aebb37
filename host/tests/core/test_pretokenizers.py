from __future__ import annotations

import pytest
from ds4.core.pretokenizers import TABLE
from ds4.core.tokenizer import byte_alphabet
from hypothesis import given
from hypothesis import strategies as st

BYTES = byte_alphabet()


def cut(name: str, text: str) -> list[str]:
    pieces = TABLE[name].build().pre_tokenize_str(text)
    return [bytes(BYTES[character] for character in piece).decode("utf-8", "replace") for piece, _ in pieces]


@pytest.mark.parametrize(
    ("name", "text", "pieces"),
    [
        ("gpt-2", "It's 2024, ok?  yes", ["It", "'s", " 2024", ",", " ok", "?", " ", " yes"]),
        ("smollm", "in 2024  x", ["in", " ", "2", "0", "2", "4", " ", " x"]),
        ("llama-bpe", "It'S 12345!\n\nHi", ["It", "'S", " ", "123", "45", "!\n\n", "Hi"]),
        ("qwen2", "a1234 b\n c", ["a", "1", "2", "3", "4", " b", "\n", " c"]),
        ("deepseek-v3", "abc 12345.x 中文か", ["abc", " ", "123", "45", ".x", " ", "中文か"]),
        ("deepseek-llm", "ab, 12\nc", ["ab", ",", " ", "1", "2", "\n", "c"]),
        ("deepseek-coder", "a_b 12", ["a", "_", "b", " ", "1", "2"]),
        ("gpt-4o", "camelCase DON'T 1234/", ["camel", "Case", " DON'T", " ", "123", "4", "/"]),
        ("tekken", "camelCase 12", ["camel", "Case", " ", "1", "2"]),
        ("kimi-k2", "汉字abc 1234", ["汉字", "abc", " ", "123", "4"]),
        ("falcon", "a1234!!b", ["a", "123", "4", "!!", "b"]),
        ("bloom", "a b,c", ["a", " b", ",", "c"]),
    ],
)
def test_each_family_cuts_as_its_publisher_does(name: str, text: str, pieces: list[str]) -> None:
    assert cut(name, text) == pieces


ROWS = {name: TABLE[name].build() for name in TABLE}


@given(st.sampled_from(sorted(ROWS)), st.text(st.characters(exclude_categories=["Cs"]), max_size=20))
def test_no_row_loses_a_byte(name: str, text: str) -> None:
    pieces = ROWS[name].pre_tokenize_str(text)
    assert bytes(BYTES[character] for piece, _ in pieces for character in piece) == text.encode()
