"""What the host costs: HTTP against the bare native loop, and the processor time of a token.

    python -m ds4.perf.host_overhead [--threads N] [--tokens N] [--rounds N]

Prints two lines:

    http t=1 ratio 0.984        tokens/s through HTTP SSE at concurrency 1, over the native loop's (best rounds of each,
                                taken in turns)
    host cpu 41.2 us/token      processor time of the whole server process for a token, by the null engine

The client is a raw socket in this process that counts messages and nothing else; the server is a process of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ds4.core import bind, catalog, inventory
from ds4.core.exits import guarded
from ds4.core.options import MODEL, MODEL_DIR, MODEL_OPTIONS
from ds4.core.settings import Option, Program, integer, load
from ds4.errors import Ds4Error
from ds4.sys.descriptors import Backend, SamplerDesc, SessionDesc
from ds4.sys.native import NativeModel, NativeSession, Row

_BENCH = "Bench"
_TICK = os.sysconf("SC_CLK_TCK")
_PROMPT = list(range(100, 190))

BENCH_THREADS: Option[int] = Option("threads", integer(1, 256), 1, "Threads of the engine.", _BENCH, ("-t",))
TOKENS: Option[int] = Option("tokens", integer(16, 8000), 256, "Tokens of a round.", _BENCH)
ROUNDS: Option[int] = Option("rounds", integer(1, 1000), 5, "Rounds; the best counts.", _BENCH)
NULL_TOKENS: Option[int] = Option("null-tokens", integer(100, 8000), 8000, "Tokens of a null round.", _BENCH)

PROGRAM = Program(
    name="host_overhead",
    table="bench",
    summary="Measures what the host adds to the engine: HTTP over the native loop, and processor time of a token.",
    usage=("python -m ds4.perf.host_overhead", "python -m ds4.perf.host_overhead --threads 2"),
    options=(*MODEL_OPTIONS, BENCH_THREADS, TOKENS, ROUNDS, NULL_TOKENS),
)


@dataclass(frozen=True)
class Server:
    """A ds4-server process and where it listens."""

    process: subprocess.Popen[str]
    port: int

    def cpu_seconds(self) -> float:
        """User and system time that the process has taken so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICK

    def generate(self, tokens: int, *, stream: bool = True) -> float:
        """Seconds from the first token's message to the last one's."""
        body = json.dumps(
            {
                "prompt": _PROMPT,
                "max_tokens": tokens,
                "temperature": 0,
                "ignore_eos": True,
                "stream": stream,
                "cache_prompt": False,
                "stream_options": {"include_usage": True},
            }
        ).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        with contextlib.closing(socket.create_connection(("127.0.0.1", self.port))) as sock:
            sock.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
            first = last = 0.0
            tail = b""
            while b"[DONE]" not in tail:
                piece = sock.recv(1 << 16)
                if not piece:
                    raise Ds4Error("the server closed the stream", found=tail.decode("utf-8", "replace"))
                last = time.perf_counter()
                if not first and b'"text"' in piece:
                    first = last
                tail = tail[-600:] + piece
        found = re.search(rb'"completion_tokens":(\d+)', tail)
        if found is None or int(found[1]) != tokens:
            raise Ds4Error("the answer has another length", expected=tokens, found=tail.decode("utf-8", "replace"))
        return last - first


@contextlib.contextmanager
def server(model: Path, threads: int, backend: Backend) -> Iterator[Server]:
    """A ds4-server on a free port, ready to serve, ended at exit."""
    command = [sys.executable, "-m", "ds4.server", "-m", str(model), "-t", str(threads), "--port", "0"]
    command += ["--backend", backend.name.lower(), "--max-seqs", "1", "-c", "8192", "--config", os.devnull]
    paths = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths})
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if match := re.search(r"ready in .*:(\d+)/v1", line):
                yield Server(process, int(match[1]))
                return
        raise Ds4Error("the server did not start: " + "".join(said))
    finally:
        process.terminate()
        process.wait(20)


class NativeLoop:
    """The engine by itself: one bank, two steps in flight, nothing looked at but the token."""

    def __init__(self, model: Path, threads: int, backend: Backend) -> None:
        self._model = NativeModel.open(bind.plan(inventory.load(model)).desc())
        self._session = NativeSession(self._model, SessionDesc(1, 8192, 512, 1, threads, backend))
        self._session.set_sampler(0, SamplerDesc())

    def generate(self, tokens: int) -> float:
        """Seconds from the first token to the last, after the same prompt."""
        session = self._session
        session.truncate(0, 0)
        last = len(_PROMPT) - 1
        rows = [Row(0, i, token, output=i == last) for i, token in enumerate(_PROMPT)]
        open_ticket, row = session.submit(rows), last
        began = 0.0
        for position in range(len(_PROMPT), len(_PROMPT) + tokens - 1):
            following = session.submit((Row(0, position, -1, row, True),))
            session.wait(open_ticket)
            began = began or time.perf_counter()
            open_ticket, row = following, 0
        session.wait(open_ticket)
        return time.perf_counter() - began

    @property
    def length(self) -> int:
        """Positions that the bank holds."""
        return self._session.length(0)

    def close(self) -> None:
        self._session.close()
        self._model.close()


def http_ratio(model: Path, threads: int, tokens: int, rounds: int) -> tuple[float, float]:
    """(tokens/s through HTTP, tokens/s of the native loop), best rounds, taken in turns so that both meet the same
    machine."""
    native = NativeLoop(model, threads, Backend.CPU)
    http: list[float] = []
    bare: list[float] = []
    try:
        with server(model, threads, Backend.CPU) as live:
            live.generate(tokens)
            for _ in range(rounds):
                bare.append(native.generate(tokens))
                http.append(live.generate(tokens))
    finally:
        native.close()
    return (tokens - 1) / min(http), (tokens - 1) / min(bare)


def null_cost(model: Path, tokens: int, rounds: int) -> tuple[float, float]:
    """(microseconds of processor time a token, tokens/s) of a server whose engine computes nothing; best round."""
    costs = []
    with server(model, 1, Backend.NULL) as live:
        live.generate(tokens)
        for _ in range(rounds):
            before = live.cpu_seconds()
            seconds = live.generate(tokens)
            costs.append(((live.cpu_seconds() - before) / tokens * 1e6, tokens / seconds))
    return min(costs)


def run(argv: Sequence[str]) -> int:
    settings = load(PROGRAM, argv)
    model = catalog.resolve(settings[MODEL], settings[MODEL_DIR])
    threads = settings[BENCH_THREADS]
    http, bare = http_ratio(model, threads, settings[TOKENS], settings[ROUNDS])
    print(f"http t={threads} ratio {http / bare:.3f}  ({http:.1f} of {bare:.1f} tok/s)", flush=True)
    cost, rate = null_cost(model, settings[NULL_TOKENS], settings[ROUNDS])
    print(f"host cpu {cost:.1f} us/token  (null engine, {rate:.0f} tok/s)")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    return guarded("host_overhead", lambda: run(sys.argv[1:] if argv is None else argv))


if __name__ == "__main__":
    sys.exit(main())
