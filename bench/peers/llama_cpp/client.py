"""A closed-loop HTTP load client for OpenAI-style completion servers, on asyncio streams alone."""

from __future__ import annotations

import asyncio
import json
import pathlib
import random
import re
import statistics
import time
from dataclasses import dataclass, field

_WORDS = (
    "ship lamp oil wind harbour keeper storm gull ledger engine bell tide rope sail north night star rock sea light"
).split()


@dataclass
class Load:
    """What one closed-loop run saw. Rates are over the whole run, in tokens per second; times in seconds."""

    ttfts: list[float] = field(default_factory=list)
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0

    @property
    def ttft(self) -> float:
        return statistics.median(self.ttfts)

    @property
    def total_rate(self) -> float:
        return (self.tokens_in + self.tokens_out) / self.seconds

    @property
    def out_rate(self) -> float:
        return self.tokens_out / self.seconds


async def ready(port: int) -> bool:
    """Whether a server takes requests: ours says so at /ready; llama-server, which has no such path, at /health."""
    status = await _status(port, "/ready")
    return b" 200 " in status or (b" 404 " in status and b" 200 " in await _status(port, "/health"))


async def _status(port: int, path: str) -> bytes:
    """The first line of an answer; empty if nobody listens."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        status = await reader.readline()
        writer.close()
    except OSError:
        return b""
    return status


def prompt(seed: int, words: int) -> str:
    """About one token a word, different from the first word on for each seed."""
    rng = random.Random(seed)
    return " ".join(rng.choice(_WORDS) for _ in range(words))


async def _request(port: int, text: str | list[int], out: int, result: Load) -> None:
    body = json.dumps(
        {
            "model": "any",
            "prompt": text,
            "max_tokens": out,
            "temperature": 0,
            "ignore_eos": True,
            "stream": True,
            "cache_prompt": False,
            "stream_options": {"include_usage": True},
        }
    ).encode()
    start = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    first = True
    usage = None
    while line := await reader.readline():
        if not line.startswith(b"data: ") or line.startswith(b"data: [DONE]"):
            continue
        if first:
            result.ttfts.append(time.perf_counter() - start)
            first = False
        if b'"usage"' in line:
            usage = json.loads(line[6:]).get("usage") or usage
    writer.close()
    if usage is None or usage["completion_tokens"] != out:
        raise RuntimeError(f"a request ended with usage {usage}, not with {out} tokens")
    result.tokens_in += usage["prompt_tokens"]
    result.tokens_out += usage["completion_tokens"]


async def load(port: int, *, clients: int, requests: int, out: int, words: int = 90) -> Load:
    """`requests` requests, `clients` at a time, each with its own prompt of about `words` tokens."""
    result = Load()
    waiting = iter(range(requests))
    start = time.perf_counter()

    async def one() -> None:
        for seed in waiting:
            await _request(port, prompt(seed, words), out, result)

    await asyncio.gather(*(one() for _ in range(clients)))
    result.seconds = time.perf_counter() - start
    return result


async def fill(port: int, *, clients: int, prompt_tokens: int, out: int) -> None:
    """One long request on each of `clients` banks at once."""
    result = Load()
    ids = [[1000 + (7 * i + 13 * j) % 40000 for j in range(prompt_tokens)] for i in range(clients)]
    await asyncio.gather(*(_request(port, prompt_ids, out, result) for prompt_ids in ids))


def mapped_mb(pid: int, suffix: str) -> float:
    """MB resident of a process's mappings of files whose name ends in `suffix`."""
    total = 0
    counted = False
    for row in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", row):
            counted = row.endswith(suffix)
        elif counted and row.startswith("Rss:"):
            total += int(row.split()[1])
    return total / 1024
