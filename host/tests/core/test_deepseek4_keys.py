"""Every key of a deepseek4 file in turn: missing, of a wrong type, out of range; each has an error of its own."""

from __future__ import annotations

import pytest
from ds4.errors import UnsupportedModelError
from support.changed_deepseek4 import (
    OPTIONAL,
    Change,
    drop,
    listed,
    number,
    put,
    refusal,
)
from support.gguf_writer import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I32,
    STRING,
    U32,
    U64,
    array,
    scalar,
    string,
)
from support.tiny_deepseek4 import (
    ARCH,
    ARRAYS,
    KEYS,
    LAYERS,
    RATIOS,
    VOCAB,
)

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


@pytest.mark.parametrize("key", [key for key, *_ in (*KEYS, *ARRAYS) if key not in OPTIONAL | {"rope.scaling.type"}])
def test_a_key_that_is_missing_is_named(key: str) -> None:
    error = refusal(drop(key))
    assert (error.code, error.subject, error.found) == ("metadata_missing", f"{ARCH}.{key}", "nothing")


def test_a_factor_without_a_scaling_is_named() -> None:
    error = refusal(drop("rope.scaling.type"))
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
    error = refusal(put(f"{ARCH}.{key}", wrong[0], wrong[1]))
    assert (error.code, error.subject, error.found) == ("metadata_type", f"{ARCH}.{key}", wrong[2])


@pytest.mark.parametrize("key", [key for key, kind, _ in KEYS if kind != STRING])
def test_a_key_that_is_out_of_range_is_named(key: str) -> None:
    kind, value, code = BEYOND.get(key, (KINDS[key], 0 if KINDS[key] == U32 else -1.0, "metadata_range"))
    error = refusal(number(key, kind, value))
    assert (error.code, error.subject) == (code, f"{ARCH}.{key}")


@pytest.mark.parametrize("key", [key for key, kind, _ in KEYS if kind == F32])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_named(key: str, value: float) -> None:
    error = refusal(number(key, F32, value))
    assert (error.code, error.subject) == ("metadata_range", f"{ARCH}.{key}")


@pytest.mark.parametrize("key", [key for key, kind, _ in KEYS if kind == U32])
def test_a_count_past_the_engines_integers_is_named(key: str) -> None:
    error = refusal(number(key, U64, 1 << 40))
    assert error.subject == f"{ARCH}.{key}" and error.code in ("metadata_range", "unsupported_shape")


LISTS: dict[str, tuple[Change, str, str]] = {
    "ratios for too few layers": (
        listed("attention.compress_ratios", I32, RATIOS[:-1]),
        "metadata_range",
        "attention.compress_ratios",
    ),
    "ratios for too many": (
        listed("attention.compress_ratios", I32, (*RATIOS, 0, 0)),
        "metadata_range",
        "attention.compress_ratios",
    ),
    "no ratios": (listed("attention.compress_ratios", I32, ()), "metadata_range", "attention.compress_ratios"),
    "a drafting block that compresses": (
        listed("attention.compress_ratios", I32, (*RATIOS, 4)),
        "unsupported_shape",
        f"attention.compress_ratios[{LAYERS}]",
    ),
    **{
        f"a ratio of {bad} for layer {layer}": (
            listed("attention.compress_ratios", I32, (*RATIOS[:layer], bad, *RATIOS[layer + 1 :], 0)),
            "unsupported_shape",
            f"attention.compress_ratios[{layer}]",
        )
        for layer in range(LAYERS)
        for bad in (-1, 8)
    },
    **{
        f"{key}, {what}": (listed(key, F32, values), "metadata_range", key + where)
        for key in ("swiglu_clamp_exp", "swiglu_clamp_shexp")
        for what, values, where in (
            ("too few", (10.0,) * (LAYERS - 1), ""),
            ("nought", (10.0, 0.0, 10.0, 10.0, 10.0), "[1]"),
            ("negative", (10.0, 10.0, 10.0, 10.0, -1.0), "[4]"),
            ("not a number", (float("nan"), 10.0, 10.0, 10.0, 10.0), "[0]"),
        )
    },
    "one clamp of nought": (number("swiglu_clamp_exp", F32, 0.0), "metadata_range", "swiglu_clamp_exp"),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_that_does_not_fit_the_layers_is_named(name: str) -> None:
    change, code, subject = LISTS[name]
    error = refusal(change)
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
    error = refusal(number(key, *ASKED[key]))
    assert isinstance(error, UnsupportedModelError)
    assert (error.code, error.subject) == ("unsupported_key", f"{ARCH}.{key}")


def test_another_rope_scaling_is_named() -> None:
    error = refusal(put(f"{ARCH}.rope.scaling.type", STRING, string("linear")))
    assert (error.code, error.subject, error.found) == ("unsupported_key", f"{ARCH}.rope.scaling.type", "linear")


def test_a_tokens_list_of_another_length_is_named() -> None:
    error = refusal(lambda w: w.array("tokenizer.ggml.tokens", STRING, ["a"]))
    assert (error.code, error.subject) == ("metadata_range", "tokenizer.ggml.tokens")
