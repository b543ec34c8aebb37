from __future__ import annotations

from dataclasses import replace

import pytest
from ds4.core.memory_plan import DEFAULT_BANKS, DEFAULT_CTX, WORKING, MemoryPlanError, kv_bytes_per_position, plan
from ds4.sys.descriptors import GgmlType
from hypothesis import given
from hypothesis import strategies as st
from support.fake_native import TINY

MIB = 1 << 20
# 30 layers x 3 heads x 64: SmolLM2-135M's shape.
SMALL = replace(TINY, n_layer=30, n_head=9, n_head_kv=3, head_dim=64, n_ctx_train=8192)


@pytest.mark.parametrize(("kind", "size"), [(GgmlType.F32, 46080), (GgmlType.F16, 23040), (GgmlType.Q8_0, 12240)])
def test_a_position_costs_its_keys_and_values_in_every_layer(kind: GgmlType, size: int) -> None:
    assert kv_bytes_per_position(SMALL, kind) == size


def test_with_plenty_of_memory_the_defaults_stand() -> None:
    found = plan(SMALL, GgmlType.F16, 100 * MIB, 16384 * MIB)
    assert (found.ctx, found.banks) == (8192, DEFAULT_BANKS)
    assert found.kv_bytes == 8192 * DEFAULT_BANKS * 23040
    assert "as trained" in found.explanation and "KV cache: 720 MiB when full" in found.explanation


def test_a_long_trained_context_is_not_taken_whole_unasked() -> None:
    long = replace(SMALL, n_ctx_train=131072)
    assert plan(long, GgmlType.F16, 0, 10**12).ctx == DEFAULT_CTX
    assert plan(long, GgmlType.F16, 0, 10**12, ctx=131072).ctx == 131072


def test_banks_go_before_context_does() -> None:
    # Room for two banks of 8192 (180 MiB each).
    available = int((100 * MIB + WORKING + 2.5 * 180 * MIB) / 0.9)
    found = plan(SMALL, GgmlType.F16, 100 * MIB, available)
    assert (found.ctx, found.banks) == (8192, 2)
    assert "what fits; the default would be 4" in found.explanation


def test_with_one_bank_left_the_context_shrinks_in_steps() -> None:
    available = int((100 * MIB + WORKING + 0.5 * 180 * MIB) / 0.9)
    found = plan(SMALL, GgmlType.F16, 100 * MIB, available)
    assert found.banks == 1
    assert 3584 <= found.ctx <= 4096 and found.ctx % 256 == 0


def test_what_was_asked_for_is_kept_or_refused_with_both_sizes() -> None:
    found = plan(SMALL, GgmlType.F16, 0, 4096 * MIB, ctx=1000, banks=3)
    assert (found.ctx, found.banks) == (1000, 3)
    assert found.explanation.count("as asked") == 2
    with pytest.raises(MemoryPlanError) as caught:
        plan(SMALL, GgmlType.F16, 100 * MIB, 1024 * MIB, ctx=8192, banks=8)
    assert "1024 MiB" in str(caught.value.expected)
    assert "1440 MiB of KV cache" in str(caught.value.found)


@pytest.mark.parametrize(("ctx", "banks"), [(0, 1), (-5, None), (None, 0), (None, 1025)])
def test_values_that_no_machine_could_serve_are_refused_by_name(ctx: int | None, banks: int | None) -> None:
    with pytest.raises(MemoryPlanError, match="ctx|banks"):
        plan(SMALL, GgmlType.F16, 0, 4096 * MIB, ctx=ctx, banks=banks)


def test_a_cache_type_that_does_not_exist_is_refused() -> None:
    with pytest.raises(MemoryPlanError, match="F32, F16, Q8_0"):
        plan(SMALL, GgmlType.Q4_0, 0, 4096 * MIB)


def test_a_context_past_the_trained_one_is_said() -> None:
    assert "warning" in plan(SMALL, GgmlType.F16, 0, 10**12, ctx=16384).explanation
    assert "warning" not in plan(SMALL, GgmlType.F16, 0, 10**12, ctx=8192).explanation


@given(
    st.integers(0, 1 << 36),
    st.integers(0, 1 << 36),
    st.none() | st.integers(1, 1 << 20),
    st.none() | st.integers(1, 1024),
    st.integers(0, 1 << 20),
)
def test_a_plan_fits_or_is_an_error(model: int, available: int, ctx: int | None, banks: int | None, train: int) -> None:
    try:
        found = plan(replace(SMALL, n_ctx_train=train), GgmlType.Q8_0, model, available, ctx, banks)
    except MemoryPlanError:
        return
    assert found.kv_bytes + model + WORKING <= available
    assert found.ctx >= 1 and found.banks >= 1
    assert ctx is None or found.ctx == ctx
    assert banks is None or found.banks == banks
