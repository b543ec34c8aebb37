"""Llama and its kin: models drawn from a seed give transformers' logits (frozen), whichever way a sequence is run."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ds4.core import bind, inventory
from ds4.perf.synth import random_model, shapes
from ds4.perf.synth.mixes import Mix
from ds4.sys.descriptors import Backend, GgmlType, Numeric, SessionDesc, SessionFlags
from ds4.sys.native import NativeModel, NativeSession, Row

from parity.proof import Record, prove

Logits = npt.NDArray[np.float32]

FOLDER = pathlib.Path(__file__).parents[2] / "goldens" / "families"
CASES: list[dict[str, Any]] = json.loads((FOLDER / "cases.json").read_text(encoding="utf-8"))
GOLDEN = dict(np.load(FOLDER / "logits.npz"))
TOKENS = [int(token) for token in GOLDEN["tokens"]]
LENGTH, EVERY, SEED, VOCAB, TOLERANCE = len(TOKENS), 4, 11, 96, 1e-4
EACH_FAMILY = ("mistral", "llama-tied-freqs", "smollm3", "qwen2", "qwen3", "qwen3moe", "qwen3moe-many", "gemma3")


@dataclass
class Model:
    name: str
    family: str
    native: NativeModel
    layers: int


def _open(case: dict[str, Any], folder: pathlib.Path, mix: str = "f32") -> Model:
    path = folder / f"{case['name']}-{mix}.gguf"
    made = shapes.shape(case["shape"], None, [*case["set"], f"vocab_size={VOCAB}"])
    random_model.write(path, made, Mix.of(mix), seed=SEED, without=case["without"])
    files = inventory.load(path)
    plan = bind.plan(files)
    assert plan.unknown == () and plan.ignored == ()
    native = NativeModel.open(plan.desc())
    bind.match(plan, native.slots())
    family = files.metadata.string("general.architecture")
    return Model(case["name"], family, native, plan.hparams.n_layer)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Model]]:
    folder = tmp_path_factory.mktemp("families")
    found = {case["name"]: _open(case, folder) for case in CASES}
    yield found
    for model in found.values():
        model.native.close()


@contextmanager
def _session(model: Model, **changes: Any) -> Iterator[NativeSession]:
    desc: dict[str, Any] = {"n_banks": 3, "n_ctx": 160, "max_rows": LENGTH, "max_out": LENGTH, "n_threads": 2}
    desc |= {"numeric": Numeric.FLOAT, "kv_type": GgmlType.F32}
    made = NativeSession(model.native, SessionDesc(**(desc | changes)))
    try:
        yield made
    finally:
        made.close()


def _feed(session: NativeSession, bank: int, start: int, end: int, chunk: int = LENGTH) -> Logits:
    out = []
    for at in range(start, end, chunk):
        rows = [Row(bank, p, TOKENS[p], logits=True) for p in range(at, min(end, at + chunk))]
        result = session.wait(session.submit(rows))
        out += [np.asarray(result.logits(i), np.float32).copy() for i in range(len(rows))]
    return np.stack(out)


def _bits(x: Logits) -> npt.NDArray[np.uint32]:
    return np.ascontiguousarray(x).view(np.uint32)


def test_every_case_has_logits_and_every_family_three_cases() -> None:
    assert {case["name"] for case in CASES} == GOLDEN.keys() - {"tokens"}
    counts = {name: sum(case["shape"].startswith(name + "-") for case in CASES) for name in EACH_FAMILY[2:6]}
    assert min(counts.values()) >= 3, counts


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_logits_are_those_of_transformers(name: str, opened: dict[str, Model], record_property: Record) -> None:
    with _session(opened[name]) as session:
        found = _feed(session, 0, 0, LENGTH)
    np.testing.assert_allclose(found[EVERY - 1 :: EVERY], GOLDEN[name], rtol=0, atol=TOLERANCE)
    family, off = opened[name].family, float(np.abs(found[EVERY - 1 :: EVERY] - GOLDEN[name]).max())
    prove(record_property, "loader", family, "every tensor of the file is bound, and every slot of the engine filled")
    prove(
        record_property, "forward", family, "largest difference from transformers' logits", value=off, bound=TOLERANCE,
        numeric="float", kv="f32", context=LENGTH, banks=1,
    )  # fmt: skip


@pytest.mark.parametrize("kv", [GgmlType.F32, GgmlType.F16], ids=lambda kv: kv.name)
@pytest.mark.parametrize("name", EACH_FAMILY)
def test_chunks_banks_and_threads_do_not_change_a_bit(
    name: str, kv: GgmlType, opened: dict[str, Model], record_property: Record
) -> None:
    with _session(opened[name], kv_type=kv, n_threads=1) as session:
        whole = _bits(_feed(session, 0, 0, LENGTH))
    with _session(opened[name], kv_type=kv) as session:
        for bank, chunk in enumerate((1, 7, 32)):
            assert np.array_equal(_bits(_feed(session, bank, 0, LENGTH, chunk)), whole), chunk
    rng = np.random.default_rng(2)
    with _session(opened[name], kv_type=kv, n_threads=3) as session:
        at, ends = [0] * 3, [LENGTH, 61, 33]
        while at != ends:
            rows = []
            for bank in rng.permutation(3):
                size = min(int(rng.choice((0, 1, 5, 19))), ends[bank] - at[bank])
                rows += [Row(int(bank), at[bank] + i, TOKENS[at[bank] + i], logits=True) for i in range(size)]
                at[bank] += size
            if rows:
                result = session.wait(session.submit(rows))
                for i, row in enumerate(rows):
                    assert np.array_equal(_bits(np.asarray(result.logits(i))), whole[row.position]), row
    prove(
        record_property, "state", opened[name].family, "the same bits in any chunks, banks and threads",
        numeric="float", kv=kv.name.lower(), context=LENGTH, banks=3,
    )  # fmt: skip


@pytest.mark.parametrize("name", EACH_FAMILY)
def test_a_snapshot_a_copy_and_a_rewind_go_on_to_the_bit(
    name: str, opened: dict[str, Model], record_property: Record
) -> None:
    with _session(opened[name]) as session:
        whole = _bits(_feed(session, 0, 0, LENGTH))
        session.truncate(0, 47)
        assert session.restore(1, bytes(session.snapshot(0))) == 47
        session.copy(0, 2, 30)
        for bank, start in ((0, 47), (1, 47), (2, 30)):
            assert np.array_equal(_bits(_feed(session, bank, start, LENGTH, 13)), whole[start:]), bank
    prove(
        record_property, "state", opened[name].family, "a snapshot, a copy and a rewind go on to the bit",
        numeric="float", kv="f32", context=LENGTH, banks=3,
    )  # fmt: skip


@pytest.mark.parametrize("name", EACH_FAMILY)
def test_the_guard_backend_computes_the_same_and_the_null_backend_runs(name: str, opened: dict[str, Model]) -> None:
    with _session(opened[name]) as session:
        expected = _bits(_feed(session, 0, 0, LENGTH, 33))
    with _session(opened[name], backend=Backend.GUARD) as session:
        assert np.array_equal(_bits(_feed(session, 0, 0, LENGTH, 33)), expected)
    with _session(opened[name], backend=Backend.NULL) as session:
        assert not _feed(session, 0, 0, LENGTH, 33).any()


@pytest.mark.parametrize("name", EACH_FAMILY)
def test_keeping_residuals_does_not_change_the_logits(name: str, opened: dict[str, Model]) -> None:
    with _session(opened[name]) as session:
        expected = _bits(_feed(session, 0, 0, 40))
    with _session(opened[name], flags=SessionFlags.HIDDEN) as session:
        assert np.array_equal(_bits(_feed(session, 0, 0, 40)), expected)


@pytest.mark.parametrize("name", ["qwen3", "qwen3moe", "gemma3"])
def test_shipping_arithmetic_over_quantised_weights_stays_near(
    name: str, opened: dict[str, Model], tmp_path: pathlib.Path, record_property: Record
) -> None:
    case = next(case for case in CASES if case["name"] == name)
    model = _open(case, tmp_path, "q8_0")
    with _session(model, numeric=Numeric.SHIP, kv_type=GgmlType.F16) as session:
        found = _feed(session, 0, 0, LENGTH)[EVERY - 1 :: EVERY]
    model.native.close()
    off = np.abs(found - GOLDEN[name])
    assert 1e-4 < np.mean(off) < 0.1 * GOLDEN[name].std()
    prove(
        record_property, "forward", model.family, "mean difference of Q8_0 weights from fp32 logits, in their spread",
        value=float(np.mean(off) / GOLDEN[name].std()), bound=0.1, numeric="ship", kv="f16", context=LENGTH, banks=1,
    )  # fmt: skip
