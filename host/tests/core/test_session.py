"""Sessions over a fake engine, whose every token depends on all tokens before it: a stale or missing one would show."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, cast

import pytest
from ds4.core.chat_template import TemplateChat
from ds4.core.engine import EngineThread
from ds4.core.sampling import Sampling
from ds4.core.session import Event, Prompt, Session
from ds4.core.template import ChatTemplate
from ds4.core.tokenizer import Tokenizer
from ds4.errors import (
    Cancelled,
    ContextLengthError,
    Ds4Error,
    EngineError,
    SamplingError,
    TemplateError,
    TokenizerError,
)
from ds4.sys.descriptors import Status
from ds4.sys.native import NativeSession
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chat_templates import CHATML, CHATML_SPECIALS
from support.fake_native import TINY, FakeSession, fake_session, hashed, scripted
from support.vocabularies import byte_level

VOCAB = TINY.n_vocab  # the fake draws ids 0..255: three specials and the bytes 0..252
TOKENIZER = byte_level(CHATML_SPECIALS)
NO_STOPS = byte_level(CHATML_SPECIALS, stop=())
RULE = hashed(VOCAB)


@pytest.fixture(scope="module")
def engine() -> Iterator[EngineThread]:
    with EngineThread() as thread:
        yield thread


def make(engine: EngineThread, tokenizer: Tokenizer = NO_STOPS, **options: Any) -> tuple[Session, FakeSession]:
    fake = fake_session(**options)
    dialect = TemplateChat(ChatTemplate(CHATML, special_tokens=CHATML_SPECIALS))
    return Session(engine, cast(NativeSession, fake), tokenizer, dialect), fake


def saying(engine: EngineThread, text: str, prompt: int = 2, **options: Any) -> tuple[Session, FakeSession]:
    """A session whose answer to a prompt of `prompt` tokens is the text and then <|im_end|>."""
    script = [*TOKENIZER.encode(text), TOKENIZER.special_tokens["<|im_end|>"]]
    return make(engine, TOKENIZER, rule=scripted(script, prompt), **options)


def expected(prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(RULE(tokens))
    return tokens[len(prompt) :]


def test_an_answer_is_what_the_model_draws_token_by_token(engine: EngineThread) -> None:
    session, fake = make(engine)
    generation = session.generate([5, 6, 7], max_tokens=9)
    events = list(generation)
    assert generation.tokens == [event.token for event in events] == expected([5, 6, 7], 9)
    assert generation.finish_reason == events[-1].finish_reason == "length"
    assert [event.finish_reason for event in events[:-1]] == [None] * 8
    assert session.tokens == fake.banks[0] == [5, 6, 7, *generation.tokens[:-1]]


def test_the_engine_works_one_step_ahead_and_no_further(engine: EngineThread) -> None:
    session, fake = make(engine)
    generation = session.generate([1, 2], max_tokens=6)
    for delivered in range(1, 6):
        next(generation)
        assert len(fake.log) == 1 + delivered
        assert fake.log[-1][0].token == -1
    assert next(generation).finish_reason == "length"
    assert len(fake.log) == 6  # the prompt and five tokens: nothing is computed past the last


def test_an_end_token_ends_the_answer_without_text_and_the_step_too_many_is_undone(engine: EngineThread) -> None:
    session, fake = saying(engine, "Hi")
    generation = session.generate([1, 2])
    events = list(generation)
    assert [event.text for event in events] == ["H", "i", ""]
    assert (generation.text, generation.finish_reason) == ("Hi", "stop")
    assert fake.banks[0] == session.tokens == [1, 2, *TOKENIZER.encode("Hi")]


def test_past_its_end_token_an_answer_goes_on_if_asked_to(engine: EngineThread) -> None:
    session, _ = saying(engine, "Hi")
    generation = session.generate([1, 2], ignore_eos=True, max_tokens=5)
    assert generation.run() == "Hi"
    assert (len(generation.tokens), generation.finish_reason) == (5, "length")


@pytest.mark.parametrize(("stop", "shown"), [("def", "abc"), (["xyz", "e"], "abcd"), ("fg", "abcde"), ("a", "")])
def test_a_stop_string_ends_the_answer_and_is_not_shown(
    engine: EngineThread, stop: str | list[str], shown: str
) -> None:
    session, fake = saying(engine, "abcdefgh")
    generation = session.generate([1, 2], stop=stop)
    assert generation.run() == shown
    assert generation.finish_reason == "stop"
    assert fake.banks[0] == session.tokens


def test_text_held_back_for_a_stop_string_comes_with_the_end(engine: EngineThread) -> None:
    session, _ = saying(engine, "abc")
    events = list(session.generate([1, 2], stop="cd"))
    assert [event.text for event in events] == ["a", "b", "", "c"]
    session, _ = saying(engine, "abc")
    assert session.generate([1, 2], stop="cd", max_tokens=3).run() == "abc"


def test_half_a_character_is_never_shown_and_at_the_end_it_is_a_replacement(engine: EngineThread) -> None:
    session, _ = saying(engine, "a€b")
    assert [event.text for event in session.generate([1, 2])] == ["a", "", "", "€", "b", ""]
    session, _ = saying(engine, "a€b")
    assert session.generate([1, 2], max_tokens=2).run() == "a\ufffd"


def test_control_tokens_show_only_where_asked_for(engine: EngineThread) -> None:
    script = [TOKENIZER.special_tokens["<|im_start|>"], *TOKENIZER.encode("x")]
    for special, text in ((False, "x"), (True, "<|im_start|>x")):
        session, _ = make(engine, TOKENIZER, rule=scripted(script, 1))
        assert session.generate([9], max_tokens=2, special=special).run() == text


def test_the_next_turn_evaluates_only_what_is_new(engine: EngineThread) -> None:
    session, fake = make(engine)
    first = session.generate([1, 2, 3], max_tokens=4)
    first.run()
    fake.log.clear()
    second = session.generate([1, 2, 3, *first.tokens, 8, 9], max_tokens=2)
    second.run()
    assert second.cached_tokens == 6  # the last drawn token had not been evaluated
    assert [row.position for row in fake.log[0]] == [6, 7, 8]
    assert second.tokens == expected([1, 2, 3, *first.tokens, 8, 9], 2)


def test_a_prompt_that_differs_is_evaluated_from_where_it_does(engine: EngineThread) -> None:
    session, fake = make(engine)
    session.generate([1, 2, 3, 4], max_tokens=3).run()
    generation = session.generate([1, 2, 9], max_tokens=3)
    assert generation.run() is not None
    assert (generation.cached_tokens, generation.tokens) == (2, expected([1, 2, 9], 3))


def test_the_same_prompt_again_evaluates_its_last_token(engine: EngineThread) -> None:
    session, _ = make(engine)
    first, second = (session.generate([1, 2, 3], max_tokens=3) for _ in range(2))
    second.run()
    assert first.finish_reason == "cancelled"  # a second generation ends the first
    again = session.generate([1, 2, 3], max_tokens=3)
    again.run()
    assert (again.cached_tokens, again.tokens) == (2, second.tokens)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 6), st.integers(0, 7)),
        max_size=6,
    )
)
def test_any_sequence_of_prompts_left_at_any_point_answers_as_a_fresh_session_would(
    turns: list[tuple[list[int], int, int]],
) -> None:
    with EngineThread() as engine:
        session, fake = make(engine)
        for prompt, count, leave_at in turns:
            generation = session.generate(prompt, max_tokens=count)
            for index, event in enumerate(generation):
                assert event.token == expected(prompt, count)[index]
                if index == leave_at:
                    break
            session.settle()
            assert fake.banks[0] == session.tokens
            assert session.tokens[: len(prompt)] == prompt


def test_a_long_prompt_goes_in_chunks_and_tells_its_progress(engine: EngineThread) -> None:
    session, fake = make(engine)
    prompt = [n % VOCAB for n in range(100)]
    seen: list[tuple[int, int]] = []
    generation = session.generate(prompt, max_tokens=1, progress=lambda done, total: seen.append((done, total)))
    generation.run()
    assert [len(rows) for rows in fake.log] == [32, 32, 32, 4]
    assert [sum(row.output for row in rows) for rows in fake.log] == [0, 0, 0, 1]
    assert seen[-1] == (100, 100)
    assert seen == sorted(set(seen))
    assert generation.tokens == expected(prompt, 1)


def test_a_prompt_past_the_context_names_both_numbers_at_once(engine: EngineThread) -> None:
    session, fake = make(engine, n_ctx=16)
    with pytest.raises(ContextLengthError) as caught:
        session.generate([1] * 17)
    assert (caught.value.expected, caught.value.found) == ("at most 16 tokens", 17)
    assert fake.log == []


def test_an_answer_ends_where_the_context_does(engine: EngineThread) -> None:
    session, fake = make(engine, n_ctx=16)
    generation = session.generate([1] * 10)
    generation.run()
    assert (len(generation.tokens), generation.finish_reason) == (6, "length")
    full = session.generate([1] * 16, max_tokens=9)
    full.run()
    assert (len(full.tokens), full.finish_reason) == (1, "length")


def test_sampling_reaches_the_engine_with_the_prompts_end_as_start_of_output(engine: EngineThread) -> None:
    session, fake = make(engine)
    session.generate([1, 2, 3], sampling=Sampling(temperature=0.5, top_k=4, seed=11), max_tokens=1).run()
    desc = fake.samplers[0]
    assert (desc.temperature, desc.top_k, desc.seed, desc.output_from) == (0.5, 4, 11, 3)


def test_log_probabilities_come_where_asked_for(engine: EngineThread) -> None:
    session, _ = make(engine)
    events = list(session.generate([1], max_tokens=3, logprobs=2))
    assert all(event.logprob == -0.5 and len(event.top) == 2 and event.top[0][0] == event.token for event in events)
    assert all(event.logprob == -0.5 and event.top == () for event in session.generate([1], max_tokens=3, logprobs=0))
    assert all(event.logprob is None for event in session.generate([1], max_tokens=3))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"max_tokens": 0}, Ds4Error),
        ({"logprobs": 65}, Ds4Error),
        ({"logprobs": -1}, Ds4Error),
        ({"stop": ""}, Ds4Error),
        ({"stop": ["a", ""]}, Ds4Error),
        ({"sampling": Sampling(logit_bias={10**6: 1.0})}, SamplingError),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_runs(
    engine: EngineThread, options: dict[str, Any], error: type[Ds4Error]
) -> None:
    session, fake = make(engine)
    with pytest.raises(error):
        session.generate([1], **options)
    assert fake.log == []


@pytest.mark.parametrize("prompt", [[-1], [10**6], [True], ["a"], [{"role": "user", "content": "x"}, 1], [1.5]])
def test_a_prompt_that_is_none_is_refused(engine: EngineThread, prompt: Any) -> None:
    with pytest.raises(TokenizerError, match="not a prompt"):
        make(engine)[0].generate(prompt)


def test_an_empty_prompt_is_refused(engine: EngineThread) -> None:
    nothing: list[Prompt] = ["", []]
    for prompt in nothing:
        with pytest.raises(Ds4Error, match="empty prompt"):
            make(engine)[0].generate(prompt)


def test_text_messages_and_ids_are_all_prompts(engine: EngineThread) -> None:
    session, _ = make(engine)
    assert session.encode("a<|im_end|>") == TOKENIZER.encode("a<|im_end|>")
    assert session.encode([3, 4]) == [3, 4]
    ids = session.encode([{"role": "user", "content": "a<|im_end|>"}])
    assert ids.count(TOKENIZER.special_tokens["<|im_end|>"]) == 1


def test_messages_without_a_template_are_refused(engine: EngineThread) -> None:
    session = Session(engine, cast(NativeSession, fake_session()), TOKENIZER, None)
    with pytest.raises(TemplateError, match="no chat template"):
        session.encode([{"role": "user", "content": "x"}])


def test_cancel_from_another_thread_ends_the_answer_and_keeps_what_came(engine: EngineThread) -> None:
    session, fake = make(engine)
    generation = session.generate([1, 2])
    got: list[Event] = []
    for event in generation:
        got.append(event)
        if len(got) == 3:
            thread = threading.Thread(target=session.cancel)
            thread.start()
            thread.join()
    assert generation.finish_reason == got[-1].finish_reason == "cancelled"
    assert got[-1].token is None
    assert generation.tokens == expected([1, 2], len(generation.tokens)) and len(generation.tokens) >= 3
    assert fake.banks[0] == session.tokens
    assert session.tokens == [1, 2, *generation.tokens][: len(session.tokens)]
    follow = session.generate([1, 2, 3], max_tokens=2)
    follow.run()
    assert follow.tokens == expected([1, 2, 3], 2)


def test_cancel_during_a_long_prompt_keeps_the_chunks_that_were_done(engine: EngineThread) -> None:
    session, fake = make(engine)
    waits = 0

    def interrupt(_: FakeSession) -> None:
        nonlocal waits
        waits += 1
        if waits == 2:
            session.cancel()

    fake.on_wait = interrupt
    prompt = [n % VOCAB for n in range(100)]
    generation = session.generate(prompt, max_tokens=3)
    assert [event.finish_reason for event in generation] == ["cancelled"]
    assert session.tokens == fake.banks[0] == prompt[:32]
    fake.on_wait = None
    again = session.generate(prompt, max_tokens=3)
    again.run()
    assert (again.cached_tokens, again.tokens) == (32, expected(prompt, 3))


def test_ctrl_c_reaches_the_caller_and_leaves_a_usable_session(engine: EngineThread) -> None:
    session, fake = make(engine)

    def strike(done: int, total: int) -> None:
        raise KeyboardInterrupt

    generation = session.generate([n % VOCAB for n in range(100)], progress=strike)
    with pytest.raises(KeyboardInterrupt):
        next(generation)
    assert generation.finish_reason == "cancelled"
    assert fake.banks[0] == session.tokens
    assert session.generate([4], max_tokens=2).run() is not None


def test_a_failing_engine_raises_and_the_session_recovers(engine: EngineThread) -> None:
    session, fake = make(engine)
    generation = session.generate([1, 2])
    next(generation)
    fake.fail_next = EngineError("broken", status=Status.INTERNAL, code="engine_internal")
    with pytest.raises(EngineError, match="broken"):
        next(generation)
    assert generation.done and fake.banks[0] == session.tokens
    follow = session.generate([1, 2, 3], max_tokens=3)
    follow.run()
    assert follow.tokens == expected([1, 2, 3], 3)


def test_an_answer_may_be_left_by_a_with_block(engine: EngineThread) -> None:
    session, fake = saying(engine, "abc")
    with session.generate([1, 2], stop="bx") as generation:
        next(generation)
        next(generation)
    assert (generation.text, generation.finish_reason) == ("ab", "cancelled")
    assert fake.banks[0] == session.tokens
    with pytest.raises(StopIteration):
        next(generation)


def test_sync_brings_a_session_to_exactly_a_prompt(engine: EngineThread) -> None:
    session, fake = make(engine)
    assert session.sync([1, 2, 3]) == 0
    assert session.sync([1, 2, 3, 4]) == 3
    assert session.sync([1, 2]) == 2
    assert session.sync([1, 2]) == 2
    assert fake.banks[0] == session.tokens == [1, 2]
    assert session.sync([1, 9]) == 1
    assert [row.position for row in fake.log[-1]] == [1]


def test_sync_can_be_cancelled_between_chunks(engine: EngineThread) -> None:
    session, fake = make(engine)
    with pytest.raises(Cancelled):
        fake.on_wait = lambda native: native.cancel() if len(fake.log) == 2 else None
        session.sync([1] * 100)
    assert fake.banks[0] == session.tokens == [1] * 32


def test_rewind_and_clear_forget_positions(engine: EngineThread) -> None:
    session, fake = make(engine)
    session.sync([1, 2, 3, 4])
    assert session.rewind(9) == 4
    assert session.rewind(2) == 2 == len(session)
    assert fake.banks[0] == session.tokens == [1, 2]
    session.clear()
    assert fake.banks[0] == session.tokens == []


def test_a_snapshot_brings_an_earlier_state_back(engine: EngineThread) -> None:
    session, fake = make(engine)
    session.sync([1, 2, 3])
    saved, tokens = bytes(session.snapshot()), session.tokens
    session.generate([7, 8], max_tokens=5).run()
    session.restore(saved, tokens)
    assert fake.banks[0] == session.tokens == [1, 2, 3]
    generation = session.generate([1, 2, 3, 4], max_tokens=2)
    generation.run()
    assert (generation.cached_tokens, generation.tokens) == (3, expected([1, 2, 3, 4], 2))


def test_a_snapshot_with_other_tokens_leaves_an_empty_session(engine: EngineThread) -> None:
    session, fake = make(engine)
    session.sync([1, 2, 3])
    saved = bytes(session.snapshot())
    with pytest.raises(Ds4Error) as caught:
        session.restore(saved, [1, 2])
    assert caught.value.code == "snapshot_tokens"
    assert fake.banks[0] == session.tokens == []
    with pytest.raises(EngineError):
        session.restore(b"junk", [1])


def test_close_may_come_twice_and_in_the_middle_of_an_answer(engine: EngineThread) -> None:
    session, fake = make(engine)
    generation = session.generate([1, 2])
    next(generation)
    session.close()
    session.close()
    assert fake.closed and generation.done


def test_threads_that_share_a_session_take_turns_and_leave_it_whole(engine: EngineThread) -> None:
    session, _ = make(engine)
    failures: list[BaseException] = []

    def work(prompt: list[int]) -> None:
        try:
            for _ in range(30):
                generation = session.generate(prompt, max_tokens=8)
                generation.run()
                if generation.finish_reason == "length":
                    assert generation.tokens == expected(prompt, 8)
                else:  # ended by another thread's call
                    assert generation.finish_reason == "cancelled"
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=([number, 7, 9],)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    assert failures == []
    session.clear()
    generation = session.generate([5, 6], max_tokens=4)
    generation.run()
    assert generation.tokens == expected([5, 6], 4)


def test_a_session_closed_by_another_thread_ends_its_answer(engine: EngineThread) -> None:
    session, _ = make(engine)
    generation = session.generate([1, 2], max_tokens=50)
    next(generation)
    closer = threading.Thread(target=session.close)
    closer.start()
    closer.join(10)
    assert not closer.is_alive()
    assert list(generation) == []
    assert generation.finish_reason == "cancelled"


@pytest.mark.parametrize(
    "options",
    [{"max_tokens": "3"}, {"max_tokens": 1.5}, {"logprobs": 2.0}, {"stop": [3]}, {"stop": b"x"}, {"sampling": {}}],
)
def test_options_of_another_type_are_refused_by_name(engine: EngineThread, options: dict[str, Any]) -> None:
    session, _ = make(engine)
    with pytest.raises(Ds4Error) as caught:
        session.generate([1, 2], **options)
    assert caught.value.subject == next(iter(options))


@pytest.mark.parametrize("prompt", [b"hi", bytearray(b"hi"), None, {"role": "user", "content": "hi"}])
def test_bytes_and_single_messages_are_no_prompts(engine: EngineThread, prompt: Any) -> None:
    session, _ = make(engine)
    with pytest.raises(TokenizerError, match="not a prompt"):
        session.generate(prompt)
