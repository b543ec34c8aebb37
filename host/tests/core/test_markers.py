from __future__ import annotations

import pytest
from ds4.core.output.markers import Markers
from hypothesis import given
from hypothesis import strategies as st

SETS = (("ab",), ("<a>", "</a>", "<b"), ("\n\n<x>", "<x>"), ("&lt;", "</p>", "&l;"), ("a.b*", "[c]"))
CHARACTERS = "".join(sorted({character for markers in SETS for marker in markers for character in marker})) + "z"


@given(st.sampled_from(SETS), st.text(CHARACTERS, max_size=12))
def test_a_marker_is_found_or_the_beginning_of_one_at_the_end(texts: tuple[str, ...], text: str) -> None:
    found = Markers(texts).search(text)
    places = [text.find(marker) for marker in texts if marker in text]
    begun = [n for n in range(len(text)) if any(marker.startswith(text[n:]) for marker in texts)]
    if places:
        assert found is not None
        assert (found.start(), found.lastindex is None) == (min(places), False)
        assert found[0] in texts
    elif begun:
        assert found is not None
        assert (found[0], found.lastindex) == (text[begun[0] :], None)
    else:
        assert found is None


def test_no_markers_are_never_found() -> None:
    assert Markers(()).search("anything") is None


@pytest.mark.parametrize("texts", [("ab", "abc"), ("",)])
def test_markers_of_which_one_begins_with_another_are_refused(texts: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="beginning of another"):
        Markers(texts)
