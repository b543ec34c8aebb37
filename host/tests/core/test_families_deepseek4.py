"""The deepseek4 contract: what it makes of a right file, and that every key and tensor has an error of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ds4.core import bind, families, gguf, inventory
from ds4.core.families import Lane, State, deepseek4
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.descriptors import Family, GgmlType, HParams, Role, RopeKind, RopeScaling
from support.gguf_writer import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I32,
    STRING,
    TYPE_F16,
    TYPE_F32,
    TYPE_I32,
    TYPE_Q8_0,
    U32,
    U64,
    GgufWriter,
    Tensor,
    array,
    scalar,
    string,
)
from support.tiny_deepseek4 import (
    ARCH,
    ARRAYS,
    HASHED,
    KEYS,
    LAYERS,
    RATIOS,
    VOCAB,
    WIDTH,
    drafting_tensors,
    layer_tensors,
    nextn_tensors,
    tiny_deepseek4,
    tiny_tensors,
)

Change = Callable[[GgufWriter], object]


def _inventory(writer: GgufWriter, name: str = "x.gguf") -> inventory.Inventory:
    return inventory.merge((gguf.parse(writer.build(), Path(name)),))


def _plan(*changes: Change) -> bind.BindPlan:
    writer = tiny_deepseek4()
    for change in changes:
        change(writer)
    return bind.plan(_inventory(writer))


def _put(key: str, kind: int, payload: bytes) -> Change:
    """Sets a key, replacing what the tiny model has."""

    def change(w: GgufWriter) -> None:
        w.keys = [entry for entry in w.keys if entry[0] != string(key)]
        w.raw(key, kind, payload)

    return change


def _number(key: str, kind: int, value: float) -> Change:
    return _put(f"{ARCH}.{key}", kind, scalar(kind, value))


def _list(key: str, kind: int, values: Sequence[float]) -> Change:
    return _put(f"{ARCH}.{key}", ARRAY, array(kind, values))


def _drop(key: str) -> Change:
    return lambda w: w.without(f"{ARCH}.{key}")


def _hparams(*changes: Change) -> HParams:
    return _plan(*changes).hparams


# ---- a right file


def test_the_tiny_model_is_what_its_keys_say() -> None:
    h = _hparams()
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
    plan = _plan()
    assert [slot.name for slot in plan.slots] != []
    assert {slot.name for slot in plan.slots} == {tensor.name for tensor in tiny_tensors()}
    assert (plan.ignored, plan.unknown, plan.notes) == ((), (), ())
    assert {slot.layer for slot in plan.slots} == {-1, *range(LAYERS)}
    assert not plan.tied


def test_layers_have_the_slots_of_their_ratio_and_routing() -> None:
    roles = {layer: {s.role for s in _plan().slots if s.layer == layer} for layer in range(LAYERS)}
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
        _number(key, U32, value)(w)
    _list("attention.compress_ratios", U32, [*ratios, 0])(w)
    _number("expert_weights_scale", F32, 1.5 if flash else 2.5)(w)
    for key in ("swiglu_clamp_exp", "swiglu_clamp_shexp"):
        _list(key, F32, [10.0] * layers)(w)
    w.tensors = []
    return w


@pytest.mark.parametrize(("model", "tensors", "parameters"), [("flash", 1328, 284.33e9), ("pro", 1902, 1573.0e9)])
def test_the_published_models_have_the_tensors_and_parameters_that_are_published(
    model: str, tensors: int, parameters: float
) -> None:
    layout = bind.layout(_inventory(_published(model)))
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
    specs = bind.layout(_inventory(tiny_deepseek4())).specs
    matrices = [spec for spec in specs if len(spec.dims) > 1 and spec.role is not Role.ROUTER_HASH]
    wanted = {"F32", "F16", "BF16", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ2_XXS", "MXFP4"}
    assert all({kind.name for kind in spec.accepted} >= wanted for spec in matrices)
    assert all(GgmlType.I32 not in spec.accepted for spec in matrices)
    assert len(matrices) > 50


def test_keys_that_may_be_left_out_have_the_published_meaning() -> None:
    left = [
        "vocab_size",
        "attention.head_count_kv",
        "attention.value_length",
        "expert_gating_func",
        "swiglu_clamp_shexp",
        "rope.scaling.yarn_beta_fast",
        "rope.scaling.yarn_beta_slow",
    ]
    h, full = _hparams(*map(_drop, left)), _hparams()
    assert full.dsv4 is not None
    assert h == replace(full, dsv4=replace(full.dsv4, clamp_shared=(10.0,) * 5))


def test_a_ratio_for_each_layer_alone_will_do() -> None:
    assert _hparams(_list("attention.compress_ratios", U32, RATIOS)) == _hparams()


def test_one_clamp_stands_for_all_layers() -> None:
    d = _hparams(_number("swiglu_clamp_exp", F32, 7.0)).dsv4
    assert d is not None and d.clamp_experts == (7.0,) * LAYERS


def test_files_without_scaling_turn_compressed_rows_by_their_base_alone() -> None:
    gone = ("type", "factor", "original_context_length", "yarn_beta_fast", "yarn_beta_slow")
    h = _hparams(*(_drop("rope.scaling." + name) for name in gone))
    assert (h.rope_scaling, h.rope_factor, h.rope_ext_factor) == (RopeScaling.NONE, 1.0, 0.0)


def test_several_shared_experts_are_one_wide_one() -> None:
    changes: list[Change] = [_number("expert_shared_count", U32, 2)]
    for layer in range(LAYERS):
        at = f"blk.{layer}."
        changes.append(lambda w, at=at: w.change(at + "ffn_gate_shexp.weight", dims=(WIDTH, 64)))  # type: ignore[misc]
        changes.append(lambda w, at=at: w.change(at + "ffn_up_shexp.weight", dims=(WIDTH, 64)))  # type: ignore[misc]
        changes.append(lambda w, at=at: w.change(at + "ffn_down_shexp.weight", dims=(64, WIDTH)))  # type: ignore[misc]
    h = _hparams(*changes)
    assert h.d_ff == 64 and h.dsv4 is not None and h.dsv4.d_expert == 32


def test_a_routing_bias_may_be_missing_but_not_the_table_of_experts() -> None:
    plan = _plan(lambda w: w.drop("blk.3.exp_probs_b.bias"))
    assert (Role.ROUTER_BIAS, 3) not in {(s.role, s.layer) for s in plan.slots}


def test_the_routing_bias_of_images_is_ignored_and_listed() -> None:
    plan = _plan(lambda w: w.tensor("blk.1.exp_probs_b_vl.bias", (6,)))
    assert plan.ignored == ("blk.1.exp_probs_b_vl.bias",)


def test_an_unknown_key_is_noted() -> None:
    plan = _plan(lambda w: w.u32("deepseek4.shoe_size", 44).u32("deepseek4.feed_forward_length", 1))
    assert plan.unknown == ("deepseek4.shoe_size",)


# ---- the drafting block


def _drafting(w: GgufWriter) -> None:
    w.tensors += drafting_tensors()


def test_a_drafting_block_under_its_own_name_is_the_layer_after_the_last() -> None:
    plan = _plan(_drafting)
    d = plan.hparams.dsv4
    assert d is not None and (d.n_mtp, plan.hparams.n_layer, plan.hparams.n_blocks) == (1, LAYERS, LAYERS + 1)
    assert d.clamp_experts == (10.0,) * (LAYERS + 1) and len(d.ratios) == LAYERS
    mine = {slot.role: slot.name for slot in plan.slots if slot.layer == LAYERS}
    assert mine[Role.MTP_E_PROJ] == "mtp.0.e_proj.weight" and mine[Role.ATTN_KV] == "mtp.0.attn_kv.weight"
    assert mine[Role.MTP_HC_FN] == "mtp.0.hc_head_fn.weight"
    assert Role.MTP_EH_PROJ not in mine and Role.COMPRESS_KV not in mine and Role.ROUTER_HASH not in mine
    assert {s.name for s in plan.slots} == {t.name for t in (*tiny_tensors(), *drafting_tensors())}


@pytest.mark.parametrize("counted", [False, True])
def test_a_drafting_block_in_the_layers_rows_is_found_whether_block_count_counts_it_or_not(counted: bool) -> None:
    def change(w: GgufWriter) -> None:
        w.tensors += nextn_tensors()
        _number("block_count", U32, LAYERS + counted)(w)
        w.u32("deepseek4.nextn_predict_layers", 1)

    plan = _plan(change)
    d = plan.hparams.dsv4
    assert d is not None and (d.n_mtp, plan.hparams.n_layer) == (1, LAYERS)
    mine = {slot.role: slot.name for slot in plan.slots if slot.layer == LAYERS}
    assert mine[Role.MTP_EH_PROJ] == f"blk.{LAYERS}.nextn.eh_proj.weight"
    assert mine[Role.MTP_NORM] == f"blk.{LAYERS}.nextn.shared_head_norm.weight"
    assert Role.MTP_E_PROJ not in mine and Role.MTP_HC_FN not in mine


def test_tables_of_the_drafting_block_are_bound_where_it_has_its_own() -> None:
    def change(w: GgufWriter) -> None:
        w.tensors += nextn_tensors()
        w.tensor(f"blk.{LAYERS}.nextn.embed_tokens.weight", (WIDTH, VOCAB), TYPE_F16)
        w.tensor(f"blk.{LAYERS}.nextn.shared_head_head.weight", (WIDTH, VOCAB), TYPE_F16)

    roles = {slot.role for slot in _plan(change).slots}
    assert {Role.MTP_TOKEN_EMBD, Role.MTP_OUTPUT} <= roles


def test_a_drafting_block_that_is_named_but_missing_is_noted() -> None:
    plan = _plan(lambda w: w.u32("deepseek4.nextn_predict_layers", 1))
    assert plan.hparams.dsv4 is not None and plan.hparams.dsv4.n_mtp == 0
    assert plan.notes == ("the file names a drafting block but does not hold it",)


def test_a_sibling_file_with_the_drafting_block_joins_as_another_shard() -> None:
    sibling = GgufWriter().string("general.architecture", ARCH)
    sibling.tensors += drafting_tensors()
    plan = bind.plan(deepseek4.attach(_inventory(tiny_deepseek4()), _inventory(sibling, "x-MTP.gguf")))
    assert [shard.path.name for shard in plan.shards] == ["x.gguf", "x-MTP.gguf"]
    assert {slot.shard for slot in plan.slots if slot.layer == LAYERS} == {1}
    assert {slot.shard for slot in plan.slots if slot.layer < LAYERS} == {0}


def test_a_sibling_file_of_llama_cpp_brings_its_own_head_and_repeats_what_is_not_taken() -> None:
    sibling = GgufWriter().string("general.architecture", ARCH)
    sibling.tensors += nextn_tensors()
    sibling.tensors += [t for t in tiny_tensors() if not str(t.name).startswith("blk.")]
    joined = deepseek4.attach(_inventory(tiny_deepseek4()), _inventory(sibling, "mtp-x.gguf"))
    plan = bind.plan(joined)
    heads = {slot.role: (slot.name, slot.shard) for slot in plan.slots if "output_hc_fn" in slot.name}
    assert heads == {
        Role.OUTPUT_HC_FN: ("output_hc_fn.weight", 0),
        Role.MTP_HC_FN: ("output_hc_fn.weight", 1),
    }
    assert next(s for s in plan.slots if s.role is Role.TOKEN_EMBD).shard == 0
    assert plan.ignored == ()


def test_each_layout_of_a_drafting_block_is_told() -> None:
    assert deepseek4.catalog(_inventory(tiny_deepseek4())) is None
    own, rows = tiny_deepseek4(), tiny_deepseek4()
    own.tensors += drafting_tensors()
    rows.tensors += nextn_tensors()
    assert (deepseek4.catalog(_inventory(own)), deepseek4.catalog(_inventory(rows))) == ("mtp", "nextn")


UNJOINED: dict[str, tuple[Change, Change, str, str]] = {
    "no block": (lambda m: None, lambda s: s.tensors.clear(), "mtp_missing", "y.gguf"),
    "two blocks": (_drafting, lambda s: None, "mtp_duplicate", "y.gguf"),
    "a layer beside it": (
        lambda m: None,
        lambda s: s.tensor("blk.0.attn_kv.weight", (32, 16)),
        "mtp_tensor",
        "blk.0.attn_kv.weight",
    ),
    "a name the model has": (
        lambda m: m.tensor("blk.5.attn_kv.weight", (32, 16)),
        lambda s: (s.tensors.clear(), s.tensors.extend(nextn_tensors())),
        "mtp_duplicate",
        "blk.5.attn_kv.weight",
    ),
}


@pytest.mark.parametrize("name", UNJOINED)
def test_a_sibling_that_does_not_fit_is_refused_by_name(name: str) -> None:
    change_model, change_sibling, code, subject = UNJOINED[name]
    model, sibling = tiny_deepseek4(), GgufWriter()
    sibling.tensors += drafting_tensors()
    change_model(model)
    change_sibling(sibling)
    with pytest.raises(ModelFileError) as caught:
        deepseek4.attach(_inventory(model), _inventory(sibling, "y.gguf"))
    assert (caught.value.code, caught.value.subject) == (code, subject)


def test_two_drafting_blocks_in_one_file_are_refused() -> None:
    def change(w: GgufWriter) -> None:
        w.tensors += drafting_tensors()
        w.tensors += layer_tensors("mtp.1.", 0, hashed=False)

    with pytest.raises(UnsupportedModelError) as caught:
        _plan(change)
    assert (caught.value.code, caught.value.found) == ("unsupported_shape", "mtp.0, mtp.1")


# ---- every key in turn: missing, of a wrong type, out of range

OPTIONAL = {
    "vocab_size",
    "attention.head_count_kv",
    "attention.value_length",
    "expert_gating_func",
    "swiglu_clamp_shexp",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
}

# Values out of range, by key: (kind, value, code). What is not listed is 0 or a negative float.
BEYOND: dict[str, tuple[int, float, str]] = {
    "block_count": (U32, 1025, "metadata_range"),
    "embedding_length": (U32, 1 << 25, "metadata_range"),
    "vocab_size": (U32, VOCAB + 1, "metadata_range"),
    "attention.head_count_kv": (U32, 2, "unsupported_shape"),
    "attention.key_length": (U32, 1025, "metadata_range"),
    "attention.value_length": (U32, 8, "unsupported_shape"),
    "rope.dimension_count": (U32, 7, "metadata_range"),
    "attention.output_group_count": (U32, 3, "metadata_range"),
    "attention.indexer.key_length": (U32, 4, "metadata_range"),
    "expert_used_count": (U32, 7, "metadata_range"),
    "expert_gating_func": (U32, 1, "unsupported_shape"),
    "expert_weights_norm": (BOOL, 0, "unsupported_shape"),
    "hash_layer_count": (U32, LAYERS + 1, "metadata_range"),
    "hyper_connection.count": (U32, 17, "metadata_range"),
    "rope.freq_base": (F32, 0.5, "metadata_range"),
    "attention.compress_rope_freq_base": (F32, 1.0, "metadata_range"),
    "rope.scaling.factor": (F32, 0.5, "metadata_range"),
    "rope.scaling.yarn_beta_fast": (F32, 0.5, "metadata_range"),
}
KINDS = {key: kind for key, kind, _ in KEYS}


def _caught(*changes: Change) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        _plan(*changes)
    error = caught.value
    assert error.subject and error.expected is not None and error.found is not None
    return error


@pytest.mark.parametrize("key", [key for key, *_ in (*KEYS, *ARRAYS) if key not in OPTIONAL | {"rope.scaling.type"}])
def test_a_key_that_is_missing_is_named(key: str) -> None:
    error = _caught(_drop(key))
    assert (error.code, error.subject, error.found) == ("metadata_missing", f"{ARCH}.{key}", "nothing")


def test_a_factor_without_a_scaling_is_named() -> None:
    error = _caught(_drop("rope.scaling.type"))
    assert (error.code, error.subject) == ("metadata_range", f"{ARCH}.rope.scaling.type")


@pytest.mark.parametrize("key", [key for key, *_ in (*KEYS, *ARRAYS)])
def test_a_key_of_a_wrong_type_is_named(key: str) -> None:
    kind = KINDS.get(key, ARRAY)
    wrong = {
        U32: (F32, scalar(F32, 1.0), "f32"),
        F32: (U32, scalar(U32, 1), "u32"),
        BOOL: (U32, scalar(U32, 1), "u32"),
        STRING: (U32, scalar(U32, 1), "u32"),
        ARRAY: (ARRAY, array(STRING, ["a"] * LAYERS), "array of 5 string"),
    }[kind]
    error = _caught(_put(f"{ARCH}.{key}", wrong[0], wrong[1]))
    assert (error.code, error.subject, error.found) == ("metadata_type", f"{ARCH}.{key}", wrong[2])


@pytest.mark.parametrize("key", [key for key, kind, _ in KEYS if kind != STRING])
def test_a_key_that_is_out_of_range_is_named(key: str) -> None:
    kind, value, code = BEYOND.get(key, (KINDS[key], 0 if KINDS[key] == U32 else -1.0, "metadata_range"))
    error = _caught(_number(key, kind, value))
    assert (error.code, error.subject) == (code, f"{ARCH}.{key}")


@pytest.mark.parametrize("key", [key for key, kind, _ in KEYS if kind == F32])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_named(key: str, value: float) -> None:
    error = _caught(_number(key, F32, value))
    assert (error.code, error.subject) == ("metadata_range", f"{ARCH}.{key}")


@pytest.mark.parametrize("key", [key for key, kind, _ in KEYS if kind == U32])
def test_a_count_past_the_engines_integers_is_named(key: str) -> None:
    error = _caught(_number(key, U64, 1 << 40))
    assert error.subject == f"{ARCH}.{key}" and error.code in ("metadata_range", "unsupported_shape")


LISTS: dict[str, tuple[Change, str, str]] = {
    "ratios for too few layers": (
        _list("attention.compress_ratios", I32, RATIOS[:-1]),
        "metadata_range",
        "attention.compress_ratios",
    ),
    "ratios for too many": (
        _list("attention.compress_ratios", I32, (*RATIOS, 0, 0)),
        "metadata_range",
        "attention.compress_ratios",
    ),
    "no ratios": (_list("attention.compress_ratios", I32, ()), "metadata_range", "attention.compress_ratios"),
    "a drafting block that compresses": (
        _list("attention.compress_ratios", I32, (*RATIOS, 4)),
        "unsupported_shape",
        f"attention.compress_ratios[{LAYERS}]",
    ),
    **{
        f"a ratio of {bad} for layer {layer}": (
            _list("attention.compress_ratios", I32, (*RATIOS[:layer], bad, *RATIOS[layer + 1 :], 0)),
            "unsupported_shape",
            f"attention.compress_ratios[{layer}]",
        )
        for layer in range(LAYERS)
        for bad in (-1, 8)
    },
    **{
        f"{key}, {what}": (_list(key, F32, values), "metadata_range", key + where)
        for key in ("swiglu_clamp_exp", "swiglu_clamp_shexp")
        for what, values, where in (
            ("too few", (10.0,) * (LAYERS - 1), ""),
            ("nought", (10.0, 0.0, 10.0, 10.0, 10.0), "[1]"),
            ("negative", (10.0, 10.0, 10.0, 10.0, -1.0), "[4]"),
            ("not a number", (float("nan"), 10.0, 10.0, 10.0, 10.0), "[0]"),
        )
    },
    "one clamp of nought": (_number("swiglu_clamp_exp", F32, 0.0), "metadata_range", "swiglu_clamp_exp"),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_does_not_fit_the_layers_is_named(name: str) -> None:
    change, code, subject = LISTS[name]
    error = _caught(change)
    assert (error.code, error.subject) == (code, f"{ARCH}.{subject}")


ASKED = {
    "expert_group_count": (U32, 8),
    "expert_group_used_count": (U32, 4),
    "leading_dense_block_count": (U32, 1),
    "attention.causal": (BOOL, 0),
    "attention.scale": (F32, 0.5),
    "attention.kv_lora_rank": (U32, 512),
    "rope.scaling.attn_factor": (F32, 1.2),
    "rope.scaling.yarn_ext_factor": (F32, 0.5),
    "rope.scaling.yarn_log_multiplier": (F32, 0.1),
    "final_logit_softcapping": (F64, 30.0),
}


@pytest.mark.parametrize("key", ASKED)
def test_a_key_that_asks_for_what_the_forward_does_not_do_is_named(key: str) -> None:
    error = _caught(_number(key, *ASKED[key]))
    assert isinstance(error, UnsupportedModelError)
    assert (error.code, error.subject) == ("unsupported_key", f"{ARCH}.{key}")


def test_another_rope_scaling_is_named() -> None:
    error = _caught(_put(f"{ARCH}.rope.scaling.type", STRING, string("linear")))
    assert (error.code, error.subject, error.found) == ("unsupported_key", f"{ARCH}.rope.scaling.type", "linear")


def test_a_tokens_list_of_another_length_is_named() -> None:
    error = _caught(lambda w: w.array("tokenizer.ggml.tokens", STRING, ["a"]))
    assert (error.code, error.subject) == ("metadata_range", "tokenizer.ggml.tokens")


# ---- every tensor in turn: missing, of a wrong type, with wrong dims

TENSORS = {str(tensor.name): tensor for tensor in (*tiny_tensors(), *drafting_tensors())}


@pytest.mark.parametrize("name", [n for n in TENSORS if not n.startswith("blk.") or "exp_probs_b" not in n])
def test_a_tensor_that_is_missing_is_named(name: str) -> None:
    error = _caught(_drafting, lambda w: w.drop(name))
    assert (error.code, error.subject, error.found) == ("tensor_missing", name, "nothing")


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_of_a_wrong_type_is_named(name: str) -> None:
    kind = TENSORS[name].type
    dims = TENSORS[name].dims
    if kind == TYPE_F32 and len(dims) == 1:
        wrong, nbytes = TYPE_F16, 2
    elif kind == TYPE_I32:
        wrong, nbytes = TYPE_F32, 4
    else:
        wrong, nbytes = TYPE_I32, 4
    count = 1
    for dim in dims:
        count *= dim
    error = _caught(_drafting, lambda w: w.change(name, type=wrong, data=bytes(count * nbytes)))
    assert (error.code, error.subject) == ("tensor_type", name)
    assert isinstance(error, UnsupportedModelError)


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_with_wrong_dims_is_named(name: str) -> None:
    tensor = TENSORS[name]
    shapes = [(*tensor.dims, 2), (*tensor.dims[:-1], tensor.dims[-1] * 2)]
    if len(set(tensor.dims)) > 1 and tensor.type != TYPE_Q8_0:
        shapes.append(tuple(reversed(tensor.dims)))
    for dims in shapes:
        error = _caught(_drafting, _drop("vocab_size"), lambda w, dims=dims: w.change(name, dims=dims))  # type: ignore[misc]
        if name == "token_embd.weight" and len(dims) == 2:
            continue  # its rows are the vocabulary where no key says so, and so others do not fit it
        assert (error.code, error.subject) == ("tensor_dims", name)
        assert error.found == list(dims)


def test_a_tensor_too_many_is_named() -> None:
    error = _caught(lambda w: w.tensors.append(Tensor("blk.0.attn_compressor_kv.weight", (32, 16))))
    assert (error.code, error.subject) == ("tensor_unused", "blk.0.attn_compressor_kv.weight")


@pytest.mark.parametrize("name", ["mtp.1.enorm.weight", "blk.9.nextn.enorm.weight", "blk.3.nextn.enorm.weight"])
def test_a_drafting_block_in_the_wrong_place_is_named(name: str) -> None:
    error = _caught(lambda w: w.tensors.append(Tensor(name, (32,))))
    assert (error.code, error.subject) == ("tensor_unused", name)
