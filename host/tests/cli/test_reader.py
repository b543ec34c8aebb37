"""Reading messages: keys at a terminal, lines from a pipe."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from ds4.cli.reader import PlainReader, TerminalReader
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

ENTER, ALT_ENTER, CTRL_C, CTRL_D, UP = "\r", "\x1b\r", "\x03", "\x04", "\x1b[A"


def typed(keys: str, history: Path) -> str:
    """What the terminal reader returns for these keys."""
    with create_pipe_input() as source, create_app_session(input=source, output=DummyOutput()):
        source.send_text(keys)
        return TerminalReader(history).read()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("hello" + ENTER, "hello"),
        ("one" + ALT_ENTER + "two" + ENTER, "one\ntwo"),
        ("one\\" + ENTER + "two" + ENTER, "one\ntwo"),
        ("\x1b[200~pasted\nlines\n\x1b[201~" + ENTER, "pasted\nlines\n"),
        ("é日本" + ENTER, "é日本"),
    ],
)
def test_enter_sends_and_new_lines_need_more(keys: str, message: str, tmp_path: Path) -> None:
    assert typed(keys, tmp_path / "history") == message


def test_ctrl_c_and_ctrl_d_at_the_prompt_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        typed("some text" + CTRL_C, tmp_path / "history")
    with pytest.raises(EOFError):
        typed(CTRL_D, tmp_path / "history")


def test_the_history_is_kept_and_offered_across_sessions(tmp_path: Path) -> None:
    history = tmp_path / "history"
    typed("first" + ENTER, history)
    typed("second\\" + ENTER + "line" + ENTER, history)
    assert history.read_bytes() == b"first\nsecond\rline\n"
    assert history.stat().st_mode & 0o777 == 0o600
    assert typed(UP + UP + UP + ENTER, history) == "first"


def test_a_plain_reader_takes_lines_and_joins_those_that_end_in_a_backslash() -> None:
    reader = PlainReader(io.StringIO("one\ntwo\\\nthree\n\nlast"))
    assert [reader.read() for _ in range(4)] == ["one", "two\nthree", "", "last"]
    with pytest.raises(EOFError):
        reader.read()
    assert not reader.interactive


def test_a_plain_reader_that_ends_in_a_backslash_still_gives_what_it_has() -> None:
    reader = PlainReader(io.StringIO("one\\"))
    assert reader.read() == "one\n"
    with pytest.raises(EOFError):
        reader.read()


def test_a_plain_reader_prompts_when_somebody_looks() -> None:
    out = io.StringIO()
    assert PlainReader(io.StringIO("a\\\nb\n"), out).read() == "a\nb"
    assert out.getvalue() == "ds4> ...  "
