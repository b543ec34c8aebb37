"""The strings of the tokenizer's goldens: our own, or made from Unicode's own lists; the same in every run."""

from __future__ import annotations

import random
import unicodedata
from collections.abc import Iterator, Sequence

_CODE = (
    "def f(x):\n    return x + 1\n",
    "for (int i = 0; i < n; ++i) {\n\t\tsum += a[i] * 2;\n}\n",
    "SELECT name, COUNT(*) FROM users WHERE id <= 1234 GROUP BY name;",
    '{"a": [1, 2.5e-3, null], "b": {"c": "\\u00e9\\n"}}',
    "#!/bin/sh\nset -eu\nfind . -name '*.c' | xargs wc -l > /tmp/x 2>&1\n",
    "<div class=\"a b\" id='x'>&amp;<br/></div>\r\n",
    'fn main() -> Result<(), Box<dyn Error>> { println!("{:?}", v); Ok(()) }',
    "x = y if z != 0 else -1  # comment, 100%\n",
    "C:\\Users\\me\\file.txt; https://example.org/a/b?c=d&e=%20f#g",
    "import numpy as np\n\n\nclass A:\n    def __init__(self) -> None:\n        self._x = {1: 'a'}\n",
    "\\begin{equation}\n  \\frac{a^2}{b_1} = \\sum_{i=0}^{n} x_i\n\\end{equation}",
    "| a | b |\n|---|:-:|\n| 1 | 2 |\n\n- [ ] task\n* **bold** _it_ `code`\n\n```c\nint x;\n```\n",
    "0x1F 0b1010 1_000_000 3.14159 6.022e23 -17 +42 1/2 50% $9.99 #1",
    "if a&&b||!c:{d=>e;}@f#g$h^i*j~k`l",
    "camelCase PascalCase snake_case SCREAMING_CASE kebab-case HTTPServer2XMLParser",
)
_PROSE = (
    "It's 2024, isn't it? They'll say we've won; I'd say you're right. 'Tis THE CAT'S, DON'T!",
    "Die Größe der Straße änderte sich über Nacht – „völlig“ unerwartet.",
    "Ça va très bien, l'été où naïf élève mangea l'œuf… à 3 €.",
    "El niño corrió rápidamente; ¿por qué? ¡Nadie lo sabe!",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. ΟΔΥΣΣΕΥΣ ὀδυσσεύς",
    "كان يا ما كان، في قديم الزمان ٠١٢٣٤٥٦٧٨٩ ؟",
    "בראשית ברא אלהים את השמים ואת הארץ׃ שָׁלוֹם",
    "नमस्ते दुनिया। यह १२३ है। क्षत्रिय ज्ञान",
    "สวัสดีชาวโลก ๑๒๓ กำลังทำ",
    "안녕하세요 세계! 한국어 텍스트 123개 각각",
    "吾輩は猫である。名前はまだ無い。カタカナ・ひらがな、ー１２３",
    "天地玄黃，宇宙洪荒。日月盈昃，辰宿列張！２０２４年１月",
    "Tiếng Việt: Đường phố rất đông người vào buổi chiều.",
    "İstanbul'da ılık bir gün, ğüşiöç ĞÜŞİÖÇ.",
    "Zażółć gęślą jaźń. Příliš žluťoučký kůň. Árvíztűrő tükörfúrógép.",
    "ქართული ენა ᲥᲐᲠᲗᲣᲚᲘ Հայերեն አማርኛ বাংলা தமிழ் తెలుగు ಕನ್ನಡ മലയാളം සිංහල ລາວ မြန်မာ ខ្មែរ བོད་ཡིག",
    "ΑΣ ας σ ς ſt 'ſ ﬁ ﬂ ﬀ ǅ ǆ Ǆ K Å Ω",
)
_EMOJI = (
    "👍👍🏽👍🏿 👨‍👩‍👧‍👦 👩🏾‍🚀 🏳️‍🌈 🏴‍☠️ 🏴󠁧󠁢󠁳󠁣󠁴󠁿",
    "🇩🇪🇫🇷🇯🇵🇺 🇦",
    "1️⃣2️⃣#️⃣*️⃣ ❤️❤ ☺︎☺️ ©️™",
    "🫠🫡🫥🪿🫨🩷 🧑‍💻🧑🏻‍❤️‍💋‍🧑🏿",
    "ok👌🏼then😂😂😂!",
    "🙂‍↔️⛓️‍💥🐦‍🔥 \u200d🙂\u200d \ufe0f \U0001f3fb",
)
_FRAGMENTS = (
    *(" ", "  ", "   ", "\n", "\n\n", " \n", "\r\n", "\t", "\u00a0", "\u3000", "\u2028", "\u200b", "\x85", "\x0b"),
    *("the", " the", "The", "ing", " and", "a", "B", "xyz", "don't", "I'LL", "'s", "'S", "''", "'re", "'ſ", "it's"),
    *("0", "12", "123", "1234", "2024", "٣", "½", "Ⅷ", "²", "１２", "१", "𝟗", "①"),
    *("!", "?!", "...", "--", "==", "(", ")", "[]", "/*", "//", "\\", '"', "“", "”", "€", "$", "°", "…", "。", "，"),
    *("é", "e\u0301", "ß", "中", "中文", "日本語", "か", "カ", "한", "ش", "א", "न", "ก", "Ж", "Ω", "ﬁ", "\u0301", "ᾳ"),
    *("👍", "👨‍👩‍👧", "🇩🇪", "️", "‍", "\ufffd", "\ufeff", "\x00", "\x7f", "\U0001d54f", "\U00020000", "\U0010ffff"),
)
_RUNS = (" ", "\n", "\t", "\r\n", " \n", "a", "A", "ab", "0", "9", "-", "=", "'", "!", "\u0301", "é", "中", "か", "👍",
         "\x00", "\u3000", "\xa0", "aB", "1a", "a ", " a", "\u200d", "ſ", "Ω", ". ", "{}", "\\n",
         "\U0001f1e9")  # fmt: skip
_SHAPES = ("{0}", "a{0}b", "{0}{0}", " {0} ", "{1}{0}", "{0}\n{1}", "{2}{0}", "{0}{2}", "{2} {0}", "x{2}")


def strings(specials: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(title, text). specials: texts of the vocabulary's special tokens."""
    rng = random.Random("tokenizer goldens")
    yield "nothing", ""
    for kind, texts in (("code", _CODE), ("prose", _PROSE), ("emoji", _EMOJI)):
        for number, text in enumerate(texts):
            yield f"{kind} {number}", text
            yield f"{kind} {number}, upper case", text.upper()
            yield f"{kind} {number}, decomposed", unicodedata.normalize("NFD", text)
            yield f"{kind} {number}, indented", "\n".join("    " + row for row in text.split("\n"))
            yield f"{kind} {number}, without spaces", text.replace(" ", "")
    for run in _RUNS:
        for times in (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 33, 64, 100, 257):
            yield f"{times} times {ascii(run)}", run * times
        yield f"40 times {ascii(run)} before a letter", run * 40 + "z"
        yield f"40 times {ascii(run)} behind a letter", "z" + run * 40
    for byte in range(256):
        yield f"U+{byte:04X} between letters", f"a{chr(byte)}b{chr(byte)}{chr(byte)} {chr(byte)}"
    yield from _planes(rng)
    yield from _categories(rng)
    for number in range(500):
        yield f"fragments {number}", "".join(rng.choices(_FRAGMENTS, k=rng.randrange(2, 16)))
    for number in range(60):
        pick = rng.choice(specials)
        cut = rng.randrange(1, len(pick))
        shape = rng.choice(_SHAPES)
        other = rng.choice(specials)
        text = shape.format(pick, other, pick[:cut]) + rng.choice(("", " ok", "\n", "1", "中"))
        yield f"specials {number}", text
    for number, special in enumerate(specials[:40]):
        yield f"special token {number} alone", special
        yield f"special token {number} without its end", special[:-1]


def _planes(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Scalar values of every plane, assigned or not."""
    for plane in range(17):
        for number in range(16):
            codes = [plane << 16 | rng.randrange(0x10000) for _ in range(10)]
            text = "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000)
            yield f"plane {plane}, {number}", text
        last = "".join(chr(plane << 16 | low) for low in (0xFFFD, 0xFFFE, 0xFFFF))
        yield f"plane {plane}, its last", f"x{last}1"
    for start in range(0, 0x30000, 0x100):
        if not 0xD800 <= start < 0xE000:
            codes = sorted(rng.sample(range(start, start + 0x100), 8))
            text = "".join(map(chr, codes))
            if start < 0x3000 or start % 0x800 == 0 or 0xA000 <= start < 0xB000 or 0xF900 <= start < 0x12000:
                yield f"eight of U+{start:04X} and on", text


def _categories(rng: random.Random) -> Iterator[tuple[str, str]]:
    """Characters of every general category, next to letters, digits, spaces and each other."""
    found: dict[str, list[str]] = {}
    for code in range(0x110000):
        category = unicodedata.category(chr(code))
        if category != "Cs":
            found.setdefault(category, []).append(chr(code))
    for category, characters in sorted(found.items()):
        for number in range(10):
            a, b, c = (rng.choice(characters) for _ in range(3))
            yield f"category {category}, {number}", f"x{a} {b}1{c}\n{a}{b}{c} {c}'s{a}"
