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
    """when: what stands in the last turn; "" fits all. say: the answer, with markup as the model would write it.
    think: what comes before it, if the prompt has opened reasoning.
    """

    when: str
    say: str
    think: str = ""


def write(path: Path, rules: Sequence[Rule]) -> Path:
    path.write_text(json.dumps([asdict(rule) for rule in rules]))
    return path


def read(path: Path) -> list[Rule]:
    return [Rule(**rule) for rule in json.loads(path.read_text())]


@dataclass(frozen=True)
class Markup:
    """turn: the special token that opens a turn. answer: the texts with which a prompt opens an answer, and what ends
    the reasoning that some of them open."""

    turn: str
    answer: dict[str, str]


CHATML = Markup("<|im_start|>", {"<|im_start|>assistant\n": ""})
DEEPSEEK = Markup("<｜User｜>", {"<｜Assistant｜><think>": "</think>", "<｜Assistant｜></think>": ""})


class Script:
    """The rule of a FakeModel."""

    def __init__(self, rules: Sequence[Rule], tokenizer: Tokenizer) -> None:
        known = tokenizer.special_tokens
        markup = next((m for m in (CHATML, DEEPSEEK) if m.turn in known), None)
        if markup is None:
            raise AssertionError("the vocabulary has the markup of no dialect that scripts know")
        self._rules, self._tokenizer = rules, tokenizer
        self._turn = known[markup.turn]
        self._answers = [(tuple(tokenizer.encode(text, special=True)), end) for text, end in markup.answer.items()]
        assert tokenizer.eos_id is not None
        self._end = tokenizer.eos_id
        self._said = functools.lru_cache(64)(self._say)

    def __call__(self, tokens: Sequence[int]) -> int:
        at, begun, ends_thought = self._opening(tokens)
        turn = next((i for i in reversed(range(at)) if tokens[i] == self._turn), 0)
        said = self._said(tuple(tokens[turn:at]), ends_thought)
        done = len(tokens) - begun
        return said[done] if done < len(said) else self._end

    def _opening(self, tokens: Sequence[int]) -> tuple[int, int, str]:
        """Where the last answer's opening starts and ends, and what ends the reasoning that it opens."""
        for at in reversed(range(len(tokens))):
            for opening, ends_thought in self._answers:
                if tokens[at] == opening[0] and tuple(tokens[at : at + len(opening)]) == opening:
                    return at, at + len(opening), ends_thought
        raise EngineError("the prompt opens no answer", status=Status.ARG, code="engine_unscripted")

    def _say(self, turn: tuple[int, ...], ends_thought: str) -> list[int]:
        text = self._tokenizer.decode(turn)
        for rule in self._rules:
            if rule.when in text:
                thought = rule.think + ends_thought if ends_thought else ""
                return self._tokenizer.encode(thought + rule.say, special=True)
        message = f"no rule of the script fits the turn {text[:_SHOWN]!r}"
        raise EngineError(message, status=Status.ARG, code="engine_unscripted")


def sessions(rules: Sequence[Rule], tokenizer: Tokenizer) -> type[FakeSession]:
    """A stand-in for NativeSession over such a model."""

    class ScriptedSession(FakeSession):
        def __init__(self, model: FakeModel, desc: SessionDesc) -> None:
            model.rule = Script(rules, tokenizer)
            super().__init__(model, desc)

    return ScriptedSession
