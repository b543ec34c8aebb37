"""Text to measure with when none is given: English-like sentences, the same on every machine."""

from __future__ import annotations

from ds4.core.tokenizer import Tokenizer

_SUBJECTS = (
    *("The old bridge", "A small engine", "Every second ship", "The night train", "A patient reader", "The north wind"),
    *("One of the clerks", "The river", "A letter from home", "The committee"),
)
_VERBS = (
    *("carries", "remembers", "measures", "repairs", "follows", "forgets", "describes", "divides", "covers", "answers"),
    *("keeps", "finds", "doubts"),
)
_OBJECTS = (
    *("the harbour lights", "a list of numbers", "the first snow", "eleven wooden boxes", "the same question"),
    *("a map without names", "the cost of paper", "what was said at noon", "the long way round", "a broken clock"),
    "the quiet half of the town",
)
_ENDS = (
    *("before the rain.", "and nobody minds.", "as the rules demand.", "while the tide is out.", "for the third time."),
    *("without a word.", "in the year of the flood."),
)


def sentence(number: int) -> str:
    """The number-th sentence. The lists' lengths have no common factor, so combinations do not repeat soon."""
    parts = (_SUBJECTS, _VERBS, _OBJECTS, _ENDS)
    return " ".join(words[number % len(words)] for words in parts)


def prose_ids(tokenizer: Tokenizer, count: int) -> list[int]:
    """The first `count` token ids of the text."""
    ids: list[int] = tokenizer.with_bos([])
    number = 0
    while len(ids) < count:
        block = " ".join(sentence(n) for n in range(number, number + 64))
        ids += tokenizer.encode(block + "\n\n")
        number += 64
    return ids[:count]
