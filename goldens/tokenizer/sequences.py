"""Sequences of token ids for goldens of tokenizers, and how their bytes become text one token at a time."""

from __future__ import annotations

import codecs
import random
from collections.abc import Callable, Iterable, Iterator, Sequence


def sequences(
    name: str, encode: Callable[[str], list[int]], texts: Sequence[str], n_vocab: int, hidden: Iterable[int]
) -> Iterator[tuple[int, list[int], bool]]:
    """Number, ids, and whether special tokens show. In turn: a text's tokens, tokens at random, and parts of texts
    shuffled with two tokens that may be hidden."""
    rng = random.Random(f"streams of {name}")
    added = sorted(hidden)
    for number in range(300):
        kind = number % 3
        if kind == 0:
            ids = encode(rng.choice(texts))[:60]
        elif kind == 1:
            ids = [rng.randrange(n_vocab) for _ in range(rng.randrange(1, 24))]
        else:
            halves = [index for text in rng.sample(texts, 4) for index in encode(text)[:8]]
            ids = rng.sample(halves, len(halves)) + rng.sample(added, 2)
            rng.shuffle(ids)
        yield number, ids, rng.random() < 0.5


def streamed(tokens: Iterable[bytes]) -> list[str]:
    """What each token adds to a text, and then what is left."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    return [*(decoder.decode(token) for token in tokens), decoder.decode(b"", True)]
