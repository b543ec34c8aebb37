"""The built-in text is long, varied and the same everywhere."""

from __future__ import annotations

from ds4.perf.prose import sentence


def test_sentences_do_not_repeat_soon() -> None:
    assert len({sentence(n) for n in range(5000)}) == 5000


def test_the_text_is_fixed() -> None:
    assert sentence(0) == "The old bridge carries the harbour lights before the rain."
    assert sentence(123) == "The night train describes the first snow for the third time."
