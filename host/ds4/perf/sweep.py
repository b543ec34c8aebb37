"""The sweep: at each frontier of the context, the speed of the prefill that reached it and of decoding from there.

A row measures only what is new: the prefill of the suffix since the frontier before. After decoding, a snapshot taken
at the frontier brings the bank back, so that the next prefill goes on from there.

    column          unit     meaning
    ctx_tokens      tokens   the frontier
    prefill_tokens  tokens   computed to get here from the frontier before
    prefill_tps     tok/s    their rate
    gen_tokens      tokens   decoded from here
    gen_tps         tok/s    their rate
    gen_tps_ss      tok/s    the same without the first token: the steady state
    first_token_sec s        the first decode step, after the prefill; not a request's time to first token
    kvcache_bytes   bytes    size of the snapshot at the frontier
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from ds4.core.direct import Drawn, Lane
from ds4.errors import SettingsError
from ds4.sys.native import NativeSession


@dataclass(frozen=True)
class Frontier:
    """A row of the table; rates are 0 where nothing was measured."""

    ctx_tokens: int
    prefill_tokens: int
    prefill_tps: float
    gen_tokens: int
    gen_tps: float
    gen_tps_ss: float
    first_token_sec: float
    kvcache_bytes: int

    def csv(self) -> str:
        cells = (f"{v:.2f}" if isinstance(v, float) else str(v) for v in astuple(self))
        row = dict(zip(COLUMNS, cells, strict=True)) | {"first_token_sec": f"{self.first_token_sec:.4f}"}
        return ",".join(row.values())


COLUMNS = tuple(field.name for field in fields(Frontier))


def frontiers(start: int, most: int, increment: int, factor: float) -> list[int]:
    """start, then each time the frontier times factor plus increment, up to most; most itself is always one.

    Raises SettingsError for steps that do not advance.
    """
    if start > most:
        raise SettingsError("lies past --ctx-max", subject="--ctx-start", expected=f"at most {most}", found=start)
    found = [start]
    while found[-1] < most:
        following = int(found[-1] * factor) + increment
        if following <= found[-1]:
            raise SettingsError("the frontiers do not advance", subject="--step-incr and --step-mul")
        found.append(min(following, most))
    return found


def sweep(
    session: NativeSession, ids: Sequence[int], stops: Sequence[int], generate: int, dump: FrontierDump | None = None
) -> Iterator[Frontier]:
    """A row for each of `stops`, rising. ids: at least the last of them. generate: tokens decoded at each; may be 0."""
    lane = Lane(session)
    at = 0
    for stop in stops:
        start = time.perf_counter()
        drawn = lane.prefill(ids[at:stop], logits=dump is not None)
        prefill_s = time.perf_counter() - start
        if dump is not None:
            dump.write(stop, stop - at, drawn)
        snapshot = session.snapshot(0)
        first, total = _decode(lane, drawn.token, generate)
        yield Frontier(
            ctx_tokens=stop,
            prefill_tokens=stop - at,
            prefill_tps=(stop - at) / prefill_s,
            gen_tokens=generate,
            gen_tps=generate / total if generate else 0.0,
            gen_tps_ss=(generate - 1) / (total - first) if generate > 1 else 0.0,
            first_token_sec=first,
            kvcache_bytes=snapshot.nbytes,
        )
        session.restore(0, snapshot)
        snapshot.close()
        at = stop


def _decode(lane: Lane, token: int, count: int) -> tuple[float, float]:
    """Seconds until the first of `count` tokens was known and until the last was."""
    if count == 0:
        return 0.0, 0.0
    stamps: list[float] = []
    start = time.perf_counter()
    lane.decode(token, count, lambda _: stamps.append(time.perf_counter()))
    return stamps[0] - start, stamps[-1] - start


@dataclass(frozen=True)
class FrontierDump:
    """Writes `frontier_NNNNNN.logits.json` for each frontier. about: what every file says of the run."""

    folder: Path
    about: dict[str, Any]

    def write(self, frontier: int, prefilled: int, drawn: Drawn) -> None:
        logits = drawn.logits().tolist()
        best = max(range(len(logits)), key=lambda token: (logits[token], -token))
        value = {
            "source": "ds4-bench",
            **self.about,
            "frontier": frontier,
            "prefill_tokens": prefilled,
            "vocab": len(logits),
            "argmax_id": best,
            "argmax_logit": logits[best],
            "logits": logits,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / f"frontier_{frontier:06d}.logits.json").write_text(json.dumps(value) + "\n", encoding="utf-8")
