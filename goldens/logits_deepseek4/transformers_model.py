"""A `deepseek4` GGUF file as a transformers model in fp32: its keys as a config, its tensors dequantised by `gguf`.

Nothing of the project is used, so that names, shapes and numbers are read a second time. Sources: transformers'
configuration and modelling files of deepseek_v4; no tensor is transposed, gate_up_proj is each expert's gate rows, then
its up rows.
"""

from __future__ import annotations

import pathlib
from typing import Any

import gguf
import numpy as np
import torch
from transformers import DeepseekV4Config, DeepseekV4ForCausalLM

_COMPRESSOR = "self_attn.compressor."
_INDEXER = _COMPRESSOR + "indexer."
_TOP = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output.weight": "lm_head.weight",
    "output_norm.weight": "model.norm.weight",
    "output_hc_fn.weight": "model.hc_head.hc_fn",
    "output_hc_base.weight": "model.hc_head.hc_base",
    "output_hc_scale.weight": "model.hc_head.hc_scale",
}
_LAYER = {
    "hc_attn_fn.weight": "attn_hc.fn",
    "hc_attn_base.weight": "attn_hc.base",
    "hc_attn_scale.weight": "attn_hc.scale",
    "hc_ffn_fn.weight": "ffn_hc.fn",
    "hc_ffn_base.weight": "ffn_hc.base",
    "hc_ffn_scale.weight": "ffn_hc.scale",
    "attn_norm.weight": "input_layernorm.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "attn_q_a.weight": "self_attn.q_a_proj.weight",
    "attn_q_a_norm.weight": "self_attn.q_a_norm.weight",
    "attn_q_b.weight": "self_attn.q_b_proj.weight",
    "attn_kv.weight": "self_attn.kv_proj.weight",
    "attn_kv_a_norm.weight": "self_attn.kv_norm.weight",
    "attn_sinks.weight": "self_attn.sinks",
    "attn_output_a.weight": "self_attn.o_a_proj.weight",
    "attn_output_b.weight": "self_attn.o_b_proj.weight",
    "attn_compressor_kv.weight": _COMPRESSOR + "kv_proj.weight",
    "attn_compressor_gate.weight": _COMPRESSOR + "gate_proj.weight",
    "attn_compressor_ape.weight": _COMPRESSOR + "position_bias",
    "attn_compressor_norm.weight": _COMPRESSOR + "kv_norm.weight",
    "indexer.attn_q_b.weight": _INDEXER + "q_b_proj.weight",
    "indexer.proj.weight": _INDEXER + "scorer.weights_proj.weight",
    "indexer_compressor_kv.weight": _INDEXER + "kv_proj.weight",
    "indexer_compressor_gate.weight": _INDEXER + "gate_proj.weight",
    "indexer_compressor_ape.weight": _INDEXER + "position_bias",
    "indexer_compressor_norm.weight": _INDEXER + "kv_norm.weight",
    "ffn_gate_inp.weight": "mlp.gate.weight",
    "exp_probs_b.bias": "mlp.gate.e_score_correction_bias",
    "ffn_gate_tid2eid.weight": "mlp.gate.tid2eid",
    "ffn_down_exps.weight": "mlp.experts.down_proj",
    "ffn_gate_shexp.weight": "mlp.shared_experts.gate_proj.weight",
    "ffn_up_shexp.weight": "mlp.shared_experts.up_proj.weight",
    "ffn_down_shexp.weight": "mlp.shared_experts.down_proj.weight",
}
_GATE, _UP = "ffn_gate_exps.weight", "ffn_up_exps.weight"
_KINDS = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}


def load(path: pathlib.Path) -> Any:
    """The model, in fp32 with eager attention. KeyError or ValueError: something is left over or missing."""
    reader = gguf.GGUFReader(path)
    model = DeepseekV4ForCausalLM(config(reader)).float().eval()
    state = model.state_dict()
    weights = tensors(reader)
    missing, more = state.keys() - weights.keys(), weights.keys() - state.keys()
    missing = {name for name in missing if not name.endswith(("inv_freq", "original_inv_freq"))}
    if missing or more:
        raise KeyError(f"missing {sorted(missing)[:4]}, left over {sorted(more)[:4]}")
    for name, value in weights.items():
        if tuple(state[name].shape) != tuple(value.shape):
            raise ValueError(f"{name} is {tuple(value.shape)}, expected {tuple(state[name].shape)}")
    model.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()}, strict=False)
    return model


def logits(model: Any, ids: list[int]) -> np.ndarray:
    """fp32 [T, vocabulary] of a whole sequence."""
    with torch.no_grad():
        out: np.ndarray = model(torch.tensor([ids]), use_cache=False).logits[0].numpy()
    return out


def config(reader: gguf.GGUFReader) -> DeepseekV4Config:
    def key(name: str, default: object = None) -> Any:
        field = reader.fields.get(f"deepseek4.{name}")
        return default if field is None else field.contents()

    layers, hashed = key("block_count"), key("hash_layer_count")
    head, turned = key("attention.key_length"), key("rope.dimension_count")
    main = {"rope_type": "default", "rope_theta": key("rope.freq_base"), "partial_rotary_factor": turned / head}
    compress = {
        "rope_type": "yarn",
        "rope_theta": key("attention.compress_rope_freq_base"),
        "partial_rotary_factor": turned / head,
        "factor": key("rope.scaling.factor"),
        "original_max_position_embeddings": key("rope.scaling.original_context_length"),
        "beta_fast": key("rope.scaling.yarn_beta_fast"),
        "beta_slow": key("rope.scaling.yarn_beta_slow"),
        "attention_factor": 1.0,
    }
    return DeepseekV4Config(
        vocab_size=key("vocab_size"),
        hidden_size=key("embedding_length"),
        num_hidden_layers=layers,
        layer_types=[_KINDS[ratio] for ratio in key("attention.compress_ratios")[:layers]],
        compress_rates={_KINDS[4]: 4, _KINDS[128]: 128},
        mlp_layer_types=["hash_moe"] * hashed + ["moe"] * (layers - hashed),
        num_attention_heads=key("attention.head_count"),
        num_key_value_heads=1,
        head_dim=head,
        qk_rope_head_dim=turned,
        partial_rotary_factor=turned / head,
        q_lora_rank=key("attention.q_lora_rank"),
        o_lora_rank=key("attention.output_lora_rank"),
        o_groups=key("attention.output_group_count"),
        sliding_window=key("attention.sliding_window"),
        index_n_heads=key("attention.indexer.head_count"),
        index_head_dim=key("attention.indexer.key_length"),
        index_topk=key("attention.indexer.top_k"),
        n_routed_experts=key("expert_count"),
        num_experts_per_tok=key("expert_used_count"),
        moe_intermediate_size=key("expert_feed_forward_length"),
        n_shared_experts=key("expert_shared_count"),
        routed_scaling_factor=key("expert_weights_scale"),
        swiglu_limit=key("swiglu_clamp_exp")[0],
        hc_mult=key("hyper_connection.count"),
        hc_sinkhorn_iters=key("hyper_connection.sinkhorn_iterations"),
        hc_eps=key("hyper_connection.epsilon"),
        rms_norm_eps=key("attention.layer_norm_rms_epsilon"),
        rope_theta=key("rope.freq_base"),
        compress_rope_theta=key("attention.compress_rope_freq_base"),
        rope_parameters={"main": main, "compress": compress},
        max_position_embeddings=max(key("context_length"), 65536),
        attn_implementation="eager",
    )


def tensors(reader: gguf.GGUFReader) -> dict[str, np.ndarray]:
    """The state of the transformers model, by its names."""
    out: dict[str, np.ndarray] = {}
    halves: dict[str, np.ndarray] = {}
    for tensor in reader.tensors:
        shape = [int(dim) for dim in reversed(tensor.shape)]
        if tensor.tensor_type == gguf.GGMLQuantizationType.I32:
            value = np.array(tensor.data, np.int64).reshape(shape)
        else:
            value = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32).reshape(shape)
        if tensor.name in _TOP:
            out[_TOP[tensor.name]] = value
            continue
        _, layer, name = tensor.name.split(".", 2)
        if name in (_GATE, _UP):
            halves[f"{layer}.{name}"] = value
        else:
            out[f"model.layers.{layer}.{_LAYER[name]}"] = value
    for layer in {key.split(".")[0] for key in halves}:
        both = [halves[f"{layer}.{name}"] for name in (_GATE, _UP)]
        out[f"model.layers.{layer}.mlp.experts.gate_up_proj"] = np.concatenate(both, 1)
    return out
