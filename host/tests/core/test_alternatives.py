from __future__ import annotations

from ds4.core.alternatives import longest_of
from hypothesis import given
from hypothesis import strategies as st

TEXTS = st.lists(st.text("ab<|.", max_size=5), max_size=8)


def reference(texts: list[str], subject: str) -> list[tuple[int, str]]:
    found, at = [], 0
    while at < len(subject):
        best = max((text for text in texts if text and subject.startswith(text, at)), key=len, default="")
        if best:
            found.append((at, best))
        at += len(best) or 1
    return found


@given(TEXTS, st.text("ab<|.", max_size=20))
def test_it_finds_the_longest_text_at_each_place_from_the_left(texts: list[str], subject: str) -> None:
    pattern = longest_of(texts)
    found = [(match.start(), match[0]) for match in pattern.finditer(subject)] if pattern else []
    assert found == reference(texts, subject)


def test_no_texts_are_no_pattern() -> None:
    assert longest_of([]) is None
    assert longest_of([""]) is None


def test_thousands_of_texts_and_very_long_ones_are_fine() -> None:
    texts = [f"<unused{n}>" for n in range(10_000)] + ["x" * 5000]
    pattern = longest_of(texts)
    assert pattern is not None
    assert pattern.findall("<" * 10_000 + "<unused77>" + "x" * 5000) == ["<unused77>", "x" * 5000]
