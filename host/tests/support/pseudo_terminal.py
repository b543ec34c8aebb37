"""A program at a terminal that a test holds the other end of."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\x1b\][^\x07]*\x07")


class PseudoTerminal:
    """Starts argv with a terminal of 100 columns as its standard streams. A context manager."""

    def __init__(self, argv: Sequence[str], env: Mapping[str, str], folder: Path, term: str = "xterm") -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        self._process = subprocess.Popen(
            argv,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env={**env, "TERM": term, "PROMPT_TOOLKIT_NO_CPR": "1"},
            cwd=folder,
            start_new_session=True,
            # Its controlling terminal, so that Ctrl-C becomes SIGINT there.
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        self._seen = ""

    def send(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def wait_for(self, pattern: str, timeout: float = 30.0) -> str:
        """Reads until the pattern has appeared since the last call; returns the text up to its end, escapes removed."""
        deadline = time.monotonic() + timeout
        while True:
            text = _ESCAPES.sub("", self._seen)
            found = re.search(pattern, text)
            if found:
                self._seen = text[found.end() :]
                return text[: found.end()]
            ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
            data = b""
            if ready:
                try:
                    data = os.read(self._master, 65536)
                except OSError:  # the program has ended
                    data = b""
            if not data:
                raise AssertionError(f"no {pattern!r} in {text!r}")
            self._seen += data.decode("utf-8", "replace")

    def end(self, timeout: float = 30.0) -> int:
        """Waits for the program to end; returns its exit code."""
        deadline = time.monotonic() + timeout
        while self._process.poll() is None:
            if time.monotonic() > deadline:
                raise AssertionError(f"still running; last output {self._seen!r}")
            ready, _, _ = select.select([self._master], [], [], 0.05)
            if ready:
                try:
                    self._seen += os.read(self._master, 65536).decode("utf-8", "replace")
                except OSError:
                    continue
        return self._process.returncode

    def __enter__(self) -> PseudoTerminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._master)
