"""Grammars against real vocabularies: whatever is drawn under the masks is what was asked for, and comes to an end."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from ds4.core import catalog, inventory
from ds4.core.constraint import grammar as grammars
from ds4.core.constraint.grammar import Grammar
from ds4.core.constraint.matcher import Matcher, Vocabulary
from ds4.core.output.grammar.frame import tool_grammar
from ds4.core.output.grammar.rules import ToolRules
from ds4.core.tokenizer import Tokenizer
from ds4.errors import ConstraintError, SettingsError
from hypothesis import given, settings
from hypothesis import strategies as st
from support.json_validity import obeys

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
        "tags": {"type": "array", "items": {"enum": ["a", "b/c", 'd"']}, "maxItems": 3},
        "more": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/place"}]},
    },
    "required": ["name", "age", "tags", "more"],
    "additionalProperties": False,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"zip": {"type": "string", "pattern": "^[0-9]{5}$"}},
            "required": ["zip"],
            "additionalProperties": False,
        }
    },
}


class Model:
    def __init__(self, name: str) -> None:
        self.tokenizer = Tokenizer.from_metadata(inventory.load(catalog.embedded_path(name)).metadata)
        visible = frozenset({"<think>", "</think>", "｜DSML｜"})
        self.vocabulary = Vocabulary(self.tokenizer, visible)
        short = [i for i in range(self.tokenizer.n_vocab) if re.fullmatch(rb'["}\],:0-9 ]{1,2}', self._spelt(i))]
        self.closing = frozenset(short)

    def _spelt(self, token: int) -> bytes:
        return self.tokenizer.token_bytes(token)

    def allowed(self, mask: bytes) -> list[int]:
        words = int.from_bytes(mask, "little")
        return [i for i in range(self.tokenizer.n_vocab) if words >> i & 1]

    def draw(self, matcher: Matcher, seed: int, most: int = 400) -> str:
        """An answer drawn at random, with a taste for what comes to an end. Fails if it does not."""
        dice, drawn = random.Random(seed), list[int]()
        while len(drawn) < most:
            allowed = self.allowed(matcher.mask(drawn))
            assert allowed
            ends = [token for token in allowed if token in self.closing or token in self.tokenizer.stop_ids]
            token = dice.choice(ends if ends and dice.random() < 0.2 + len(drawn) / most else allowed)
            if token in self.tokenizer.stop_ids:
                return self.tokenizer.decode(drawn)
            drawn.append(token)
        pytest.fail(f"no end after {most} tokens: {self.tokenizer.decode(drawn)[-200:]!r}")

    def takes(self, grammar: Grammar, text: str) -> bool:
        """Whether the text's own tokens are an answer."""
        matcher, ids = self.vocabulary.matcher(grammar), self.tokenizer.encode(text, special=True)
        for at, token in enumerate(ids):
            if token not in self.allowed(matcher.mask(ids[:at])):
                return False
        return bool(self.tokenizer.stop_ids & set(self.allowed(matcher.mask(ids))))


@pytest.fixture(scope="module", params=["smollm2", "ds4-mini"])
def model(request: pytest.FixtureRequest) -> Model:
    name = catalog.DEFAULT_MODEL if request.param == "smollm2" else request.param
    try:
        return Model(name)
    except SettingsError as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("seed", range(6))
def test_a_drawn_answer_obeys_its_schema(model: Model, seed: int) -> None:
    text = model.draw(model.vocabulary.matcher(grammars.json_schema(PERSON)), seed)
    assert obeys(json.loads(text), PERSON), text


@pytest.mark.parametrize("seed", range(3))
def test_any_object_is_an_object(model: Model, seed: int) -> None:
    assert isinstance(json.loads(model.draw(model.vocabulary.matcher(grammars.json_object()), seed)), dict)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("pattern", ["[0-9]{3}-[0-9]{4}", "(yes|no)/(a|b)", "é{2,3}\n[a-f]+", r"\[x\]"])
def test_a_pattern_matches_the_whole_answer(model: Model, pattern: str, seed: int) -> None:
    text = model.draw(model.vocabulary.matcher(grammars.regex(pattern)), seed)
    assert re.fullmatch(pattern, text), text


def test_an_ebnf_grammar_is_followed(model: Model) -> None:
    sums = grammars.lark('%llguidance {}\nstart: term ("+" term)*\nterm: NUMBER | "(" start ")"\nNUMBER: /[0-9]{1,3}/')
    assert model.takes(sums, "1+(22+3)") and not model.takes(sums, "1+(22+3") and not model.takes(sums, "1+a")
    assert re.fullmatch(r"[0-9+()]+", model.draw(model.vocabulary.matcher(sums), 1))


def test_a_complete_answer_can_only_end(model: Model) -> None:
    matcher = model.vocabulary.matcher(grammars.regex("[0-9]"))
    assert not matcher.stopped
    ids = model.tokenizer.encode("7")
    assert set(model.allowed(matcher.mask(ids))) == model.tokenizer.stop_ids
    assert matcher.stopped and matcher.accepting and matcher.seen == len(ids)


def test_an_answer_that_may_end_need_not(model: Model) -> None:
    matcher = model.vocabulary.matcher(grammars.regex("[0-9]+"))
    allowed = set(model.allowed(matcher.mask(model.tokenizer.encode("7"))))
    assert model.tokenizer.stop_ids < allowed
    assert matcher.accepting and not matcher.stopped


def test_special_tokens_are_no_text(model: Model) -> None:
    matcher = model.vocabulary.matcher(grammars.regex(r"(.|\n)*"))
    allowed = set(model.allowed(matcher.mask()))
    hidden = model.tokenizer.control_ids - model.tokenizer.ids_of({"<think>", "</think>", "｜DSML｜"})
    assert not allowed & (hidden - model.tokenizer.stop_ids)
    assert len(allowed) > model.tokenizer.n_vocab // 2


def test_a_copy_goes_its_own_way(model: Model) -> None:
    first = model.vocabulary.matcher(grammars.regex("[ab]c"))
    second = first.copy()
    a, b, c = (model.tokenizer.encode(letter)[0] for letter in "abc")
    first.advance(a)
    second.advance(b)
    assert c in model.allowed(first.mask([a])) and c in model.allowed(second.mask([b]))
    assert first.copy().seen == 1


def test_a_token_that_the_mask_forbids_breaks_the_answer(model: Model) -> None:
    matcher = model.vocabulary.matcher(grammars.regex("[0-9]"))
    with pytest.raises(ConstraintError) as caught:
        matcher.mask(model.tokenizer.encode("a"))
    assert caught.value.code == "broken"


def test_reasoning_is_free_up_to_its_end(model: Model) -> None:
    person_form = grammars.json_schema(PERSON)
    reasoned = tool_grammar(None, ToolRules(()), thinking=True, tags=("", "</think>"), answer=person_form)
    person = '{"name": "Ada", "age": 36, "tags": ["b/c"], "more": null}'
    assert model.takes(reasoned, f'Let me {{"think": 1\n</ think.</think>{person}')
    assert model.takes(reasoned, f"</think>\n\n{person}")
    assert not model.takes(reasoned, person)
    assert not model.takes(reasoned, f"hm</think>so: {person}")
    assert not model.takes(reasoned, "hm</think>")


def test_an_answer_may_open_reasoning_itself_or_not(model: Model) -> None:
    tags, number = ("<think>", "</think>"), grammars.regex("[0-9]+")
    reasoned = tool_grammar(None, ToolRules(()), thinking=False, tags=tags, answer=number)
    assert model.takes(reasoned, "42") and model.takes(reasoned, "<think>\nhm</think>42")
    assert not model.takes(reasoned, "hm</think>42")
    plain = tool_grammar(None, ToolRules(()), thinking=False, tags=tags, answer=number, may_think=False)
    assert model.takes(plain, "42") and not model.takes(plain, "<think>\nhm</think>42")


def test_white_space_before_an_answer_comes_only_behind_reasoning(model: Model) -> None:
    tags, form = ("<think>", "</think>"), grammars.json_object()
    reasoned = tool_grammar(None, ToolRules(()), thinking=False, tags=tags, answer=form)
    assert model.takes(reasoned, "<think>hm</think>\n\n{}") and model.takes(reasoned, "{}")
    assert not model.takes(reasoned, "\n{}")


def test_white_space_comes_to_an_end(model: Model) -> None:
    anything = grammars.json_object()
    pretty = json.dumps({"a": {"b": [1, 2, {"c": "d"}]}, "e": None}, indent=4)
    assert model.takes(anything, pretty) and model.takes(anything, json.dumps(json.loads(pretty)))
    assert not model.takes(anything, '{"a":' + " " * 60 + "1}") and not model.takes(anything, '{\n\n\n"a": 1}')


_TEXT = st.fixed_dictionaries(
    {"type": st.just("string")}, optional={"maxLength": st.integers(2, 9), "minLength": st.integers(0, 2)}
)
_NUMBER = st.builds(
    lambda low, size: {"type": "integer", "minimum": low, "maximum": low + size},
    st.integers(-99, 99),
    st.integers(0, 99),
)
_LEAF = st.one_of(
    _TEXT,
    _NUMBER,
    st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"type": ["boolean", "null"]}, {"const": "x'\\y"}]),
    st.lists(st.one_of(st.text(max_size=5), st.integers(-9, 9), st.booleans()), min_size=1, max_size=4).map(
        lambda values: {"enum": values}
    ),
    st.just({"type": "string", "pattern": "^[a-c]{1,3}-[0-9]+$", "maxLength": 12}),
)


def _inner(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def an_object(named: dict[str, Any], needed: bool) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": named,
            "required": list(named) if needed else [],
            "additionalProperties": False,
        }

    return st.one_of(
        st.builds(an_object, st.dictionaries(st.text(min_size=1, max_size=4), children, max_size=3), st.booleans()),
        st.builds(lambda item, most: {"type": "array", "items": item, "maxItems": most}, children, st.integers(0, 3)),
        st.lists(children, min_size=1, max_size=3).map(lambda parts: {"anyOf": parts}),
    )


@given(schema=st.recursive(_LEAF, _inner, max_leaves=6), seed=st.integers(0, 1 << 16))
@settings(max_examples=40)
def test_answers_to_random_schemas_obey_them(schema: Any, seed: int) -> None:
    model = _mini()
    text = model.draw(model.vocabulary.matcher(grammars.json_schema(schema)), seed)
    assert obeys(json.loads(text), schema), text


_MODELS: list[Model] = []


def _mini() -> Model:
    if not _MODELS:
        try:
            _MODELS.append(Model("ds4-mini"))
        except SettingsError as error:
            pytest.skip(str(error))
    return _MODELS[0]
