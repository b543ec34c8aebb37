"""What a bank takes by the families' own figures, against native's, on many shapes."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from ds4.core import memory_plan
from ds4.core.families import contract_of
from ds4.sys import probe as native
from ds4.sys.descriptors import Dsv4, Family, GgmlType, HParams
from hypothesis import given, settings
from hypothesis import strategies as st
from support.fake_native import TINY

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

KINDS = st.sampled_from([GgmlType.F32, GgmlType.F16, GgmlType.Q8_0])


def deepseek(
    ratios: tuple[int, ...],
    *,
    head: int = 512,
    index: int = 128,
    window: int = 128,
    mtp: int = 0,
    streams: int = 4,
    width: int = 4096,
) -> HParams:
    own = Dsv4(
        lora_q=1024,
        lora_o=1024,
        groups_o=8,
        n_expert=256,
        n_expert_used=6,
        d_expert=2048,
        n_hash_layer=3,
        index_heads=64,
        index_dim=index,
        index_top_k=512,
        hc_count=streams,
        hc_iterations=20,
        n_mtp=mtp,
        expert_scale=1.5,
        hc_eps=1e-6,
        compress_rope_base=160000.0,
        ratios=ratios,
        clamp_experts=(10.0,) * (len(ratios) + mtp),
        clamp_shared=(10.0,) * (len(ratios) + mtp),
    )
    return replace(
        TINY,
        family=Family.DEEPSEEK4,
        n_layer=len(ratios),
        d_model=width,
        n_head=64,
        n_head_kv=1,
        head_dim=head,
        rope_dim=min(64, head),
        sliding_window=window,
        n_ctx_train=1 << 20,
        dsv4=own,
    )


FLASH = deepseek((0, 0, *((4, 128) * 20), 4))
SHAPES = st.builds(
    deepseek,
    st.lists(st.sampled_from([0, 4, 128]), min_size=1, max_size=9).map(tuple),
    head=st.integers(1, 20).map(lambda n: 32 * n),
    index=st.integers(1, 20).map(lambda n: 32 * n),
    window=st.integers(1, 4096),
    mtp=st.integers(0, 1),
    streams=st.integers(1, 6),
    width=st.integers(1, 64).map(lambda n: 64 * n),
)


@settings(max_examples=200, deadline=None)
@given(SHAPES, KINDS, st.integers(1, 1 << 20), st.integers(1, 4096))
def test_a_deepseek4_bank_takes_what_native_says(shape: HParams, kind: GgmlType, ctx: int, rows: int) -> None:
    family = contract_of(Family.DEEPSEEK4)
    assert family.bank_bytes(shape, kind, ctx, rows) == native.bank_bytes(shape, kind, ctx, rows)
    if any(shape.dsv4.ratios if shape.dsv4 else ()):
        assert family.kv_bytes_per_position(shape, kind) == native.kv_bytes_per_position(shape, kind)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 80), st.integers(1, 16), st.integers(1, 16), KINDS, st.integers(1, 1 << 20))
def test_a_llama_bank_takes_what_native_says(layers: int, heads: int, head: int, kind: GgmlType, ctx: int) -> None:
    shape = replace(TINY, n_layer=layers, n_head_kv=heads, head_dim=32 * head)
    family = contract_of(Family.LLAMA)
    assert family.bank_bytes(shape, kind, ctx, 512) == native.bank_bytes(shape, kind, ctx, 512)
    assert family.kv_bytes_per_position(shape, kind) == native.kv_bytes_per_position(shape, kind)


def test_the_plan_of_flash_counts_windows_state_and_compressed_rows() -> None:
    found = memory_plan.plan(FLASH, GgmlType.F16, 0, 1 << 40, ctx=65536, banks=2, width=512)
    assert found.kv_bytes == 2 * native.bank_bytes(FLASH, GgmlType.F16, 65536, 512)
    assert "a bank besides" in found.explanation
    # As if every layer kept keys and values of every position, a bank would take 5.5 GiB.
    assert found.kv_bytes < 2 << 30


def test_a_context_that_is_chosen_is_the_longest_that_fits() -> None:
    available = 1800 << 20
    found = memory_plan.plan(FLASH, GgmlType.F16, 0, available, banks=4)
    assert found.ctx % memory_plan.STEP_CTX == 0 and found.ctx < memory_plan.DEFAULT_CTX
    room = int(available * 0.9) - memory_plan.WORKING
    assert found.kv_bytes <= room
    more = found.ctx + memory_plan.STEP_CTX
    assert 4 * native.bank_bytes(FLASH, GgmlType.F16, more, 512) > room
