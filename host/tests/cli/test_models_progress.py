"""What a transfer shows: a line redrawn on a terminal, plain lines now and then elsewhere, nothing when quiet."""

from __future__ import annotations

import io

from ds4.cli.models.progress import Transfer, clock_time


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, quiet: bool = False) -> str:
    """A transfer of 100 MB, half of it there from before, that brings 1 MB a second."""
    now = [0.0]
    transfer = Transfer("m.gguf", quiet=quiet, stream=stream, clock=lambda: now[0])
    for second in range(51):
        now[0] = float(second)
        transfer(50_000_000 + second * 1_000_000, 100_000_000)
    transfer.close()
    return stream.getvalue()


def test_a_log_gets_plain_lines_with_bytes_rate_and_time_left() -> None:
    lines = shown(io.StringIO()).splitlines()
    assert lines[0] == "m.gguf  50.0 MB of 100.0 MB  50 %"
    assert lines[1] == "m.gguf  55.0 MB of 100.0 MB  55 %  1.0 MB/s  0:45 left"
    assert lines[-1] == "m.gguf  100.0 MB of 100.0 MB  100 %  1.0 MB/s"
    assert len(lines) == 12  # every five seconds, and the end


def test_a_terminal_gets_one_line_that_is_redrawn_and_left_at_the_end() -> None:
    text = shown(Terminal())
    assert text.count("\n") == 1
    assert text.endswith("\n")
    assert text.count("\r\x1b[K") == 52


def test_a_quiet_transfer_shows_nothing() -> None:
    assert shown(Terminal(), quiet=True) == ""


def test_a_length_that_is_not_known_leaves_the_share_out() -> None:
    stream = io.StringIO()
    Transfer("m", stream=stream)(1500, None)
    assert stream.getvalue() == "m  1.5 kB\n"


def test_times_are_read_as_on_a_clock() -> None:
    assert [clock_time(seconds) for seconds in (0, 59.6, 3599, 3723)] == ["0:00", "1:00", "59:59", "1:02:03"]
