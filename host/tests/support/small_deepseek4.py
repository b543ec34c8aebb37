"""Random `deepseek4` models that take milliseconds to run, and rows through a native session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from ds4.core import bind, inventory
from ds4.perf.synth import random_model, shapes
from ds4.perf.synth.mixes import Mix
from ds4.sys.descriptors import GgmlType, Numeric, SessionDesc
from ds4.sys.native import NativeModel, NativeSession, Row

Bits = npt.NDArray[np.uint32]
Floats = npt.NDArray[np.float32]

VOCAB = 128
SMALL = (
    f"vocab_size={VOCAB}",
    "embedding_length=64",
    "attention.head_count=2",
    "attention.key_length=32",
    "attention.value_length=32",
    "rope.dimension_count=16",
    "attention.q_lora_rank=32",
    "attention.output_lora_rank=32",
    "expert_feed_forward_length=32",
    "expert_count=6",
    "expert_used_count=2",
    "attention.indexer.head_count=8",
    "attention.indexer.key_length=32",
    "attention.indexer.top_k=6",
    "attention.sliding_window=24",
    "hyper_connection.count=2",
    "hyper_connection.sinkhorn_iterations=4",
)
"""Changes to ds4-synth's shape `deepseek4-tiny`; what a test adds wins."""
EVERY_KIND = (*SMALL, "attention.compress_ratios=0,4,128", "hash_layer_count=1")
"""One layer of each kind."""


def write(path: Path, changes: Sequence[str] = EVERY_KIND, mix: str = "f32", seed: int = 3, **more: Any) -> Path:
    random_model.write(path, shapes.shape("deepseek4-tiny", None, changes), Mix.of(mix, ()), seed=seed, **more)
    return path


@contextmanager
def opened(path: Path) -> Iterator[NativeModel]:
    model = NativeModel.open(bind.plan(inventory.load(path)).desc())
    try:
        yield model
    finally:
        model.close()


def session(model: NativeModel, **changes: Any) -> NativeSession:
    """In float mode with an F32 cache, unless `changes` say otherwise."""
    defaults: dict[str, Any] = {
        "n_banks": 1,
        "n_ctx": 320,
        "max_rows": 320,
        "max_out": 320,
        "n_threads": 1,
        "numeric": Numeric.FLOAT,
        "kv_type": GgmlType.F32,
    }
    return NativeSession(model, SessionDesc(**(defaults | changes)))


def feed(made: NativeSession, bank: int, tokens: Sequence[int], start: int = 0, chunk: int = 0) -> Floats:
    """Raw logits [count, vocabulary] of the positions from `start` on, in steps of `chunk` rows (0: the most)."""
    chunk, out = chunk or made.desc.max_rows, []
    for at in range(start, len(tokens), chunk):
        rows = [Row(bank, p, tokens[p], logits=True) for p in range(at, min(len(tokens), at + chunk))]
        result = made.wait(made.submit(rows))
        out += [np.asarray(result.logits(i), np.float32) for i in range(len(rows))]
    return np.stack(out)


def bits(x: Floats) -> Bits:
    return np.ascontiguousarray(x).view(np.uint32)
