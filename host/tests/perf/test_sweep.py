"""The sweep measures each suffix once, from an undisturbed bank."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from ds4.errors import SettingsError
from ds4.perf.sweep import COLUMNS, Frontier, FrontierDump, frontiers, sweep
from support.fake_native import fake_session


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((2048, 8192, 2048, 1.0), [2048, 4096, 6144, 8192]),
        ((2048, 7000, 2048, 1.0), [2048, 4096, 6144, 7000]),
        ((1, 16, 0, 2.0), [1, 2, 4, 8, 16]),
        ((100, 100, 2048, 1.0), [100]),
        ((10, 100, 5, 2.0), [10, 25, 55, 100]),
    ],
)
def test_frontiers_rise_by_factor_and_increment_to_the_last(
    given: tuple[int, int, int, float], expected: list[int]
) -> None:
    assert frontiers(*given) == expected


def test_frontiers_that_do_not_advance_or_start_past_the_end_are_refused() -> None:
    with pytest.raises(SettingsError, match="do not advance"):
        frontiers(10, 100, 0, 1.0)
    with pytest.raises(SettingsError, match="--ctx-start: lies past --ctx-max"):
        frontiers(200, 100, 1, 1.0)


def test_each_row_computes_only_the_new_suffix_and_decoding_leaves_no_trace() -> None:
    fake = fake_session(n_ctx=128)
    ids = [n % 250 for n in range(100)]
    rows = list(sweep(fake, ids, [40, 70, 100], generate=5))  # type: ignore[arg-type]
    assert [(row.ctx_tokens, row.prefill_tokens, row.gen_tokens) for row in rows] == [
        (40, 40, 5),
        (70, 30, 5),
        (100, 30, 5),
    ]
    assert fake.banks[0] == ids
    prefilled = [row.token for step in fake.log for row in step if len(step) > 1 or not row.output]
    assert prefilled == ids
    assert all(row.prefill_tps > 0 and row.gen_tps > 0 and row.gen_tps_ss > 0 for row in rows)
    assert all(row.kvcache_bytes > 0 for row in rows)


def test_no_tokens_to_generate_leave_rates_of_zero() -> None:
    (row,) = sweep(fake_session(), [1] * 10, [10], generate=0)  # type: ignore[arg-type]
    assert (row.gen_tps, row.gen_tps_ss, row.first_token_sec) == (0.0, 0.0, 0.0)


def test_the_table_has_the_documented_columns_and_decimals() -> None:
    assert ",".join(COLUMNS) == (
        "ctx_tokens,prefill_tokens,prefill_tps,gen_tokens,gen_tps,gen_tps_ss,first_token_sec,kvcache_bytes"
    )
    row = Frontier(2048, 2048, 1234.567, 128, 45.678, 46.0, 0.02345, 99)
    assert row.csv() == "2048,2048,1234.57,128,45.68,46.00,0.0234,99"


def test_a_frontier_s_logits_are_written_with_their_argmax(tmp_path: Path) -> None:
    fake = fake_session(n_ctx=64)
    dump = FrontierDump(tmp_path / "made" / "here", {"model": "m"})
    list(sweep(fake, [3] * 30, [10, 30], 2, dump))  # type: ignore[arg-type]
    files = sorted(path.name for path in (tmp_path / "made" / "here").iterdir())
    assert files == ["frontier_000010.logits.json", "frontier_000030.logits.json"]
    value = json.loads((tmp_path / "made" / "here" / files[1]).read_text())
    assert (value["frontier"], value["prefill_tokens"], value["vocab"], value["model"]) == (30, 20, 256, "m")
    assert len(value["logits"]) == 256
    assert value["argmax_logit"] == max(value["logits"]) == value["logits"][value["argmax_id"]]
