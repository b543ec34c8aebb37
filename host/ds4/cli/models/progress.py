"""How far a transfer is, on stderr: one line that is redrawn on a terminal, plain lines now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from ds4.core.render import byte_size


class Transfer:
    """Called with bytes done and bytes in all (None: not known). The rate is that of this run."""

    REDRAW_S, LINE_S = 0.1, 5.0

    def __init__(
        self,
        label: str,
        *,
        quiet: bool = False,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._terminal, self._quiet = self._stream.isatty(), quiet
        self._label, self._clock = label, clock
        self._start, self._first = clock(), -1
        self._next = 0.0
        self._last: tuple[int, int | None] | None = None

    def __call__(self, done: int, total: int | None) -> None:
        now = self._clock()
        if self._first < 0:
            self._first, self._start = done, now
        self._last = done, total
        if not self._quiet and now >= self._next:
            self._next = now + (self.REDRAW_S if self._terminal else self.LINE_S)
            self._show(done, total, now)

    def close(self) -> None:
        """Shows the end, so that a plain log has it, and leaves the line."""
        if self._quiet or self._last is None:
            return
        self._show(*self._last, self._clock())
        if self._terminal:
            self._stream.write("\n")
        self._stream.flush()

    def _show(self, done: int, total: int | None, now: float) -> None:
        elapsed = now - self._start
        rate = (done - self._first) / elapsed if elapsed > 0.5 else 0.0
        text = f"{self._label}  {byte_size(done)}"
        if total:
            text += f" of {byte_size(total)}  {100 * done // total} %"
        if rate > 0:
            text += f"  {byte_size(int(rate))}/s"
            if total and done < total:
                text += f"  {clock_time((total - done) / rate)} left"
        self._stream.write(f"\r\x1b[K{text}" if self._terminal else f"{text}\n")
        self._stream.flush()


def clock_time(seconds: float) -> str:
    """ "0:45", "1:02:03"."""
    whole = int(seconds + 0.5)
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02d}:{whole % 60:02d}" if hours else f"{minutes}:{whole % 60:02d}"
