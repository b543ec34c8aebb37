"""The DeepSeek V4 forward against a numpy transcription of its formulas, on random models of several shapes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from ds4.errors import EngineError
from ds4.sys.descriptors import Backend, GgmlType, Numeric, SessionFlags
from ds4.sys.native import NativeModel, NativeSession, Row
from support import small_deepseek4
from support.dsv4_reference import Reference
from support.small_deepseek4 import EVERY_KIND, SMALL, VOCAB, Floats, bits, opened, write

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

FP8 = ("attention.key_length=96", "attention.value_length=96", "rope.dimension_count=32")  # 64 numbers do not turn
SHAPES = {
    "flash": (*EVERY_KIND, *FP8),
    "pro": (
        *SMALL,
        *FP8,
        "attention.compress_ratios=128,128,4",
        "expert_weights_scale=2.5",
        "attention.head_count=6",
        "attention.output_group_count=3",
        "expert_count=12",
        "expert_used_count=3",
        "hash_layer_count=2",
        "attention.sliding_window=40",
        "hyper_connection.count=3",
        "attention.indexer.head_count=12",
    ),
}
TOKENS = [int(token) for token in np.random.default_rng(5).integers(0, VOCAB, 300)]


@dataclass
class Model:
    path: Path
    native: NativeModel


@pytest.fixture(scope="module", params=sorted(SHAPES))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    path = write(tmp_path_factory.mktemp("dsv4") / "model.gguf", SHAPES[request.param], "bf16")
    with opened(path) as native:
        yield Model(path, native)


@contextmanager
def session(model: Model, **changes: object) -> Iterator[NativeSession]:
    defaults: dict[str, object] = {"n_banks": 4, "n_ctx": 512, "max_rows": 128, "max_out": 128, "n_threads": 2}
    made = small_deepseek4.session(model.native, **(defaults | changes))
    try:
        yield made
    finally:
        made.close()


def feed(made: NativeSession, bank: int, start: int, end: int, chunk: int = 128) -> Floats:
    """Raw logits of the positions [start, end), computed in steps of `chunk` rows."""
    return small_deepseek4.feed(made, bank, TOKENS[:end], start, chunk)


def test_logits_and_residuals_are_the_transcriptions(model: Model) -> None:
    count = 140
    reference = Reference(model.path)
    residuals = reference.residuals(TOKENS[:count])
    with session(model, flags=SessionFlags.HIDDEN, max_rows=count, max_out=count) as made:
        ticket = made.submit([Row(0, p, TOKENS[p], logits=True) for p in range(count)])
        result = made.wait(ticket)
        for point in range(len(residuals)):
            found = np.stack([np.asarray(made.hidden(ticket, row, point)) for row in range(count)])
            np.testing.assert_allclose(found, residuals[point].reshape(count, -1), rtol=0, atol=1e-4)
        found = np.stack([np.asarray(result.logits(row)) for row in range(count)])
    np.testing.assert_allclose(found, reference.head(residuals[-1]), rtol=0, atol=1e-4)


@pytest.mark.parametrize("kv", [GgmlType.F32, GgmlType.F16, GgmlType.Q8_0], ids=lambda kv: kv.name)
def test_chunks_and_banks_and_threads_do_not_change_a_bit(model: Model, kv: GgmlType) -> None:
    count = 270
    with session(model, kv_type=kv, max_rows=count, max_out=count, n_threads=1) as made:
        whole = feed(made, 0, 0, count, count)
    rng = np.random.default_rng(1)
    with session(model, kv_type=kv, n_threads=3) as made:
        for chunk in (1, 7, 64, 128):
            made.truncate(0, 0)
            assert np.array_equal(bits(feed(made, 0, 0, count, chunk)), bits(whole)), chunk
        for bank in range(4):
            made.truncate(bank, 0)
        at, ends = [0] * 4, [count, 133, 200, 90]
        while at != ends:
            rows = []
            for bank in rng.permutation(4):
                size = min(int(rng.choice((0, 1, 9, 30))), ends[bank] - at[bank])
                rows += [Row(int(bank), at[bank] + i, TOKENS[at[bank] + i], logits=True) for i in range(size)]
                at[bank] += size
            if rows:
                result = made.wait(made.submit(rows))
                for i, row in enumerate(rows):
                    assert np.array_equal(bits(np.asarray(result.logits(i))), bits(whole[row.position])), row


CHUNKS = (1, 7, 64, 128, 270)
POINTS = (1, 4, 127, 128, 131, 250)


@pytest.mark.parametrize("banks", [1, 4])
@pytest.mark.parametrize("chunk", CHUNKS)
def test_a_snapshot_at_any_point_of_any_chunking_goes_on_to_the_bit(model: Model, chunk: int, banks: int) -> None:
    """Taken in one session, restored in another with other banks, where all of them go on in the same steps."""
    count = 270
    with session(model, n_banks=1, max_rows=count, max_out=count) as made:
        whole = feed(made, 0, 0, count, count)
    with session(model, n_banks=1, max_rows=chunk, max_out=chunk) as made:
        taken = []
        for start, end in zip((0, *POINTS), POINTS, strict=False):
            assert np.array_equal(bits(feed(made, 0, start, end, chunk)), bits(whole[start:end]))
            taken.append(bytes(made.snapshot(0)))
    with session(model, n_banks=banks, max_rows=max(chunk, banks), max_out=max(chunk, banks)) as made:
        for length, snapshot in zip(POINTS, taken, strict=True):
            size = max(1, chunk // banks)
            for bank in range(banks):
                assert made.restore(bank, snapshot) == length
            for at in range(length, min(count, length + 2 * size + 5), size):
                span = range(at, min(count, at + size))
                rows = [Row(bank, p, TOKENS[p], logits=True) for bank in range(banks) for p in span]
                result = made.wait(made.submit(rows))
                for i, row in enumerate(rows):
                    assert np.array_equal(bits(np.asarray(result.logits(i))), bits(whole[row.position])), row


def test_the_guard_backend_computes_the_same(model: Model) -> None:
    with session(model) as made:
        expected = feed(made, 0, 0, 140, 33)
    with session(model, backend=Backend.GUARD) as made:
        assert np.array_equal(bits(feed(made, 0, 0, 140, 33)), bits(expected))


@pytest.mark.parametrize("length", [1, 3, 4, 7, 8, 9, 127, 128, 129, 200])
def test_a_snapshot_a_copy_and_a_rewind_go_on_to_the_bit(model: Model, length: int) -> None:
    end = 264
    with session(model, max_rows=32, max_out=32) as made:
        whole = feed(made, 3, 0, end, 32)
        feed(made, 0, 0, length, 32)
        snapshot = made.snapshot(0)
        feed(made, 1, 0, 50, 32)
        assert made.restore(1, bytes(snapshot)) == length
        assert np.array_equal(bits(feed(made, 1, length, end, 32)), bits(whole[length:]))
        feed(made, 0, length, length + 20, 32)
        made.copy(0, 2, length)
        assert np.array_equal(bits(feed(made, 2, length, end, 32)), bits(whole[length:]))
        back = max(length - 11, made.rewind_floor(0), 0)
        made.truncate(0, back)
        assert np.array_equal(bits(feed(made, 0, back, end, 32)), bits(whole[back:]))


def test_going_back_further_than_the_state_reaches_is_refused_with_the_least_length(model: Model) -> None:
    with session(model, max_rows=16, max_out=16) as made:
        whole = feed(made, 0, 0, 200, 16)
        floor = made.rewind_floor(0)
        assert floor == 200 - 2 * 16
        for attempt in (lambda: made.truncate(0, floor - 1), lambda: made.copy(0, 1, floor - 1)):
            with pytest.raises(EngineError, match=str(floor)) as caught:
                attempt()
            assert caught.value.code == "engine_rewind"
        assert made.length(0) == 200
        made.truncate(0, floor)
        assert np.array_equal(bits(feed(made, 0, floor, 200, 16)), bits(whole[floor:]))
        made.truncate(0, 0)
        assert made.rewind_floor(0) == 0
        assert np.array_equal(bits(feed(made, 0, 0, 30, 16)), bits(whole[:30]))
        snapshot = made.snapshot(0)
        made.restore(1, snapshot)
        assert made.rewind_floor(1) == 30


def test_shipping_arithmetic_stays_near(model: Model) -> None:
    with session(model) as made:
        plain = feed(made, 0, 0, 100)
    with session(model, numeric=Numeric.SHIP, kv_type=GgmlType.F16) as made:
        shipped = feed(made, 0, 0, 100)
    assert np.corrcoef(plain.ravel(), shipped.ravel())[0, 1] > 0.98
    assert not np.array_equal(plain, shipped)
