from __future__ import annotations

import os

import pytest
from ds4.core.output.stops import StopMatcher
from ds4.core.output.utf8 import Utf8Stream
from hypothesis import given
from hypothesis import strategies as st


def feed(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    """What is shown in all, and the stop that was met."""
    matcher = StopMatcher(stops)
    shown = []
    for piece in pieces:
        text, hit = matcher.push(piece)
        shown.append(text)
        if hit:
            return "".join(shown), matcher.matched
    return "".join([*shown, matcher.flush()]), None


def reference(stops: list[str], text: str) -> tuple[str, str | None]:
    """The first end of any stop; of those that end there, the longest."""
    for end in range(1, len(text) + 1):
        hits = [stop for stop in stops if text[:end].endswith(stop)]
        if hits:
            longest = max(hits, key=len)
            return text[: end - len(longest)], longest
    return text, None


def cuts(text: str, at: list[int]) -> list[str]:
    edges = [0, *sorted(min(a, len(text)) for a in at), len(text)]
    return [text[a:b] for a, b in zip(edges, edges[1:], strict=False)]


STOPS = st.lists(st.text("abc", min_size=1, max_size=4), max_size=4)


@given(STOPS, st.text("abc", max_size=24), st.lists(st.integers(0, 24), max_size=8))
def test_any_split_shows_what_a_search_over_the_whole_text_would(stops: list[str], text: str, at: list[int]) -> None:
    assert feed(stops, cuts(text, at)) == reference(stops, text)


@given(STOPS, st.text("abc", max_size=24))
def test_nothing_is_held_back_longer_than_a_stop_may_still_begin(stops: list[str], text: str) -> None:
    matcher = StopMatcher(stops)
    shown = ""
    for end, character in enumerate(text, 1):
        piece, hit = matcher.push(character)
        if hit:
            return
        shown += piece
        held = text[len(shown) : end]
        prefixes = {stop[:k] for stop in stops for k in range(len(stop))}
        longest = max((p for p in prefixes if text[:end].endswith(p)), key=len, default="")
        assert held == longest
        assert matcher.holding == bool(held)


def test_a_stop_inside_another_wins_by_ending_first() -> None:
    assert feed(["abcd", "bc"], ["xabcd"]) == ("xa", "bc")


def test_of_two_stops_that_end_together_the_longer_is_cut_off() -> None:
    assert feed(["bc", "abc"], ["x", "a", "b", "c", "d"]) == ("x", "abc")


def test_a_false_start_is_given_back() -> None:
    matcher = StopMatcher(["</think>"])
    assert matcher.push("a</thi") == ("a", False)
    assert matcher.push("nk!") == ("</think!", False)


def test_a_false_start_that_ends_in_another_start_keeps_only_that() -> None:
    matcher = StopMatcher(["aab"])
    assert matcher.push("aa") == ("", False)
    assert matcher.push("a") == ("a", False)
    assert matcher.push("b") == ("", True)


def test_text_without_any_beginning_of_a_stop_passes_at_once() -> None:
    matcher = StopMatcher(["\nUser:"])
    assert matcher.push("hello there") == ("hello there", False)
    assert not matcher.holding


def test_nothing_is_shown_after_a_stop() -> None:
    matcher = StopMatcher(["x"])
    assert matcher.push("axb") == ("a", True)
    assert matcher.push("more") == ("", True)
    assert matcher.flush() == ""


def test_what_is_held_at_the_end_is_given_at_flush() -> None:
    matcher = StopMatcher(["stop"])
    assert matcher.push("st") == ("", False)
    assert matcher.flush() == "st"


def test_an_empty_stop_string_is_refused() -> None:
    with pytest.raises(ValueError, match="empty"):
        StopMatcher(["a", ""])


@given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=8))
def test_bytes_in_any_pieces_decode_as_the_whole_does(data: bytes, at: list[int]) -> None:
    stream = Utf8Stream()
    edges = [0, *sorted(min(a, len(data)) for a in at), len(data)]
    pieces = [stream.push(data[a:b]) for a, b in zip(edges, edges[1:], strict=False)]
    assert "".join([*pieces, stream.flush()]) == data.decode("utf-8", "replace")


@given(st.binary(max_size=6) | st.sampled_from([b"\xed\xa0", b"\xed\xbf", b"a\xe0\xa0", b"\xf4\x8f\xbf", b"\xf4\x90"]))
def test_what_no_continuation_can_change_is_shown_at_once(data: bytes) -> None:
    tails = [b"", b"A", *(first + b"\x80\xbf"[:n] for first in (b"\x80", b"\x90", b"\xa0") for n in (0, 1, 2))]
    endings = [(data + tail).decode("utf-8", "replace") for tail in tails]
    assert Utf8Stream().push(data) == os.path.commonprefix(endings)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_whole_text_byte_by_byte_never_shows_a_replacement(text: str) -> None:
    stream = Utf8Stream()
    shown = [stream.push(bytes([byte])) for byte in text.encode()]
    assert "".join(shown) == text
    assert all("\ufffd" not in piece for piece in shown) or "\ufffd" in text
