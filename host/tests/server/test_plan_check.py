"""The serving plan's quote and issues, and plans that are expected."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from ds4.core.memory_plan import WORKING, MemoryPlan
from ds4.errors import SettingsError
from ds4.server import plan_check

PLAN = MemoryPlan(8192, 4, 1000, 4 * 8192 * 1000, 100 << 20, 1 << 30, (), 64 << 20, 8192)
NOTHING = {"ctx": None, "max_seqs": None}


def _codes(memory: MemoryPlan, asked: dict[str, int | None], trained: int = 8192) -> list[str]:
    return [issue.code for issue in plan_check.issues(memory, asked, trained)]


def test_a_quote_adds_up_to_what_the_governor_requires() -> None:
    quote = plan_check.quote(PLAN).json()
    assert quote["required"] == (64 << 20) + WORKING + (100 << 20) + 4 * 8192 * 1000
    assert quote["verdict"] == "admit" and quote["deficit"] == 0
    assert quote["kv"] == {"banks": 4, "per_bank": 8192 * 1000, "bytes": 4 * 8192 * 1000}


def test_a_quote_that_does_not_fit_tells_by_how_much() -> None:
    enough = plan_check.quote(PLAN).verdict.required
    assert plan_check.quote(replace(PLAN, available=enough)).verdict.word == "admit"
    short = plan_check.quote(replace(PLAN, available=enough - 7)).json()
    assert short["verdict"] == "refuse_live" and short["deficit"] == 7


def test_a_plan_of_the_defaults_has_no_issues() -> None:
    assert _codes(PLAN, NOTHING) == []


def test_what_memory_narrows_is_a_warning_where_it_was_left_to_the_server() -> None:
    assert _codes(replace(PLAN, banks=3), NOTHING) == ["banks_narrowed"]
    assert _codes(replace(PLAN, ctx=512), NOTHING) == ["context_narrowed"]
    assert _codes(replace(PLAN, banks=3), {"ctx": None, "max_seqs": 3}) == []
    assert _codes(replace(PLAN, banks=1), {"ctx": None, "max_seqs": 1}) == ["one_bank"]


def test_a_context_beyond_the_trained_one_is_a_warning() -> None:
    assert _codes(PLAN, NOTHING, trained=4096) == ["context_untrained"]
    assert _codes(PLAN, NOTHING, trained=0) == []


def test_a_plan_may_be_expected_in_part_and_whatever_memory_is_free(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"effective": {"banks": 4}, "quote": {"available": 1}, "memory": ["other"]}))
    plan_check.expected(file, {"effective": {"banks": 4, "context": 8192}, "quote": {"available": 2}})


def test_every_key_of_another_plan_is_named(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"effective": {"banks": 4, "kv": "f16"}, "fingerprint": "a", "gone": None}))
    with pytest.raises(SettingsError) as caught:
        plan_check.expected(file, {"effective": {"banks": 2, "kv": "f16"}, "fingerprint": "b"})
    told = str(caught.value)
    assert "effective.banks: expected 4, found 2" in told and 'fingerprint: expected "a", found "b"' in told
    assert "gone: expected null, found nothing" in told and "kv" not in told


@pytest.mark.parametrize(
    "content", [None, "", "[1]", "{", "{}", "[" * 100_000, '{"quote": {}}', '{"a": ' + "9" * 5000 + "}"]
)
def test_a_file_that_holds_no_plan_is_told(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "plan.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingsError, match="expect-plan"):
        plan_check.expected(file, {})
