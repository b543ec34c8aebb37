"""Distance of an engine's logits from frozen ones of transformers, and how those are frozen (goldens/logits_*)."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

GOLDENS = pathlib.Path(__file__).parents[2] / "goldens"
TOP = 64  # logits kept of a position, the largest
COLUMNS = 128  # ids whose logits are kept at each position besides
_ROWS = 8  # worked on at a time: a row of a large vocabulary is two megabytes


@dataclass(frozen=True)
class Golden:
    """Per text: ids, kept positions, the 64 largest logits, log-sum-exp, and the logits of fixed columns."""

    data: dict[str, Array]

    @property
    def texts(self) -> list[str]:
        return sorted(k[: -len(".ids")] for k in self.data if k.endswith(".ids"))

    def ids(self, name: str) -> Array:
        return self.data[f"{name}.ids"]

    def positions(self, name: str) -> Array:
        """Where the logits of a text were kept."""
        return self.data[f"{name}.positions"]


def load(path: str | os.PathLike[str] = GOLDENS / "logits_smollm2" / "logits.npz") -> Golden:
    with np.load(path) as archive:
        return Golden({k: archive[k] for k in archive.files})


def columns(n_vocab: int, seed: int = 2026) -> Array:
    """The ids whose logits are kept at every position of a golden."""
    return np.sort(np.random.default_rng(seed).choice(n_vocab, COLUMNS, replace=False)).astype(np.int32)


def log_sum_exp(logits: Array) -> Array:
    """Of each row."""
    peak = logits.max(axis=1, keepdims=True)
    total: Array = np.log(np.exp(logits - peak).sum(axis=1)) + peak[:, 0]
    return total


def freeze(name: str, ids: Sequence[int], positions: Array, logits: Array, columns: Array) -> dict[str, Array]:
    """A text's part of a golden. logits: fp32 [positions, n_vocab], of the kept positions alone."""
    top = np.argsort(-logits, axis=1, kind="stable")[:, :TOP]
    return {
        f"{name}.ids": np.array(ids, np.int32),
        f"{name}.positions": positions.astype(np.int32),
        f"{name}.top_ids": top.astype(np.min_scalar_type(logits.shape[1] - 1)),
        f"{name}.top_logits": np.take_along_axis(logits, top, axis=1),
        f"{name}.logsumexp": log_sum_exp(logits.astype(np.float64)),
        f"{name}.columns": logits[:, columns],
    }


class Tally:
    """Collects, over texts: the largest absolute difference, the mean KL divergence and the share of equal argmax.

    The divergence is taken over the golden's 64 largest and one bucket for the rest: a lower bound, the same for all.
    """

    def __init__(self) -> None:
        self.positions = 0
        self.max_abs = 0.0
        self.max_kl = 0.0
        self._kl = 0.0
        self._same = 0
        self.worst_miss = 0.0

    @property
    def kl(self) -> float:
        return self._kl / self.positions

    @property
    def argmax(self) -> float:
        return self._same / self.positions

    def add(self, golden: Golden, name: str, logits: Array) -> None:
        """logits: fp32 [n_tokens, n_vocab] of the whole text."""
        self.add_kept(golden, name, 0, [logits[position] for position in golden.positions(name)])

    def add_kept(self, golden: Golden, name: str, first: int, logits: Sequence[Array]) -> None:
        """logits: fp32 [n_vocab] each, of some of the golden's kept positions: from its `first` on."""
        for start in range(0, len(logits), _ROWS):
            rows = np.stack(logits[start : start + _ROWS])
            self._add(golden, name, slice(first + start, first + start + len(rows)), rows)

    def _add(self, golden: Golden, name: str, kept: slice, logits: Array) -> None:
        d = {k: golden.data[f"{name}.{k}"][kept] for k in ("top_ids", "top_logits", "logsumexp", "columns")}
        q = logits.astype(np.float64)
        top = d["top_ids"].astype(np.int64)
        want = d["top_logits"].astype(np.float64)
        got = np.take_along_axis(q, top, axis=1)
        self.max_abs = max(
            self.max_abs,
            float(np.abs(got - want).max()),
            float(np.abs(q[:, golden.data["columns"]] - d["columns"]).max()),
        )
        log_p = want - d["logsumexp"][:, None]
        log_q = got - log_sum_exp(q)[:, None]
        p, q_top = np.exp(log_p), np.exp(log_q)
        p_rest = np.maximum(1 - p.sum(axis=1), 1e-12)
        q_rest = np.maximum(1 - q_top.sum(axis=1), 1e-12)
        kl = (p * (log_p - log_q)).sum(axis=1) + p_rest * np.log(p_rest / q_rest)
        same = q.argmax(axis=1) == top[:, 0]
        # How far apart the reference's two best are where the argmax differs.
        self.worst_miss = max(self.worst_miss, float((want[:, 0] - want[:, 1])[~same].max(initial=0.0)))
        self.positions += len(q)
        self.max_kl = max(self.max_kl, float(kl.max()))
        self._kl += float(kl.sum())
        self._same += int(same.sum())
