"""SIGHUP: reads keys and certificates again. Without any the signal keeps its meaning: the terminal has gone."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Sequence

Reload = Callable[[], bool]
"""Reads something again; False, having logged why, where that failed and all is as before."""


def on_hangup(loop: asyncio.AbstractEventLoop, reloads: Sequence[Reload]) -> None:
    """Calls all of them on the loop at each SIGHUP."""

    def again() -> None:
        for reload in reloads:
            reload()

    if reloads:
        loop.add_signal_handler(signal.SIGHUP, again)
