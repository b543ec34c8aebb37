"""The load: many streams at once, some of whose clients leave or read slowly, on one real server.

    ./dev gate load --minutes 10 --streams 64 [--banks 16] [--seed N] [--json FILE]

It passes when

    failures  every stream that was not left ended as its protocol says, the slow reader's too
    gaps      while a prompt of 2,048 tokens is computed, the 99th percentile of the time between two events of the
              streams that decode is at most 3 times their median without it
    banks     every bank is free again once the clients have gone

The gaps are measured first, on a server that does nothing else: eight streams decode, prompts come one at a time.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from parity.live.process import Failure, LiveServer, Moment, serving
from parity.live.streams import SURFACES, HangUp, listen

GAP_LIMIT = 3.0
GAP_STREAMS = 8
LONG_PROMPT = 2048
PROSE = "The keeper of the lighthouse wrote in his book every night what the sea had been like, and he began"
GREEDY: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
"""English, the likeliest: a token an event. A character that takes several tokens comes as one event, whatever the
server's schedule, and would count as a gap of several steps."""
LEAVE = 0.2
"""Share of the clients that hang up somewhere in their stream."""
WORDS = "ship lamp oil wind harbour keeper storm gull ledger engine bell tide rope sail north ночь 星 🌊 rock".split()


@dataclass
class Report:
    """gap_median, gap_p99: seconds, without and beside a long prompt. cpu_us: server's CPU per token of the load."""

    streams: int
    seed: int
    ended: Counter[str] = field(default_factory=Counter)
    left: int = 0
    tokens: int = 0
    slow: int = 0
    failures: list[str] = field(default_factory=list)
    gap_median: float = 0.0
    gap_p99: float = 0.0
    load_gap_median: float = 0.0
    load_gap_p99: float = 0.0
    cpu_us: float = 0.0
    end: Moment | None = None

    @property
    def gap_ratio(self) -> float:
        return self.gap_p99 / self.gap_median if self.gap_median else float("inf")

    def faults(self) -> list[str]:
        """What it fails by; empty when it passes."""
        faults = [f"{len(self.failures)} failed streams: {self.failures[0]}"] if self.failures else []
        if self.gap_ratio > GAP_LIMIT:
            faults.append(
                f"the p99 gap beside a long prompt is {self.gap_ratio:.2f} times the median (limit {GAP_LIMIT})"
            )
        if not self.slow:
            faults.append("no slow reader came to its end")
        if self.end is None:
            return [*faults, "it ended before its end"]
        if self.end.busy_banks:
            faults.append(f"{self.end.busy_banks:.0f} banks are busy with nobody there")
        return faults


def _client(server: LiveServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.base, timeout=600, limits=httpx.Limits(max_connections=None))


# ---- gaps ----


async def _gaps(server: LiveServer, rounds: int, report: Report) -> None:
    """Streams decode all the while; prompts are computed beside them, with as long a rest between as each took."""
    quiet: list[float] = []
    beside: list[float] = []
    async with _client(server) as client:
        for number in range(rounds):
            spans: list[tuple[float, float]] = []
            bodies = [
                {"model": "any", "prompt": f"{WORDS[i]} {number}: {PROSE}", "max_tokens": 500, **GREEDY}
                for i in range(GAP_STREAMS)
            ]
            streams = [asyncio.create_task(listen(client, "/v1/completions", body)) for body in bodies]
            await asyncio.sleep(1.5)
            began = time.perf_counter()
            prompt = [1000 + (7 * i + 13 * number) % 40000 for i in range(LONG_PROMPT)]
            long = {"model": "any", "prompt": prompt, "max_tokens": 1, "cache_prompt": False}
            (await client.post("/v1/completions", json=long)).raise_for_status()
            spans.append((began, time.perf_counter()))
            for heard in await asyncio.gather(*streams):
                times = heard.times[1:-1]  # the first came with the prompt, the last is the end's
                for a, b in zip(times, times[1:], strict=False):
                    overlaps = any(a < end and b > start for start, end in spans)
                    (beside if overlaps else quiet).append(b - a)
    if len(beside) < 100 or len(quiet) < 100:
        raise Failure(f"too few gaps to judge: {len(quiet)} without a long prompt, {len(beside)} beside one")
    report.gap_median = statistics.median(quiet)
    report.gap_p99 = statistics.quantiles(beside, n=100)[98]


# ---- load ----


async def _stream(client: httpx.AsyncClient, chance: random.Random, report: Report, gaps: list[float]) -> None:
    name = chance.choice(list(SURFACES))
    surface = SURFACES[name]
    leave_at = chance.randint(0, 20) if chance.random() < LEAVE else None

    def on_event(count: int) -> None:
        if leave_at is not None and count >= leave_at:
            raise HangUp

    text = " ".join(chance.choices(WORDS, k=chance.choice((3, 12, 40, 160))))
    try:
        heard = await listen(client, surface.path, surface.body(text, chance.randint(8, 64)), on_event=on_event)
    except HangUp:
        report.left += 1
        return
    report.tokens += surface.check(heard)
    report.ended[name] += 1
    gaps += heard.gaps[1:]


async def _worker(server: LiveServer, chance: random.Random, until: float, report: Report, gaps: list[float]) -> None:
    async with _client(server) as client:
        while time.monotonic() < until and len(report.failures) < 20:
            try:
                await _stream(client, chance, report, gaps)
            except (Failure, httpx.HTTPError, ValueError, KeyError) as error:
                report.failures.append(f"{type(error).__name__}: {error}")


async def _slow_reader(server: LiveServer, until: float, report: Report) -> None:
    """Takes an event, sleeps, and must get the whole of its answer all the same."""
    surface = SURFACES["chat"]
    async with _client(server) as client:
        while True:
            try:
                heard = await listen(
                    client,
                    surface.path,
                    {**surface.body("Tell me about the sea.", 48), "ignore_eos": True},
                    on_event=lambda count: asyncio.sleep(0.25),
                )
                report.tokens += surface.check(heard)
                report.slow += 1
            except (Failure, httpx.HTTPError, ValueError, KeyError) as error:
                report.failures.append(f"slow reader: {type(error).__name__}: {error}")
            if time.monotonic() >= until:
                return


async def run(server: LiveServer, minutes: float, streams: int, rounds: int, seed: int) -> Report:
    """The whole load against a server that is ready and has nothing else to do."""
    report = Report(streams, seed)
    await _gaps(server, rounds, report)
    say(f"  gaps: median {report.gap_median * 1e3:.1f} ms, p99 beside a long prompt {report.gap_p99 * 1e3:.1f} ms")
    until = time.monotonic() + minutes * 60
    gaps: list[float] = []
    cpu = server.cpu_seconds()
    async with asyncio.TaskGroup() as group:
        group.create_task(_slow_reader(server, until, report))
        for i in range(streams):
            group.create_task(_worker(server, random.Random(f"{seed} {i}"), until, report, gaps))
    report.cpu_us = (server.cpu_seconds() - cpu) / max(1, report.tokens) * 1e6
    if len(gaps) > 100:
        report.load_gap_median, report.load_gap_p99 = statistics.median(gaps), statistics.quantiles(gaps, n=100)[98]
    report.end = await server.at_rest()
    return report


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _plain(report: Report) -> dict[str, Any]:
    return {**vars(report), "ended": dict(report.ended), "end": None if report.end is None else vars(report.end)}


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 when the load passes."""
    parser = argparse.ArgumentParser(
        "./dev gate load", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--streams", type=int, default=64)
    parser.add_argument("--banks", type=int, default=16, help="answers that the server generates at once")
    parser.add_argument("--rounds", type=int, default=5, help="long prompts that the gaps are measured beside")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the report there")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        options = ["--max-seqs", str(args.banks), "-c", "2304"]
        with serving(options, Path(folder) / "server.log") as server:
            say(f"load: {args.streams} streams, {args.banks} banks, {args.minutes:g} min, seed {args.seed}")
            report = asyncio.run(run(server, args.minutes, args.streams, args.rounds, args.seed))
            died = server.process.poll()
    faults = report.faults() + ([f"the server ended with {died}"] if died is not None else [])
    if args.json:
        args.json.write_text(json.dumps({**_plain(report), "faults": faults}, indent=2) + "\n", encoding="utf-8")
    print(f"{report.ended.total():,} streams ended, {report.left:,} were left, {len(report.failures)} failed")
    print(
        f"gap beside a long prompt: p99 {report.gap_p99 * 1e3:.1f} ms, {report.gap_ratio:.2f} times the median;"
        f" under load: median {report.load_gap_median * 1e3:.1f} ms, p99 {report.load_gap_p99 * 1e3:.1f} ms"
    )
    print(f"{report.tokens:,} tokens, {report.cpu_us:.0f} us of the server's CPU for each (engine and host)")
    for fault in faults:
        print(f"FAULT: {fault}")
    print("the load " + ("FAILED" if faults else "passed"))
    return int(bool(faults))
