"""ds4-mini behind the real server, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from ds4.core import catalog
from ds4.errors import SettingsError

HOST = Path(__file__).parents[2]


@contextlib.contextmanager
def started(numeric: str, *more: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server process and its URL. more: further arguments."""
    try:
        catalog.embedded_path("ds4-mini")
    except SettingsError as error:
        pytest.skip(str(error))
    command = [
        *(sys.executable, "-m", "ds4.server", "-m", "ds4-mini", "--port", "0", "--numeric", numeric),
        *("-c", "2048", "--max-seqs", "3", "-t", "2", "-b", "256"),
        *more,
    ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HOST), *sys.path])}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        url = ""
        for line in process.stderr:
            if line.startswith("ready in"):
                url = line.split(": ", 1)[1].split()[0]
                break
        assert url, "the server did not start"
        drain = threading.Thread(target=process.stderr.read, daemon=True)
        drain.start()
        try:
            yield process, url
        finally:
            process.terminate()
            process.wait(20)
            drain.join(5)


def serve(numeric: str, *more: str) -> Iterator[str]:
    """For a fixture: a server's URL."""
    with started(numeric, *more) as (_, url):
        yield url
