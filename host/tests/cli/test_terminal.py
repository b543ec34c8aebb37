"""Progress, figures, colour."""

from __future__ import annotations

import io

import pytest
from ds4.cli.terminal import Progress, colour, dim, figures


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("env", "wanted"), [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)]
)
def test_colour_follows_the_terminal_and_no_color(env: dict[str, str], wanted: bool) -> None:
    assert colour(Terminal(), env) is wanted
    assert colour(io.StringIO(), env) is False


def test_dim_text_is_plain_in_a_pipe() -> None:
    assert dim("x", io.StringIO()) == "x"


def test_progress_is_drawn_on_a_terminal_and_wiped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "PATIENCE_S", 0.0)
    out = Terminal()
    progress = Progress("m", stream=out)
    progress(1 << 30, 4 << 30)
    assert "loading m  25 %  1.0 GiB of 4.0 GiB" in out.getvalue()
    progress.close()
    assert out.getvalue().endswith("\r\x1b[K")


def test_progress_is_silent_in_a_pipe_when_quiet_and_when_loading_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    out, quick = Terminal(), Terminal()
    progress = Progress("m", stream=quick)
    progress(1, 2)
    progress.close()
    monkeypatch.setattr(Progress, "PATIENCE_S", 0.0)
    for silent in (Progress("m", stream=(pipe := io.StringIO())), Progress("m", quiet=True, stream=out)):
        silent(1, 2)
        silent.close()
    assert (pipe.getvalue(), out.getvalue(), quick.getvalue()) == ("", "", "")


def test_figures_tell_rates_and_what_was_cached() -> None:
    assert figures(10, 0.5, 20, 2.0) == "prefill 10 tok 20.0 tok/s, generated 20 tok 10.0 tok/s"
    assert figures(1, 0.5, 0, 0.0, cached=9) == "prefill 1 tok 2.0 tok/s (9 cached), generated 0 tok - tok/s"
