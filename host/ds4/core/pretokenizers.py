"""How text is cut before byte-level BPE, by GGUF's `tokenizer.ggml.pre`: a family joins by a row of TABLE.

Each row states the cut as the model's publisher does in its tokenizer.json (or tiktoken pattern): a list of stages,
each applied to the pieces that the stage before left. The expressions are the published ones, in Oniguruma's syntax.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tokenizers import Regex, normalizers, pre_tokenizers

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL = r"\s*[\r\n]+|\s+(?!\S)|\s+"
_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_CL100K = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_TAIL}"
_QWEN2 = rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n]*|{_TAIL}"
_QWEN35 = (
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_TAIL}"
)
_UPPER, _LOWER = r"\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}", r"\p{Ll}\p{Lm}\p{Lo}\p{M}"
_WORDS = r"[^\r\n\p{{L}}\p{{N}}]?[{u}]*[{l}]+{c}|[^\r\n\p{{L}}\p{{N}}]?[{u}]+[{l}]*{c}"
_O200K = _WORDS.format(u=_UPPER, l=_LOWER, c=_CONTRACTIONS + "?") + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _TAIL
_TEKKEN = _WORDS.format(u=_UPPER, l=_LOWER, c="") + r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|" + _TAIL
_NO_HAN = r"&&[^\p{Han}]"
_KIMI = (
    r"[\p{Han}]+|"
    + _WORDS.format(u=_UPPER + _NO_HAN, l=_LOWER + _NO_HAN, c=_CONTRACTIONS + "?")
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|"
    + _TAIL
)
_DEEPSEEK_V3_WORDS = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
    r" ?[\p{P}\p{S}]+[\r\n]*|" + _TAIL
)
# The cased letters that DeepSeek LLM lists range by range; escaped, as an editor that normalises would change some.
_DEEPSEEK_LETTERS = (
    "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af\u0370-\u0373"
    "\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f"
    "\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77"
    "\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb"
    "\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128"
    "\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4"
    "\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf"
    "\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943"
)
_DEEPSEEK_CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
_BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"

# The same for text of printable ASCII, tab, CR and LF, all stages as one. A digit ends a piece where a stage isolates
# digits, so white space before it is one word.
_QUICK_PUNCTUATION = r"!-/:-@\[-`{-~"
_QUICK_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
_QUICK_DIGITS_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+|\s+(?=[0-9])|\s+(?!\S)|\s+"
_QUICK_CL100K = rf"{_CONTRACTIONS}|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]{{1,3}}| ?[^\sA-Za-z0-9]+[\r\n]*|{_TAIL}"
_QUICK_QWEN2 = rf"{_CONTRACTIONS}|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]| ?[^\sA-Za-z0-9]+[\r\n]*|{_TAIL}"
_QUICK_DEEPSEEK_V3 = (
    rf"[0-9]{{1,3}}|[{_QUICK_PUNCTUATION}][A-Za-z]+|[\t ]?[A-Za-z]+| ?[{_QUICK_PUNCTUATION}]+[\r\n]*|"
    r"\s*[\r\n]+|\s+(?=[0-9])|\s+(?!\S)|\s+"
)

Stage = tuple[Literal["split", "digits", "bytes", "punctuation"], str]


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """One way of cutting.

    stages: ("split", regex) isolates every match; ("digits", "one"|"runs") isolates digits; ("bytes", "gpt2"|"plain")
        is the byte-level mapping, with or without GPT-2's own expression; it comes last.
        ("punctuation", "runs") isolates runs of punctuation.
    whole_words: a piece that is a token by itself is taken as such, before any merge (Llama 3, Tekken).
    nfc: text is brought to Unicode NFC first.
    quick: an expression of Python's `re` that cuts text of printable ASCII, tab, CR and LF just so (`ds4.core.words`);
        "": none.
    """

    stages: tuple[Stage, ...]
    whole_words: bool = False
    nfc: bool = False
    quick: str = ""

    def build(self) -> pre_tokenizers.PreTokenizer:
        return pre_tokenizers.Sequence([_stage(kind, argument) for kind, argument in self.stages])

    def normalizer(self) -> normalizers.Normalizer | None:
        return normalizers.NFC() if self.nfc else None


def _stage(kind: str, argument: str) -> pre_tokenizers.PreTokenizer:
    if kind == "split":
        return pre_tokenizers.Split(Regex(argument), behavior="isolated")
    if kind == "digits":
        return pre_tokenizers.Digits(individual_digits=argument == "one")
    if kind == "punctuation":
        return pre_tokenizers.Punctuation(behavior="contiguous")
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=argument == "gpt2")


def _split(*expressions: str) -> tuple[Stage, ...]:
    return (*(("split", expression) for expression in expressions), ("bytes", "plain"))


_gpt2 = PreTokenizer((("bytes", "gpt2"),), quick=_QUICK_GPT2)
_digits_gpt2 = PreTokenizer((("digits", "one"), ("bytes", "gpt2")), quick=_QUICK_DIGITS_GPT2)
_llama3 = PreTokenizer(_split(_CL100K), whole_words=True, quick=_QUICK_CL100K)
_cl100k = PreTokenizer(_split(_CL100K), quick=_QUICK_CL100K)
_qwen2 = PreTokenizer(_split(_QWEN2), nfc=True, quick=_QUICK_QWEN2)
_deepseek_v3 = PreTokenizer(
    _split(r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", _DEEPSEEK_V3_WORDS), quick=_QUICK_DEEPSEEK_V3
)
_o200k = PreTokenizer(_split(_O200K))
_bloom = PreTokenizer(_split(_BLOOM))

TABLE: dict[str, PreTokenizer] = {
    "gpt-2": _gpt2,
    "gpt2": _gpt2,
    "mpt": _gpt2,
    "olmo": _gpt2,
    "phi-2": _gpt2,
    "jais": _gpt2,
    "trillion": _gpt2,
    "granite-docling": _gpt2,
    "smollm": _digits_gpt2,
    "starcoder": _digits_gpt2,
    "refact": _digits_gpt2,
    "command-r": _digits_gpt2,
    "codeshell": _digits_gpt2,
    "exaone": _digits_gpt2,
    "minerva-7b": _digits_gpt2,
    "llama-bpe": _llama3,
    "llama3": _llama3,
    "llama-v3": _llama3,
    "falcon3": _llama3,
    "lfm2": _llama3,
    "dbrx": _cl100k,
    "smaug-bpe": _cl100k,
    "chatglm-bpe": _cl100k,
    "glm4": _cl100k,
    "qwen2": _qwen2,
    "deepseek-r1-qwen": _qwen2,
    "megrez": _qwen2,
    "stablelm2": PreTokenizer(_split(_QWEN2), quick=_QUICK_QWEN2),
    "solar-open": PreTokenizer(_split(_QWEN2), quick=_QUICK_QWEN2),
    "qwen35": PreTokenizer(_split(_QWEN35)),
    "deepseek-llm": PreTokenizer(
        (
            ("split", "[\r\n]"),
            ("split", rf"\s?[{_DEEPSEEK_LETTERS}]+"),
            ("split", "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"),
            ("split", r"\s+$"),
            ("split", _DEEPSEEK_CJK),
            ("digits", "one"),
            ("bytes", "plain"),
        )
    ),
    "deepseek-coder": PreTokenizer(
        (
            ("split", "[\r\n]"),
            ("split", r"\s?\p{L}+"),
            ("split", r"\s?\p{P}+"),
            ("split", _DEEPSEEK_CJK),
            ("digits", "one"),
            ("bytes", "plain"),
        )
    ),
    "deepseek-v3": _deepseek_v3,
    "joyai-llm": _deepseek_v3,
    "hunyuan-dense": _deepseek_v3,
    "gpt-4o": _o200k,
    "llama4": _o200k,
    "tekken": PreTokenizer(_split(_TEKKEN), whole_words=True),
    "kimi-k2": PreTokenizer(_split(_KIMI)),
    "falcon": PreTokenizer(
        (
            ("punctuation", "runs"),
            ("bytes", "gpt2"),
            ("digits", "runs"),
            ("split", "[0-9][0-9][0-9]"),
        )
    ),
    "bloom": _bloom,
    "poro-chat": _bloom,
    "gpt3-finnish": _bloom,
}
