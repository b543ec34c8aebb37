"""Each rounding of the shipping arithmetic alone, against a numpy transcription that rounds there and nowhere else.

A number that lies on the middle of two codes may be rounded either way by arithmetic that differs in the last bit, and
what follows then differs by a code. So the prompts here are such that the transcription meets no such number: it says
how near it came, and the test asks for a margin that fp32 cannot cross.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ds4.sys.descriptors import GgmlType, Numeric, Rounding
from ds4.sys.native import NativeModel, NativeSession
from support.dsv4_reference import E4M3, Reference, Simulation, fp8, hadamard_fp4, nearest
from support.small_deepseek4 import EVERY_KIND, SMALL, VOCAB, Floats, feed, opened, session, write

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

MARGIN = 6e-7
"""Of the largest number of a group; fp32 and float64 are apart by less in models this small."""
BOUND = 1e-4

SHAPES = {
    "flash": (
        *EVERY_KIND,
        "attention.compress_ratios=0,4",
        "attention.indexer.top_k=2",
        "attention.key_length=96",
        "attention.value_length=96",
        "rope.dimension_count=32",
    ),
    "pro": (
        *SMALL,
        "attention.compress_ratios=128,4",
        "hash_layer_count=1",
        "attention.indexer.top_k=3",
        "attention.head_count=6",
        "attention.output_group_count=3",
        "hyper_connection.count=3",
        "expert_weights_scale=2.5",
        "attention.sliding_window=9",
        "attention.key_length=160",
        "attention.value_length=160",
        "rope.dimension_count=32",
    ),
}


@dataclass(frozen=True)
class Point:
    """changes: of the session. prompts: how many, and of how many tokens."""

    simulation: Simulation
    changes: dict[str, Any]
    prompts: tuple[int, int] = (12, 40)
    margin: float = MARGIN
    bound: float = BOUND


POINTS = {
    "nothing": Point(Simulation(), {}),
    "kv_fp8": Point(Simulation(rounding=Rounding.KV_FP8), {"rounding": Rounding.CHOSEN | Rounding.KV_FP8}),
    "index_fp4": Point(Simulation(rounding=Rounding.INDEX_FP4), {"rounding": Rounding.CHOSEN | Rounding.INDEX_FP4}),
    # Codes of binary16 lie so close that some number always falls the other way, by a 2,000th of itself; Q8_0's scales
    # are.
    "kv_q8_0": Point(Simulation(kv=GgmlType.Q8_0), {"kv_type": GgmlType.Q8_0}, bound=1e-3),
    "kv_f16": Point(Simulation(kv=GgmlType.F16), {"kv_type": GgmlType.F16}, margin=2e-3, bound=1e-3),
    # A thousand numbers a position are rounded, so prompts are short and many.
    "activations": Point(
        Simulation(activations=True), {"numeric": Numeric.SHIP, "rounding": Rounding.CHOSEN}, prompts=(90, 2)
    ),
}


@dataclass
class Model:
    path: Path
    native: NativeModel


@pytest.fixture(scope="module", params=sorted(SHAPES))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = write(tmp_path_factory.mktemp("rounding") / "model.gguf", SHAPES[request.param], "q8_0")
    with opened(path) as native:
        yield Model(path, native)


@pytest.mark.parametrize("name", POINTS)
def test_each_rounding_alone_is_the_transcriptions_to_1e_4(model: Model, name: str) -> None:
    point = POINTS[name]
    reference = Reference(model.path, point.simulation)
    rng, compared, last, off, moved = np.random.default_rng(11), 0, 0, 0.0, 0.0
    made, plain = session(model.native, **point.changes), session(model.native)
    for _ in range(point.prompts[0]):
        tokens = [int(token) for token in rng.integers(0, VOCAB, point.prompts[1])]
        expected = reference.logits(tokens)
        clear = int(
            np.argmax(np.append(reference.margin, 0) < point.margin)
        )  # positions before one that may fall either way
        found = _fresh(made, tokens)
        compared, last = compared + clear, max(last, clear)
        off = max(off, float(np.abs(found - expected)[:clear].max(initial=0)))
        moved = max(moved, float(np.abs(found - _fresh(plain, tokens)).max()))
    made.close()
    plain.close()
    print(f"{name}: {compared} positions, up to the {last}th, {off:.1e} off; rounding moves logits by {moved:.1e}")
    assert compared >= 20
    assert last >= min(8, point.prompts[1])  # compressed rows are among them
    assert off <= point.bound
    assert (moved > 1e-3) is (name != "nothing")


def _fresh(made: NativeSession, tokens: list[int]) -> Floats:
    made.truncate(0, 0)
    return feed(made, 0, tokens)


def test_rounding_to_narrow_formats_takes_the_nearest_code() -> None:
    np.testing.assert_array_equal(fp8(np.array([448.0, -447, 17, 0.3] + [0.0] * 60))[:3], [448, -448, 16])
    assert hadamard_fp4(np.eye(32)[0]).tolist() == pytest.approx([0.1875] * 32)
    assert nearest(np.array([17.0, 18.0, 19.0, -0.001]), E4M3[:127]).tolist() == [16, 18, 20, -0.001953125]
