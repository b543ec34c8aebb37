"""The block that drafts: its guesses against the transcription, and that using them changes nothing but the number of
steps."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from ds4.core import bind, inventory
from ds4.core.bind import BindPlan
from ds4.errors import EngineError
from ds4.perf.synth import random_model, shapes
from ds4.perf.synth.mixes import Mix
from ds4.sys.descriptors import GgmlType, Numeric, Role, SessionDesc, SessionFlags
from ds4.sys.native import NativeModel, NativeSession, Row
from dsv4_reference import HEAD, MTP_HEAD, Reference

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

Floats = npt.NDArray[np.float32]
PROMPT = [int(token) for token in np.random.default_rng(2).integers(0, 512, 37)]
GUESS_NOISE = 0.25
"""So much noise in the block's projection makes about half of its guesses wrong; the test counts them."""


def write(path: Path) -> Path:
    shape = shapes.shape("deepseek4-tiny", None, ("attention.sliding_window=24",))
    random_model.write(path, shape, Mix.of("f32", ()), seed=4, drafting=True)
    return path


def predictable(path: Path) -> None:
    """Makes the next token a function of the last alone, which the block that drafts knows but for some noise: layers
    add nothing to the embedding, and the block has the model's own head on a noisy copy of it."""
    plan = bind.plan(inventory.load(path))
    width, rng, raw = plan.hparams.d_model, np.random.default_rng(1), bytearray(path.read_bytes())
    twins = dict(zip(MTP_HEAD, HEAD, strict=True))
    slots = {(slot.role, slot.layer): slot for slot in plan.slots}
    for slot in plan.slots:
        if slot.type != GgmlType.F32:
            continue
        values = np.frombuffer(raw, np.float32, slot.nbytes // 4, slot.offset)
        if slot.role in (Role.ATTN_OUT_B, Role.EXPERTS_DOWN, Role.SHARED_DOWN, Role.MTP_H_PROJ):
            values[:] = 0
        elif slot.role is Role.MTP_E_NORM:
            values[:] = 1
        elif slot.role is Role.MTP_E_PROJ:
            noise = rng.standard_normal((width, width)) * GUESS_NOISE / np.sqrt(width)
            values[:] = (np.eye(width) + noise).ravel()
        elif slot.role in twins:
            twin = slots[twins[slot.role], -1]
            values[:] = np.frombuffer(bytes(raw), np.float32, twin.nbytes // 4, twin.offset)
    path.write_bytes(raw)


def session(model: NativeModel, flags: SessionFlags = SessionFlags.DRAFT) -> NativeSession:
    desc = SessionDesc(
        n_banks=2,
        n_ctx=512,
        max_rows=16,
        max_out=16,
        n_threads=2,
        numeric=Numeric.FLOAT,
        kv_type=GgmlType.F32,
        flags=flags,
    )
    return NativeSession(model, desc)


def feed(made: NativeSession, bank: int, tokens: list[int], start: int = 0) -> tuple[int, Floats]:
    """The token and logits that follow tokens, of which those from `start` on are computed."""
    for at in range(start, len(tokens), 16):
        rows = [Row(bank, p, tokens[p], logits=True) for p in range(at, min(len(tokens), at + 16))]
        result = made.wait(made.submit(rows))
    return result.tokens[-1], np.asarray(result.logits(len(rows) - 1), np.float32)


def guess(made: NativeSession, bank: int, token: int) -> tuple[int, Floats]:
    result = made.wait(made.submit_draft([Row(bank, made.length(bank), token, logits=True)]))
    return result.tokens[0], np.asarray(result.logits(0), np.float32)


@dataclass
class Run:
    tokens: list[int]
    logits: list[Floats]  # of each token
    right: int
    guesses: int


def plain(made: NativeSession, count: int) -> Run:
    token, logits = feed(made, 0, PROMPT)
    tokens, out, kept = list(PROMPT), [token], [logits]
    while len(out) < count:
        tokens.append(out[-1])
        token, logits = feed(made, 0, tokens, len(tokens) - 1)
        out.append(token)
        kept.append(logits)
    return Run(out, kept, 0, 0)


def guessing(made: NativeSession, count: int) -> Run:
    token, logits = feed(made, 0, PROMPT)
    run, tokens = Run([token], [logits], 0, 0), list(PROMPT)
    while len(run.tokens) < count:
        tokens.append(run.tokens[-1])
        at = len(tokens) - 1
        guessed, _ = guess(made, 0, tokens[-1])
        result = made.wait(made.submit([Row(0, at, tokens[-1], logits=True), Row(0, at + 1, guessed, logits=True)]))
        right = result.tokens[0] == guessed
        for row in range(2 if right else 1):
            run.tokens.append(result.tokens[row])
            run.logits.append(np.asarray(result.logits(row), np.float32))
        if right:
            tokens.append(guessed)
        else:
            made.truncate(0, at + 1)
        run.right += right
        run.guesses += 1
    return run


def open_model(path: Path) -> tuple[NativeModel, BindPlan]:
    plan = bind.plan(inventory.load(path))
    return NativeModel.open(plan.desc()), plan


def test_guesses_are_the_transcriptions(tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf")
    model, _ = open_model(path)
    expected = Reference(path).drafts(PROMPT)
    made = session(model)
    feed(made, 0, PROMPT[:1])
    for p in range(1, len(PROMPT)):
        _, found = guess(made, 0, PROMPT[p])
        np.testing.assert_allclose(found, expected[p - 1], rtol=0, atol=1e-4)
        feed(made, 0, PROMPT[: p + 1], p)
    made.close()
    model.close()


def test_a_guess_does_not_depend_on_chunks_snapshots_or_wrong_guesses_before(tmp_path: Path) -> None:
    model, _ = open_model(write(tmp_path / "model.gguf"))
    made = session(model)
    feed(made, 0, PROMPT)
    _, expected = guess(made, 0, 7)
    for p in range(len(PROMPT)):
        if p:
            guess(made, 1, (PROMPT[p] + 1) % 512)
        feed(made, 1, PROMPT[: p + 1], p)
    assert np.array_equal(guess(made, 1, 7)[1].view(np.uint32), expected.view(np.uint32))
    made.restore(1, bytes(made.snapshot(0)))
    assert np.array_equal(guess(made, 1, 7)[1].view(np.uint32), expected.view(np.uint32))
    assert made.length(1) == len(PROMPT)
    made.close()
    model.close()


def test_verified_guesses_give_the_plain_answer_and_state_whether_right_or_wrong(tmp_path: Path) -> None:
    path = write(tmp_path / "model.gguf")
    predictable(path)
    model, _ = open_model(path)
    without, with_guesses, after = session(model, SessionFlags(0)), session(model), session(model)
    expected, found = plain(without, 80), guessing(with_guesses, 80)
    assert found.tokens[:80] == expected.tokens
    for a, b in zip(found.logits, expected.logits, strict=False):
        assert np.array_equal(a.view(np.uint32), b.view(np.uint32))
    assert 0.25 <= found.right / found.guesses <= 0.75, (found.right, found.guesses)
    seen = [*PROMPT, *found.tokens][: with_guesses.length(0)]
    feed(after, 0, seen)
    assert bytes(with_guesses.snapshot(0)) == bytes(after.snapshot(0))
    for made in (without, with_guesses, after):
        made.close()
    model.close()


def test_what_cannot_be_guessed_is_refused(tmp_path: Path) -> None:
    model, _ = open_model(write(tmp_path / "model.gguf"))
    made, without = session(model), session(model, SessionFlags(0))
    with pytest.raises(EngineError, match="position 0"):
        made.submit_draft([Row(0, 0, 1, output=True)])
    feed(made, 0, PROMPT)
    with pytest.raises(EngineError, match="output flag"):
        made.submit_draft([Row(0, len(PROMPT), 1)])
    with pytest.raises(EngineError, match="position is 5, expected 37"):
        made.submit_draft([Row(0, 5, 1, output=True)])
    feed(without, 0, PROMPT)
    with pytest.raises(EngineError, match="without flag"):
        without.submit_draft([Row(0, len(PROMPT), 1, output=True)])
    made.close()
    without.close()
    model.close()
