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


def on_hangup(loop: asyncio.AbstractEventLoop, reloads: Sequence[Reload]) -> None:
    """Calls all of them on the loop at each SIGHUP."""

    def again() -> None:
        for reload in reloads:
            reload()

    if reloads:
        loop.add_signal_handler(signal.SIGHUP, again)
