"""Clients that other people write: their packages, Node, and the servers that they are tried on.

DS4_NODE names Node's program and DS4_NODE_MODULES the folder that `clients/package-lock.json` was laid out in; without
them these tests are skipped (Bazel always sets them).
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support import embedded, recorded_server, tool_model
from support.messages_events import MessageStream
from support.recorded_server import Recorded
from support.recorder import Exchange
from support.responses_automaton import check, parse
from support.script import Rule

VARIABLES = ("DS4_NODE", "DS4_NODE_MODULES")
needed = pytest.mark.skipif(
    any(name not in os.environ for name in VARIABLES), reason=f"{' and '.join(VARIABLES)} are not both set"
)


def node() -> str:
    return os.path.abspath(os.environ["DS4_NODE"])


def modules() -> Path:
    return Path(os.environ["DS4_NODE_MODULES"]).absolute()


@dataclass(frozen=True)
class Done:
    returncode: int
    out: str
    err: str


def run(command: Sequence[str], folder: Path, seconds: float, input: str = "", **env: str) -> Done:
    """A client to its end, in a home of its own; past its time it is killed with all that it started, and that is an
    AssertionError."""
    home = folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    environment = {"HOME": str(home), "PATH": os.environ.get("PATH", os.defpath), "TMPDIR": str(folder), "TERM": "dumb"}
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**environment, "NO_PROXY": "*", "no_proxy": "*", **env},
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate(input, timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError(f"{command[0]} was not done after {seconds} s: {out[-2000:]} {err[-2000:]}") from None
    return Done(process.returncode, out, err)


def lay_out(scripts: Path, folder: Path) -> None:
    """Our scripts beside the packages, which is where Node looks for them."""
    for file in scripts.glob("*.mjs"):
        shutil.copy(file, folder)
    (folder / "node_modules").symlink_to(modules())


def run_script(name: str, folder: Path, url: str, tokens: int, cases: Sequence[str]) -> dict[str, Any]:
    """What the cases of a script of ours found: {case: {"result": ...} or {"error": ...}}."""
    asked = json.dumps({"url": url, "model": "any", "tokens": tokens, "cases": list(cases)})
    done = run([node(), f"{name}.mjs"], folder, 30 + 10 * len(cases), asked)
    assert done.returncode == 0, f"{name}.mjs failed: {done.err[-3000:]}"
    found: dict[str, Any] = json.loads(done.out)
    return found


# ---- what they are tried on ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def hermes(home: Path, rules: Sequence[Rule]) -> Iterator[Recorded]:
    """A script behind a Jinja template whose tools are called in Hermes' way."""
    model = str(tool_model.write(home / "scripted.gguf"))
    with recorded_server.started(home, rules, "-m", model, "-c", str(tool_model.CONTEXT), "--max-seqs", "2") as server:
        yield server


@contextlib.contextmanager
def deepseek(home: Path, rules: Sequence[Rule] | None, *more: str) -> Iterator[Recorded]:
    """A script behind DeepSeek's own encoding, with the vocabulary of ds4-mini; or ds4-mini itself."""
    if "DS4_MINI_MODEL" not in os.environ:
        pytest.skip("DS4_MINI_MODEL names no model")
    model = str(embedded.mini())
    with recorded_server.started(home, rules, "-m", model, "-t", "2", "--max-seqs", "3", *more) as server:
        yield server


@contextlib.contextmanager
def smollm2(home: Path) -> Iterator[Recorded]:
    """The embedded model itself."""
    if "DS4_EMBEDDED_MODEL" not in os.environ:
        pytest.skip("DS4_EMBEDDED_MODEL names no model")
    model = os.path.abspath(embedded.path())
    with recorded_server.started(home, None, "-m", model, "-c", "2048", "-t", "2", "--max-seqs", "2") as server:
        yield server


# ---- what the server has to have sent --------------------------------------------------------------------------------


def well_formed(exchange: Exchange) -> None:
    """The answer was given to its end, and is by its surface's rules what an answer may be."""
    what = f"{exchange.method} {exchange.path}: {exchange.status} {exchange.answer[-300:]}"
    assert exchange.status == 200 and exchange.whole, what
    if not exchange.streamed:
        json.loads(exchange.answer)
    elif exchange.path.endswith("/messages"):
        stream = MessageStream()
        stream.feed(exchange.answer.encode())
        stream.end()
        assert stream.error is None, what
    elif exchange.path.endswith("/responses"):
        assert check(parse(exchange.answer.encode()))["status"] in ("completed", "incomplete"), what
    else:
        _chat(exchange.answer)


def _chat(answer: str) -> None:
    """Chunks of one id; a role first; nothing behind a choice's finish but usage; [DONE] last."""
    lines = [part.removeprefix("data: ") for part in answer.split("\n\n") if part and not part.startswith(":")]
    assert lines[-1] == "[DONE]", lines[-1]
    chunks = [json.loads(line) for line in lines[:-1]]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert not any("error" in chunk for chunk in chunks)
    told = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert told[0]["delta"]["role"] == "assistant"
    assert [choice["finish_reason"] is not None for choice in told] == [False] * (len(told) - 1) + [True]


def settled(server: Recorded) -> None:
    """Nothing runs or waits any more."""
    for name in ("ds4_requests_running", "ds4_requests_waiting"):
        assert server.metric(name) == 0, name
