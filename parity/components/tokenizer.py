"""tokenizer: text to ids and back, over real vocabularies and over small ones for every pre-tokenizer."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable

from ds4.core.tapes import tokenizer as tapes
from ds4.core.tapes.tokenizer import Bos, Decode, Encode, Request, Stream
from ds4.core.tokenizer import Segment

from parity import vocabularies
from parity.choices import Choices
from parity.component import Component, Generated, Input, Run, Speed
from parity.vocabularies import ROWS, SETUPS, STAND_INS

_ROWS, _NAMES = [f"tiny/{name}" for name in ROWS], SETUPS[3:]
_TEXTS = (
    *("the test", " hello", "hello", " and", "ing", "thes", "abab", "abcab", "aaaaaa", "camelCase", "ABCdef"),
    *("xyz", "q", "'s", "'S", "'ſ", "'ll", "'LL", "'re", "'vE", "'m", "'d", "'t", "'", "''", "don't", "I'LL"),
    *(" 'll", "ǅ", "ǆa", "ʰa", "0", "12", "123", "1234567", "00000000", "2024", " 12", "١٢٣", "½", "²", "Ⅷ"),
    *("①", "๔", "𝟘", "𑁦", "\u0bf0", "᠐", " ", "  ", "   ", "     ", "\t", "\n", "\r", "\r\n", "\n\n", " \n"),
    *("\n \n", "  \n  x", "\x0b", "\x0c", "\x85", "\xa0", "\u1680", "\u2003", "\u2028", "\u202f", "\u205f"),
    *("\u3000", "\u200b", "\ufeff", "\x00", "\x1c", "\x7f", "\u180e", "!", "!!", "!!!\n", "...", "()", "(x)"),
    *("/", "//\n", "==", "<s", "s>", "|", "_", "-", "—", "“q”", "$5", "€", "+", "~", "^`", "…", "。", "，"),
    *("、", "।", "۔", "،", "¿", "«", "»", "™", "∑", "№", "؟", "٪", "༄", "\u1805", "\u10fb", "𒑰", "\U0001da87"),
    *("中文", "中", "文字", "龥", "龦", "\u0800", "か", "な", "日本", "カ゛", "ー", "한국", "각", "ᄀ"),
    *("ᄀ\u1161\u11a8", "가\u11a8", "豈", "é", "e\u0301", "E\u0301", "Å", "Å", "\u0344", "a\u0323\u0307"),
    *("a\u0307\u0323", "q\u0307\u0323", "क़", "Ω", "Ω", "ﬁ", "ﬆ", "\u0301", "\u0301\u0301", "a\u0301"),
    *(" \u0301", "1\u0301", "\u0903", "\u20dd", "กำ", "नमस्ते", "שָׁ", "ẛ̣", "ḍ̇", "\U0001d15e", "👍", "👍👍"),
    *("👨‍👩‍👧", "🏳️‍🌈", "🇩🇪", "1️⃣", "👍🏽", "\U0001f1e6", "\u2764\ufe0f", "\U000e0041", "\ufffd", "\uffff"),
    *("\U0010ffff", "ΑΣ", "ς", "σς", "İ", "ı", "ß", "ẞ", "ᾳ", "Ꙁ", "ꙁ", "ꟸ", "ª", "º", "ⓐ", "ᴬ", "ჰ", "Ა", "𐐀"),
    *("𐐨", "𞤀", "𖹀", "\U00016ea0", "<s>", "</s>", "<s><s>", "<s><s>x", "<|im_start|>", "<|im_end|>", "<|im_"),
    *("hello<", "｜é｜", "<unk>", "▁", "名", "x y", "\ufdd0", "<|endoftext|>", "<repo_name>", "<｜User｜>"),
    *("<｜Assistant｜>", "<think>", "</think>", "｜DSML｜", "<｜begin▁of▁sentence｜>", "｜"),
    *("def f(x):\n    return x\n", "for (i=0;i<n;i++) {\n\t\tx+=1;\n}", "https://a.b/c?d=e&f"),
    *('{"a": [1, 2.5e-3]}', "\\n", "C:\\x", "!\n/x", ")\r\n//", "a\n/"),
)  # fmt: skip
# Long enough to be remembered as a whole: with something behind it, it is another text.
_LONG = "It was remarkable how many people remembered the beginning of it, and how few of them the end."
_PLANES = (0x0, 0x100, 0x600, 0x1000, 0x2000, 0x3000, 0x4E00, 0xA000, 0xAC00, 0xF900, 0x10000, 0x11000, 0x16000,
           0x1D000, 0x1F300, 0x20000, 0x30000, 0xE0000, 0xF0000, 0x100000)  # fmt: skip
_OUTSIDE = (-1, -(1 << 63), (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 63) - 1)
# Which every row of the table cuts in its own way, as far as the small vocabularies can tell.
_TELLING = "00000000's'S)\r\n//\u0344's!\n/xx中ªx"


def _text(choose: Choices, longest: int) -> str:
    parts: list[str] = [_LONG] if choose.once_in(32) else []
    for _ in range(choose.below(longest) + 1):
        how = choose.below(256)
        if how < 150:
            parts.append(choose.of(_TEXTS))
        elif how < 165:
            parts.append(choose.of(_TEXTS) * (choose.below(40)))
        elif how < 205:
            parts.append(chr(choose.below(128)))
        elif how < 254:
            code = _PLANES[how % len(_PLANES)] + choose.below(65536) % 0x2000
            parts.append("x" if 0xD800 <= code < 0xE000 or code > 0x10FFFF else chr(code))
        elif how == 254:
            parts.append("\ud800" if choose.below(256) < 16 else "\ud7ff")
        if not choose.left:
            break
    return "".join(parts)


@functools.cache
def _bytes_of(setup: str) -> list[int]:
    """Ids of the tokens of one byte, those outside ASCII first."""
    tokens = vocabularies.vocabulary(setup).tokens
    known = {text: index for index, text in enumerate(tokens)}
    order = [*range(0x80, 0x100), *range(0x80)]
    return [known[STAND_INS[byte]] for byte in order if STAND_INS[byte] in known]


@functools.cache
def _markup(setup: str) -> list[int]:
    return sorted(vocabularies.tokenizer(setup).special_tokens.values())


def _ids(choose: Choices, setup: str) -> tuple[int, ...]:
    singles, markup, count = _bytes_of(setup), _markup(setup), len(vocabularies.vocabulary(setup).tokens)
    ids: list[int] = []
    for _ in range(choose.below(24)):
        how = choose.below(256)
        if how < 130:
            ids.append(choose.of(singles))
        elif how < 180:
            ids += vocabularies.tokenizer(setup).encode(choose.of(_TEXTS))
        elif how < 215:
            ids.append((choose.below(65536) << 8 | how) % count)
        elif how < 235:
            ids.append(count - 1 - choose.below(256) % min(40, count))
        elif how < 253:
            ids.append(choose.of(markup))
        else:
            at = choose.below(256) % (len(_OUTSIDE) * 8)
            ids.append(_OUTSIDE[at] if at < len(_OUTSIDE) else count if at == len(_OUTSIDE) else at % count)
    return tuple(ids)


def _request(choose: Choices, setup: str) -> Request:
    verb = choose.below(256)
    if verb < 60:
        return Encode((Segment(_text(choose, 12), bool(verb % 2)),))
    if verb < 150:
        segments = [Segment(_text(choose, 6), bool(choose.below(2))) for _ in range(verb % 5)]
        return Encode(tuple(segments))
    if verb < 200:
        return Stream(bool(verb % 2), _ids(choose, setup))
    if verb < 245:
        return Decode(bool(verb % 2), _ids(choose, setup))
    return Bos(_ids(choose, setup))


_ANY_NAME = 200


def _setup(choice: int) -> str:
    """Real vocabularies, one name of each row of the table, and all names."""
    if choice < 112:
        return "smollm2" if choice < 64 else "deepseek"
    return _ROWS[choice % len(_ROWS)] if choice < _ANY_NAME else _NAMES[choice % len(_NAMES)]


def made(seed: bytes) -> tuple[str, bytes]:
    """The input that a seed stands for."""
    choose = Choices(seed)
    choice = choose.below(256)
    setup = _setup(choice)
    if choice >= _ANY_NAME and choose.below(2):
        return setup, tapes.write_input(Encode((Segment(_TELLING + _text(choose, 3), False),)))
    return setup, tapes.write_input(_request(choose, setup))


def _soak(rng: random.Random) -> Input:
    setup = _setup(rng.randrange(256))
    text = "".join(_text(Choices(rng.randbytes(400)), 255) for _ in range(rng.randrange(1, 60)))
    text = text.encode("utf-8", "replace").decode()
    if rng.random() < 0.2:
        text += rng.choice(_TEXTS) * rng.randrange(20_000)
    if rng.random() < 0.6:
        return setup, tapes.write_input(Encode((Segment(text, False), Segment(text[: len(text) // 2], True))))
    ids = tuple(vocabularies.tokenizer(setup).encode(text[:20_000]))
    return setup, tapes.write_input(Stream(True, ids) if rng.random() < 0.5 else Decode(False, ids))


def _replacement(setup: str) -> Run:
    return functools.partial(tapes.by_tape, vocabularies.tokenizer(setup))


_PROMPT = """: please read this bug report and say what to change, in two or three sentences, without quoting it back.

The program prints 1234 lines and then stops; the log says “connection reset by peer”. It only happens when the server
is busy, and never under valgrind. I've tried the obvious things (longer timeouts, fewer workers), but they don't help.

def main(argv: list[str]) -> int:
    for name in argv[1:]:
        with open(name, encoding="utf-8") as file:
            count = sum(1 for line in file if line.strip())
        print(f"{name}: {count} lines, {len(name)} characters")
    return 0 if argv else 2

Bitte erkläre kurz, was passiert ist – und was du ändern würdest.
"""


def _prepare() -> tuple[Callable[[], object], Input]:
    tokenizer, numbers = vocabularies.tokenizer("smollm2"), itertools.count(10_000)

    def call() -> object:  # another text every time, so that no run is remembered
        return tokenizer.encode_segments((Segment("<|im_start|>", True), Segment(f"{next(numbers)}{_PROMPT}", False)))

    prompt = (Segment("<|im_start|>", True), Segment("10000" + _PROMPT, False))
    return call, ("smollm2", tapes.write_input(Encode(prompt)))


def _prepared(setup: str) -> Callable[[], bytes]:
    return lambda: tapes.write_setup(vocabularies.vocabulary(setup))


COMPONENT = Component(
    name="tokenizer",
    about="text to token ids and back: special tokens, normalisation, pre-tokenizers, merges, streamed decoding",
    axes=("token", "performance"),
    replacement=_replacement,
    inputs=Generated(made, least=16, most=160),
    soak=_soak,
    speed=Speed(_prepare),
    sources=(
        "host/ds4/core/tokenizer.py",
        "host/ds4/core/vocabulary.py",
        "host/ds4/core/pretokenizers.py",
        "host/ds4/core/words.py",
        "host/ds4/core/alternatives.py",
        "host/ds4/core/output/utf8.py",
        "host/ds4/core/tapes/tokenizer.py",
        "oracles/tokenizer/*",
        "parity/vocabularies.py",
        "parity/components/tokenizer.py",
        "goldens/tokenizer/**",
    ),
    locks=("tokenizers",),
    setups={setup: _prepared(setup) for setup in SETUPS},
)
