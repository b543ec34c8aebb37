"""Grammars of tool calls against the parsers: whatever a grammar lets through is read as calls of the tools, and their
arguments obey their schemas."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Mapping
from typing import Any

import pytest
from ds4.core import catalog, inventory
from ds4.core.constraint.grammar import Grammar, json_schema
from ds4.core.constraint.matcher import Matcher, Vocabulary
from ds4.core.output.dialects import detect
from ds4.core.output.dsml import DsmlParser
from ds4.core.output.events import Parser, Void
from ds4.core.output.grammar.dsml import DSML
from ds4.core.output.grammar.frame import Style, tool_grammar
from ds4.core.output.grammar.rules import TextForm, ToolRule, ToolRules
from ds4.core.output.grammar.styles import style
from ds4.core.output.tools import calls
from ds4.core.tokenizer import Tokenizer
from ds4.errors import ChatError, SettingsError

Schema = Mapping[str, Any]
WEATHER: Schema = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 0, "maximum": 30},
        "unit": {"enum": ["C", "F", None]},
        "note": {"type": ["string", "null"], "maxLength": 4},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
        "code": {"type": "string", "pattern": "^[a-z]{2}$"},
        "where": {"anyOf": [{"$ref": "#/$defs/spot"}, {"type": "string"}]},
    },
    "required": ["city", "unit", "where"],
    "additionalProperties": False,
    "$defs": {
        "spot": {
            "type": "object",
            "properties": {"x": {"type": "boolean"}},
            "required": ["x"],
            "additionalProperties": False,
        }
    },
}
LOOSE: Schema = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
TOOLS = [
    ToolRule("get_weather", WEATHER, strict=True),
    ToolRule("calc", LOOSE),
    ToolRule('odd "<&>" name', {"type": "object", "properties": {}, "additionalProperties": False}, strict=True),
    ToolRule("shout", text="input", form=TextForm("regex", r"[A-Z]{1,5}/?!")),
]
DIALECTS = ("dsml", "hermes", "tool_calls", "toolcall", "llama3", "mistral")
CLOSERS = (
    "</think>", "</｜DSML｜parameter>\n", "</｜DSML｜invoke>\n", "</｜DSML｜tool_calls>", '"', "}", "]", '"}',
    "\n</tool_call>", "\n</tool_calls>", "\n</TOOLCALL>", "<｜DSML｜tool_calls>", "<tool_call>", "<tool_calls>",
    "<TOOLCALL>", "[TOOL_CALLS]", "<|python_tag|>", "<think>", " ",
)  # fmt: skip


@functools.cache
def vocabulary(model: str) -> tuple[Tokenizer, Vocabulary]:
    try:
        path = catalog.embedded_path(model)
    except SettingsError as error:
        pytest.skip(str(error))
    tokenizer = Tokenizer.from_metadata(inventory.load(path).metadata)
    return tokenizer, Vocabulary(tokenizer, frozenset({"｜DSML｜", "<think>", "</think>"}))


def draw(mask: bytes, rng: random.Random, stops: frozenset[int]) -> int | None:
    """A token that the mask allows and that is no stop; most masks allow nearly all tokens or only a few."""
    for _ in range(64):
        token = rng.randrange(8 * len(mask))
        if mask[token // 8] >> token % 8 & 1 and token not in stops:
            return token
    some = [8 * at + bit for at, byte in enumerate(mask) if byte for bit in range(8) if byte >> bit & 1]
    options = [token for token in some if token not in stops]
    return rng.choice(options) if options else None


def walk(tokenizer: Tokenizer, matcher: Matcher, rng: random.Random, most: int = 240) -> list[int] | None:
    """Tokens of one answer drawn by chance, with an inclination to close what is open; None: it found no end."""
    drawn: list[int] = []
    while len(drawn) < most:
        try:
            mask = matcher.mask(drawn)
        except Exception:
            raise AssertionError(f"no way on from {tokenizer.decode(drawn)!r}") from None
        if matcher.accepting and (matcher.stopped or rng.random() < 0.3):
            return drawn
        if rng.random() < 0.5 or len(drawn) > most // 2:
            closer = tokenizer.encode(rng.choice(CLOSERS), special=True)
            if fits(matcher, drawn, closer):
                drawn += closer
                continue
        token = draw(mask, rng, tokenizer.stop_ids)
        if token is None:
            return drawn
        drawn.append(token)
    return None


def fits(matcher: Matcher, drawn: list[int], more: list[int]) -> bool:
    ahead = matcher.copy()
    for index, token in enumerate(more):
        mask = ahead.mask([*drawn, *more[:index]])
        if not mask[token // 8] >> token % 8 & 1:
            return False
    return True


def obeys(value: Any, schema: Any) -> bool:
    """As far as the schemas here go, by hand: the checker must not be what made the grammar."""
    if "anyOf" in schema:
        return any(obeys(value, one) for one in schema["anyOf"])
    if "$ref" in schema:
        return obeys(value, WEATHER["$defs"]["spot"])
    if "enum" in schema:
        return value in schema["enum"]
    kinds = schema.get("type", [])
    kinds = kinds if isinstance(kinds, list) else [kinds]
    kind = {str: "string", bool: "boolean", int: "integer", list: "array", dict: "object", type(None): "null"}
    if kind[type(value)] not in kinds:
        return False
    if isinstance(value, str):
        shaped = "pattern" not in schema or (len(value) == 2 and value.isascii() and value.islower())
        return shaped and len(value) <= schema.get("maxLength", 1 << 30)
    if isinstance(value, list):
        return len(value) <= 2 and all(obeys(item, schema["items"]) for item in value)
    if isinstance(value, dict):
        named = schema.get("properties", {})
        return (
            set(value) <= set(named)
            and set(schema.get("required", ())) <= set(value)
            and all(obeys(item, named[name]) for name, item in value.items())
        )
    return not isinstance(value, int) or 0 <= value <= 30


def how(dialect: str) -> Style:
    made = DSML if dialect == "dsml" else style(dialect, ())
    assert made is not None
    return made


def reader(dialect: str, thinking: bool) -> Parser:
    if dialect == "dsml":
        return DsmlParser(thinking=thinking, tools=True)
    return detect("", tools=dialect, reasoning="think").parser(thinking=thinking, tools=True)


def tags(dialect: str) -> tuple[str, str]:
    return ("" if dialect == "dsml" else "<think>", "</think>")


def read(dialect: str, text: str, thinking: bool, rng: random.Random) -> list[Any]:
    parser, events = reader(dialect, thinking), []
    while text:
        cut = rng.randrange(1, 30)
        events += parser.push(text[:cut])
        text = text[cut:]
    more, finish = parser.finish()
    assert finish.kind in ("tool_calls", "stop"), finish
    events += more
    assert not any(isinstance(event, Void) for event in events), events
    return calls(events)


def check(made: list[Any], rules: ToolRules) -> None:
    tools = {tool.name: tool for tool in rules.tools}
    assert len(made) >= rules.must
    assert len(made) <= 1 or not rules.single
    for call in made:
        arguments = json.loads(call.arguments)
        tool = tools[call.name]
        assert isinstance(arguments, dict)
        if tool.strict:
            assert obeys(arguments, tool.parameters), arguments
        if tool.text is not None:
            assert set(arguments) == {"input"}
            body = arguments["input"].removesuffix("!").removesuffix("/")
            assert arguments["input"].endswith("!") and 1 <= len(body) <= 5 and body.isascii() and body.isupper()


@pytest.mark.parametrize("model", ["ds4-mini", catalog.DEFAULT_MODEL])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_whatever_a_grammar_lets_through_parses_as_calls_of_the_tools(model: str, dialect: str) -> None:
    tokenizer, words = vocabulary(model)
    rng = random.Random(f"{model} {dialect}")
    ended = called = 0
    for round in range(60):
        must, single, thinking = bool(round & 1), bool(round & 2), bool(round & 4)
        rules = ToolRules(rng.sample(TOOLS, rng.randrange(1, 5)), must=must, single=single)
        grammar = tool_grammar(how(dialect), rules, thinking=thinking, tags=tags(dialect))
        drawn = walk(tokenizer, words.matcher(grammar), rng)
        if drawn is None:
            continue
        made = read(dialect, tokenizer.decode(drawn), thinking, rng)
        check(made, rules)
        ended, called = ended + 1, called + bool(made)
    assert ended >= 25 and called >= 5, (ended, called)


def accepts(grammar: Grammar, text: str) -> bool:
    tokenizer, words = vocabulary("ds4-mini")
    matcher, ids = words.matcher(grammar), tokenizer.encode(text, special=True)
    if not fits(matcher, [], ids):
        return False
    matcher.mask(ids)
    return matcher.accepting


BLOCK = (
    '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="calc">\n<｜DSML｜parameter name="expression" string="true">1 < 2</b>'
    "</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>"
)


def dsml(*tools: ToolRule, must: bool = False, single: bool = False, answer: Grammar | None = None) -> Grammar:
    rules = ToolRules(tools, must=must, single=single)
    return tool_grammar(DSML, rules, thinking=False, tags=("", "</think>"), answer=answer)


def test_an_answer_that_may_call_may_be_text_or_text_and_calls_but_no_text_follows() -> None:
    grammar = dsml(TOOLS[1])
    assert accepts(grammar, "Fine.") and accepts(grammar, "")
    assert accepts(grammar, "Wait.\n\n" + BLOCK) and accepts(grammar, BLOCK)
    assert not accepts(grammar, BLOCK + " done")
    assert not accepts(grammar, BLOCK.replace("calc", "other"))
    assert not accepts(grammar, BLOCK.replace("expression", "formula"))
    assert not accepts(grammar, "I write <tool_calls> myself")


def test_a_call_that_must_be_is_all_of_the_answer() -> None:
    grammar = dsml(TOOLS[1], must=True)
    assert accepts(grammar, "\n\n" + BLOCK)
    assert not accepts(grammar, "Fine.") and not accepts(grammar, "Fine.\n\n" + BLOCK)


def test_only_one_call_where_one_is_the_most() -> None:
    invoke = BLOCK[len("<｜DSML｜tool_calls>\n") : -len("</｜DSML｜tool_calls>")]
    twice = BLOCK.replace(invoke, invoke * 2)
    assert accepts(dsml(TOOLS[1], must=True), "\n\n" + twice)
    assert not accepts(dsml(TOOLS[1], must=True, single=True), "\n\n" + twice)


def test_an_answer_without_calls_does_not_even_begin_one() -> None:
    assert accepts(dsml(), "a < b") and not accepts(dsml(), "a <｜DSML｜")


def test_a_format_and_calls_exclude_each_other_in_one_answer() -> None:
    form = json_schema({"type": "object", "properties": {"a": {"type": "null"}}, "additionalProperties": False})
    grammar = dsml(TOOLS[1], answer=form)
    assert accepts(grammar, '{"a": null}') and accepts(grammar, "\n\n" + BLOCK)
    assert not accepts(grammar, "text") and not accepts(grammar, '{"b": null}')
    assert not accepts(dsml(TOOLS[1], answer=form, must=True), '{"a": null}')


def test_a_custom_tools_grammar_in_lark_holds_its_text() -> None:
    tool = ToolRule("shout", text="input", form=TextForm("lark", 'start: "HEY" MORE\nMORE: /!+/\n'))
    block = BLOCK.replace("calc", "shout").replace("expression", "input")
    assert accepts(dsml(tool, must=True), "\n\n" + block.replace("1 < 2</b>", "HEY!!"))
    assert not accepts(dsml(tool, must=True), "\n\n" + block.replace("1 < 2</b>", "hey"))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"anyOf": [LOOSE]},
        {"type": "object", "properties": {}, "required": ["a"]},
    ],
)
def test_a_strict_schema_that_no_parameters_can_be_made_of_is_an_error(schema: Schema) -> None:
    with pytest.raises(ChatError, match="strict tool 'f'"):
        dsml(ToolRule("f", schema, strict=True), must=True)


CLOSES = ("a</｜DSML｜parameter>b", "a</DSML｜parameter>b", "a&lt;/｜DSML｜parameter>b", "</p>", 'x"<y')


@pytest.mark.parametrize("text", CLOSES)
def test_a_chosen_text_with_markup_in_it_is_read_as_it_was_chosen(text: str) -> None:
    tokenizer, words = vocabulary("ds4-mini")
    one = {"type": "object", "properties": {"a": {"enum": [text]}}, "required": ["a"], "additionalProperties": False}
    matcher = words.matcher(dsml(ToolRule("f", one, strict=True), must=True, single=True))
    drawn: list[int] = []
    while not matcher.accepting and len(drawn) < 400:  # nothing else may be written
        mask = matcher.mask(drawn)
        drawn.append(next(token for token in range(8 * len(mask)) if mask[token // 8] >> token % 8 & 1))
        matcher.mask(drawn)
    (call,) = read("dsml", tokenizer.decode(drawn), False, random.Random(text))
    assert json.loads(call.arguments) == {"a": text}


def test_a_form_does_not_let_through_what_is_read_as_something_else() -> None:
    tool = ToolRule("shout", text="input", form=TextForm("regex", "(?s:.*)"))
    block = "\n\n" + BLOCK.replace("calc", "shout").replace("expression", "input")
    assert accepts(dsml(tool, must=True), block)
    assert not accepts(dsml(tool, must=True), block.replace("1 < 2</b>", "&lt;/｜DSML｜parameter>"))
