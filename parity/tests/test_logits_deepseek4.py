"""The deepseek4 forward in float mode against transformers (frozen): ds4-mini, and models drawn from a seed."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ds4.perf.synth import random_model, shapes
from ds4.perf.synth.mixes import Mix

from parity.proof import Record, prove
from parity.reference import divergence
from parity.reference.checkpoint import APART, greedy, logits_of, opened, residuals_of

GOLDENS = pathlib.Path(__file__).parents[2] / "goldens" / "logits_deepseek4"
ANSWERS = json.loads((GOLDENS / "greedy.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def mini() -> pathlib.Path:
    return pathlib.Path(os.environ["DS4_MINI_MODEL"])


def test_ds4_mini_agrees_with_transformers_to_2e_4_on_every_text(mini: pathlib.Path, record_property: Record) -> None:
    golden = divergence.load(GOLDENS / "mini.npz")
    tally = divergence.Tally()
    with opened(mini, 1024) as session:
        for name in golden.texts:
            tally.add(golden, name, logits_of(session, golden.ids(name).tolist()))
    assert golden.texts == ["chat", "docs", "tools"] and tally.positions >= 500
    assert tally.max_abs <= 2e-4
    assert tally.worst_miss <= APART
    prove(
        record_property, "forward", "deepseek4", "largest difference from transformers' logits", value=tally.max_abs,
        bound=2e-4, artifact=str(mini), numeric="float", kv="f32", banks=1,
        context=max(len(golden.ids(name)) for name in golden.texts),
    )  # fmt: skip


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer["name"])
def test_greedy_answers_of_ds4_mini_are_those_of_transformers(mini: pathlib.Path, answer: dict[str, Any]) -> None:
    want = answer["greedy_ids"]
    with opened(mini, 1024) as session:
        found = greedy(session, answer["prompt_ids"], len(want))
    assert answer["least_lead"] > APART  # or the next token would be a matter of rounding
    assert found == want


@dataclass
class Drawn:
    path: pathlib.Path
    golden: dict[str, npt.NDArray[Any]]


@pytest.fixture(scope="module", params=["flash", "pro"])
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    with np.load(GOLDENS / f"random_{request.param}.npz") as archive:
        golden = {name: archive[name] for name in archive.files}
    path = tmp_path_factory.mktemp("drawn") / "model.gguf"
    shape = shapes.shape("deepseek4-tiny", None, golden["changes"].tolist())
    random_model.write(path, shape, Mix.of("bf16", ()), seed=int(golden["seed"]))
    # The frozen logits are of these bytes; another model from the same seed is a change of ds4-synth.
    assert hashlib.sha256(path.read_bytes()).hexdigest() == str(golden["sha256"])
    return Drawn(path, golden)


@pytest.mark.parametrize("count", [1, 7, 130, 600])
def test_drawn_models_agree_with_transformers_to_1e_4_at_every_length(
    drawn: Drawn, count: int, record_property: Record
) -> None:
    golden = drawn.golden
    kept = golden["positions"] < count
    at, want = golden["positions"][kept], golden["logits"][kept]
    with opened(drawn.path, count) as session:
        found = logits_of(session, golden["ids"][:count].tolist())[at]
    np.testing.assert_allclose(found, want, rtol=0, atol=1e-4)
    best = np.sort(want, 1)
    clear = best[:, -1] - best[:, -2] > APART
    assert clear.mean() > 0.9
    assert np.array_equal(found.argmax(1)[clear], want.argmax(1)[clear])
    prove(record_property, "loader", "deepseek4", "the file is bound and opened")
    prove(
        record_property, "forward", "deepseek4", "largest difference from transformers' logits",
        value=float(np.abs(found - want).max()), bound=1e-4, numeric="float", kv="f32", context=count, banks=1,
    )  # fmt: skip


def test_residuals_of_drawn_models_agree_with_transformers_to_1e_4(drawn: Drawn) -> None:
    golden, want = drawn.golden, drawn.golden["hidden"]
    with opened(drawn.path, 130, hidden=True) as session:
        found = residuals_of(session, golden["ids"][:130].tolist(), len(want))
    assert len(want) >= 5
    np.testing.assert_allclose(found[:, golden["hidden_positions"]], want, rtol=0, atol=1e-4)
