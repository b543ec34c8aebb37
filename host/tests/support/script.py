"""A model that says what a script says, below the whole of the host: a double of the engine's step, nothing more.

A script is a list of rules. When an answer begins, the first rule whose `when` stands in the last turn of the prompt
(the text between the last two openings of a turn, as the model would read it) decides what is said; then the model
ends. What is drawn at a position follows from the tokens before it alone, as with a real model, so banks, caches and
schedules may do as they like.

An answer that no rule has anything to say to fails the step: a client that asks something unforeseen shall be noticed.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ds4.core.tokenizer import Tokenizer
from ds4.errors import EngineError
from ds4.sys.descriptors import SessionDesc, Status
from support.fake_native import FakeModel, FakeSession

_SHOWN = 300  # characters of a turn that an error shows


@dataclass(frozen=True)
class Rule:
    """when: what stands in the last turn; "" fits all. say: the answer, with markup as the model would write it."""

    when: str
    say: str


def write(path: Path, rules: Sequence[Rule]) -> Path:
    path.write_text(json.dumps([asdict(rule) for rule in rules]))
    return path


def read(path: Path) -> list[Rule]:
    return [Rule(**rule) for rule in json.loads(path.read_text())]


@dataclass(frozen=True)
class Markup:
    """turn: the special tokens that open a turn. answer: the texts with which a prompt opens an answer."""

    turn: tuple[str, ...]
    answer: tuple[str, ...]


CHATML = Markup(("<|im_start|>",), ("<|im_start|>assistant\n",))
DEEPSEEK = Markup(("<｜User｜>",), ("<｜Assistant｜><think>", "<｜Assistant｜></think>"))


class Script:
    """The rule of a FakeModel."""

    def __init__(self, rules: Sequence[Rule], tokenizer: Tokenizer) -> None:
        known = tokenizer.special_tokens
        markup = next((m for m in (CHATML, DEEPSEEK) if all(turn in known for turn in m.turn)), None)
        if markup is None:
            raise AssertionError("the vocabulary has the markup of no dialect that scripts know")
        self._rules, self._tokenizer = rules, tokenizer
        self._turn = {known[text] for text in markup.turn}
        self._answer = [tuple(tokenizer.encode(text, special=True)) for text in markup.answer]
        assert tokenizer.eos_id is not None
        self._end = tokenizer.eos_id
        self._said = functools.lru_cache(64)(self._say)

    def __call__(self, tokens: Sequence[int]) -> int:
        at, begun = self._opening(tokens)
        turn = next((i for i in reversed(range(at)) if tokens[i] in self._turn), 0)
        said = self._said(tuple(tokens[turn:at]))
        done = len(tokens) - begun
        return said[done] if done < len(said) else self._end

    def _opening(self, tokens: Sequence[int]) -> tuple[int, int]:
        """Where the last answer's opening starts and ends."""
        for at in reversed(range(len(tokens))):
            for opening in self._answer:
                if tokens[at] == opening[0] and tuple(tokens[at : at + len(opening)]) == opening:
                    return at, at + len(opening)
        raise EngineError("the prompt opens no answer", status=Status.ARG, code="engine_unscripted")

    def _say(self, turn: tuple[int, ...]) -> list[int]:
        text = self._tokenizer.decode(turn)
        for rule in self._rules:
            if rule.when in text:
                return self._tokenizer.encode(rule.say, special=True)
        message = f"no rule of the script fits the turn {text[:_SHOWN]!r}"
        raise EngineError(message, status=Status.ARG, code="engine_unscripted")


def sessions(rules: Sequence[Rule], tokenizer: Tokenizer) -> type[FakeSession]:
    """A stand-in for NativeSession over such a model."""

    class ScriptedSession(FakeSession):
        def __init__(self, model: FakeModel, desc: SessionDesc) -> None:
            model.rule = Script(rules, tokenizer)
            super().__init__(model, desc)

    return ScriptedSession
