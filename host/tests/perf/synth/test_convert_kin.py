"""Configs of llama's kin become keys; what no forward does is refused by name. With transformers: tests/native."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.perf.synth import config_kin
from ds4.perf.synth.convert import convert, reader_of
from ds4.perf.synth.mixes import Mix
from support import checkpoints

BASE: dict[str, Any] = {
    "model_type": "llama",
    "num_hidden_layers": 1,
    "hidden_size": 8,
    "intermediate_size": 12,
    "vocab_size": 6,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
}
GEMMA3 = {"model_type": "gemma3_text", "sliding_window": 4, "query_pre_attn_scalar": 4, "rope_local_base_freq": 10000.0}
MOE = {"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}


def test_older_and_newer_ways_to_state_a_rope_are_the_same() -> None:
    old = config_kin.shape_of(BASE | {"rope_scaling": {"type": "linear", "factor": 4.0}})
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}
    assert old == config_kin.shape_of(BASE | {"rope_theta": None, "rope_parameters": rope})
    assert (old["rope.scaling.type"], old["rope.scaling.factor"]) == ("linear", 4.0)


def test_llama3_keeps_fast_pairs_and_slows_slow_ones() -> None:
    rope = {
        "rope_type": "llama3",
        "rope_theta": 10000.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
    }
    rope["original_max_position_embeddings"] = 64
    divisors = config_kin.divisors(BASE | {"hidden_size": 64, "rope_parameters": rope})
    assert divisors is not None and len(divisors) == 16
    assert divisors[0] == 1.0 and divisors[-1] == 8.0 and divisors == sorted(divisors)
    assert config_kin.divisors(BASE) is None


def test_gemma3_writes_only_what_the_familys_rules_do_not_say() -> None:
    shape = config_kin.shape_of(BASE | GEMMA3)
    assert not shape.keys() & {"attention.sliding_window_pattern", "rope.freq_base_swa", "attention.scale"}
    other = {"layer_types": ["full_attention"], "query_pre_attn_scalar": 16, "rope_local_base_freq": 5000.0}
    shape = config_kin.shape_of(BASE | GEMMA3 | other)
    assert shape["attention.sliding_window_pattern"] == [False]
    assert (shape["attention.scale"], shape["rope.freq_base_swa"]) == (0.25, 5000.0)


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "another model": ({"model_type": "mamba"}, "unsupported_architecture", "model_type"),
    "biases": ({"attention_bias": True}, "unsupported_shape", "attention_bias"),
    "another activation": ({"hidden_act": "relu"}, "unsupported_shape", "hidden_act"),
    "another rope": ({"rope_scaling": {"rope_type": "longrope"}}, "unsupported_shape", "rope_parameters.rope_type"),
    "a soft cap": (GEMMA3 | {"final_logit_softcapping": 30.0}, "unsupported_shape", "final_logit_softcapping"),
    "weights that are not normalised": (MOE | {"norm_topk_prob": False}, "unsupported_shape", "norm_topk_prob"),
    "weights of which nothing is said": (MOE, "unsupported_shape", "norm_topk_prob"),
    "dense layers between": (MOE | {"mlp_only_layers": [0]}, "unsupported_shape", "mlp_only_layers"),
    "other layers that do not rotate": (
        {"model_type": "smollm3", "no_rope_layers": [0]},
        "unsupported_shape",
        "no_rope_layers",
    ),
    "a width that is none": ({"hidden_size": "8"}, "checkpoint_config", "hidden_size"),
    "no window": (GEMMA3 | {"sliding_window": None}, "checkpoint_config", "sliding_window"),
    "layers of another kind": (GEMMA3 | {"layer_types": ["linear_attention"]}, "checkpoint_config", "layer_types"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_config_that_cannot_be_written_is_named(name: str) -> None:
    changes, code, subject = REFUSED[name]
    with pytest.raises(ModelFileError) as caught:
        reader_of(BASE | changes)
    assert (caught.value.code, caught.value.subject) == (code, subject)
    assert isinstance(caught.value, UnsupportedModelError) == code.startswith("unsupported")


def test_a_head_of_llama_is_paired_row_by_row(tmp_path: Path) -> None:
    shapes = {"self_attn.q_proj": (8, 8), "self_attn.k_proj": (4, 8), "self_attn.v_proj": (4, 8)}
    shapes |= {"self_attn.o_proj": (8, 8), "mlp.gate_proj": (12, 8), "mlp.up_proj": (12, 8), "mlp.down_proj": (8, 12)}
    shapes |= {"input_layernorm": (8,), "post_attention_layernorm": (8,)}  # type: ignore[dict-item]
    named = {f"model.layers.0.{name}.weight": shape for name, shape in shapes.items()}
    named |= {"model.embed_tokens.weight": (6, 8), "model.norm.weight": (8,), "lm_head.weight": (6, 8)}  # type: ignore[dict-item]
    rng = np.random.default_rng(1)
    values = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in named.items()}
    # checkpoints.write merges into a config of deepseek_v4, whose entries must go
    others = {key: None for key in checkpoints.CONFIG if key not in BASE}
    folder = checkpoints.write(tmp_path / "hf", values, **(others | BASE))
    convert(folder, tmp_path / "x.gguf", Mix.of("f32"))
    found = {tensor.name: np.asarray(tensor.data) for tensor in gguf.GGUFReader(tmp_path / "x.gguf").tensors}
    q = values["model.layers.0.self_attn.q_proj.weight"]
    assert np.array_equal(found["blk.0.attn_q.weight"], q[[0, 2, 1, 3, 4, 6, 5, 7]])
    assert np.array_equal(found["blk.0.attn_v.weight"], values["model.layers.0.self_attn.v_proj.weight"])
    assert np.array_equal(found["output.weight"], values["lm_head.weight"])
    folder = checkpoints.write(
        tmp_path / "more", values | {"model.layers.1.x": values["model.norm.weight"]}, **(others | BASE)
    )
    with pytest.raises(ModelFileError) as caught:
        convert(folder, tmp_path / "y.gguf", Mix.of("f32"))
    assert (caught.value.code, caught.value.subject) == ("tensor_unused", "model.layers.1.x")
