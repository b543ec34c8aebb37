"""One operation of the engine by itself: how its numbers get there and back; parity's component `ops` judges them."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np
import pytest
from ds4.errors import EngineError
from ds4.sys import ops
from ds4.sys.descriptors import GgmlType, SamplerDesc
from ds4.sys.ops import How
from ds4.sys.probe import quantize, sample_logits, sample_uniform

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

RNG = np.random.default_rng(3)
X, Y = RNG.normal(size=(3, 8)).astype("f4"), RNG.normal(size=(3, 8)).astype("f4")
HEADS = {"n_head": 2, "n_head_kv": 1, "head_dim": 4}
TURN = {"n_head": 2, "head_dim": 4, "rope_dim": 4, "rope_base": 100.0, "rope_factor": 1.0, "rope_attn_factor": 1.0}
PLACES = [(0, 0), (1, 0), (0, 1)]


def test_each_operation_is_numpys() -> None:
    x, y = X.tobytes(), Y.tobytes()
    table, weight = RNG.normal(size=(5, 8)).astype("f4"), RNG.normal(size=8).astype("f4")
    assert np.array_equal(_rows(ops.embed(GgmlType.F32, table.tobytes(), 5, 8, [4, 0, 4])), table[[4, 0, 4]])
    assert np.array_equal(_rows(ops.add(x, y, 3, 8)), X + Y)
    normed = X / np.sqrt((X * X).mean(1, keepdims=True) + 0.5) * weight
    assert np.allclose(_rows(ops.rmsnorm(x, weight.tobytes(), 3, 0.5)), normed, atol=1e-6)
    assert np.allclose(_rows(ops.swiglu(x, y, 3, 8)), X / (1 + np.exp(-X)) * Y, atol=1e-6)
    product = np.asarray(ops.matmul(GgmlType.F32, table.tobytes(), 5, 8, x, 3)).reshape(3, 5)
    assert np.allclose(product, X @ table.T, atol=1e-5)


def test_a_position_of_zero_turns_nothing_and_others_keep_lengths() -> None:
    turned = _rows(ops.rope(X.tobytes(), [0, 7, 9], TURN))
    assert np.array_equal(turned[0], X[0])
    assert not np.allclose(turned[1:], X[1:], atol=1e-2)
    assert np.allclose((turned**2).sum(1), (X**2).sum(1), atol=1e-5)


def test_divisors_slow_a_rotation_down() -> None:
    slow = ops.rope(X.tobytes(), [2, 2, 2], TURN, np.array([2.0, 2.0], "f4").tobytes())
    assert np.allclose(_rows(slow), _rows(ops.rope(X.tobytes(), [1, 1, 1], TURN)), atol=1e-6)


def test_a_row_attends_to_its_own_bank_alone() -> None:
    q, k, v = X.tobytes(), Y[:, :4].tobytes(), X[:, 4:].tobytes()
    result = _rows(ops.attention(q, k, v, PLACES, HEADS))
    assert np.allclose(result[0].reshape(2, 4), X[0, 4:], atol=1e-6)
    assert np.allclose(result[1].reshape(2, 4), X[1, 4:], atol=1e-6)
    low, high = np.minimum(X[0, 4:], X[2, 4:]), np.maximum(X[0, 4:], X[2, 4:])
    assert ((result[2].reshape(2, 4) >= low - 1e-6) & (result[2].reshape(2, 4) <= high + 1e-6)).all()


@pytest.mark.parametrize("way", [How(step_rows=1), How(step_rows=2, threads=2), How(kernels="portable")])
def test_steps_threads_and_kernels_do_not_change_what_is_computed(way: How) -> None:
    plain = _rows(ops.attention(X.tobytes(), Y[:, :4].tobytes(), X[:, 4:].tobytes(), PLACES, HEADS))
    other = _rows(ops.attention(X.tobytes(), Y[:, :4].tobytes(), X[:, 4:].tobytes(), PLACES, HEADS, how=way))
    assert np.allclose(plain, other, atol=1e-6)


def test_a_step_draws_what_the_sampler_draws_with_the_uniform_of_its_position() -> None:
    desc = SamplerDesc(
        temperature=1.2, top_k=20, top_p=0.95, repetition_penalty=1.2, presence_penalty=0.5, output_from=2, seed=77
    )
    drawn = set()
    for position in range(40):
        logits = RNG.normal(size=50).astype("f4").tobytes()
        history = RNG.integers(0, 50, position + 1).tolist()
        uniform = sample_uniform(desc.seed, position)
        alone = sample_logits(desc, bytearray(logits), history, min(2, len(history)), uniform=uniform)
        assert ops.sample(desc, logits, history, top=1).token == alone
        drawn.add(alone)
    assert len(drawn) > 5


def test_log_probabilities_are_of_the_raw_logits_and_the_likeliest_come_first() -> None:
    logits = np.array([0.0, 1.0, 1.0, -np.inf], "f4").tobytes()
    drawn = ops.sample(SamplerDesc(bias=((0, 9.0),)), logits, [0], top=64)
    assert drawn.token == 0
    assert drawn.logprob == pytest.approx(-np.log(1 + 2 * np.e))
    assert [token for token, _ in drawn.top] == [1, 2, 0, 3]
    assert drawn.top[3][1] == -np.inf
    assert ops.sample(SamplerDesc(), logits, [0]).top == []


@pytest.mark.parametrize("kind", [GgmlType.F16, GgmlType.BF16, GgmlType.Q8_0])
def test_what_the_engine_writes_has_the_types_size(kind: GgmlType) -> None:
    values = RNG.normal(size=64).astype("f4").tobytes()
    assert len(quantize(kind, values, 64)) == {GgmlType.Q8_0: 68}.get(kind, 128)


def _rows(values: memoryview[float]) -> np.ndarray:
    return np.asarray(values).reshape(-1, 8)


X_BYTES = X.tobytes()
REFUSED: dict[str, tuple[str, Callable[[], object]]] = {
    "a weight that is too short": ("engine_argument", lambda: ops.embed(GgmlType.Q8_0, bytes(33), 1, 32, [0])),
    "an id outside": ("engine_argument", lambda: ops.embed(GgmlType.F32, bytes(4), 1, 1, [1])),
    "rows that are not there": ("engine_argument", lambda: ops.add(X_BYTES, X_BYTES, 4, 8)),
    "no norm's weight": ("engine_argument", lambda: ops.rmsnorm(X_BYTES, b"", 3, 1e-5)),
    "a place out of order": (
        "engine_argument",
        lambda: ops.attention(X_BYTES, bytes(48), bytes(48), [(0, 0), (0, 2), (0, 1)], HEADS),
    ),
    "kernels of no machine": ("engine_unsupported", lambda: ops.add(X_BYTES, X_BYTES, 3, 8, How(kernels="abacus"))),
    "an odd rotation": ("engine_argument", lambda: ops.rope(X_BYTES, [0, 1, 2], {**TURN, "rope_dim": 3})),
    "too few divisors": ("engine_argument", lambda: ops.rope(X_BYTES, [0, 1, 2], TURN, bytes(4))),
    "no history": ("engine_argument", lambda: ops.sample(SamplerDesc(), bytes(8), [])),
    "a mask that is too short": ("engine_argument", lambda: ops.sample(SamplerDesc(), bytes(8), [0], mask=b"")),
    "too many likeliest": ("engine_argument", lambda: ops.sample(SamplerDesc(), bytes(8), [0], top=65)),
    "a sampler that is none": ("engine_argument", lambda: ops.sample(SamplerDesc(top_p=2.0), bytes(8), [0])),
    "numbers that are not whole blocks": ("engine_argument", lambda: quantize(GgmlType.Q8_0, bytes(124), 31)),
    "a type that is only read": ("engine_unsupported", lambda: quantize(GgmlType.Q4_0, bytes(128), 32)),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_does_not_fit_is_refused(what: str) -> None:
    code, call = REFUSED[what]
    with pytest.raises(EngineError) as caught:
        call()
    assert caught.value.code == code
