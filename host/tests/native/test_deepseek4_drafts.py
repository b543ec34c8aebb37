"""The block that drafts: its guesses against the transcription in every layout of its file, and that using them changes
nothing but the number of steps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from ds4.core import bind, inventory
from ds4.errors import EngineError
from ds4.sys.descriptors import GgmlType, Role, SessionFlags
from ds4.sys.native import NativeModel, NativeSession, Row
from support import small_deepseek4
from support.drafting_layouts import LAYOUTS, laid_out
from support.dsv4_reference import HEAD, MTP_HEAD, Reference
from support.small_deepseek4 import EVERY_KIND, VOCAB, Floats, bits

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

PROMPT = [int(token) for token in np.random.default_rng(2).integers(0, VOCAB, 37)]
GUESS_NOISE = 0.55
"""So much noise in the block's projection makes about half of its guesses wrong; the tests count them."""
ROWS = 16


def write(path: Path) -> Path:
    return small_deepseek4.write(path, seed=4, drafting=True)


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


@contextmanager
def opened(plan: bind.BindPlan) -> Iterator[NativeModel]:
    model = NativeModel.open(plan.desc())
    try:
        yield model
    finally:
        model.close()


def session(model: NativeModel, flags: SessionFlags = SessionFlags.DRAFT) -> NativeSession:
    return small_deepseek4.session(model, n_banks=3, max_rows=ROWS, max_out=ROWS, flags=flags)


def feed(made: NativeSession, bank: int, tokens: list[int], start: int = 0) -> tuple[int, Floats]:
    """The token and logits that follow tokens, of which those from `start` on are computed."""
    logits = small_deepseek4.feed(made, bank, tokens, start)[-1]
    return int(logits.argmax()), logits


def guess(made: NativeSession, bank: int, token: int) -> tuple[int, Floats]:
    result = made.wait(made.submit_draft([Row(bank, made.length(bank), token, logits=True)]))
    return result.tokens[0], np.asarray(result.logits(0), np.float32)


@dataclass
class Answer:
    """tokens: those held and the next one. logits: of each token after the prompt."""

    tokens: list[int]
    logits: list[Floats] = field(default_factory=list)
    right: int = 0
    guesses: int = 0


def begin(made: NativeSession, bank: int, prompt: list[int]) -> Answer:
    token, logits = feed(made, bank, prompt)
    return Answer([*prompt, token], [logits])


def plain(made: NativeSession, bank: int, prompt: list[int], count: int) -> Answer:
    answer = begin(made, bank, prompt)
    while len(answer.logits) < count:
        token, logits = feed(made, bank, answer.tokens, len(answer.tokens) - 1)
        answer.tokens.append(token)
        answer.logits.append(logits)
    return answer


def guessing(made: NativeSession, prompts: list[list[int]], count: int) -> list[Answer]:
    """All banks at once: one step guesses for each, one step verifies all, and what was wrong is taken back."""
    answers = [begin(made, bank, prompt) for bank, prompt in enumerate(prompts)]
    while min(len(answer.logits) for answer in answers) < count:
        asks = [Row(bank, made.length(bank), a.tokens[-1], output=True) for bank, a in enumerate(answers)]
        guesses = made.wait(made.submit_draft(asks)).tokens
        rows = []
        for bank, a in enumerate(answers):
            at = len(a.tokens) - 1
            rows += [Row(bank, at, a.tokens[-1], logits=True), Row(bank, at + 1, guesses[bank], logits=True)]
        result = made.wait(made.submit(rows))
        for bank, a in enumerate(answers):
            held = len(a.tokens)
            right = result.tokens[2 * bank] == guesses[bank]
            for row in range(2 * bank, 2 * bank + 1 + right):
                a.tokens.append(result.tokens[row])
                a.logits.append(np.asarray(result.logits(row), np.float32))
            if not right:
                made.truncate(bank, held)
            a.right += right
            a.guesses += 1
    return answers


@pytest.mark.parametrize("layout", LAYOUTS)
def test_guesses_are_the_transcriptions_in_every_layout(tmp_path: Path, layout: str) -> None:
    plan = laid_out(write(tmp_path / "drawn.gguf"), EVERY_KIND, layout)
    expected = Reference(plan).drafts(PROMPT)
    with opened(plan) as model:
        made = session(model)
        feed(made, 0, PROMPT[:1])
        for p in range(1, len(PROMPT)):
            _, found = guess(made, 0, PROMPT[p])
            np.testing.assert_allclose(found, expected[p - 1], rtol=0, atol=1e-4)
            feed(made, 0, PROMPT[: p + 1], p)
        made.close()


@pytest.mark.parametrize("layout", ["mtp", "nextn"])
def test_a_guess_does_not_depend_on_chunks_snapshots_copies_or_wrong_guesses_before(
    tmp_path: Path, layout: str
) -> None:
    with opened(laid_out(write(tmp_path / "drawn.gguf"), EVERY_KIND, layout)) as model:
        made = session(model)
        feed(made, 0, PROMPT)
        _, expected = guess(made, 0, 7)
        for p in range(len(PROMPT)):
            if p:
                guess(made, 1, (PROMPT[p] + 1) % VOCAB)
            feed(made, 1, PROMPT[: p + 1], p)
        assert np.array_equal(bits(guess(made, 1, 7)[1]), bits(expected))
        made.restore(1, bytes(made.snapshot(0)))
        assert np.array_equal(bits(guess(made, 1, 7)[1]), bits(expected))
        made.copy(0, 2, len(PROMPT))
        assert np.array_equal(bits(guess(made, 2, 7)[1]), bits(expected))
        assert made.length(1) == made.length(2) == len(PROMPT)
        made.close()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_verified_guesses_give_the_plain_answers_and_states_whether_right_or_wrong(tmp_path: Path, layout: str) -> None:
    """Three banks at once: of each the tokens, the logits to the bit, and at the end the whole state."""
    path = write(tmp_path / "drawn.gguf")
    predictable(path)
    prompts = [PROMPT, PROMPT[5:24], PROMPT[9:10]]
    with opened(laid_out(path, EVERY_KIND, layout)) as model:
        without, with_guesses, after = session(model, SessionFlags(0)), session(model), session(model)
        found = guessing(with_guesses, prompts, 60)
        for bank, prompt in enumerate(prompts):
            expected = plain(without, bank, prompt, 60)
            assert found[bank].tokens[: len(expected.tokens)] == expected.tokens
            for a, b in zip(found[bank].logits, expected.logits, strict=False):
                assert np.array_equal(bits(a), bits(b))
            held = found[bank].tokens[: with_guesses.length(bank)]
            feed(after, bank, held)
            assert len(held) == len(found[bank].tokens) - 1
            assert bytes(with_guesses.snapshot(bank)) == bytes(after.snapshot(bank))
        right, guesses = sum(a.right for a in found), sum(a.guesses for a in found)
        assert 0.25 <= right / guesses <= 0.75, (right, guesses)
        for made in (without, with_guesses, after):
            made.close()


def test_what_cannot_be_guessed_is_refused(tmp_path: Path) -> None:
    with opened(bind.plan(inventory.load(write(tmp_path / "drawn.gguf")))) as model:
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
