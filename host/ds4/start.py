"""Starts the programs. Importing all that one of them is made of takes a second or more, and Ctrl-C may come in it.

Until the program itself runs there is nothing to tidy up, so an interrupt ends the process as the system does it: at
once and without a traceback. This module therefore imports nothing of ours.
"""

from __future__ import annotations

import signal
import sys
from importlib import import_module

PROGRAMS = {
    "ds4": "ds4.cli.main",
    "ds4-bench": "ds4.perf.bench",
    "ds4-server": "ds4.server.boot",
    "ds4-synth": "ds4.perf.synth.main",
}


def start(name: str) -> int:
    """Runs a program on sys.argv; returns its exit code."""
    before = signal.getsignal(signal.SIGINT)
    # Another handler than Python's own is the caller's wish: in the background of a shell, interrupts are ignored.
    quiet = before is signal.default_int_handler
    if quiet:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Its first own lines come with the plan; from a cold disk that takes a while.
    tells = name == "ds4-server" and sys.stderr is not None and sys.stderr.isatty()
    if tells:
        sys.stderr.write("starting ...")
        sys.stderr.flush()
    try:
        module = import_module(PROGRAMS[name])
    finally:
        if quiet:
            signal.signal(signal.SIGINT, before)
        if tells:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()
    return int(module.main())


def cli() -> int:
    return start("ds4")


def bench() -> int:
    return start("ds4-bench")


def server() -> int:
    return start("ds4-server")


def synth() -> int:
    return start("ds4-synth")
