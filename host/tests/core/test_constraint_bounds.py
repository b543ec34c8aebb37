"""What the compiler's own limits do not end in time is refused before it sees it, and what it made is kept by size."""

from __future__ import annotations

from typing import Any

import pytest
from ds4.core import catalog, inventory
from ds4.core.constraint import grammar as grammars
from ds4.core.constraint.compiled_cache import CompiledCache, size_of
from ds4.core.constraint.matcher import Vocabulary
from ds4.core.constraint.patterns import MAX_EXPANDED, terminals
from ds4.core.constraint.slow import Slow, name_of
from ds4.core.tokenizer import Tokenizer
from ds4.errors import ConstraintError, SettingsError


def doubled(levels: int) -> str:
    """Terminals each of which takes the next one twice."""
    lines = [f"T{i}: T{i + 1} T{i + 1}" for i in range(levels)]
    return "\n".join(["start: T0", *lines, f'T{levels}: "a"', ""])


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("start: A", 0),
        (doubled(10), 2047),
        (doubled(900), MAX_EXPANDED + 1),
        ('start: A "B" | B\nA: B /C/ C\nB: "x"\n C.2: B // A\n | B\nrule[lazy]: A A A\n', 5),
        ("A: B A\nB: A\n", 4),
        ("A: " + " ".join(f"Q{i}" for i in range(9000)), 9001),
    ],
)
def test_a_terminals_size_counts_the_terminals_in_it(text: str, size: int) -> None:
    assert terminals(text) == size


@pytest.mark.parametrize("levels", [30, 900])
def test_terminals_that_double_are_refused_before_they_are_compiled(
    levels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grammars, "complaint", lambda lark: pytest.fail("it was compiled"))
    with pytest.raises(ConstraintError, match="terminals that come to too much") as caught:
        grammars.lark(doubled(levels))
    assert caught.value.code == "grammar"


@pytest.mark.parametrize(
    ("schema", "place"),
    [
        ({"type": "integer", "multipleOf": 999983}, "/multipleOf"),
        ({"type": "number", "multipleOf": 12345.678}, "/multipleOf"),
        ({"type": "integer", "multipleOf": 10**400}, "/multipleOf"),
        ({"allOf": [{"type": "integer", "multipleOf": 9973}, {"multipleOf": 9967}]}, "/allOf/1/multipleOf"),
        ({"properties": {f"p{i}": {"multipleOf": 9973 + i} for i in range(50)}}, "/properties/p1/multipleOf"),
    ],
)
def test_multiples_whose_remainders_are_too_many_are_refused_with_their_place(schema: Any, place: str) -> None:
    with pytest.raises(ConstraintError, match="least common multiple") as caught:
        grammars.json_schema(schema)
    assert caught.value.subject == place


@pytest.mark.parametrize("multiple", [1, 5, 0.01, 0.25, 12.5, 60, 1024, 65536, 2.0])
def test_usual_multiples_are_taken(multiple: float) -> None:
    assert grammars.json_schema({"type": "number", "multipleOf": multiple}).lark


def test_what_was_slow_is_known_for_a_while_and_no_longer() -> None:
    now = 0.0
    slow = Slow(10.0, most=2, clock=lambda: now)
    one, two, three = [name_of({"a": [n, None, "é"]}) for n in range(3)]
    assert one not in slow
    slow.add(one)
    assert one in slow and two not in slow
    now = 9.9
    assert one in slow
    now = 10.0
    assert one not in slow
    for name in (one, two, three):
        slow.add(name)
    assert one not in slow and two in slow and three in slow


def test_grammars_are_kept_by_what_they_may_hold() -> None:
    kept: CompiledCache[str] = CompiledCache(most_bytes=100, most=3)
    kept.put("a", "A", 40)
    kept.put("b", "B", 40)
    assert kept.get("a") == "A"
    kept.put("c", "C", 50)  # b was not asked for longest
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == ("A", None, "C") and kept.nbytes == 90
    kept.put("huge", "H", 101)
    assert kept.get("huge") is None and kept.nbytes == 90
    kept.put("a", "A2", 10)
    assert kept.get("a") == "A2" and kept.nbytes == 60
    for name in "defg":
        kept.put(name, name, 1)
    assert len(kept) == 3 and kept.nbytes == 3


def test_what_took_the_compiler_long_counts_for_more() -> None:
    assert size_of("x" * 100, 0.0) < 1 << 20
    assert size_of("x" * 100, 2.5) > 64 << 20  # 2 kB of allOf that hold 55 MB


def test_a_grammar_asked_for_again_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    try:
        path = catalog.embedded_path("ds4-mini")
    except SettingsError as error:
        pytest.skip(str(error))
    vocabulary = Vocabulary(Tokenizer.from_metadata(inventory.load(path).metadata))
    grammar = grammars.json_schema({"type": "object"})
    first = vocabulary.matcher(grammar).mask()
    monkeypatch.setattr("ds4.core.constraint.matcher.compiled", lambda *given: pytest.fail("it was compiled"))
    assert vocabulary.matcher(grammar).mask() == first


@pytest.mark.parametrize("number", [10**400, -(10**400), 1e999, -1e999, float("nan")])
@pytest.mark.parametrize("keyword", ["multipleOf", "minimum", "maxLength", "minItems", "maxProperties"])
def test_numbers_beyond_all_measure_are_refused(keyword: str, number: float) -> None:
    with pytest.raises(ConstraintError):
        grammars.json_schema({"type": ["number", "string", "array", "object"], keyword: number})
