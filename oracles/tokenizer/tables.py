"""Writes classes.h and normal.h: what the tokenizer oracle knows of Unicode, as a pinned library has it.

    python oracles/tokenizer/tables.py oracles/tokenizer

Nothing is taken from a copy of the Unicode database: the library is asked, code point by code point. Which characters
are letters depends on the Unicode version that its regular-expression engine was built with, its digit and punctuation
splitters and its normaliser are of other versions, and it is that library's pieces which the goldens hold.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import tokenizers
from tokenizers import Regex
from tokenizers.normalizers import NFC, NFD
from tokenizers.pre_tokenizers import Digits, Punctuation, Split

CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
EVERYTHING = "".join(map(chr, CODES))
HANGUL = range(0xAC00, 0xAC00 + 11172)

# One class a character: what \p{..} and \s say never overlaps. A control character that is white space is SPACE.
CLASSES = {
    "UPPER": r"\p{Lu}",
    "LOWER": r"\p{Ll}",
    "TITLE": r"\p{Lt}",
    "MODIFIER": r"\p{Lm}",
    "OTHER_LETTER": r"\p{Lo}",
    "MARK": r"\p{M}",
    "NUMBER": r"\p{N}",
    "PUNCTUATION": r"\p{P}",
    "SYMBOL": r"\p{S}",
    "SPACE": r"\s",
}
# What the matchers take for granted: \p{L}, and (?i:x) over the letters of the English contractions.
LETTERS = ("UPPER", "LOWER", "TITLE", "MODIFIER", "OTHER_LETTER")
FOLDED = {"s": "sS\u017f", **{letter: letter + letter.upper() for letter in "tremvld"}}


def members(pattern: str) -> set[int]:
    """The code points that the engine's `pattern` matches."""
    found = set(CODES)
    for _, (first, end) in Split(Regex(pattern), "removed").pre_tokenize_str(EVERYTHING):
        found.difference_update(CODES[first:end])
    return found


def beside_a_letter(splitter: Digits | Punctuation) -> set[int]:
    """The code points that the splitter takes away from the letters around them."""
    pieces = splitter.pre_tokenize_str("a" + "".join(f"{chr(code)}a" for code in CODES))
    starts = {first for _, (first, _) in pieces}
    return {code for i, code in enumerate(CODES) if 2 * i + 2 in starts}


def ranges(codes: Iterable[int]) -> list[tuple[int, int]]:
    """Stretches of code points, ascending."""
    found: list[tuple[int, int]] = []
    for code in sorted(codes):
        if found and found[-1][1] == code - 1:
            found[-1] = (found[-1][0], code)
        else:
            found.append((code, code))
    return found


def filled(cells: Iterable[str]) -> str:
    """The cells of a table in lines of at most 120 characters."""
    rows: list[str] = []
    for cell in cells:
        if rows and len(rows[-1]) + 1 + len(cell) <= 116:
            rows[-1] += " " + cell
        else:
            rows.append(cell)
    return "".join(f"    {row}\n" for row in rows)


def listed(characters: str) -> str:
    return ", ".join(f"0x{ord(character):x}" for character in characters)


def header(name: str, about: str, body: str) -> str:
    guard = f"DS4_ORACLE_TOKENIZER_{name.upper()}_H"
    return f"""/* {name}.h - {about}, written by tables.py: do not edit.
 *
 * Probed from: Hugging Face tokenizers {tokenizers.__version__}, every code point but the surrogates
 * Command:     python oracles/tokenizer/tables.py oracles/tokenizer
 */
#ifndef {guard}
#define {guard}

#include <stdint.h>

{body}
#endif
"""


def classes() -> str:
    """classes.h."""
    found = {name: members(pattern) for name, pattern in CLASSES.items()}
    if sum(map(len, found.values())) != len(set().union(*found.values())):
        raise SystemExit("two classes share a code point")
    if members(r"\p{L}") != set().union(*(found[name] for name in LETTERS)):
        raise SystemExit(r"\p{L} is not what its parts are")
    for letter, forms in FOLDED.items():
        if members(f"(?i:{letter})") != set(map(ord, forms)):
            raise SystemExit(f"(?i:{letter}) is not {forms}")
    stretches = sorted((first, last, name) for name, codes in found.items() for first, last in ranges(codes))
    body = f"""/* A code point of no range is NONE: a control, a format character, for private use, or not assigned. */
enum {{ NONE, {", ".join(CLASSES)} }};

typedef struct class_range {{
    uint32_t first, last;
    uint8_t class;
}} class_range;

static const class_range class_ranges[] = {{
{filled(f"{{0x{first:x}, 0x{last:x}, {name}}}," for first, last, name in stretches)}}};
"""
    for name, about, codes in (
        ("han", r"\p{Han}", members(r"\p{Han}")),
        ("numeric", "what Digits sets apart", beside_a_letter(Digits())),
        ("punctuation", "what Punctuation sets apart", beside_a_letter(Punctuation())),
    ):
        body += f"""
/* {about}: {len(codes)} */
static const uint32_t {name}_ranges[][2] = {{
{filled(f"{{0x{first:x}, 0x{last:x}}}," for first, last in ranges(codes))}}};
"""
    print(", ".join(f"{name} {len(codes)}" for name, codes in found.items()))
    return header("classes", "the classes of characters", body)


def order(decompose: NFD) -> dict[int, int]:
    """The combining class of each character that has one, as its rank among the classes, from 1 on."""
    least, greatest = "\u0334", "\u0345"
    marks = [
        char
        for char in EVERYTHING
        if decompose.normalize_str(char) == char
        and (
            decompose.normalize_str(greatest + char) == char + greatest
            or decompose.normalize_str(char + least) == least + char
            and char != least
        )
    ]
    marks += [mark for mark in (least, greatest) if mark not in marks]
    ordered = decompose.normalize_str("a" + "".join(sorted(marks)))[1:]
    ranks = {ord(ordered[0]): 1}
    for left, right in zip(ordered, ordered[1:], strict=False):
        higher = decompose.normalize_str(right + left) == left + right
        ranks[ord(right)] = ranks[ord(left)] + higher
    return ranks


def normal() -> str:
    """normal.h."""
    compose, decompose = NFC(), NFD()
    whole = {code: decompose.normalize_str(chr(code)) for code in CODES}
    for code in HANGUL:
        index = code - 0xAC00
        parts = [0x1100 + index // 588, 0x1161 + index % 588 // 28, 0x11A7 + index % 28]
        if whole.pop(code) != "".join(map(chr, parts[: 2 + (index % 28 > 0)])):
            raise SystemExit(f"U+{code:04X} does not come apart by arithmetic")
    decomposed = {code: parts for code, parts in whole.items() if parts != chr(code)}
    pairs: dict[tuple[int, int], int] = {}
    for code, parts in decomposed.items():
        if compose.normalize_str(chr(code)) != chr(code):
            continue  # excluded from composition
        first = compose.normalize_str(parts[:-1])
        if len(first) != 1 or compose.normalize_str(first + parts[-1]) != chr(code):
            raise SystemExit(f"U+{code:04X} is not made of two parts")
        pairs[ord(first), ord(parts[-1])] = code
    longest = max(map(len, decomposed.values()))
    cells = [f"{{0x{code:x}, {{{listed(parts)}}}}}," for code, parts in decomposed.items()]
    ranks = order(decompose)
    stretches: list[tuple[int, int, int]] = []
    for code, rank in sorted(ranks.items()):
        if stretches and stretches[-1][1] == code - 1 and stretches[-1][2] == rank:
            stretches[-1] = (stretches[-1][0], code, rank)
        else:
            stretches.append((code, code, rank))
    body = f"""/* Combining classes by their rank, from 1 on. A code point of no range is a starter. {len(ranks)} */
static const struct {{
    uint32_t first, last;
    uint8_t rank;
}} mark_ranges[] = {{
{filled(f"{{0x{first:x}, 0x{last:x}, {rank}}}," for first, last, rank in stretches)}}};

/* What a character comes apart into, completely; Hangul syllables are left to arithmetic. {len(decomposed)} */
#define LONGEST_DECOMPOSITION {longest}u
static const struct {{
    uint32_t code, parts[LONGEST_DECOMPOSITION]; /* zeros behind the last part */
}} decompositions[] = {{
{filled(cells)}}};

/* Two characters and the one that they compose to, ascending. {len(pairs)} */
static const struct {{
    uint32_t first, second, code;
}} compositions[] = {{
{filled(f"{{0x{first:x}, 0x{second:x}, 0x{code:x}}}," for (first, second), code in sorted(pairs.items()))}}};
"""
    print(f"{len(ranks)} marks, {len(decomposed)} decompositions, {len(pairs)} compositions")
    return header("normal", "canonical decomposition and composition", body)


def main(folder: Path) -> None:
    (folder / "classes.h").write_text(classes(), encoding="utf-8")
    (folder / "normal.h").write_text(normal(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
