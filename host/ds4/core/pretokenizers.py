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
_O200K = (
    _WORDS.format(u=_UPPER, l=_LOWER, c=_CONTRACTIONS + "?")
    + r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|"
    + _TAIL
)
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
    "A-Za-z\u00B5\u00C0-\u00D6\u00D8-\u00F6\u00F8-\u01BA\u01BC-\u01BF\u01C4-\u0293\u0295-\u02AF\u0370-\u0373"
    "\u0376\u0377\u037B-\u037D\u037F\u0386\u0388-\u038A\u038C\u038E-\u03A1\u03A3-\u03F5\u03F7-\u0481\u048A-\u052F"
    "\u0531-\u0556\u10A0-\u10C5\u13A0-\u13F5\u13F8-\u13FD\u1C90-\u1CBA\u1CBD-\u1CBF\u1D00-\u1D2B\u1D6B-\u1D77"
    "\u1D79-\u1D9A\u1E00-\u1F15\u1F18-\u1F1D\u1F20-\u1F45\u1F48-\u1F4D\u1F50-\u1F57\u1F59\u1F5B\u1F5D"
    "\u1F5F-\u1F7D\u1F80-\u1FB4\u1FB6-\u1FBC\u1FBE\u1FC2-\u1FC4\u1FC6-\u1FCC\u1FD0-\u1FD3\u1FD6-\u1FDB"
    "\u1FE0-\u1FEC\u1FF2-\u1FF4\u1FF6-\u1FFC\u2102\u2107\u210A-\u2113\u2115\u2119-\u211D\u2124\u2126\u2128"
    "\u212A-\u212D\u212F-\u2134\u2139\u213C-\u213F\u2145-\u2149\u214E\u2183\u2184\u2C00-\u2C7B\u2C7E-\u2CE4"
    "\u2CEB-\u2CEE\u2CF2\u2CF3\uA640-\uA66D\uA680-\uA69B\uA722-\uA76F\uA771-\uA787\uA78B-\uA78E\uAB70-\uABBF"
    "\uFB00-\uFB06\uFB13-\uFB17\uFF21-\uFF3A\uFF41-\uFF5A\U00010400-\U0001044F\U000104B0-\U000104D3"
    "\U000104D8-\U000104FB\U00010C80-\U00010CB2\U00010CC0-\U00010CF2\U000118A0-\U000118DF\U0001E900-\U0001E943"
)
_DEEPSEEK_CJK = "[\u4E00-\u9FA5\u0800-\u4E00\uAC00-\uD7FF]+"
_BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uFF0C\u3001\u0964\u06D4\u060C])]+"

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
    _split(r"\p{N}{1,3}", "[\u4E00-\u9FA5\u3040-\u309F\u30A0-\u30FF]+", _DEEPSEEK_V3_WORDS), quick=_QUICK_DEEPSEEK_V3
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
            ("split", "\\s?[!-/:-~\uFF01-\uFF0F\uFF1A-\uFF5E\u2018-\u201F\u3000-\u3002]+"),
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
