"""Holds the engine's float mode to a folder made by transformers: a checkpoint of `deepseek_v4` with frozen outputs.

    python -m parity.reference.checkpoint DIR [--type bf16]

The checkpoint is converted, then compared with what of these lies in the folder, all fp32:

    logits_*.npz      ids [T], positions [P], logits [P, vocabulary]
    ids.json          token ids; logits_N.npy [N, vocabulary] of the first N; hidden_N.npz h0.. [N, streams, width]: the
                      residual after layer i - 1 (h0: the embedding)
    samples.json      greedy answers: turns with prompt_ids and output_ids

One line a file: the largest difference, and whether the likeliest token is the same wherever the reference's two best
are more than 2e-4 apart. The exit code is 1 if a difference is above --bound, such a token differs, or an answer is
another.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from ds4.core import bind, inventory
from ds4.perf.synth.convert import convert
from ds4.perf.synth.mixes import Mix
from ds4.sys.descriptors import GgmlType, Numeric, SessionDesc, SessionFlags
from ds4.sys.native import NativeModel, NativeSession, Row, StepResult

Floats = npt.NDArray[np.float32]
ROWS = 128
APART = 2e-4  # nearer than this, either of two tokens may be the likelier one


@contextmanager
def opened(path: pathlib.Path, ctx: int, *, hidden: bool = False, **changes: Any) -> Iterator[NativeSession]:
    """A session of one bank in float mode with an F32 cache; changes: other fields of its descriptor."""
    model = NativeModel.open(bind.plan(inventory.load(path)).desc())
    fields: dict[str, Any] = {
        "n_banks": 1,
        "n_ctx": ctx,
        "max_rows": ROWS,
        "max_out": ROWS,
        "n_threads": 2,
        "numeric": Numeric.FLOAT,
        "kv_type": GgmlType.F32,
        "flags": SessionFlags.HIDDEN if hidden else SessionFlags(0),
    }
    session = NativeSession(model, SessionDesc(**(fields | changes)))
    try:
        yield session
    finally:
        session.close()
        model.close()


def steps(session: NativeSession, ids: list[int]) -> Iterator[tuple[int, int, StepResult]]:
    """Evaluates ids in bank 0 from an empty bank; yields each step's ticket, its rows and its result."""
    session.truncate(0, 0)
    for at in range(0, len(ids), ROWS):
        rows = [Row(0, at + i, token, logits=True) for i, token in enumerate(ids[at : at + ROWS])]
        ticket = session.submit(rows)
        yield ticket, len(rows), session.wait(ticket)


def logits_of(session: NativeSession, ids: list[int]) -> Floats:
    """fp32 [T, vocabulary]."""
    found = [np.asarray(result.logits(row), np.float32) for _, n, result in steps(session, ids) for row in range(n)]
    return np.stack(found)


def residuals_of(session: NativeSession, ids: list[int], points: int) -> Floats:
    """fp32 [points, T, streams * width]."""
    found = [
        [np.asarray(session.hidden(ticket, row, point), np.float32) for row in range(n)]
        for ticket, n, _ in steps(session, ids)
        for point in range(points)
    ]
    return np.stack([np.concatenate(found[point::points]) for point in range(points)])


def greedy(session: NativeSession, prompt: list[int], count: int) -> list[int]:
    """The `count` tokens that follow a prompt."""
    for _, n, result in steps(session, prompt):
        token = result.tokens[n - 1]
    out = [token]
    while len(out) < count:
        row = Row(0, len(prompt) + len(out) - 1, out[-1], output=True)
        out.append(session.wait(session.submit([row])).tokens[0])
    return out


@dataclass
class Report:
    bound: float
    failed: bool = False

    def numbers(self, name: str, found: Floats, want: Floats, *, tokens: bool) -> None:
        worst, line = float(np.abs(found - want).max()), ""
        if tokens:
            best = np.sort(want, 1)
            clear = best[:, -1] - best[:, -2] > APART
            same = found.argmax(1) == want.argmax(1)
            line = f", likeliest token the same at {np.count_nonzero(same)} of {len(want)}"
            if (~same & clear).any():
                line += f", {np.count_nonzero(~same & clear)} of them clear"
                self.failed = True
        self.failed |= not worst <= self.bound
        print(f"{name}: {len(want)} positions, max-abs {worst:.2e}{line}", flush=True)


def compare(folder: pathlib.Path, path: pathlib.Path, report: Report) -> None:
    """path: the converted checkpoint."""
    for file in sorted(folder.glob("logits_*.npz")):
        with np.load(file) as z, opened(path, len(z["ids"])) as session:
            found = logits_of(session, z["ids"].tolist())[z["positions"]]
            report.numbers(file.name, found, z["logits"], tokens=True)
    for file in sorted(folder.glob("logits_*.npy")):
        want = np.load(file)
        with opened(path, len(want)) as session:
            report.numbers(file.name, logits_of(session, _ids(folder, len(want))), want, tokens=True)
    for file in sorted(folder.glob("hidden_*.npz")):
        with np.load(file) as z:
            streams = [z[f"h{i}"] for i in range(len(z.files)) if z[f"h{i}"].ndim == 3]
        with opened(path, len(streams[0]), hidden=True) as session:
            found = residuals_of(session, _ids(folder, len(streams[0])), len(streams))
        for point, want in enumerate(streams):
            report.numbers(f"{file.name} h{point}", found[point], want.reshape(len(want), -1), tokens=False)
    if (folder / "samples.json").is_file():
        _answers(folder / "samples.json", path, report)


def _answers(file: pathlib.Path, path: pathlib.Path, report: Report) -> None:
    turns = [turn for sample in json.loads(file.read_text(encoding="utf-8")) for turn in sample["turns"]]
    right = 0
    with opened(path, max(len(turn["prompt_ids"]) + len(turn["output_ids"]) for turn in turns)) as session:
        for turn in turns:
            right += greedy(session, turn["prompt_ids"], len(turn["output_ids"])) == turn["output_ids"]
    report.failed |= right < len(turns)
    print(f"{file.name}: {right} of {len(turns)} answers token for token")


def _ids(folder: pathlib.Path, count: int) -> list[int]:
    ids = json.loads((folder / "ids.json").read_text(encoding="utf-8"))
    return [int(token) for token in (ids if isinstance(ids, list) else next(iter(ids.values())))][:count]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--type", default="bf16", help="how the weights are stored: bf16 is what checkpoints have")
    parser.add_argument("--bound", type=float, default=2e-4, help="largest difference that passes")
    args = parser.parse_args()
    report = Report(args.bound)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.gguf")
        convert(args.folder, path, Mix.of(args.type, ()), name="model")
        compare(args.folder, path, report)
    return int(report.failed)


if __name__ == "__main__":
    sys.exit(main())
