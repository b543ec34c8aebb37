"""Logits of the embedded model against transformers (frozen) and against the numpy forward."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from ds4.core import bind, families, inventory
from ds4.sys.descriptors import Backend, GgmlType, Numeric, SessionDesc
from ds4.sys.native import NativeModel, NativeSession, Row

from parity.proof import Record, prove
from parity.reference import divergence
from parity.reference.llama_numpy import LlamaReference

Ids = npt.NDArray[np.int32]
Logits = npt.NDArray[np.float32]
Golden = divergence.Golden

# llama.cpp at 0c1e57098 on the same file and texts: mean KL 3.15e-3, argmax 96.1 % (bench/peers/llama_cpp, kl).
PEER_KL = 3.15e-3
GREEDY = pathlib.Path(__file__).parents[2] / "goldens" / "greedy_smollm2" / "greedy.json"


@pytest.fixture(scope="module")
def path() -> str:
    return os.environ["DS4_EMBEDDED_MODEL"]


@pytest.fixture(scope="module")
def model(path: str) -> Iterator[NativeModel]:
    found = inventory.load(path)
    plan = bind.plan(found, families.contract(found.metadata.string("general.architecture")))
    native = NativeModel.open(plan.desc())
    bind.match(plan, native.slots())
    yield native
    native.close()


@pytest.fixture(scope="module")
def golden() -> Golden:
    return divergence.load()


@dataclass
class Engine:
    """One session and its ways of running a sequence."""

    session: NativeSession
    n_vocab: int

    def run(self, bank: int, ids: Ids, start: int = 0) -> Logits:
        """Logits of `ids` as one step, continuing a bank."""
        rows = [Row(bank, start + i, int(t), output=True, logits=True) for i, t in enumerate(ids)]
        result = self.session.wait(self.session.submit(rows))
        return np.stack([np.array(result.logits(i), np.float32) for i in range(len(rows))])

    def chunks(self, bank: int, ids: Ids, width: int) -> Logits:
        return np.concatenate([self.run(bank, ids[i : i + width], i) for i in range(0, len(ids), width)])


def engine(
    model: NativeModel,
    *,
    numeric: Numeric,
    kv: GgmlType,
    banks: int = 1,
    ctx: int = 2112,
    rows: int = 128,
    backend: Backend = Backend.CPU,
    threads: int = 2,
) -> Engine:
    desc = SessionDesc(
        backend=backend,
        numeric=numeric,
        kv_type=kv,
        n_banks=banks,
        n_ctx=ctx,
        max_rows=rows,
        max_out=rows,
        n_threads=threads,
    )
    return Engine(NativeSession(model, desc), model.hparams.n_vocab)


def test_float_mode_agrees_with_transformers_to_2e_4_on_every_text(
    model: NativeModel, path: str, golden: Golden, record_property: Record
) -> None:
    run = engine(model, numeric=Numeric.FLOAT, kv=GgmlType.F32)
    tally = divergence.Tally()
    for name in golden.texts:
        if name == "long":
            continue
        run.session.truncate(0, 0)
        tally.add(golden, name, run.chunks(0, golden.ids(name), 128))
    run.session.close()
    assert tally.positions >= 2000
    assert tally.max_abs <= 2e-4
    assert tally.worst_miss <= 2e-4  # the same argmax wherever the reference's two best are further apart
    _proves_logits(record_property, path, golden, tally, 2e-4, [name for name in golden.texts if name != "long"])


def test_float_mode_agrees_with_transformers_at_positions_past_2000(
    model: NativeModel, path: str, golden: Golden, record_property: Record
) -> None:
    run = engine(model, numeric=Numeric.FLOAT, kv=GgmlType.F32)
    tally = divergence.Tally()
    tally.add(golden, "long", run.chunks(0, golden.ids("long"), 128))
    run.session.close()
    assert tally.max_abs <= 4e-4
    assert tally.argmax == 1.0
    _proves_logits(record_property, path, golden, tally, 4e-4, ["long"])


def _proves_logits(
    record: Record, path: str, golden: Golden, tally: divergence.Tally, bound: float, texts: list[str]
) -> None:
    prove(
        record, "forward", "llama", "largest difference from transformers' logits", artifact=path,
        value=tally.max_abs, bound=bound, numeric="float", kv="f32", banks=1,
        context=max(len(golden.ids(name)) for name in texts),
    )  # fmt: skip


def test_float_mode_agrees_with_an_independent_forward_on_every_logit(
    model: NativeModel, path: str, golden: Golden
) -> None:
    ids = golden.ids("chat")[:200]
    want = LlamaReference(path).logits(ids)
    run = engine(model, numeric=Numeric.FLOAT, kv=GgmlType.F32)
    got = run.chunks(0, ids, 64)
    run.session.close()
    assert np.abs(got - want).max() <= 3e-4
    assert (got.argmax(axis=1) == want.argmax(axis=1)).all()


def test_shipping_mode_diverges_less_than_the_peer(
    model: NativeModel, path: str, golden: Golden, record_property: Record
) -> None:
    run = engine(model, numeric=Numeric.SHIP, kv=GgmlType.F16)
    tally = divergence.Tally()
    for name in golden.texts:
        if name == "long":
            continue
        run.session.truncate(0, 0)
        tally.add(golden, name, run.chunks(0, golden.ids(name), 128))
    run.session.close()
    assert tally.kl <= 1.25 * PEER_KL
    assert tally.argmax >= 0.96
    prove(
        record_property, "forward", "llama", "mean KL divergence from transformers' fp32 logits", artifact=path,
        value=tally.kl, bound=1.25 * PEER_KL, numeric="ship", kv="f16", banks=1,
        context=max(len(golden.ids(name)) for name in golden.texts if name != "long"),
    )  # fmt: skip


def test_shipping_mode_token_by_token_diverges_no_more_than_the_peer(model: NativeModel, golden: Golden) -> None:
    run = engine(model, numeric=Numeric.SHIP, kv=GgmlType.F16)
    tally = divergence.Tally()
    tally.add(golden, "chat", run.chunks(0, golden.ids("chat"), 1))
    run.session.close()
    assert tally.kl <= 1.25 * PEER_KL


def test_float_mode_is_bit_identical_in_any_chunking_and_batch_and_thread_count(
    model: NativeModel, golden: Golden
) -> None:
    ids = golden.ids("code")[:96]
    run = engine(model, numeric=Numeric.FLOAT, kv=GgmlType.F16, banks=4)
    whole = run.run(0, ids)
    assert (run.chunks(1, ids, 7) == whole).all()
    run.session.truncate(1, 0)
    assert (run.chunks(1, ids[:40], 1) == whole[:40]).all()
    # All four banks in each step: one row each, at different positions of the same text.
    run.session.truncate(0, 0)
    for bank in range(4):
        run.session.truncate(bank, 0)
        if bank:
            run.run(bank, ids[: 3 * bank])
    for i in range(8):
        rows = [Row(b, 3 * b + i, int(ids[3 * b + i]), output=True, logits=True) for b in range(4)]
        result = run.session.wait(run.session.submit(rows))
        for b in range(4):
            assert (np.array(result.logits(b), np.float32) == whole[3 * b + i]).all()
    run.session.close()
    single = engine(model, numeric=Numeric.FLOAT, kv=GgmlType.F16, threads=1)
    assert (single.run(0, ids) == whole).all()
    single.session.close()


def test_greedy_ids_equal_transformers_wherever_its_choice_is_clear(model: NativeModel) -> None:
    run = engine(model, numeric=Numeric.FLOAT, kv=GgmlType.F32)
    steps = 0
    for case in json.loads(GREEDY.read_text())["cases"]:
        run.session.truncate(0, 0)
        ids = np.array(case["prompt_ids"] + case["greedy_ids"], np.int32)
        picked = run.chunks(0, ids, 128)[len(case["prompt_ids"]) - 1 : -1].argmax(axis=1)
        for got, want, gap in zip(picked, case["greedy_ids"], case["gap"], strict=True):
            assert got == want or gap <= 2e-3
            steps += 1
    run.session.close()
    assert steps >= 100


def test_the_guard_backend_computes_the_whole_forward_to_the_same_bit(model: NativeModel, golden: Golden) -> None:
    ids = golden.ids("prose")[:12]
    cpu = engine(model, numeric=Numeric.FLOAT, kv=GgmlType.F16)
    guard = engine(model, numeric=Numeric.FLOAT, kv=GgmlType.F16, backend=Backend.GUARD, threads=1)
    assert (guard.chunks(0, ids, 8) == cpu.chunks(0, ids, 5)).all()
    cpu.session.close()
    guard.session.close()
