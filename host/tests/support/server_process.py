"""`ds4-server` as a process of its own, with the embedded model."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
from support import commands, embedded


class Process:
    """A server on a free port, or at --unix PATH (then port is 0). said: its standard error until it was ready."""

    def __init__(self, home: Path, *argv: str, environment: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "ds4.server", "--port", "0", "-m", os.path.abspath(embedded.path()), *argv]
        self.process = subprocess.Popen(
            command,
            stderr=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=home,
            env=commands.environment(home) | (environment or {}),
        )
        self.said = ""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said += line
            if match := re.search(r"ready in .*?(?::(\d+))?/v1 ", line):
                self.port = int(match[1] or 0)
                return
        raise AssertionError(f"it did not start: {self.said}")

    def open(self, body: dict[str, Any]) -> socket.socket:
        raw = json.dumps(body).encode()
        sock = socket.create_connection(("127.0.0.1", self.port), timeout=60)
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(raw)}\r\n"
        sock.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + raw)
        return sock

    def client(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"http://127.0.0.1:{self.port}/v1", api_key="none", max_retries=0)

    def rest(self) -> str:
        """What it says on standard error from now to its end."""
        assert self.process.stderr is not None
        return self.process.stderr.read()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()


@contextlib.contextmanager
def started(home: Path, *argv: str) -> Iterator[Process]:
    process = Process(home, *argv)
    try:
        yield process
    finally:
        process.end()
