"""SentencePiece's BPE: the two neighbours that make the piece with the best score are joined, again and again; of equal
scores those furthest to the left.

Where all scores differ that is the same as merges with ranks, as any other BPE has them (`merges`): every way to cut a
piece in two others is a merge, and its rank is the piece's score. Where some are equal, ranks cannot say which comes
first, as that depends on the text; such a vocabulary is joined here (`Joiner`), which takes longer.
"""

from __future__ import annotations

import gc
import heapq
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ds4.core.alternatives import longest_of
from ds4.core.vocabulary import Kind, Vocabulary
from ds4.errors import TokenizerError

SPACE = "▁"  # what stands for a space in a piece
_MOST_CUTS = 200_000_000  # characters copied to find a vocabulary's merges; real ones need < 50 million


def joined(vocabulary: Vocabulary, ids: Mapping[str, int]) -> list[int]:
    """The pieces that neighbours can be joined to. ids: what text may become.

    Added text is none of them: it is taken whole before anything is joined. Added spaces are: text has no "▁" yet when
    that is done.
    """
    kinds = vocabulary.kinds
    # Numbers and not the enum's members, which are slow to compare a quarter of a million times.
    normal, added = int(Kind.NORMAL), int(Kind.USER_DEFINED)
    return [
        index
        for text, index in ids.items()
        if len(text) > 1 and (kinds[index] == normal or (kinds[index] == added and SPACE in text))
    ]


def merges(vocabulary: Vocabulary, ids: Mapping[str, int]) -> list[tuple[str, str]] | None:
    """All merges, the best score first. None where they cannot say what comes first.

    Those of one piece stand in any order: which two parts a piece comes of is settled by the merges inside it, so only
    one of them is ever done.

    Runs of one character have one score in most vocabularies. Those can be ranked all the same, the longest first:
    what is being built at the left is then made longer before anything is begun further to the right.

    Raises TokenizerError for pieces so long that looking at every cut would take minutes.
    """
    if sum(len(text) ** 2 for text in ids) > _MOST_CUTS:
        raise TokenizerError("tokens too long to find their merges", subject="tokenizer.ggml.tokens")
    tokens, scores = vocabulary.tokens, vocabulary.scores
    cuts = _cuts(ids)
    order = sorted(joined(vocabulary, ids), key=lambda index: (-scores[index], -len(tokens[index]), index))
    found: list[tuple[str, str]] = []
    last, runs = math.nan, True  # the score of the last piece that has a merge; whether all of that score are runs
    for index in order:
        text = tokens[index]
        parts = cuts.get(text)
        if parts is None:
            continue
        found += parts
        run = text == text[0] * len(text)
        if scores[index] == last and not (runs and run):
            return None
        last, runs = scores[index], run
    return found


def _cuts(ids: Mapping[str, int]) -> dict[str, list[tuple[str, str]]]:
    """The ways to cut each text in two others.

    In alphabetical order the texts that one starts with are among those that the one before it starts with, and that
    one: so only the other half of a cut has to be looked for.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    starts: list[str] = []
    for text in sorted(filter(None, ids)):
        while starts and not text.startswith(starts[-1]):
            starts.pop()
        pairs = [(start, rest) for start in starts if (rest := text[len(start) :]) in ids]
        if pairs:
            found[text] = pairs
        starts.append(text)
    return found


class Joiner:
    """SentencePiece's own way. ids: what text may become. spelling: what characters without a piece become, a token
    for each byte; empty: the unknown token, one for a run of them."""

    def __init__(self, vocabulary: Vocabulary, ids: Mapping[str, int], spelling: list[int]) -> None:
        self._ids, self._unknown, self._spelling = ids, vocabulary.unk_id, spelling
        self._scores = {vocabulary.tokens[index]: vocabulary.scores[index] for index in joined(vocabulary, ids)}
        self._added = longest_of(vocabulary.tokens[i] for i in vocabulary.unusual() if vocabulary.plain_added(i))

    def encode(self, text: str) -> list[int]:
        found: list[int] = []
        end = 0
        for match in () if self._added is None else self._added.finditer(text):
            found += self._joined(text[end : match.start()])
            found.append(self._ids[match[0]])
            end = match.end()
        return found + self._joined(text[end:])

    def _joined(self, text: str) -> list[int]:
        text = text.replace(" ", SPACE)
        symbols, scores = list(text), self._scores  # a symbol that was joined to its left neighbour is empty
        before = list(range(-1, len(symbols) - 1))
        after = list(range(1, len(symbols) + 1))
        agenda: list[tuple[float, int, int, str]] = []

        def consider(left: int, right: int) -> None:
            if left >= 0 and right < len(symbols):
                piece = symbols[left] + symbols[right]
                score = scores.get(piece)
                if score is not None:
                    heapq.heappush(agenda, (-score, left, right, piece))

        for at in range(len(symbols) - 1):
            consider(at, at + 1)
        while agenda:
            _, left, right, piece = heapq.heappop(agenda)
            if not symbols[left] or not symbols[right] or symbols[left] + symbols[right] != piece:
                continue  # one of them was joined to another meanwhile
            symbols[left], symbols[right] = piece, ""
            after[left] = after[right]
            if after[right] < len(symbols):
                before[after[right]] = left
            consider(before[left], left)
            consider(left, after[left])
        return self._numbered([symbol for symbol in symbols if symbol])

    def _numbered(self, symbols: list[str]) -> list[int]:
        found: list[int] = []
        strange = False
        for symbol in symbols:
            index = self._ids.get(symbol)
            if index is not None:
                found.append(index)
            elif self._spelling:
                found += [self._spelling[byte] for byte in symbol.encode()]
            elif self._unknown is not None and not strange:
                found.append(self._unknown)
            strange = index is None
        return found


@contextmanager
def uncollected() -> Iterator[None]:
    """Without the search for cycles: of a million tuples that live on it finds none, and takes as long as the work."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
