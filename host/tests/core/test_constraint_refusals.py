"""Schemas, patterns and grammars that cannot be used, or that mean harm: each an error in time that names its place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ds4.core import catalog, inventory
from ds4.core.constraint import grammar as grammars
from ds4.core.constraint import schema as schemas
from ds4.core.constraint.matcher import Vocabulary
from ds4.core.constraint.patterns import MAX_EXPANDED, expanded
from ds4.core.tokenizer import Tokenizer
from ds4.errors import ConstraintError, SettingsError


def deep(levels: int) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


def chained(count: int) -> dict[str, Any]:
    links: dict[str, Any] = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(count)}
    return {"$ref": "#/$defs/d0", "$defs": {**links, f"d{count}": {"type": "string"}}}


@pytest.mark.parametrize(
    ("schema", "place", "words"),
    [
        (None, "schema", "not a schema"),
        ("string", "schema", "not a schema"),
        ([], "schema", "not a schema"),
        ({"type": "strin"}, "/type", "'strin'"),
        ({"type": 1}, "/type", "a number"),
        ({"type": []}, "/type", "no type"),
        ({"type": ["string", {}]}, "/type", "an object"),
        ({"type": "object", "properties": {"a": {"type": "something"}}}, "/properties/a/type", "'something'"),
        ({"properties": {"a/b": {"items": {"type": "x"}}}}, "/properties/a~1b/items/type", "'x'"),
        ({"properties": []}, "/properties", "an object of schemas"),
        ({"properties": {"a": 1}}, "/properties/a", "not a schema"),
        ({"items": 3}, "/items", "not a schema"),
        ({"anyOf": {}}, "/anyOf", "an array"),
        ({"anyOf": []}, "/anyOf", "at least one"),
        ({"enum": []}, "/enum", "at least one"),
        ({"enum": "abc"}, "/enum", "an array"),
        ({"enum": list(range(schemas.MAX_ENUM + 1))}, "/enum", "too many"),
        ({"type": "object", "required": ["a", 1]}, "/required", "strings"),
        ({"type": "string", "pattern": {}}, "/pattern", "a string"),
        ({"type": "string", "pattern": 12}, "/pattern", "a string"),
        ({"type": "object", "properties": {"a": {"type": "string", "pattern": "(a"}}}, "/properties/a", "unclosed"),
        ({"type": "string", "pattern": "^(?=a)b$"}, "schema", "look-around"),
        ({"type": "string", "pattern": "(?P<x>a)\\1"}, "schema", "backreferences"),
        ({"type": "string", "pattern": "[z-a]"}, "schema", "invalid"),
        ({"type": "string", "pattern": "((a{900}){900}){900}"}, "/pattern", "repetitions"),
        ({"type": "object", "patternProperties": {"(a{999}){999}": True}}, "/patternProperties/pattern", "repetitions"),
        ({"type": "string", "pattern": "a" * 5000}, "/pattern", "too long"),
        ({"type": "string", "minLength": -1}, "/minLength", "not a count"),
        ({"type": "string", "minLength": True}, "/minLength", "not a count"),
        ({"type": "string", "minLength": 1.5}, "/minLength", "not a count"),
        ({"type": "string", "minLength": 5, "maxLength": 2}, "schema", "greater"),
        ({"type": "array", "minItems": 10**12}, "/minItems", "too large"),
        ({"type": "integer", "minimum": 5, "maximum": 3}, "schema", "greater"),
        ({"type": "integer", "minimum": "5"}, "/minimum", "a number"),
        (
            {"type": "array", "items": {"type": "number", "minimum": 2, "maximum": 1}, "minItems": 1},
            "/items",
            "greater",
        ),
        ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "schema", "incompatible"),
        ({"type": "object", "required": ["a"], "properties": {"a": False}}, "schema", "unsatisfiable"),
        (False, "schema", "Unsatisfiable"),
        ({"$ref": "https://example.com/schema.json"}, "/$ref", "schema itself"),
        ({"$ref": "file:///etc/passwd"}, "/$ref", "schema itself"),
        ({"$ref": "other.json#/a"}, "/$ref", "schema itself"),
        ({"$ref": "#/$defs/none"}, "schema", "does not exist"),
        ({"type": "string", "format": "no-such"}, "schema", "no-such"),
        ({"type": "object", "properties": {"a": {"not": {}}}}, "/properties/a/not", "not supported"),
        ({"type": "array", "uniqueItems": True}, "/uniqueItems", "not supported"),
        ({"if": {}, "then": False}, "/if", "if, then"),
        (deep(200), "schema", "nested too deep"),
        ({"enum": ["\ud800"]}, "schema", "surrogate"),
        ({"const": "x" * schemas.MAX_BYTES}, "schema", "too long"),
        ({"anyOf": [{"const": i} for i in range(schemas.MAX_NODES)]}, "schema", "too large"),
        (chained(3000), "schema", "too"),
        (chained(300), "schema", "too many references"),
    ],
    ids=lambda value: json.dumps(value)[:40] if isinstance(value, dict | list) else None,
)
def test_a_bad_schema_is_refused_with_its_place(schema: Any, place: str, words: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        grammars.json_schema(schema)
    assert caught.value.code == "schema"
    assert caught.value.subject == place, caught.value
    assert words.lower() in str(caught.value).lower()


def test_a_lenient_schema_may_ask_for_what_is_not_known() -> None:
    schema = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    assert '"lenient": true' in grammars.json_schema(schema, lenient=True).lark
    with pytest.raises(ConstraintError):
        grammars.json_schema({"type": "nothing"}, lenient=True)


def test_a_clients_options_for_the_compiler_are_not_its_own() -> None:
    made = grammars.json_schema({"type": "object", "x-guidance": {"whitespace_pattern": "(a{1000}){1000}"}})
    assert "1000" not in made.lark


@pytest.mark.parametrize("pattern", ["", "(", "a{2,1}", "(?=a)", "[", "*", "\\", "a\0b", "\ud800", "(a{500}){500}"])
def test_a_bad_pattern_is_refused(pattern: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        grammars.regex(pattern)
    assert caught.value.code == "regex"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "other: 'a'",
        "start: missing",
        'start: "a',
        "start: /a",
        "start: " + "(" * 50_000 + '"a"' + ")" * 50_000,
        "start: " + "[" * 50_000,
        "start: r0\n" + "\n".join(f"r{i}: r{i + 1}" for i in range(20_000)) + '\nr20000: "a"',
        "start: r0\n" + "\n".join(f"r{i}: r{i + 1}" for i in range(2_000)) + '\nr2000: "a"',
        "start: /(a{1000}){1000}/",
        'start: %json {"type": "nonsense"}',
        'start: %json {"$ref": "http://127.0.0.1:1/x"}',
        "start: %json " + "[" * 5_000,
        'start: "a"\n}\nother: "b"',
        "start: @other",
        'root ::= "a"',
    ],
    ids=lambda text: text[:24].replace("\n", " "),
)
def test_a_bad_grammar_is_refused(text: str) -> None:
    with pytest.raises(ConstraintError) as caught:
        grammars.lark(text)
    assert caught.value.code == "grammar"
    assert len(str(caught.value)) < 600


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    try:
        path = catalog.embedded_path("ds4-mini")
    except SettingsError as error:
        pytest.skip(str(error))
    return Vocabulary(Tokenizer.from_metadata(inventory.load(path).metadata))


@pytest.mark.parametrize(
    "text",
    [
        "start: <no_such_token>",
        'start: %json {"$ref": "#"}',
        'start: T\nT: "a" & "b"',
        "start: T\nT: " + " & ".join(f"/(.|\\n)*[a-z]{{{i}}}b(.|\\n)*/" for i in range(1, 12)),
        'start: start "a"',
    ],
)
def test_a_grammar_that_is_too_complex_or_empty_does_not_compile(vocabulary: Vocabulary, text: str) -> None:
    with pytest.raises(ConstraintError):
        vocabulary.matcher(grammars.lark(text))


@pytest.mark.parametrize("schema", [deep(40), chained(200), {"anyOf": [{"const": i} for i in range(900)]}])
def test_schemas_at_the_bounds_compile(vocabulary: Vocabulary, schema: Any) -> None:
    assert any(vocabulary.matcher(grammars.json_schema(schema)).mask())


def test_an_object_of_many_optional_properties_compiles_and_goes_on(vocabulary: Vocabulary) -> None:
    schema = {"type": "object", "properties": {f"property_{i}": {"type": "integer"} for i in range(400)}}
    matcher = vocabulary.matcher(grammars.json_schema({**schema, "additionalProperties": False}))
    drawn: list[int] = []
    for _ in range(8):
        words = int.from_bytes(matcher.mask(drawn), "little")
        drawn.append((words & -words).bit_length() - 1)
    assert matcher.seen == 7


@pytest.mark.parametrize(
    ("pattern", "size"),
    [("", 0), ("abc", 3), ("[a-z]{8}", 8), ("(ab){3}c", 7), ("(a{10}){20}", 200), ("a{2,5}", 5), ("a{3,}", 3),
     (r"\(a\){2}", 4), ("[](]{4}", 4), ("((((", 0), ("))))", 0), ("(a|b)*", 2), ("a{0}", 1), ("x" * 99, 99)],
)  # fmt: skip
def test_a_patterns_size_counts_its_repetitions(pattern: str, size: int) -> None:
    assert expanded(pattern) == size
    assert size < MAX_EXPANDED


def test_a_huge_repetition_is_counted_without_being_made() -> None:
    assert expanded("a{999999999999}" * 3) > MAX_EXPANDED


def test_a_grammar_that_grows_too_complex_on_the_way_is_an_error_of_its_own(vocabulary: Vocabulary) -> None:
    matcher, drawn = vocabulary.matcher(grammars.lark('start: ("a"{1000}){1000}')), list[int]()
    with pytest.raises(ConstraintError) as caught:
        for _ in range(20):
            words = int.from_bytes(matcher.mask(drawn), "little")
            drawn.append((words & -words).bit_length() - 1)
    assert caught.value.code == "complexity"
