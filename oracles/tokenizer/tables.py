"""Writes tables.h: the Unicode classes that the tokenizer oracle's matchers ask for, as a pinned library has them.

    python oracles/tokenizer/tables.py oracles/tokenizer/tables.h

The classes are not taken from a copy of the Unicode database but asked of the regular-expression engine inside Hugging
Face `tokenizers`, code point by code point: which characters are \\p{L} depends on the Unicode version it was built with,
and it is that engine's pieces which a vocabulary was trained on and which the goldens hold.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tokenizers
from tokenizers import Regex
from tokenizers.pre_tokenizers import Split

CODES = [code for code in range(0x110000) if not 0xD800 <= code < 0xE000]
EVERYTHING = "".join(map(chr, CODES))

# One class a character: what \p{..} and \s say never overlaps. A control character that is white space is SPACE.
CLASSES = {
    "UPPER": r"\p{Lu}",
    "LOWER": r"\p{Ll}",
    "TITLE": r"\p{Lt}",
    "MODIFIER": r"\p{Lm}",
    "OTHER_LETTER": r"\p{Lo}",
    "MARK": r"\p{M}",
    "DIGIT": r"\p{Nd}",
    "OTHER_NUMBER": r"[\p{Nl}\p{No}]",
    "PUNCTUATION": r"\p{P}",
    "SYMBOL": r"\p{S}",
    "SPACE": r"\s",
}
# What the matchers take for granted of compound classes; (?i:x) over the letters of the English contractions.
UNIONS = {
    r"\p{L}": ("UPPER", "LOWER", "TITLE", "MODIFIER", "OTHER_LETTER"),
    r"\p{N}": ("DIGIT", "OTHER_NUMBER"),
    r"\d": ("DIGIT",),
}
FOLDED = {"s": "sS\u017f", **{letter: letter + letter.upper() for letter in "tremvld"}}


def members(pattern: str) -> set[int]:
    """The code points that the engine's `pattern` matches."""
    found = set(CODES)
    for _, (first, end) in Split(Regex(pattern), "removed").pre_tokenize_str(EVERYTHING):
        found.difference_update(CODES[first:end])
    return found


def ranges(classes: dict[str, set[int]]) -> list[tuple[int, int, str]]:
    """Stretches of one class, ascending; code points without a class are in none."""
    found: list[tuple[int, int, str]] = []
    for code, name in sorted((code, name) for name, codes in classes.items() for code in codes):
        if found and found[-1][1] == code - 1 and found[-1][2] == name:
            found[-1] = (found[-1][0], code, name)
        else:
            found.append((code, code, name))
    return found


def main(path: Path) -> None:
    classes = {name: members(pattern) for name, pattern in CLASSES.items()}
    if sum(map(len, classes.values())) != len(set().union(*classes.values())):
        raise SystemExit("two classes share a code point")
    for pattern, parts in UNIONS.items():
        if members(pattern) != set().union(*(classes[part] for part in parts)):
            raise SystemExit(f"{pattern} is not {' + '.join(parts)}")
    for letter, forms in FOLDED.items():
        if members(f"(?i:{letter})") != set(map(ord, forms)):
            raise SystemExit(f"(?i:{letter}) is not {forms}")
    found = ranges(classes)
    cells = [f"{{0x{first:x}, 0x{last:x}, {name}}}," for first, last, name in found]
    rows: list[str] = []
    for cell in cells:
        if rows and len(rows[-1]) + 1 + len(cell) <= 116:
            rows[-1] += " " + cell
        else:
            rows.append(cell)
    text = f"""/* tables.h - the class of every code point, written by tables.py: do not edit.
 *
 * Probed from: Hugging Face tokenizers {tokenizers.__version__} (Split over a Regex, every code point but the surrogates)
 * Command:     python oracles/tokenizer/tables.py oracles/tokenizer/tables.h
 */
#ifndef DS4_ORACLE_TOKENIZER_TABLES_H
#define DS4_ORACLE_TOKENIZER_TABLES_H

#include <stdint.h>

/* A code point of no range is NONE: controls, format characters, private use and what is not assigned. */
enum {{ NONE, {", ".join(classes)} }};

typedef struct class_range {{
    uint32_t first, last;
    uint8_t class;
}} class_range;

static const class_range class_ranges[] = {{
"""
    text += "".join(f"    {row}\n" for row in rows) + "};\n\n#endif\n"
    path.write_text(text, encoding="utf-8")
    print(f"{path}: {len(found)} ranges, {len(set().union(*classes.values()))} code points")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
