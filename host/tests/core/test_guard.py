"""The embedded model's whole forward on the guard backend, through the host's own plan.

Guard's memory is unreadable except while an operation runs: a forward that read a buffer while it was recorded, or an
engine that did so between two operations, would end this process. Its logits must be the CPU's to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from ds4.core import bind, inventory
from ds4.sys.descriptors import Backend, GgmlType, Numeric, SessionDesc
from ds4.sys.native import NativeModel, NativeSession, Row
from numpy.typing import NDArray
from support import embedded

pytestmark = [embedded.needs_model, embedded.needs_engine]

TOKENS = [1, 9690, 198, 2683, 359, 253, 5356, 5646, 11173, 3365, 3511, 308]


@pytest.fixture(scope="module")
def model() -> Iterator[NativeModel]:
    plan = bind.plan(inventory.load(embedded.path()))
    opened = NativeModel.open(plan.desc())
    bind.match(plan, opened.slots())
    yield opened
    opened.close()


def logits(
    model: NativeModel, backend: Backend, numeric: Numeric, chunks: list[int], bank: int = 0
) -> NDArray[np.float32]:
    """fp32 [len(TOKENS), n_vocab] of the tokens, fed in steps of these many rows."""
    desc = SessionDesc(
        backend=backend,
        numeric=numeric,
        kv_type=GgmlType.F16,
        n_banks=2,
        n_ctx=32,
        max_rows=16,
        max_out=16,
        n_threads=2,
    )
    session = NativeSession(model, desc)
    found: list[NDArray[np.float32]] = []
    try:
        at = 0
        for rows in chunks:
            batch = [Row(bank, at + i, TOKENS[at + i], logits=True) for i in range(rows)]
            result = session.wait(session.submit(batch))
            found += [np.array(result.logits(i), dtype=np.float32) for i in range(rows)]
            at += rows
    finally:
        session.close()
    return np.stack(found)


@pytest.mark.parametrize("numeric", list(Numeric))
def test_the_guard_backend_computes_what_the_cpu_computes(model: NativeModel, numeric: Numeric) -> None:
    chunks = [7, 1, 1, 3]
    cpu = logits(model, Backend.CPU, numeric, chunks)
    assert np.ptp(cpu) > 10
    assert np.array_equal(logits(model, Backend.GUARD, numeric, chunks), cpu)


def test_a_program_replayed_where_it_was_not_recorded_computes_what_a_fresh_one_does(model: NativeModel) -> None:
    """Row by row, one program recorded at position 0 serves them all; at once, another is recorded and run once."""
    replayed = logits(model, Backend.GUARD, Numeric.FLOAT, [1] * len(TOKENS), bank=1)
    assert np.array_equal(replayed, logits(model, Backend.GUARD, Numeric.FLOAT, [len(TOKENS)]))
