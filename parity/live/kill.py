"""The kill: a server with a state directory is killed at random moments, and the next one must serve from it.

    ./dev gate kill --times 100 [--seed N]

Clients write kept responses all the while. After each kill a new server starts on the same directory, and

    serves    it gets ready and answers
    keeps     every response whose end a client had read before the kill can be retrieved, with the same text, and be
              built upon
    is whole  the database passes SQLite's own check of its integrity, and nothing in it still counts as running
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import random
import sqlite3
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from parity.live.process import Failure, LiveServer, start
from parity.live.streams import SURFACES, listen

CLIENTS = 3


@dataclass
class Report:
    """kept: text of every response that a client has read to its end, by id."""

    kept: dict[str, str] = field(default_factory=dict)
    kills: int = 0
    cut: int = 0
    failures: list[str] = field(default_factory=list)


def _text(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] for part in item.get("content", []) if "text" in part)


async def _write(client: httpx.AsyncClient, chance: random.Random, report: Report) -> None:
    """One kept response after the other, streamed or not, half of them built upon an earlier one."""
    while True:
        body: dict[str, Any] = {"model": "any", "input": f"Say {chance.randrange(10**6)}.", "max_output_tokens": 6}
        if report.kept and chance.random() < 0.5:
            body["previous_response_id"] = chance.choice(list(report.kept)[-20:])
        try:
            if chance.random() < 0.5:
                heard = await listen(client, "/v1/responses", body)
                SURFACES["responses"].check(heard)
                response = heard.events[-1]["response"]
            else:
                answer = await client.post("/v1/responses", json=body)
                if answer.status_code != 200:
                    raise Failure(f"expected 200, found {answer.status_code}: {answer.text[:200]}")
                response = answer.json()
        except (httpx.HTTPError, ValueError):
            report.cut += 1  # by the kill
            return
        report.kept[response["id"]] = _text(response)


async def _until_killed(server: LiveServer, chance: random.Random, report: Report) -> None:
    """Writes until the server is killed, somewhere in the next second; sometimes while it still loads."""
    delay = chance.choice((chance.uniform(0, 0.3), chance.uniform(0.3, 1.5)))

    async def kill() -> None:
        await asyncio.sleep(delay)
        server.kill()

    async with httpx.AsyncClient(base_url=server.base, timeout=30) as client:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(kill())
                for i in range(CLIENTS):
                    group.create_task(_write(client, random.Random(chance.random() + i), report))
        except* Failure as failed:
            report.failures += [str(f) for f in failed.exceptions]
    report.kills += 1


def _check_file(path: Path, report: Report) -> None:
    """The database as the kill left it, after SQLite's own recovery."""
    with contextlib.closing(sqlite3.connect(path)) as db:
        (verdict,) = db.execute("PRAGMA integrity_check").fetchone()
        broken = db.execute("PRAGMA foreign_key_check").fetchall()
    if verdict != "ok" or broken:
        report.failures.append(f"the store is damaged: {verdict} {broken[:3]}")


def _check_kept(server: LiveServer, chance: random.Random, report: Report) -> None:
    sample = list(report.kept)[-8:] + chance.sample(list(report.kept), min(4, len(report.kept)))
    with httpx.Client(base_url=server.base, timeout=60) as client:
        for id in dict.fromkeys(sample):
            answer = client.get(f"/v1/responses/{id}")
            if answer.status_code != 200 or _text(answer.json()) != report.kept[id]:
                report.failures.append(f"{id}: {answer.status_code}: {answer.text[:200]}")
        body: dict[str, Any] = {"model": "any", "input": "Go on.", "max_output_tokens": 2}
        if report.kept:
            body["previous_response_id"] = next(reversed(report.kept))
        answer = client.post("/v1/responses", json=body)
        if answer.status_code != 200:
            report.failures.append(f"building upon a kept response: {answer.status_code}: {answer.text[:200]}")


def run(folder: Path, times: int, seed: int) -> Report:
    """Kills a server `times` times. folder: where its state and its log lie."""
    chance, report = random.Random(seed), Report()
    state, log = folder / "state", folder / "server.log"
    options = ["--state-dir", str(state), "--max-seqs", "4", "-c", "1024"]
    for number in range(times + 1):
        server = start(options, log)
        try:
            if number == times or chance.random() < 0.9:
                server.wait_ready()
                _check_kept(server, chance, report)
            if number < times and not report.failures:
                asyncio.run(_until_killed(server, chance, report))
        finally:
            server.kill()
        if report.failures:
            break
        if (state / "responses.sqlite3").exists():
            _check_file(state / "responses.sqlite3", report)
        if number % 10 == 9:
            print(f"  {number + 1} kills, {len(report.kept)} kept, {report.cut} cut", file=sys.stderr, flush=True)
    return report


def main(arguments: Sequence[str]) -> int:
    """Exit status 0 when every start after a kill served what had been kept."""
    parser = argparse.ArgumentParser(
        "./dev gate kill", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--times", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        report = run(Path(folder), args.times, args.seed)
    print(f"{report.kills} kills: {len(report.kept)} responses kept, {report.cut} requests cut")
    for failure in report.failures[:10]:
        print(f"FAULT: {failure}")
    print("the kills " + ("FAILED" if report.failures else "passed"))
    return int(bool(report.failures))
