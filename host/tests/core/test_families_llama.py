"""The llama contract: which keys it needs, what it makes of them, and what it refuses by name."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
from ds4.core import bind, families, gguf, inventory
from ds4.core.families import llama
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.descriptors import Family, HParams, RopeKind, RopeScaling
from support.gguf_writer import BOOL, F32, F64, I32, STRING, U32, U64, GgufWriter, tiny_llama

Change = Callable[[GgufWriter], object]


def _inventory(writer: GgufWriter) -> inventory.Inventory:
    return inventory.merge((gguf.parse(writer.build(), Path("x.gguf")),))


def _hparams(*changes: Change) -> HParams:
    writer = tiny_llama()
    for change in changes:
        change(writer)
    return bind.plan(_inventory(writer)).hparams


def _put_u32(key: str, value: int) -> Change:
    """Sets a key, replacing what the tiny model has."""

    def change(w: GgufWriter) -> None:
        w.keys = [entry for entry in w.keys if entry[0][8:] != key.encode()]
        w.u32(key, value)

    return change


def _put_f32(key: str, value: float) -> Change:
    def change(w: GgufWriter) -> None:
        w.keys = [entry for entry in w.keys if entry[0][8:] != key.encode()]
        w.f32(key, value)

    return change


def _put_string(key: str, value: str) -> Change:
    return lambda w: w.string(key, value)


def test_the_tiny_model_is_what_its_keys_say() -> None:
    hparams = _hparams()
    assert hparams == HParams(
        family=Family.LLAMA,
        n_layer=2,
        d_model=32,
        n_head=4,
        n_head_kv=2,
        head_dim=8,
        d_ff=64,
        n_vocab=16,
        n_ctx_train=128,
        rope_kind=RopeKind.NORM,
        rope_dim=8,
        rms_eps=hparams.rms_eps,
        rope_base=10000.0,
    )
    assert hparams.rms_eps == pytest.approx(1e-5)


def test_one_count_for_each_layer_is_taken_where_all_agree() -> None:
    hparams = _hparams(
        lambda w: w.without("llama.attention.head_count").array("llama.attention.head_count", I32, [4, 4]),
        lambda w: w.without("llama.feed_forward_length").array("llama.feed_forward_length", U32, [64, 64]),
    )
    assert (hparams.n_head, hparams.d_ff) == (4, 64)


def test_kv_heads_are_the_heads_where_the_file_does_not_say() -> None:
    writer = tiny_llama().without("llama.attention.head_count_kv")
    for layer in range(2):
        for matrix in ("attn_k", "attn_v"):
            writer.change(f"blk.{layer}.{matrix}.weight", dims=(32, 32))
    assert bind.plan(_inventory(writer)).hparams.n_head_kv == 4


def test_a_stated_head_length_need_not_divide_the_embedding() -> None:
    writer = tiny_llama().u32("llama.attention.key_length", 32).u32("llama.attention.value_length", 32)
    for layer in range(2):
        writer.change(f"blk.{layer}.attn_q.weight", dims=(32, 128))
        writer.change(f"blk.{layer}.attn_k.weight", dims=(32, 64))
        writer.change(f"blk.{layer}.attn_v.weight", dims=(32, 64))
        writer.change(f"blk.{layer}.attn_output.weight", dims=(128, 32))
    hparams = bind.plan(_inventory(writer)).hparams
    assert (hparams.head_dim, hparams.rope_dim) == (32, 32)


def test_rope_may_turn_a_part_of_each_head() -> None:
    assert _hparams(_put_u32("llama.rope.dimension_count", 4)).rope_dim == 4


def test_a_sliding_window_and_an_attention_scale_reach_the_engine() -> None:
    hparams = _hparams(_put_u32("llama.attention.sliding_window", 64), _put_f32("llama.attention.scale", 0.25))
    assert (hparams.sliding_window, hparams.attn_scale) == (64, 0.25)


# ---- rope scaling


def _rope(*changes: Change) -> tuple[RopeScaling, float, float, float, int]:
    h = _hparams(*changes)
    return h.rope_scaling, h.rope_factor, h.rope_attn_factor, h.rope_ext_factor, h.rope_ctx_original


SCALING = "llama.rope.scaling."


def test_no_scaling_keys_mean_no_scaling() -> None:
    assert _rope() == (RopeScaling.NONE, 1.0, 1.0, 0.0, 0)


def test_a_factor_without_a_type_is_linear() -> None:
    assert _rope(_put_f32(SCALING + "factor", 4.0))[:3] == (RopeScaling.LINEAR, 4.0, 1.0)


def test_the_old_linear_key_still_works_and_the_new_one_wins() -> None:
    old = _put_f32("llama.rope.scale_linear", 2.0)
    assert _rope(old)[:2] == (RopeScaling.LINEAR, 2.0)
    assert _rope(old, _put_f32(SCALING + "factor", 8.0))[:2] == (RopeScaling.LINEAR, 8.0)


@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_a_factor_of_nought_or_one_scales_nothing(factor: float) -> None:
    assert _rope(_put_f32(SCALING + "factor", factor))[:2] == (RopeScaling.NONE, 1.0)


def test_the_type_none_silences_a_factor() -> None:
    changes = (_put_f32(SCALING + "factor", 4.0), _put_string(SCALING + "type", "none"))
    assert _rope(*changes)[:2] == (RopeScaling.NONE, 1.0)


def test_yarn_folds_its_magnitude_into_the_attention_factor() -> None:
    changes = (
        _put_string(SCALING + "type", "yarn"),
        _put_f32(SCALING + "factor", 4.0),
        _put_u32(SCALING + "original_context_length", 32),
    )
    magnitude = 0.1 * math.log(4.0) + 1.0
    kind, factor, attn_factor, ext_factor, ctx_original = _rope(*changes)
    assert (kind, factor, ext_factor, ctx_original) == (RopeScaling.YARN, 4.0, 1.0, 32)
    assert attn_factor == pytest.approx(magnitude)
    assert _rope(*changes, _put_f32(SCALING + "attn_factor", 0.5))[2] == pytest.approx(0.5 * magnitude)
    with_log = _rope(*changes, _put_f32(SCALING + "yarn_log_multiplier", 0.5))[2]
    assert with_log == pytest.approx(magnitude / (0.05 * math.log(4.0) + 1.0))
    without_mix = _rope(*changes, _put_f32(SCALING + "yarn_ext_factor", 0.0))
    assert without_mix[2:4] == (1.0, 0.0)


def test_yarn_counts_from_the_trained_context_where_the_file_does_not_say() -> None:
    h = _hparams(_put_string(SCALING + "type", "yarn"), _put_f32(SCALING + "factor", 2.0))
    assert (h.rope_ctx_original, h.rope_beta_fast, h.rope_beta_slow) == (128, 32.0, 1.0)


def test_yarn_ramp_bounds_come_from_the_file() -> None:
    h = _hparams(
        _put_string(SCALING + "type", "yarn"),
        _put_f32(SCALING + "factor", 2.0),
        _put_f32(SCALING + "yarn_beta_fast", 16.0),
        _put_f32(SCALING + "yarn_beta_slow", 2.0),
    )
    assert (h.rope_beta_fast, h.rope_beta_slow) == (16.0, 2.0)


# ---- refused: (change, error, code, subject, expected, found)

U, M = UnsupportedModelError, ModelFileError
REFUSED: dict[str, tuple[Change, type[ModelFileError], str, str, str, str]] = {
    **{
        f"no {key}": (
            lambda w, key=key: w.without(f"llama.{key}"),  # type: ignore[misc]
            M,
            "metadata_missing",
            f"llama.{key}",
            kind,
            "nothing",
        )
        for key, kind in {
            "block_count": "u32",
            "context_length": "u32",
            "embedding_length": "u32",
            "feed_forward_length": "u32",
            "attention.head_count": "u32",
            "attention.layer_norm_rms_epsilon": "f32",
        }.items()
    },
    "no layers": (_put_u32("llama.block_count", 0), M, "metadata_range", "llama.block_count", "1..1024", "0"),
    "a billion layers": (
        _put_u32("llama.block_count", 10**9),
        M,
        "metadata_range",
        "llama.block_count",
        "1..1024",
        str(10**9),
    ),
    "one layer too many": (
        _put_u32("llama.block_count", 3),
        M,
        "tensor_missing",
        "blk.2.attn_norm.weight",
        "F32 [32]",
        "nothing",
    ),
    "one layer too few": (
        _put_u32("llama.block_count", 1),
        U,
        "tensor_unused",
        "blk.1.attn_norm.weight",
        "no tensor besides",
        "9 unused",
    ),
    "a block count that is a string": (
        lambda w: w.without("llama.block_count").string("llama.block_count", "2"),
        M,
        "metadata_type",
        "llama.block_count",
        "u32",
        "string",
    ),
    "another embedding width": (
        _put_u32("llama.embedding_length", 64),
        M,
        "tensor_dims",
        "token_embd.weight",
        "[64, 16]",
        "[32, 16]",
    ),
    "another hidden width": (
        _put_u32("llama.feed_forward_length", 96),
        M,
        "tensor_dims",
        "blk.0.ffn_gate.weight",
        "[32, 96]",
        "[32, 64]",
    ),
    "heads that do not divide the embedding": (
        _put_u32("llama.attention.head_count", 5),
        M,
        "metadata_range",
        "llama.attention.head_count_kv",
        "a divisor of 5",
        "2",
    ),
    "heads that divide the kv heads but not the embedding": (
        _put_u32("llama.attention.head_count", 6),
        M,
        "metadata_range",
        "llama.attention.head_count",
        "a divisor of 32",
        "6",
    ),
    "kv heads that do not divide the heads": (
        _put_u32("llama.attention.head_count_kv", 3),
        M,
        "metadata_range",
        "llama.attention.head_count_kv",
        "a divisor of 4",
        "3",
    ),
    "no kv heads": (
        _put_u32("llama.attention.head_count_kv", 0),
        M,
        "metadata_range",
        "llama.attention.head_count_kv",
        "1..4",
        "0",
    ),
    "heads that differ between layers": (
        lambda w: w.without("llama.attention.head_count").array("llama.attention.head_count", I32, [4, 2]),
        U,
        "unsupported_shape",
        "llama.attention.head_count",
        "the same value for each layer",
        "2..4",
    ),
    "a head count for three layers": (
        lambda w: w.without("llama.attention.head_count").array("llama.attention.head_count", I32, [4, 4, 4]),
        M,
        "metadata_range",
        "llama.attention.head_count",
        "2 values",
        "3",
    ),
    "a head count that is a list of strings": (
        lambda w: w.without("llama.attention.head_count").array("llama.attention.head_count", STRING, ["4", "4"]),
        M,
        "metadata_type",
        "llama.attention.head_count",
        "array of i32",
        "array of 2 string",
    ),
    "keys and values of different length": (
        lambda w: w.u32("llama.attention.key_length", 8).u32("llama.attention.value_length", 16),
        U,
        "unsupported_shape",
        "llama.attention.value_length",
        "8",
        "16",
    ),
    "a head that is too long": (
        lambda w: w.u32("llama.attention.key_length", 2048).u32("llama.attention.value_length", 2048),
        M,
        "metadata_range",
        "llama.attention.key_length",
        "1..1024",
        "2048",
    ),
    "an odd rope dimension": (
        _put_u32("llama.rope.dimension_count", 7),
        M,
        "metadata_range",
        "llama.rope.dimension_count",
        "an even number",
        "7",
    ),
    "a rope dimension past the head": (
        _put_u32("llama.rope.dimension_count", 10),
        M,
        "metadata_range",
        "llama.rope.dimension_count",
        "2..8",
        "10",
    ),
    "a rope base of nought": (
        _put_f32("llama.rope.freq_base", 0.0),
        M,
        "metadata_range",
        "llama.rope.freq_base",
        "1..1e+12",
        "0.0",
    ),
    "a rope base that is not a number": (
        _put_f32("llama.rope.freq_base", math.nan),
        M,
        "metadata_range",
        "llama.rope.freq_base",
        "1..1e+12",
        "nan",
    ),
    "an endless epsilon": (
        _put_f32("llama.attention.layer_norm_rms_epsilon", math.inf),
        M,
        "metadata_range",
        "llama.attention.layer_norm_rms_epsilon",
        "0..1",
        "inf",
    ),
    "an epsilon that is an integer": (
        lambda w: w.without("llama.attention.layer_norm_rms_epsilon").u32("llama.attention.layer_norm_rms_epsilon", 0),
        M,
        "metadata_type",
        "llama.attention.layer_norm_rms_epsilon",
        "f32",
        "u32",
    ),
    "a context of nought": (
        _put_u32("llama.context_length", 0),
        M,
        "metadata_range",
        "llama.context_length",
        "1..2147483647",
        "0",
    ),
    "a context past int32": (
        lambda w: w.without("llama.context_length").number("llama.context_length", U64, 2**31),
        M,
        "metadata_range",
        "llama.context_length",
        "1..2147483647",
        str(2**31),
    ),
    "a rope factor below one": (
        _put_f32(SCALING + "factor", 0.5),
        M,
        "metadata_range",
        SCALING + "factor",
        "1 or more",
        "0.5",
    ),
    "an unknown rope scaling": (
        _put_string(SCALING + "type", "longrope"),
        U,
        "unsupported_key",
        SCALING + "type",
        "none, linear or yarn",
        "longrope",
    ),
    "a yarn mix past one": (
        _put_f32(SCALING + "yarn_ext_factor", 1.5),
        M,
        "metadata_range",
        SCALING + "yarn_ext_factor",
        "0..1",
        "1.5",
    ),
    "a yarn ramp that runs backwards": (
        _put_f32(SCALING + "yarn_beta_fast", 0.5),
        M,
        "metadata_range",
        SCALING + "yarn_beta_fast",
        "1..1e+06",
        "0.5",
    ),
    "yarn over a rope base of one": (
        lambda w: w.string(SCALING + "type", "yarn").f32("llama.rope.freq_base", 1.0),
        M,
        "metadata_range",
        "llama.rope.freq_base",
        "more than 1",
        "1.0",
    ),
    "a vocabulary size that the embedding does not have": (
        _put_u32("llama.vocab_size", 17),
        M,
        "metadata_range",
        "llama.vocab_size",
        "16 (rows of the embedding)",
        "17",
    ),
    "a tokens list that the embedding does not have": (
        lambda w: w.without("tokenizer.ggml.tokens").array("tokenizer.ggml.tokens", STRING, ["a"] * 15),
        M,
        "metadata_range",
        "tokenizer.ggml.tokens",
        "16 tokens",
        "15",
    ),
    "a tokens list of numbers with another length": (
        lambda w: w.without("tokenizer.ggml.tokens").u32("tokenizer.ggml.tokens", 16),
        M,
        "metadata_type",
        "tokenizer.ggml.tokens",
        "array",
        "u32",
    ),
    "no embedding": (
        lambda w: w.drop("token_embd.weight"),
        M,
        "tensor_missing",
        "token_embd.weight",
        "[32, vocabulary]",
        "nothing",
    ),
    "an embedding of one dimension": (
        lambda w: w.change("token_embd.weight", dims=(512,)),
        M,
        "tensor_dims",
        "token_embd.weight",
        "[32, vocabulary]",
        "[512]",
    ),
    "experts": (_put_u32("llama.expert_count", 8), U, "unsupported_key", "llama.expert_count", "no such key or 0", "8"),
    "experts counted in a float": (
        _put_f32("llama.expert_count", 0.0),
        U,
        "unsupported_key",
        "llama.expert_count",
        "no such key or 0",
        "0.0",
    ),
    "attention that is not causal": (
        lambda w: w.number("llama.attention.causal", BOOL, 0),
        U,
        "unsupported_key",
        "llama.attention.causal",
        "no such key or True",
        "False",
    ),
    "a soft cap on the logits": (
        lambda w: w.number("llama.final_logit_softcapping", F64, 30.0),
        U,
        "unsupported_key",
        "llama.final_logit_softcapping",
        "no such key or 0.0",
        "30.0",
    ),
    "a pattern of windows": (
        lambda w: w.array("llama.attention.sliding_window_pattern", BOOL, [1, 0]),
        U,
        "unsupported_key",
        "llama.attention.sliding_window_pattern",
        "no such key",
        "array of 2 bool",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_family_cannot_take_is_refused_by_key_or_tensor(name: str) -> None:
    change, kind, code, subject, expected, found = REFUSED[name]
    writer = tiny_llama()
    change(writer)
    with pytest.raises(ModelFileError) as caught:
        bind.plan(_inventory(writer))
    assert (caught.value.code, caught.value.subject) == (code, subject)
    assert expected in str(caught.value.expected)
    assert found in str(caught.value.found)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    "change",
    [
        _put_u32("llama.expert_count", 0),
        lambda w: w.number("llama.attention.causal", BOOL, 1),
        lambda w: w.number("llama.logit_scale", F32, 1.0),
    ],
)
def test_a_key_that_says_not_used_is_no_reason_to_refuse(change: Change) -> None:
    assert _hparams(change) == _hparams()


def test_a_key_that_the_family_does_not_know_is_noted_and_not_used() -> None:
    writer = tiny_llama().u32("llama.brand_new", 3).string("llama.tensor_data_layout", "Meta AI original pth")
    plan = bind.plan(_inventory(writer))
    assert plan.notes == ("the key llama.brand_new is not known to this family and was not used",)


def test_an_unknown_architecture_lists_the_known_ones() -> None:
    with pytest.raises(UnsupportedModelError) as caught:
        families.contract("mamba")
    error = caught.value
    assert (error.code, error.subject) == ("unsupported_architecture", "general.architecture")
    assert (error.expected, error.found) == (" or ".join(families.ARCHITECTURES), "mamba")
    assert "llama" in families.ARCHITECTURES


def test_every_family_of_the_engine_has_a_contract() -> None:
    for family in Family:
        assert families.contract_of(family).FAMILY is family
        assert families.contract(families.contract_of(family).ARCHITECTURE) is families.contract_of(family)


def test_an_architecture_leads_to_its_contract() -> None:
    assert families.contract("llama") is llama.CONTRACT
