"""A server process of this checkout, with real weights, that a live run talks to, stops or kills."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx

from parity.registry import GateError

READY_SECONDS = 60.0
STOP_SECONDS = 20.0


class Failure(Exception):
    """A request that ended other than it should have."""


@dataclass(frozen=True)
class Moment:
    """The server while nothing runs: bytes of anonymous memory, open files, threads, banks that are still busy."""

    rss_anon: int
    descriptors: int
    threads: int
    busy_banks: float


@dataclass
class LiveServer:
    base: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def pid(self) -> int:
        return self.process.pid

    def tail(self) -> str:
        """The end of what it printed."""
        return self.log.read_text(errors="replace")[-2000:]

    def wait_ready(self) -> float:
        """Seconds until it serves. Raises GateError if it ends or takes longer than READY_SECONDS."""
        began = time.monotonic()
        with httpx.Client(base_url=self.base, timeout=5) as client:
            while time.monotonic() - began < READY_SECONDS:
                if self.process.poll() is not None:
                    raise GateError(f"the server did not start, status {self.process.returncode}:\n{self.tail()}")
                try:
                    if client.get("/ready").status_code == 200:
                        return time.monotonic() - began
                except httpx.HTTPError:
                    pass
                time.sleep(0.05)
        raise GateError(f"the server was not ready after {READY_SECONDS:g} s:\n{self.tail()}")

    async def at_rest(self) -> Moment:
        """The server once its clients have gone. Waits for what they left to end."""
        async with httpx.AsyncClient(base_url=self.base, timeout=30) as client:
            for _ in range(100):
                busy = await busy_banks(client)
                if busy == 0:
                    break
                await asyncio.sleep(0.1)
        await asyncio.sleep(1.0)
        text = Path(f"/proc/{self.pid}/status").read_text(encoding="ascii", errors="replace")
        status = dict(line.split(":", 1) for line in text.splitlines())
        anon, threads = (int(status[key].split()[0]) for key in ("RssAnon", "Threads"))
        return Moment(anon * 1024, len(os.listdir(f"/proc/{self.pid}/fd")), threads, busy)

    def cpu_seconds(self) -> float:
        """Processor time that it has used."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """SIGKILL: nothing of it can run any more."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """Asks it to end and waits; its exit status. One that does not end within STOP_SECONDS is killed."""
        self.process.terminate()
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            return self.process.returncode


async def busy_banks(client: httpx.AsyncClient) -> float:
    text = (await client.get("/metrics")).text
    rows = [line for line in text.splitlines() if line.startswith("ds4_banks{")]
    if not rows:
        raise GateError("the server's metrics tell of no banks")
    busy = ('state="busy"', 'state="held"')
    return sum(float(row.rpartition(" ")[2]) for row in rows if any(state in row for state in busy))


def start(arguments: Sequence[str], log: Path, port: int | None = None) -> LiveServer:
    """Starts a server; it need not be ready yet. Its output goes to the end of `log`."""
    port = free_port() if port is None else port
    command = [sys.executable, "-m", "ds4.server", "--port", str(port), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment)
    return LiveServer(f"http://127.0.0.1:{port}", process, log)


@contextmanager
def serving(arguments: Sequence[str], log: Path) -> Iterator[LiveServer]:
    """A server that is ready; stopped at the end."""
    server = start(arguments, log)
    try:
        server.wait_ready()
        yield server
    finally:
        server.stop()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
