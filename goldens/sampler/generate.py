"""Writes transformers/chains.jsonl: what transformers' logits processors leave of a row, and what is drawn of it.

    python goldens/sampler/generate.py

The repetition penalty and the filters are transformers' own (RepetitionPenalty, Temperature, TopK, TopP, MinP), the
filters on float64 so that their rounding decides nothing; frequency and presence are the OpenAI formula in float32;
log-probabilities are torch's log_softmax. What is left is drawn from by rising id with numpy. A case in which a filter
or the draw would be decided by less than one part in 10^7 is drawn again: ties are in ../worked, by hand.
"""

from __future__ import annotations

import json
import pathlib
import struct
from collections import Counter
from typing import Any

import numpy as np
import torch
from transformers.generation.logits_process import (
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

HERE = pathlib.Path(__file__).parent / "transformers"
CLEAR = 1e-7
KINDS = (
    "greedy",
    "plain",
    "top_k",
    "top_p",
    "min_p",
    "all filters",
    "penalties",
    "penalties and filters",
    "bias and mask",
    "everything",
)


def h32(value: float) -> str:
    return struct.pack(">f", value).hex()


def f32(value: float) -> float:
    return float(np.float32(value))


class Settings:
    """One case's settings, off unless its kind asks for them."""

    def __init__(self, rng: np.random.Generator, kind: str, n: int) -> None:
        everything = kind == "everything"
        filters = everything or "filters" in kind
        penalties = everything or "penalties" in kind
        pick = rng.choice
        self.temperature = 0.0 if kind == "greedy" else f32(pick([0.2, 0.7, 1.0, 1.3]))
        self.top_k = int(rng.integers(1, n)) if filters or kind == "top_k" else 0
        self.top_p = f32(pick([0.3, 0.8, 0.95])) if filters or kind == "top_p" else 1.0
        self.min_p = f32(pick([0.02, 0.1, 0.4])) if filters or kind == "min_p" else 0.0
        self.repetition = f32(pick([1.1, 1.5, 0.8])) if penalties else 1.0
        self.frequency = f32(pick([0.3, -0.4, 1.0])) if penalties else 0.0
        self.presence = f32(pick([0.2, -0.6, 1.5])) if penalties else 0.0
        edited = everything or kind == "bias and mask"
        ids = sorted(rng.choice(n, size=min(3, n), replace=False).tolist()) if edited else []
        self.bias = {int(i): f32(rng.normal() * 3) for i in ids}
        self.allowed = rng.random(n) < 0.6 if edited else None
        if self.allowed is not None and not self.allowed.any():
            self.allowed[0] = True
        self.history = rng.integers(0, n, size=int(rng.integers(0, 12))).tolist() if penalties else []
        self.n_prompt = int(rng.integers(0, len(self.history) + 1))
        self.uniform = float(rng.random())
        self.top = int(pick([0, 3, 20]))


def scores(s: Settings, logits: np.ndarray) -> torch.Tensor:
    """Bias, mask and penalties, float32 as the engine keeps them."""
    out = logits.copy()
    for token, value in s.bias.items():
        out[token] += np.float32(value)
    if s.allowed is not None:
        out[~s.allowed] = -np.inf
    row = torch.from_numpy(out)[None]
    if s.history and s.repetition != 1.0:
        row = RepetitionPenaltyLogitsProcessor(penalty=s.repetition)(torch.tensor([s.history]), row)
    out = row[0].numpy().copy()
    for token, times in Counter(s.history[s.n_prompt :]).items():
        out[token] -= np.float32(times) * np.float32(s.frequency) + np.float32(s.presence)
    return torch.from_numpy(out.astype(np.float64))[None]


def clear(s: Settings, row: torch.Tensor) -> bool:
    """Whether top_p and min_p are decided by more than CLEAR, each on what the filters before it leave."""
    none: Any = torch.zeros((1, 0), dtype=torch.long)
    if s.top_k:
        row = TopKLogitsWarper(s.top_k)(none, row)
    p = torch.softmax(row, -1)[0].numpy()
    p = np.sort(p[p > 0])[::-1]
    if s.top_p < 1 and np.abs(np.cumsum(p) - s.top_p).min() < CLEAR:
        return False
    return not (s.min_p > 0 and np.abs(p / p[0] - s.min_p).min() < CLEAR)


def draw(s: Settings, row: torch.Tensor) -> int | None:
    """The token, or None where the case is too close to call."""
    if s.temperature == 0:
        return int(row.argmax())
    none: Any = torch.zeros((1, 0), dtype=torch.long)
    row = TemperatureLogitsWarper(s.temperature)(none, row)
    if not clear(s, row):
        return None
    if s.top_k:
        row = TopKLogitsWarper(s.top_k)(none, row)
    if s.top_p < 1:
        row = TopPLogitsWarper(s.top_p)(none, row)
    if s.min_p > 0:
        row = MinPLogitsWarper(s.min_p)(none, row)
    ends = np.cumsum(torch.softmax(row, -1)[0].numpy())
    if np.abs(ends - s.uniform).min() < CLEAR:
        return None
    return int(np.searchsorted(ends, s.uniform * ends[-1], side="right"))


def tape(s: Settings, logits: np.ndarray) -> str:
    settings = [h32(s.temperature), str(s.top_k), *map(h32, (s.top_p, s.min_p, s.repetition, s.frequency, s.presence))]
    return "".join(" ".join(words) + "\n" for words in (
        ["sampler", *settings], ["uniform", struct.pack(">d", s.uniform).hex()], ["logits", *map(h32, logits)],
        ["bias", *[f"{token} {h32(value)}" for token, value in s.bias.items()]],
        ["mask", "all" if s.allowed is None else "".join("01"[int(a)] for a in s.allowed)],
        ["history", str(s.n_prompt), *map(str, s.history)], ["top", str(s.top)],
    ))  # fmt: skip


def output(s: Settings, logits: np.ndarray, token: int) -> str:
    text = f"token {token}\n"
    if s.top:
        logprobs = torch.log_softmax(torch.from_numpy(logits.astype(np.float64)), -1).numpy()
        order = np.argsort(-logits, kind="stable")[: s.top]
        text += f"logprob {h32(logprobs[token])}\ntop {' '.join(f'{i}:{h32(logprobs[i])}' for i in order)}\n"
    return text


def main() -> None:
    rng = np.random.default_rng(20261129)
    rows = []
    for number in range(300):
        kind = KINDS[number % len(KINDS)]
        token = None
        while token is None:
            n = int(rng.choice([2, 5, 17, 60, 200], p=[0.1, 0.2, 0.3, 0.3, 0.1]))
            logits = (rng.normal(size=n) * rng.choice([1, 3, 10])).astype(np.float32)
            s = Settings(rng, kind, n)
            token = draw(s, scores(s, logits))
        row = {"case": f"{kind}, {number:03}", "input": tape(s, logits), "expected": output(s, logits, token)}
        rows.append(json.dumps(row) + "\n")
    (HERE / "chains.jsonl").write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
