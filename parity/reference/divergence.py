"""Distance of an engine's logits from the frozen transformers logits of goldens/logits_smollm2."""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Golden:
    """Per text: ids, kept positions, the 64 largest logits, log-sum-exp, and the logits of fixed columns."""

    data: dict[str, Array]

    @property
    def texts(self) -> list[str]:
        return sorted(k[: -len(".ids")] for k in self.data if k.endswith(".ids"))

    def ids(self, name: str) -> Array:
        return self.data[f"{name}.ids"]


def load(path: str | os.PathLike[str] | None = None) -> Golden:
    if path is None:
        path = pathlib.Path(__file__).parents[2] / "goldens" / "logits_smollm2" / "logits.npz"
    with np.load(path) as archive:
        return Golden({k: archive[k] for k in archive.files})


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
        d = golden.data
        q = logits[d[f"{name}.positions"]].astype(np.float64)
        top = d[f"{name}.top_ids"].astype(np.int64)
        want = d[f"{name}.top_logits"].astype(np.float64)
        got = np.take_along_axis(q, top, axis=1)
        self.max_abs = max(
            self.max_abs,
            float(np.abs(got - want).max()),
            float(np.abs(q[:, d["columns"]] - d[f"{name}.columns"]).max()),
        )
        log_p = want - d[f"{name}.logsumexp"][:, None]
        log_q = got - np.logaddexp.reduce(q, axis=1)[:, None]
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
