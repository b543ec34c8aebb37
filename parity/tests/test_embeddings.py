"""Final norms of all rows: transformers' last_hidden_state (frozen) in float mode, whichever way a sequence is run."""

from __future__ import annotations

import json
import pathlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ds4.core import bind, inventory
from ds4.errors import EngineError
from ds4.perf.synth import random_model, shapes
from ds4.perf.synth.mixes import Mix
from ds4.sys.descriptors import Backend, GgmlType, Numeric, SessionDesc
from ds4.sys.native import NativeModel, NativeSession, Row

Sums = npt.NDArray[np.float64]

GOLDENS = pathlib.Path(__file__).parents[2] / "goldens"
CASES: list[dict[str, Any]] = json.loads((GOLDENS / "families" / "cases.json").read_text(encoding="utf-8"))
GOLDEN = dict(np.load(GOLDENS / "embeddings" / "embeddings.npz"))
TOKENS = [int(token) for token in GOLDEN["tokens"]]
LENGTH, SEED, VOCAB, TOLERANCE = len(TOKENS), 11, 96, 1e-4
KINDS = ("mistral", "qwen3moe", "gemma3", "deepseek4")


@contextmanager
def model(name: str, folder: pathlib.Path) -> Iterator[NativeModel]:
    path = folder / "x.gguf"
    if name == "deepseek4":
        made = shapes.shape("deepseek4-tiny", None, [f"vocab_size={VOCAB}"])
        random_model.write(path, made, Mix.of("f32", ()), seed=SEED)
    else:
        case = next(case for case in CASES if case["name"] == name)
        made = shapes.shape(case["shape"], None, [*case["set"], f"vocab_size={VOCAB}"])
        random_model.write(path, made, Mix.of("f32"), seed=SEED, without=case["without"])
    native = NativeModel.open(bind.plan(inventory.load(path)).desc())
    yield native
    native.close()


@contextmanager
def session(native: NativeModel, **changes: Any) -> Iterator[NativeSession]:
    desc: dict[str, Any] = {"n_banks": 3, "n_ctx": 320, "max_rows": 128, "max_out": 3, "n_threads": 2}
    desc |= {"numeric": Numeric.FLOAT, "kv_type": GgmlType.F32}
    made = NativeSession(native, SessionDesc(**(desc | changes)))
    yield made
    made.close()


def row(bank: int, position: int, output: bool = False) -> Row:
    return Row(bank, position, TOKENS[position], output=output)


def summed(made: NativeSession, bank: int, chunks: Sequence[int] = (LENGTH,), length: int = LENGTH) -> Sums:
    total, at, turn = array("d", bytes(8 * made.d_model)), 0, 0
    while at < length:
        end = min(length, at + chunks[turn % len(chunks)])
        ticket = made.submit_embed([row(bank, p) for p in range(at, end)])
        made.wait(ticket)
        made.embed(ticket, 0, end - at, total)
        at, turn = end, turn + 1
    return np.array(total)


@pytest.mark.parametrize("name", [case["name"] for case in CASES])
def test_means_and_last_states_are_those_of_transformers(name: str, tmp_path: pathlib.Path) -> None:
    with model(name, tmp_path) as native, session(native) as made:
        mean = summed(made, 0) / LENGTH
        last = array("d", bytes(8 * made.d_model))
        made.truncate(0, LENGTH - 1)
        ticket = made.submit_embed([row(0, LENGTH - 1)])
        made.wait(ticket)
        made.embed(ticket, 0, 1, last)
    assert np.abs(GOLDEN[name]).max() > 0.1
    np.testing.assert_allclose(np.stack((mean, np.array(last))), GOLDEN[name], rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", KINDS)
def test_chunks_banks_and_threads_do_not_change_a_bit(name: str, tmp_path: pathlib.Path) -> None:
    with model(name, tmp_path) as native:
        with session(native) as made:
            whole = summed(made, 0)
            assert np.isfinite(whole).all() and np.abs(whole).max() > 1
            for bank, chunks in ((1, (1,)), (2, (7, 32))):
                assert np.array_equal(summed(made, bank, chunks), whole), chunks
        with session(native, n_threads=1, backend=Backend.GUARD) as made:
            assert np.array_equal(summed(made, 0, (33,)), whole)


@pytest.mark.parametrize("name", KINDS)
def test_a_step_that_keeps_states_draws_and_goes_on_as_any_other(name: str, tmp_path: pathlib.Path) -> None:
    def logits(made: NativeSession, bank: int, start: int) -> bytes:
        rows = [row(bank, p) for p in range(start, LENGTH - 1)]
        last = Row(bank, LENGTH - 1, TOKENS[-1], logits=True)
        return bytes(made.wait(made.submit([*rows, last])).logits(len(rows)))

    with model(name, tmp_path) as native, session(native) as made:
        expected = logits(made, 0, 0)
        ticket = made.submit_embed([*(row(1, p) for p in range(40)), *(row(2, p, p == 29) for p in range(30))])
        mixed = made.wait(ticket)
        total = array("d", bytes(8 * made.d_model))
        made.embed(ticket, 40, 30, total)
        assert np.array_equal(np.array(total), summed_afresh(native, 30))
        assert logits(made, 1, 40) == expected and logits(made, 2, 30) == expected
        made.truncate(0, 29)
        assert made.wait(made.submit([row(0, 29, True)])).tokens[0] == mixed.tokens[69]


def summed_afresh(native: NativeModel, length: int) -> Sums:
    with session(native) as made:
        return summed(made, 0, length=length)


def test_states_are_given_of_the_step_that_kept_them_alone(tmp_path: pathlib.Path) -> None:
    with model("mistral", tmp_path) as native, session(native) as made:
        total = array("d", bytes(8 * made.d_model))
        plain = made.submit([row(0, 0)])
        made.wait(plain)
        with pytest.raises(EngineError, match="not submitted for embedding"):
            made.embed(plain, 0, 1, total)
        ticket = made.submit_embed([row(0, 1), row(0, 2)])
        with pytest.raises(EngineError, match="keeps the final norm") as refused:
            made.submit([row(1, 0)])
        assert refused.value.code == "engine_busy"
        with pytest.raises(EngineError, match="waited for"):
            made.embed(ticket, 0, 1, total)
        made.wait(ticket)
        for first, count in ((-1, 1), (0, 3), (2, 1), (0, -1), (1, 2**31 - 1)):
            with pytest.raises(EngineError, match="expected some of 0..2"):
                made.embed(ticket, first, count, total)
        with pytest.raises(EngineError, match="a sum of 3"):
            made.embed(ticket, 0, 1, array("d", [0.0] * 3))
        assert not any(total)
        made.wait(made.submit([row(1, 0)]))
        with pytest.raises(EngineError, match="the last"):
            made.embed(ticket, 0, 1, total)
