"""What goes to the terminal beside the answer: progress while loading, figures at the end, colour where wanted."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import TextIO

from ds4.core.reply import Piece


def colour(stream: TextIO, env: Mapping[str, str] | None = None) -> bool:
    """Whether to colour: a terminal that is not dumb, and NO_COLOR unset or empty (no-color.org)."""
    env = os.environ if env is None else env
    return not env.get("NO_COLOR") and env.get("TERM") != "dumb" and stream.isatty()


def dim(text: str, stream: TextIO) -> str:
    return f"\x1b[2m{text}\x1b[0m" if colour(stream) else text


class Printer:
    """Writes an answer as it comes: its text to `out`, and what is thought before it, dimmed, to `notes`, if any."""

    def __init__(self, out: TextIO, notes: TextIO | None) -> None:
        self._out, self._notes = out, notes
        self._thinking, self._last = False, ""

    def put(self, piece: Piece) -> None:
        if piece.reasoning:
            if self._notes is not None:
                self._thinking = True
                self._notes.write(dim(piece.text, self._notes))
                self._notes.flush()
            return
        self._thought()
        self._last = piece.text
        self._out.write(piece.text)
        self._out.flush()

    def _thought(self) -> None:
        if self._thinking and self._notes is not None:
            self._notes.write("\n")
            self._notes.flush()
        self._thinking = False

    def end(self) -> None:
        """Ends the line that is open."""
        self._thought()
        if self._last and not self._last.endswith("\n"):
            self._out.write("\n")
            self._out.flush()


class Progress:
    """One line on stderr that is redrawn while a model's weights are read, and wiped at the end. Silent unless stderr
    is a terminal; appears only when the loading is slow enough to be noticed."""

    PATIENCE_S = 0.2
    REDRAW_S = 0.1

    def __init__(self, label: str, *, quiet: bool = False, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._active = not quiet and self._stream.isatty()
        self._label, self._shown = label, False
        self._next = time.monotonic() + self.PATIENCE_S

    def __call__(self, done: int, total: int) -> None:
        """done, total: bytes."""
        now = time.monotonic()
        if not self._active or now < self._next or not total:
            return
        self._next, self._shown = now + self.REDRAW_S, True
        self._stream.write(f"\r\x1b[Kloading {self._label}  {100 * done // total} %  {_bytes(done)} of {_bytes(total)}")
        self._stream.flush()

    def close(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _bytes(count: int) -> str:
    return f"{count / 2**30:.1f} GiB" if count >= 2**30 else f"{count / 2**20:.0f} MiB"


def rate(tokens: int, seconds: float) -> str:
    return f"{tokens / seconds:.1f}" if seconds > 0 else "-"


def figures(prefill: int, prefill_s: float, generated: int, generated_s: float, cached: int = 0) -> str:
    """The line at the end. prefill: tokens computed before the first output; cached: those that needed no computing."""
    text = f"prefill {prefill} tok {rate(prefill, prefill_s)} tok/s"
    if cached:
        text += f" ({cached} cached)"
    return f"{text}, generated {generated} tok {rate(generated, generated_s)} tok/s"
