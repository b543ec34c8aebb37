"""Traces of a real server, computed again by the command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from ds4.core.trace import decode, encode
from support.live_server import sse_data
from support.mini_server import HOST, started

CHAT = {"messages": [{"role": "user", "content": "hi"}]}


def replayed(file: Path, *more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ds4.cli", "-m", "ds4-mini", "-q", "-t", "1", "--replay", str(file), *more]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HOST), *sys.path])}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)


@pytest.mark.parametrize("numeric", ["float", "ship"])
def test_a_real_trace_replays_token_for_token_and_a_changed_one_names_the_token(numeric: str, tmp_path: Path) -> None:
    body = {**CHAT, "n": 2, "max_tokens": 24, "temperature": 1.0, "ignore_eos": True, "seed": 7, "stream": True}
    with started(numeric, "--trace", str(tmp_path)) as (_, url):
        ask = urllib.request.Request(
            f"{url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(ask, timeout=60) as answer:
            assert list(sse_data(answer.read()))[-1] == "[DONE]"
    (file,) = tmp_path.glob("*.ds4trace")
    done = replayed(file, "--numeric", numeric)
    assert (done.returncode, done.stdout) == (
        0,
        "choice 0: 24 tokens, all as recorded\nchoice 1: 24 tokens, all as recorded\n",
    ), done.stderr
    if numeric == "ship":
        return
    assert replayed(file, "--numeric", "ship").returncode == 2
    trace = decode(file.read_bytes())
    at = next(i for i, one in enumerate(trace.tokens) if one.choice == 1) + 2
    lines = encode(trace).splitlines(keepends=True)
    line = 2 + len(trace.choices) + at
    changed = json.loads(lines[line])
    index = sum(1 for one in trace.tokens[:at] if one.choice == changed["choice"])
    was = changed["token"]
    changed["token"] = (was + 1) % 256
    lines[line] = json.dumps(changed).encode() + b"\n"
    file.write_bytes(b"".join(lines))
    done = replayed(file, "--numeric", numeric)
    told = f"choice {changed['choice']}: token {index} of 24 differs: recorded {changed['token']}, drawn {was}\n"
    assert done.returncode == 1 and told in done.stdout
    at = 2 + changed["choice"]
    held = b"".join([*lines[:at], lines[at].replace(b'"held":false', b'"held":true'), *lines[at + 1 :]])
    file.write_bytes(held)
    done = replayed(file, "--numeric", numeric)
    assert done.returncode == 1 and "held to a grammar or a budget, which is not replayed" in done.stdout
    file.write_bytes(b"".join(lines[:-1]))
    done = replayed(file, "--numeric", numeric)
    assert done.returncode == 1 and "cut short" in done.stderr
