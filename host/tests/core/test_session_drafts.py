"""Sessions that guess a token ahead: the same answers, with whatever part of the guesses right, and fewer steps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

import pytest
from ds4.core.engine import EngineThread
from ds4.core.session import Session
from ds4.sys.descriptors import SessionFlags
from ds4.sys.native import NativeSession
from support.chat_templates import CHATML_SPECIALS
from support.fake_native import TINY, FakeSession, fake_session, hashed, scripted
from support.vocabularies import byte_level

TOKENIZER = byte_level(CHATML_SPECIALS, stop=())
STOPPING = byte_level(CHATML_SPECIALS)
RULE = hashed(TINY.n_vocab)


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineThread]:
    with EngineThread() as thread:
        yield thread


def drafting(engine: EngineThread, right: int) -> tuple[Session, FakeSession]:
    """right: of each ten guesses."""
    fake = fake_session(flags=SessionFlags.DRAFT, rule=RULE)
    fake.keeps = 64

    def guess(tokens: Sequence[int]) -> int:
        token = RULE(tokens)
        return token if len(tokens) * 7 % 10 < right else (token + 1) % TINY.n_vocab

    fake.guess = guess
    return Session(engine, cast(NativeSession, fake), TOKENIZER, None), fake


@pytest.mark.parametrize("right", [0, 5, 10])
@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_guessing_changes_nothing_but_the_number_of_steps(engine: EngineThread, right: int, count: int) -> None:
    plain = Session(engine, cast(NativeSession, fake_session(rule=RULE)), TOKENIZER, None)
    session, fake = drafting(engine, right)
    expected = plain.generate([5, 6, 7], max_tokens=count)
    generation = session.generate([5, 6, 7], max_tokens=count)
    assert generation.run() == expected.run()
    assert generation.tokens == expected.tokens
    assert session.tokens == plain.tokens == fake.banks[0]
    assert generation.guesses == fake.guesses
    assert generation.right_guesses == {0: 0, 10: fake.guesses}.get(right, generation.right_guesses)
    if right == 10 and count == 40:
        assert len(fake.log) < 25


def test_an_answer_left_on_a_right_guess_leaves_only_what_was_delivered(engine: EngineThread) -> None:
    session, fake = drafting(engine, 10)
    generation = session.generate([5, 6, 7], max_tokens=40)
    for taken in range(1, 7):
        next(generation)
        assert session.tokens == [5, 6, 7, *generation.tokens[: taken - 1]]
    generation.close()
    assert fake.banks[0] == session.tokens == [5, 6, 7, *generation.tokens[:-1]]
    assert session.generate([*session.tokens, 9], max_tokens=1).cached_tokens == 8


def test_a_stop_token_ends_the_answer_whatever_was_guessed_behind_it(engine: EngineThread) -> None:
    script = [*STOPPING.encode("hello"), STOPPING.special_tokens["<|im_end|>"]]
    fake = fake_session(flags=SessionFlags.DRAFT, rule=scripted(script, 2))
    session = Session(engine, cast(NativeSession, fake), STOPPING, None)
    generation = session.generate([1, 2])
    assert generation.run() == "hello" and generation.finish_reason == "stop"
    assert fake.banks[0] == session.tokens


def test_a_bank_that_cannot_go_back_is_built_anew(engine: EngineThread) -> None:
    fake = fake_session(rule=RULE)
    fake.keeps = 4
    session = Session(engine, cast(NativeSession, fake), TOKENIZER, None)
    session.sync(list(range(3, 30)))
    assert session.generate([*range(3, 27), 1], max_tokens=1).run() is not None
    assert session.rewind(24) == 24
    other = session.generate([3, 4, 5, 1], max_tokens=5)
    other.run()
    assert other.cached_tokens == 0 and session.tokens == fake.banks[0]
    tokens = [3, 4, 5, 1]
    for _ in range(5):
        tokens.append(RULE(tokens))
    assert other.tokens == tokens[4:]
    assert session.rewind(2) == 0
