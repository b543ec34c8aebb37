"""The vocabulary that a GGUF file carries, read and checked: token texts, kinds, scores, merges, and the named ids.

Keys are GGUF's `tokenizer.ggml.*`. What is wrong with a vocabulary is a ModelFileError (a key of the wrong type or
size) or a TokenizerError (a vocabulary that contradicts itself).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from itertools import compress
from typing import TypeVar

from ds4.core.metadata import Metadata
from ds4.errors import TokenizerError

T = TypeVar("T")

_K = "tokenizer.ggml."
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class Kind(IntEnum):
    """tokenizer.ggml.token_type."""

    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6


_NORMAL = int(Kind.NORMAL)  # comparing a quarter of a million kinds with the enum's member takes four times as long

# Tokens that end a turn or a text in the families we know, where the file names only one of them as eos.
_ENDS = frozenset(
    {
        "<|endoftext|>",
        "<|im_end|>",
        "<|end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end_of_text|>",
        "<end_of_turn>",
        "<|endofturn|>",
        "<|eot|>",
        "<|end_of_turn|>",
        "<|return|>",
        "<|call|>",
        "</s>",
        "<eos>",
        "<EOT>",
        "<｜end▁of▁sentence｜>",
        "[EOS]",
        "[EOT]",
    }
)
# HTML's tags, which Gemma's vocabulary has as user-defined tokens. Where it has them, <s> is struck-through text and no
# start of a sequence; so a file is asked whether it has the others before these two are taken for HTML.
_TAG = re.compile(
    "</?(?:table|caption|thead|tbody|tfoot|tr|th|td|h[1-6]|blockquote|strong|em|b|i|u|s|sub|sup|code|a|html|body|img"
    "|span|bbox|ul|li|div|iframe|footer)>"
)
_TELLING_TAG = "</strong>"
_BOS_UNASKED = frozenset({"llama-bpe", "llama3", "llama-v3", "tekken"})  # where a file does not say


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """model: "gpt2" (byte-level BPE) or "llama" (SentencePiece BPE with scores). scores, merges: empty where
    unused. html: whether tags of HTML are tokens, as any other text.
    """

    model: str
    pre: str
    tokens: list[str]
    kinds: list[int]
    scores: list[float]
    merges: list[tuple[str, str]]
    bos_id: int | None
    eos_id: int | None
    unk_id: int | None
    pad_id: int | None
    add_bos: bool
    add_eos: bool
    space_prefix: bool
    stop_ids: frozenset[int]
    html: bool = False

    @classmethod
    def from_metadata(cls, md: Metadata) -> Vocabulary:
        model = md.string(_K + "model")
        if model not in ("gpt2", "llama"):
            raise TokenizerError("unknown vocabulary", subject=_K + "model", expected="gpt2 or llama", found=model)
        tokens = md.strings(_K + "tokens")
        if not tokens:
            raise TokenizerError("no tokens", subject=_K + "tokens", expected="at least one", found="none")
        default: list[int] = [Kind.NORMAL] * len(tokens)
        kinds = _sized(md.ints(_K + "token_type", default), len(tokens), "token_type")
        _check_kinds(kinds)
        spm = model == "llama"
        scores = _sized(md.floats(_K + "scores"), len(tokens), "scores") if spm else []
        merges = [] if spm else _merges(md.strings(_K + "merges"))
        if spm:
            _check_bytes(tokens, kinds)
        else:
            _check_merges(merges, frozenset(tokens))
        bos, eos, unk, pad = (
            _id(md, name, len(tokens))
            for name in ("bos_token_id", "eos_token_id", "unknown_token_id", "padding_token_id")
        )
        if spm and bos is None and eos is None:
            bos, eos = 1, 2  # what SentencePiece models take when the file is silent
        unusual = [(index, kinds[index], tokens[index]) for index in _unusual(kinds)]
        html = spm and any(kind == Kind.USER_DEFINED and text == _TELLING_TAG for _, kind, text in unusual)
        ends = {eos, _id(md, "eot_token_id", len(tokens)), _id(md, "eom_token_id", len(tokens))} - {None}
        for index, kind, text in unusual:
            tag = html and kind == Kind.USER_DEFINED and _TAG.fullmatch(text)
            if kind in (Kind.CONTROL, Kind.USER_DEFINED) and text in _ENDS and not tag:
                ends.add(index)
        return cls(
            model=model,
            pre=md.string(_K + "pre", "default" if spm else ""),
            tokens=tokens,
            kinds=kinds,
            scores=scores,
            merges=merges,
            bos_id=bos,
            eos_id=eos,
            unk_id=unk if unk is not None or not spm else 0,
            pad_id=pad,
            add_bos=md.boolean(_K + "add_bos_token", spm or md.string(_K + "pre", "") in _BOS_UNASKED),
            add_eos=md.boolean(_K + "add_eos_token", False),
            space_prefix=spm and md.boolean(_K + "add_space_prefix", True),
            stop_ids=frozenset(index for index in ends if index is not None),
            html=html,
        )

    def unusual(self) -> list[int]:
        """The tokens that are not of the normal kind."""
        return _unusual(self.kinds)

    def special(self, index: int) -> bool:
        """Whether a token is markup, which text must never turn into unless its writer is trusted.

        Control tokens and those a model's publisher added (`<think>`, `<tool_call>`, ...), but not added runs of
        white space and tags of HTML, which are ordinary text with an id of their own.
        """
        kind = self.kinds[index]
        if kind == Kind.USER_DEFINED:
            return not self.plain_added(index)
        return kind in (Kind.CONTROL, Kind.UNKNOWN)

    def plain_added(self, index: int) -> bool:
        """Whether a token was added that is text all the same."""
        if self.kinds[index] != Kind.USER_DEFINED:
            return False
        text = self.tokens[index]
        return not text.replace("▁", " ").strip() or (self.html and _TAG.fullmatch(text) is not None)


def _unusual(kinds: list[int]) -> list[int]:
    return list(compress(range(len(kinds)), map(_NORMAL.__ne__, kinds)))  # no step of it is Python's: there are many


def _sized(values: list[T], count: int, name: str) -> list[T]:
    if len(values) != count:
        raise TokenizerError("wrong length", subject=_K + name, expected=f"{count}, one per token", found=len(values))
    return values


def _check_kinds(kinds: list[int]) -> None:
    largest = int(Kind.BYTE)
    for index in _unusual(kinds):
        if not 0 <= (kind := kinds[index]) <= largest:  # 0 is written for "undefined"
            subject, expected = f"{_K}token_type[{index}]", f"0..{int(Kind.BYTE)}"
            raise TokenizerError("no such kind of token", subject=subject, expected=expected, found=kind)


def _check_bytes(tokens: list[str], kinds: list[int]) -> None:
    byte = int(Kind.BYTE)
    for index in _unusual(kinds):
        if kinds[index] == byte and _BYTE.fullmatch(tokens[index]) is None:
            subject, found = f"{_K}tokens[{index}]", repr(tokens[index])[:40]
            raise TokenizerError("not a byte token", subject=subject, expected="<0x00>..<0xFF>", found=found)


def _merges(lines: list[str]) -> list[tuple[str, str]]:
    """Each line is two tokens and one space between them; a token itself holds no space after its first character."""
    merges: list[tuple[str, str]] = []
    for index, line in enumerate(lines):
        at = line.find(" ", 1)
        if at < 1 or at == len(line) - 1:
            raise TokenizerError("not a merge", subject=f"{_K}merges[{index}]", expected="two tokens", found=repr(line))
        merges.append((line[:at], line[at + 1 :]))
    return merges


def _check_merges(merges: list[tuple[str, str]], tokens: frozenset[str]) -> None:
    """`tokenizers` panics over some that do not fit."""
    for index, (left, right) in enumerate(merges):
        if left not in tokens or right not in tokens or left + right not in tokens:
            raise TokenizerError(
                "the merges do not fit the vocabulary",
                subject=f"{_K}merges[{index}]",
                expected="two tokens that join to a third",
                found=repr(f"{left} {right}")[:80],
            )


def _id(md: Metadata, name: str, count: int) -> int | None:
    key = _K + name
    if key not in md:
        return None
    found = md.i32(key) if md.type_of(key) == "i32" else md.u32(key)
    if found in (-1, 0xFFFFFFFF):
        return None  # both are written for "there is none"
    if not 0 <= found < count:
        raise TokenizerError("no such token", subject=_K + name, expected=f"0..{count - 1}", found=found)
    return found
