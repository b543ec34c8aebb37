"""SentencePiece's BPE in the terms of any other: which pairs of pieces are joined, and which first.

SentencePiece keeps no merges. It joins, again and again, the two neighbours that make the piece with the best score; so
every way to cut a piece in two others is a merge, and its rank is the piece's score.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ds4.core.vocabulary import Kind, Vocabulary
from ds4.errors import TokenizerError

_MOST_CUTS = 200_000_000  # characters copied to find a vocabulary's merges; real ones need < 50 million


def merges(vocabulary: Vocabulary, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    """All merges, the best score first; of one piece by the ids of the left parts. ids: what text may become.

    Raises TokenizerError for pieces so long that looking at every cut would take minutes.
    """
    if sum(len(text) ** 2 for text in ids) > _MOST_CUTS:
        raise TokenizerError("tokens too long to find their merges", subject="tokenizer.ggml.tokens")
    tokens, kinds, scores = vocabulary.tokens, vocabulary.kinds, vocabulary.scores
    joined = [index for index in ids.values() if kinds[index] in (Kind.NORMAL, Kind.USER_DEFINED)]
    joined.sort(key=lambda index: (-scores[index], index))
    found: list[tuple[str, str]] = []
    with _uncollected():
        for index in joined:
            text = tokens[index]
            cuts = range(1, len(text))
            pairs = [(text[:cut], text[cut:]) for cut in cuts if text[:cut] in ids and text[cut:] in ids]
            if len(pairs) > 1:
                pairs.sort(key=lambda pair: ids[pair[0]])
            found += pairs
    return found


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the search for cycles: of a million tuples that live on it finds none, and takes as long as the work."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
