"""The live soak: a real server with real weights under HTTP clients that talk, hang up, overflow and wait.

    ./dev gate soak --minutes 20 --clients 8 [--seed N] [--json FILE]

It passes when, over the whole run,

    failures     no request that was not hung up on ended other than as its protocol says
    banks        every bank is free again once the clients have gone
    memory       the server's anonymous memory grew by less than 1 % after the warm-up (the first quarter)
    descriptors  no more files are open than after the warm-up, once the clients have gone
    threads      there are as many as after the warm-up

Memory, descriptors and threads are compared between moments at which nothing runs: the clients pause for a breath at
the end of the warm-up, and again at the end.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from parity.registry import GateError

WARM_UP = 0.25
DRIFT_LIMIT = 1.0
BANKS, CTX = 4, 1024
CACHED_TEXTS = 4_800  # of about 900 characters: a little more than the tokenizer keeps
WORDS = "ship lamp oil wind harbour keeper storm gull ledger engine bell tide rope sail north ночь 星 🌊 rock".split()

Client = httpx.AsyncClient
Kind = Callable[[Client, random.Random], Awaitable[None]]


class Failure(Exception):
    """A request that ended other than it should have."""


@dataclass(frozen=True)
class Moment:
    """The server while nothing runs."""

    rss_anon: int
    descriptors: int
    threads: int
    busy_banks: float


@dataclass
class Report:
    """What the run saw. drift_percent: growth of anonymous memory after the warm-up."""

    minutes: float
    clients: int
    seed: int
    requests: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    warm: Moment | None = None
    end: Moment | None = None

    @property
    def drift_percent(self) -> float:
        if self.warm is None or self.end is None:
            return 0.0
        return (self.end.rss_anon - self.warm.rss_anon) / self.warm.rss_anon * 100

    def faults(self) -> list[str]:
        """What it fails by; empty when it passes."""
        faults = [f"{len(self.failures)} failed requests: {self.failures[0]}"] if self.failures else []
        if self.warm is None or self.end is None:
            return [*faults, "it ended before its warm-up"]
        if self.end.busy_banks:
            faults.append(f"{self.end.busy_banks:.0f} banks are busy with nobody there")
        if self.drift_percent >= DRIFT_LIMIT:
            faults.append(
                f"memory grew by {self.drift_percent:.2f} % ({self.warm.rss_anon} -> {self.end.rss_anon} bytes)"
            )
        if self.end.descriptors > self.warm.descriptors:
            faults.append(f"open files grew from {self.warm.descriptors} to {self.end.descriptors}")
        if self.end.threads != self.warm.threads:
            faults.append(f"threads went from {self.warm.threads} to {self.end.threads}")
        return faults


# ---- what clients do ----


def _text(chance: random.Random, words: int) -> str:
    return " ".join(chance.choices(WORDS, k=words))


def _body(chance: random.Random, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": _text(chance, chance.choice((3, 12, 40, 200)))}]
    if chance.random() < 0.3:
        messages.insert(0, {"role": "system", "content": "Answer in few words."})
    body: dict[str, Any] = {"model": "default", "messages": messages, "max_tokens": chance.randint(1, 48), **more}
    if chance.random() < 0.5:
        body |= {"temperature": chance.choice((0, 0.7, 1.3)), "seed": chance.randrange(1 << 30)}
    if chance.random() < 0.3:
        body["stop"] = [chance.choice((".", "\n", " the", "ocean"))]
    if chance.random() < 0.2:
        body |= {"logprobs": True, "top_logprobs": chance.randint(0, 5)}
    return body


def _expect(response: httpx.Response, status: int) -> Any:
    if response.status_code != status:
        raise Failure(f"expected {status}, found {response.status_code}: {response.text[:200]}")
    return response.json()


async def _buffered(client: Client, chance: random.Random) -> None:
    n = chance.choice((1, 1, 1, 2, 3))
    answer = _expect(await client.post("/v1/chat/completions", json=_body(chance, n=n)), 200)
    if len(answer["choices"]) != n or any(c["finish_reason"] not in ("stop", "length") for c in answer["choices"]):
        raise Failure(f"expected {n} finished choices, found {str(answer)[:200]}")


async def _events(response: httpx.Response) -> AsyncIterator[str]:
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield line.removeprefix("data: ")


async def _streamed(client: Client, chance: random.Random, *, hang_up: bool = False) -> None:
    body = _body(chance, stream=True, stream_options={"include_usage": True})
    seen, leave_at = 0, chance.randint(0, 12)
    last, finish, usage = "", None, None
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        if response.status_code != 200:
            raise Failure(f"expected 200, found {response.status_code}")
        async for event in _events(response):
            if hang_up and seen >= leave_at:
                return
            seen, last = seen + 1, event
            if event != "[DONE]":
                chunk = json.loads(event)
                usage = chunk.get("usage") or usage
                finish = next((c["finish_reason"] for c in chunk["choices"] if c["finish_reason"]), finish)
    if hang_up:
        return
    if last != "[DONE]" or finish not in ("stop", "length") or usage is None:
        raise Failure(f"a stream that ended with {last[:80]!r}, finish {finish}, usage {usage}")


async def _hung_up(client: Client, chance: random.Random) -> None:
    await _streamed(client, chance, hang_up=True)


async def _given_up(client: Client, chance: random.Random) -> None:
    """A buffered request whose client leaves while it waits, prefills or decodes."""
    body = _body(chance, max_tokens=200)
    try:
        await client.post("/v1/chat/completions", json=body, timeout=httpx.Timeout(chance.uniform(0.005, 0.6)))
    except httpx.TimeoutException:
        return


async def _completion(client: Client, chance: random.Random) -> None:
    body = {"model": "default", "prompt": _text(chance, chance.randint(1, 120)), "max_tokens": chance.randint(1, 32)}
    answer = _expect(await client.post("/v1/completions", json=body), 200)
    if answer["usage"]["completion_tokens"] < 1:
        raise Failure(f"no tokens: {str(answer)[:200]}")


async def _too_long(client: Client, chance: random.Random) -> None:
    body = _body(chance)
    body["messages"][-1]["content"] = _text(chance, 4000)
    error = _expect(await client.post("/v1/chat/completions", json=body), 400)["error"]
    if error["code"] != "context_length_exceeded":
        raise Failure(f"expected context_length_exceeded, found {error}")


async def _malformed(client: Client, chance: random.Random) -> None:
    body = chance.choice((b"{", b"[]", b'{"messages": 3}', b'{"messages": []}', b"\xff\xfe", b'{"max_tokens": -1}'))
    response = await client.post("/v1/chat/completions", content=body, headers={"Content-Type": "application/json"})
    _expect(response, 400)


async def _tokens(client: Client, chance: random.Random) -> None:
    text = _text(chance, chance.randint(0, 60))
    ids = _expect(await client.post("/tokenize", json={"content": text}), 200)["tokens"]
    back = _expect(await client.post("/detokenize", json={"tokens": ids}), 200)["content"]
    if back != text:
        raise Failure(f"{text!r} came back as {back!r}")


async def _conversation(client: Client, chance: random.Random) -> None:
    """Turns that build on each other, as an agent's do: each finds the last one's bank."""
    messages = [{"role": "user", "content": _text(chance, 20)}]
    for _ in range(3):
        body = {"model": "default", "messages": messages, "max_tokens": 16, "temperature": 0}
        answer = _expect(await client.post("/v1/chat/completions", json=body), 200)
        said = answer["choices"][0]["message"]["content"]
        messages += [{"role": "assistant", "content": said}, {"role": "user", "content": _text(chance, 8)}]


MIX: dict[str, tuple[Kind, int]] = {
    "buffered": (_buffered, 4),
    "streamed": (_streamed, 6),
    "hung up": (_hung_up, 4),
    "given up": (_given_up, 3),
    "completion": (_completion, 3),
    "conversation": (_conversation, 2),
    "too long": (_too_long, 1),
    "malformed": (_malformed, 2),
    "tokens": (_tokens, 2),
}


# ---- the run ----


async def _one(client: Client, chance: random.Random, until: float, report: Report) -> None:
    names, weights = list(MIX), [weight for _, weight in MIX.values()]
    while time.monotonic() < until and len(report.failures) < 20:
        name = chance.choices(names, weights)[0]
        report.requests[name] += 1
        try:
            await MIX[name][0](client, chance)
        except (Failure, httpx.HTTPError, ValueError, KeyError, IndexError) as error:
            report.failures.append(f"{name}: {type(error).__name__}: {error}")


async def _fill(base: str, report: Report) -> None:
    """Fills every bank, so that moments at rest compare: what a bank holds is the memory that it takes."""
    async with Client(base_url=base, timeout=300) as client:
        prompts = [[i + 5, *range(100, CTX + 70)] for i in range(BANKS)]
        requests = [
            client.post("/v1/completions", json={"model": "default", "prompt": p, "max_tokens": CTX - len(p)})
            for p in prompts
        ]
        for response in await asyncio.gather(*requests):
            report.requests["fill"] += 1
            if response.status_code != 200:
                report.failures.append(f"fill: {response.status_code}: {response.text[:200]}")


async def _fill_cache(base: str, chance: random.Random) -> None:
    """Fills the tokenizer's memory of texts and words: it is bounded, but large beside the drift that is looked for."""
    letters = "abcdefghijklmnopqrstuvwxyz"
    made_up = ["".join(chance.choices(letters, k=6)) for _ in range(200_000)]
    async with Client(base_url=base, timeout=60) as client:
        for _ in range(CACHED_TEXTS // 8):
            texts = [" ".join(chance.choices(made_up, k=150)) for _ in range(8)]
            await asyncio.gather(*(client.post("/tokenize", json={"content": text}) for text in texts))


async def _phase(base: str, seed: str, clients: int, until: float, report: Report) -> None:
    limits = httpx.Limits(max_keepalive_connections=1)
    async with asyncio.TaskGroup() as group:
        for i in range(clients):
            group.create_task(_client(base, random.Random(f"{seed} {i}"), limits, until, report))


async def _client(base: str, chance: random.Random, limits: httpx.Limits, until: float, report: Report) -> None:
    async with Client(base_url=base, timeout=120, limits=limits) as client:
        await _one(client, chance, until, report)


async def _busy(client: Client) -> float:
    text = (await client.get("/metrics")).text
    rows = [line for line in text.splitlines() if line.startswith("ds4_banks{")]
    if not rows:
        raise GateError("the server's metrics tell of no banks")
    return sum(float(row.rpartition(" ")[2]) for row in rows if 'state="busy"' in row)


async def _at_rest(base: str, pid: int) -> Moment:
    """The server once its clients have gone. Waits for what they left to end."""
    async with Client(base_url=base, timeout=30) as client:
        for _ in range(100):
            busy = await _busy(client)
            if busy == 0:
                break
            await asyncio.sleep(0.1)
    await asyncio.sleep(1.0)
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
    status = dict(line.split(":", 1) for line in text.splitlines())
    anon, threads = (int(status[key].split()[0]) for key in ("RssAnon", "Threads"))
    return Moment(anon * 1024, len(os.listdir(f"/proc/{pid}/fd")), threads, busy)


async def run(base: str, pid: int, minutes: float, clients: int, seed: int, say: Callable[[str], None]) -> Report:
    """The whole soak against a server that listens at `base`."""
    report = Report(minutes, clients, seed)
    start = time.monotonic()
    parts = [("warm", WARM_UP), *((f"part {i}", (1 - WARM_UP) / 3) for i in range(1, 4))]
    ends = start
    for name, share in parts:
        ends += share * minutes * 60
        await _phase(base, f"{seed} {name}", clients, ends, report)
        if name == "warm":
            await _fill_cache(base, random.Random(seed))
        await _fill(base, report)
        moment = await _at_rest(base, pid)
        if name == "warm":
            report.warm = moment
        report.end = moment
        passed = (time.monotonic() - start) / 60
        say(
            f"  {passed:5.1f} min  {sum(report.requests.values()):,} requests, {len(report.failures)} failed,"
            f" {moment.rss_anon / 1e6:.1f} MB, {moment.descriptors} files, {moment.threads} threads"
        )
        if report.failures:
            break
    return report


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


async def _ready(base: str, server: subprocess.Popen[bytes], log: Path) -> None:
    async with Client(base_url=base, timeout=5) as client:
        for _ in range(600):
            if server.poll() is not None:
                raise GateError(f"the server did not start:\n{log.read_text(errors='replace')[-2000:]}")
            try:
                if (await client.get("/ready")).status_code == 200:
                    return
            except httpx.HTTPError:
                pass
            await asyncio.sleep(0.1)
    raise GateError("the server did not get ready within a minute")


def _plain(report: Report) -> dict[str, Any]:
    """The report as JSON takes it. (asdict makes a Counter anew out of its items, and counts those.)"""
    requests = dict(report.requests)
    return {**asdict(replace(report, requests=Counter())), "requests": requests, "drift_percent": report.drift_percent}


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 when the soak passes."""
    parser = argparse.ArgumentParser(
        "./dev gate soak", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    args = parser.parse_args(arguments)
    port = _free_port()
    base = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "server.log"
        command = [sys.executable, "-m", "ds4.server", "--port", str(port), "--max-seqs", str(BANKS), "-c", str(CTX)]
        with log.open("wb") as out:
            server = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            )  # fmt: skip
        try:
            asyncio.run(_ready(base, server, log))
            print(f"soak: {args.clients} clients, {args.minutes:g} min, seed {args.seed}", file=sys.stderr, flush=True)
            report = asyncio.run(
                run(
                    base,
                    server.pid,
                    args.minutes,
                    args.clients,
                    args.seed,
                    lambda t: print(t, file=sys.stderr, flush=True),
                )
            )
            died = server.poll()
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:
                server.kill()
    faults = report.faults() + ([f"the server ended with {died}"] if died is not None else [])
    if args.json:
        args.json.write_text(json.dumps({**_plain(report), "faults": faults}, indent=2) + "\n", encoding="utf-8")
    total = sum(report.requests.values())
    print(f"{total:,} requests ({', '.join(f'{n:,} {k}' for k, n in report.requests.most_common())})")
    print(f"memory {report.drift_percent:+.2f} % after the warm-up; failures {len(report.failures)}")
    for fault in faults:
        print(f"FAULT: {fault}")
    print("the soak " + ("FAILED" if faults else "passed"))
    return int(bool(faults))
