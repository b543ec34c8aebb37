"""SIGHUP: reads keys and certificates again. Without any the signal keeps its meaning: the terminal has gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from ds4.errors import SettingsError

Reload = Callable[[], bool]
"""Reads something again; False, having logged why, where that failed and all is as before."""


def readable_again(file: Path) -> None:
    """SettingsError for what is no regular file: a pipe can be read at the start, and would stop everything later."""
    if file.exists() and not file.is_file():
        raise SettingsError("cannot be read again", subject=str(file), expected="a regular file", found="another kind")


class Early:
    """SIGHUPs of the time before there is a loop: they would end the process while it plans."""

    def __init__(self) -> None:
        self.came = False
        signal.signal(signal.SIGHUP, self._note)

    def _note(self, *_: object) -> None:
        self.came = True


def on_hangup(loop: asyncio.AbstractEventLoop, reloads: Sequence[Reload], early: Early | None = None) -> None:
    """Calls all of them on the loop at each SIGHUP, and once for those that came early."""

    def again() -> None:
        for reload in reloads:
            reload()

    if reloads:
        loop.add_signal_handler(signal.SIGHUP, again)
        if early is not None and early.came:
            loop.call_soon(again)
