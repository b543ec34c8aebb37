"""Gemma 3 270M, real weights (Q4_K_M): logits against transformers in fp32 on the dequantised weights (frozen)."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from ds4.core import bind, inventory
from ds4.sys.descriptors import GgmlType, Numeric, SessionDesc
from ds4.sys.native import NativeModel, NativeSession, Row

from parity.proof import Record, prove
from parity.reference import divergence
from parity.vocabularies import fetched

pytestmark = pytest.mark.skipif("DS4_GEMMA3_MODEL" not in os.environ, reason="DS4_GEMMA3_MODEL names no file")

GOLDEN = "logits_gemma3"
VARIABLE, NAME = "DS4_GEMMA3_MODEL", "gemma-3-270m-q4_k_m.gguf"
APART = 1e-3  # where the reference's two best are further apart than this, the argmax has to be the same
# llama.cpp at 0c1e57098 on the same file and texts (bench/peers/llama_cpp, kl).
PEER_KL = 4.58e-3
WINDOW = 512  # of the local layers
ROWS = 128


@pytest.fixture(scope="module")
def golden() -> divergence.Golden:
    return divergence.load(os.environ.get("DS4_GEMMA3_GOLDEN", divergence.GOLDENS / GOLDEN / "logits.npz"))


@pytest.fixture(scope="module")
def model() -> Iterator[NativeModel]:
    found = inventory.load(fetched(VARIABLE, NAME))
    plan = bind.plan(found)
    native = NativeModel.open(plan.desc())
    bind.match(plan, native.slots())
    yield native
    native.close()


Measure = Callable[..., divergence.Tally]


@pytest.fixture
def measure(model: NativeModel, golden: divergence.Golden) -> Measure:
    def run(texts: list[str], numeric: Numeric, kv: GgmlType, width: int = ROWS) -> divergence.Tally:
        """Texts through a session, `width` tokens a step, logits where the golden kept them."""
        longest = max(len(golden.ids(name)) for name in texts)
        desc = SessionDesc(1, longest, ROWS, ROWS, 2, numeric=numeric, kv_type=kv)
        session, tally = NativeSession(model, desc), divergence.Tally()
        for name in texts:
            session.truncate(0, 0)
            ids, positions, seen = golden.ids(name), golden.positions(name), 0
            kept = set(positions.tolist())
            for start in range(0, len(ids), width):
                rows = [Row(0, p, int(ids[p]), logits=p in kept) for p in range(start, min(start + width, len(ids)))]
                result = session.wait(session.submit(rows))
                asked = [at for at, row in enumerate(rows) if row.logits]
                tally.add_kept(golden, name, seen, [np.asarray(result.logits(at)) for at in asked])
                seen += len(asked)
            assert seen == len(positions)
        session.close()
        return tally

    return run


def test_float_mode_agrees_with_transformers_to_5e_4_at_more_than_a_thousand_positions(
    measure: Measure, golden: divergence.Golden, record_property: Record
) -> None:
    assert max(len(golden.ids(name)) for name in golden.texts) > 2 * WINDOW
    tally = measure(golden.texts, Numeric.FLOAT, GgmlType.F32)
    assert tally.positions >= 1000
    assert tally.max_abs <= 5e-4
    assert tally.worst_miss <= APART
    prove(
        record_property, "forward", "gemma3", "largest difference from transformers' logits", value=tally.max_abs,
        bound=5e-4, artifact=str(fetched(VARIABLE, NAME)), numeric="float", kv="f32", banks=1,
        context=max(len(golden.ids(name)) for name in golden.texts),
    )  # fmt: skip


def test_shipping_mode_diverges_less_than_the_peer(
    measure: Measure, golden: divergence.Golden, record_property: Record
) -> None:
    texts = [name for name in golden.texts if name != "long"]
    tally = measure(texts, Numeric.SHIP, GgmlType.F16)
    assert tally.kl <= 1.25 * PEER_KL
    assert tally.argmax >= 0.955  # llama.cpp's
    prove(
        record_property, "forward", "gemma3", "mean KL divergence from transformers' fp32 logits", value=tally.kl,
        bound=1.25 * PEER_KL, artifact=str(fetched(VARIABLE, NAME)), numeric="ship", kv="f16", banks=1,
        context=max(len(golden.ids(name)) for name in texts),
    )  # fmt: skip
