"""The quick way through byte-level BPE: ordinary words are looked up instead of being cut and merged once more.

`tokenizers` takes two to three microseconds a word, most of it for bookkeeping of offsets that nobody asks for. Here
text of printable ASCII is cut by an expression of ours that cuts such text exactly as the pre-tokenizer does
(`PreTokenizer.quick`), and the ids of each word are remembered. Everything else still goes to `tokenizers`: words met
for the first time, stretches with other characters, and text with control characters.

Such a stretch reaches from one *safe place* to the next: between a letter and a space that a letter follows. In every
expression that has a quick form a word ends there, whatever stands around it, and nothing but white space is looked
ahead over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import groupby

_SAFE = re.compile(r"(?<=[A-Za-z])(?= [A-Za-z])")
_CONTROL = re.compile(r"[\x00-\x08\x0B\x0C\x0E-\x1F\x7F]")  # never worth the trouble
_LONGEST = 24  # characters of a word or stretch worth remembering
_MOST = 1 << 16  # words remembered, some 15 MB; then all are forgotten, and those in use come back first

Encode = Callable[[list[str]], list[Sequence[int]]]


class Words:
    """One vocabulary's words. encode: what to do with text that is not known, each by itself."""

    def __init__(self, cut: str, encode: Encode) -> None:
        self._cut = re.compile(cut, re.ASCII).findall
        self._encode = encode
        self._known: dict[str, Sequence[int]] = {}

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text."""
        known = self._known  # one dictionary all along: another thread may start a new one
        plans = [self._units(text) for text in texts]
        missing = list(dict.fromkeys([unit for units in plans for unit in units if unit not in known]))
        fresh: dict[str, Sequence[int]] = {}
        if missing:
            fresh = dict(zip(missing, self._encode(missing), strict=True))
            self._remember(fresh)
        out: list[list[int]] = []
        for units in plans:
            ids: list[int] = []
            for unit in units:
                part = known.get(unit)
                ids += fresh[unit] if part is None else part
            out.append(ids)
        return out

    def _units(self, text: str) -> list[str]:
        """The text as words, and stretches that are left whole."""
        if _CONTROL.search(text):
            return [text]
        if text.isascii():
            return self._cut(text)
        units: list[str] = []
        for ordinary, pieces in groupby(_SAFE.split(text), str.isascii):
            stretch = "".join(pieces)
            units += self._cut(stretch) if ordinary else (stretch,)
        return units

    def _remember(self, fresh: dict[str, Sequence[int]]) -> None:
        if len(self._known) > _MOST:
            self._known = {}
        self._known.update({word: ids for word, ids in fresh.items() if len(word) <= _LONGEST})
