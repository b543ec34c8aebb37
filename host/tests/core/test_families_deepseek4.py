"""The deepseek4 contract: what it makes of a right file."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ds4.core import bind, families
from ds4.core.families import Lane, State
from ds4.sys.descriptors import Family, GgmlType, Role, RopeKind, RopeScaling
from support.changed_deepseek4 import (
    OPTIONAL,
    Change,
    drop,
    hparams,
    inventory_of,
    listed,
    number,
    plan_of,
)
from support.gguf_writer import (
    F32,
    U32,
    GgufWriter,
)
from support.tiny_deepseek4 import (
    HASHED,
    LAYERS,
    RATIOS,
    WIDTH,
    tiny_deepseek4,
    tiny_tensors,
)


def test_the_tiny_model_is_what_its_keys_say() -> None:
    h = hparams()
    d = h.dsv4
    assert d is not None
    assert (h.family, h.n_layer, h.d_model, h.n_head, h.n_head_kv) == (Family.DEEPSEEK4, 5, 32, 4, 1)
    assert (h.head_dim, h.d_ff, h.n_vocab, h.n_ctx_train, h.sliding_window) == (16, 32, 24, 4096, 16)
    assert (h.rope_kind, h.rope_dim, h.rope_base, d.compress_rope_base) == (RopeKind.NORM, 8, 10000.0, 160000.0)
    assert (h.rope_scaling, h.rope_factor, h.rope_ctx_original) == (RopeScaling.YARN, 16.0, 256)
    assert (h.rope_attn_factor, h.rope_ext_factor, h.rope_beta_fast, h.rope_beta_slow) == (1.0, 1.0, 32.0, 1.0)
    assert (d.lora_q, d.lora_o, d.groups_o) == (32, 32, 2)
    assert (d.n_expert, d.n_expert_used, d.d_expert, d.n_hash_layer, d.expert_scale) == (6, 2, 32, 2, 1.5)
    assert (d.index_heads, d.index_dim, d.index_top_k) == (4, 32, 4)
    assert (d.hc_count, d.hc_iterations, d.n_mtp) == (2, 20, 0)
    assert d.ratios == RATIOS
    assert (d.clamp_experts, d.clamp_shared) == ((10.0,) * 5, (9.0,) * 5)
    assert h.rms_eps == pytest.approx(1e-6) and d.hc_eps == pytest.approx(1e-6)


def test_every_tensor_of_the_tiny_model_fills_a_slot() -> None:
    plan = plan_of()
    assert [slot.name for slot in plan.slots] != []
    assert {slot.name for slot in plan.slots} == {tensor.name for tensor in tiny_tensors()}
    assert (plan.ignored, plan.unknown, plan.notes) == ((), (), ())
    assert {slot.layer for slot in plan.slots} == {-1, *range(LAYERS)}
    assert not plan.tied


def test_layers_have_the_slots_of_their_ratio_and_routing() -> None:
    roles = {layer: {s.role for s in plan_of().slots if s.layer == layer} for layer in range(LAYERS)}
    assert [Role.COMPRESS_KV in roles[i] for i in range(LAYERS)] == [r > 0 for r in RATIOS]
    assert [Role.INDEX_Q_B in roles[i] for i in range(LAYERS)] == [r == 4 for r in RATIOS]
    assert [Role.ROUTER_HASH in roles[i] for i in range(LAYERS)] == [i < HASHED for i in range(LAYERS)]
    assert [Role.ROUTER_BIAS in roles[i] for i in range(LAYERS)] == [i >= HASHED for i in range(LAYERS)]


def test_lanes_state_and_prompt_facts_are_the_familys() -> None:
    contract = families.contract("deepseek4")
    assert contract is families.contract_of(Family.DEEPSEEK4)
    assert contract.STATE is State.ROLLING and families.contract("llama").STATE is State.POSITIONS
    assert Lane.CONTINUOUS in contract.LANES
    assert "joyai-llm" in contract.PROMPT.pre and contract.PROMPT.encoder == "dsv4"
    assert contract.PROMPT.stops == ("<｜end▁of▁sentence｜>",)


def _published(model: str) -> GgufWriter:
    """The keys of the two published models, and the embedding alone."""
    flash = model == "flash"
    layers, width, heads = (43, 4096, 64) if flash else (61, 7168, 128)
    ratios = [0, 0] if flash else [128, 128]
    ratios += [4 if index % 2 == 0 else 128 for index in range(2, layers)]
    numbers = {
        "block_count": layers,
        "context_length": 1048576,
        "embedding_length": width,
        "vocab_size": 129280,
        "attention.head_count": heads,
        "attention.head_count_kv": 1,
        "attention.key_length": 512,
        "attention.value_length": 512,
        "rope.dimension_count": 64,
        "attention.q_lora_rank": 1024 if flash else 1536,
        "attention.output_lora_rank": 1024,
        "attention.output_group_count": 8 if flash else 16,
        "attention.sliding_window": 128,
        "attention.indexer.head_count": 64,
        "attention.indexer.key_length": 128,
        "attention.indexer.top_k": 512 if flash else 1024,
        "expert_count": 256 if flash else 384,
        "expert_used_count": 6,
        "expert_feed_forward_length": 2048 if flash else 3072,
        "hash_layer_count": 3,
        "hyper_connection.count": 4,
        "rope.scaling.original_context_length": 65536,
    }
    w = tiny_deepseek4()
    for key, value in numbers.items():
        number(key, U32, value)(w)
    listed("attention.compress_ratios", U32, [*ratios, 0])(w)
    number("expert_weights_scale", F32, 1.5 if flash else 2.5)(w)
    for key in ("swiglu_clamp_exp", "swiglu_clamp_shexp"):
        listed(key, F32, [10.0] * layers)(w)
    w.tensors = []
    return w


@pytest.mark.parametrize(("model", "tensors", "parameters"), [("flash", 1328, 284.33e9), ("pro", 1902, 1573.0e9)])
def test_the_published_models_have_the_tensors_and_parameters_that_are_published(
    model: str, tensors: int, parameters: float
) -> None:
    layout = bind.layout(inventory_of(_published(model)))
    count = 0
    for spec in layout.specs:
        elements = 1
        for dim in spec.dims:
            elements *= dim
        count += elements
    assert count == pytest.approx(parameters, rel=5e-5)
    if model == "flash":
        assert len(layout.specs) == tensors
    d = layout.hparams.dsv4
    assert d is not None and (d.ratios.count(4), d.ratios.count(128)) == ((21, 20) if model == "flash" else (30, 31))


def test_any_matrix_may_be_of_any_type_that_the_engine_computes_with() -> None:
    specs = bind.layout(inventory_of(tiny_deepseek4())).specs
    matrices = [spec for spec in specs if len(spec.dims) > 1 and spec.role is not Role.ROUTER_HASH]
    wanted = {"F32", "F16", "BF16", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ2_XXS", "MXFP4"}
    assert all({kind.name for kind in spec.accepted} >= wanted for spec in matrices)
    assert all(GgmlType.I32 not in spec.accepted for spec in matrices)
    assert len(matrices) > 50


def test_keys_that_may_be_left_out_have_the_published_meaning() -> None:
    h, full = hparams(*map(drop, sorted(OPTIONAL))), hparams()
    assert full.dsv4 is not None
    assert h == replace(full, dsv4=replace(full.dsv4, clamp_shared=(10.0,) * 5))


def test_a_ratio_for_each_layer_alone_will_do() -> None:
    assert hparams(listed("attention.compress_ratios", U32, RATIOS)) == hparams()


def test_one_clamp_stands_for_all_layers() -> None:
    d = hparams(number("swiglu_clamp_exp", F32, 7.0)).dsv4
    assert d is not None and d.clamp_experts == (7.0,) * LAYERS


def test_files_without_scaling_turn_compressed_rows_by_their_base_alone() -> None:
    gone = ("type", "factor", "original_context_length", "yarn_beta_fast", "yarn_beta_slow")
    h = hparams(*(drop("rope.scaling." + name) for name in gone))
    assert (h.rope_scaling, h.rope_factor, h.rope_ext_factor) == (RopeScaling.NONE, 1.0, 0.0)


def test_several_shared_experts_are_one_wide_one() -> None:
    changes: list[Change] = [number("expert_shared_count", U32, 2)]
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        changes.append(lambda w, at=at: w.change(at + "ffn_gate_shexp.weight", dims=(WIDTH, 64)))  # type: ignore[misc]
        changes.append(lambda w, at=at: w.change(at + "ffn_up_shexp.weight", dims=(WIDTH, 64)))  # type: ignore[misc]
        changes.append(lambda w, at=at: w.change(at + "ffn_down_shexp.weight", dims=(64, WIDTH)))  # type: ignore[misc]
    h = hparams(*changes)
    assert h.d_ff == 64 and h.dsv4 is not None and h.dsv4.d_expert == 32


def test_a_routing_bias_may_be_missing_but_not_the_table_of_experts() -> None:
    plan = plan_of(lambda w: w.drop("blk.3.exp_probs_b.bias"))
    assert (Role.ROUTER_BIAS, 3) not in {(s.role, s.layer) for s in plan.slots}


def test_the_routing_bias_of_images_is_ignored_and_listed() -> None:
    plan = plan_of(lambda w: w.tensor("blk.1.exp_probs_b_vl.bias", (6,)))
    assert plan.ignored == ("blk.1.exp_probs_b_vl.bias",)


def test_an_unknown_key_is_noted() -> None:
    plan = plan_of(lambda w: w.u32("deepseek4.shoe_size", 44).u32("deepseek4.feed_forward_length", 1))
    assert plan.unknown == ("deepseek4.shoe_size",)
