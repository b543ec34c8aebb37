"""Writes safetensors files and tiny transformers checkpoints of deepseek_v4, right ones and wrong ones.

Nothing is shared with ds4.perf.synth: names and shapes are written down again here.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

LAYERS = ("sliding_attention", "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention")
CONFIG: dict[str, Any] = {
    "model_type": "deepseek_v4",
    "num_hidden_layers": 4,
    "hidden_size": 32,
    "vocab_size": 300,
    "max_position_embeddings": 4096,
    "num_attention_heads": 4,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "qk_rope_head_dim": 16,
    "q_lora_rank": 32,
    "o_lora_rank": 32,
    "o_groups": 2,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_shared_experts": 1,
    "routed_scaling_factor": 1.5,
    "norm_topk_prob": True,
    "scoring_func": "sqrtsoftplus",
    "swiglu_limit": 10.0,
    "sliding_window": 16,
    "index_n_heads": 4,
    "index_head_dim": 32,
    "index_topk": 4,
    "hc_mult": 2,
    "hc_sinkhorn_iters": 20,
    "hc_eps": 1e-6,
    "rms_norm_eps": 1e-6,
    "layer_types": list(LAYERS),
    "mlp_layer_types": ["hash_moe", "moe", "moe", "moe"],
    "compress_rope_theta": 160000.0,
    "rope_parameters": {
        "main": {"rope_type": "default", "rope_theta": 10000.0},
        "compress": {
            "rope_type": "yarn",
            "rope_theta": 160000.0,
            "factor": 16.0,
            "original_max_position_embeddings": 256,
            "beta_fast": 32.0,
            "beta_slow": 1.0,
            "attention_factor": 1.0,
        },
    },
}


def shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "model.embed_tokens.weight", (300, 32)
    yield "lm_head.weight", (300, 32)
    yield "model.norm.weight", (32,)
    yield "model.hc_head.hc_fn", (2, 64)
    yield "model.hc_head.hc_base", (2,)
    yield "model.hc_head.hc_scale", (1,)
    for layer, kind in enumerate(LAYERS):
        at = f"model.layers.{layer}."
        for part in ("attn_hc", "ffn_hc"):
            yield f"{at}{part}.fn", (8, 64)
            yield f"{at}{part}.base", (8,)
            yield f"{at}{part}.scale", (3,)
        yield at + "input_layernorm.weight", (32,)
        yield at + "post_attention_layernorm.weight", (32,)
        yield at + "self_attn.q_a_proj.weight", (32, 32)
        yield at + "self_attn.q_a_norm.weight", (32,)
        yield at + "self_attn.q_b_proj.weight", (128, 32)
        yield at + "self_attn.kv_proj.weight", (32, 32)
        yield at + "self_attn.kv_norm.weight", (32,)
        yield at + "self_attn.sinks", (4,)
        yield at + "self_attn.o_a_proj.weight", (64, 64)
        yield at + "self_attn.o_b_proj.weight", (32, 64)
        wide = {"sliding_attention": 0, LAYERS[2]: 64, LAYERS[3]: 32}[kind]
        if wide:
            yield at + "self_attn.compressor.kv_proj.weight", (wide, 32)
            yield at + "self_attn.compressor.gate_proj.weight", (wide, 32)
            yield at + "self_attn.compressor.position_bias", (4 if wide == 64 else 128, wide)
            yield at + "self_attn.compressor.kv_norm.weight", (32,)
        if wide == 64:
            index = at + "self_attn.compressor.indexer."
            yield index + "q_b_proj.weight", (128, 32)
            yield index + "scorer.weights_proj.weight", (4, 32)
            yield index + "kv_proj.weight", (64, 32)
            yield index + "gate_proj.weight", (64, 32)
            yield index + "position_bias", (4, 64)
            yield index + "kv_norm.weight", (32,)
        yield at + "mlp.gate.weight", (4, 32)
        yield (
            at + ("mlp.gate.tid2eid" if layer == 0 else "mlp.gate.e_score_correction_bias"),
            ((300, 2) if layer == 0 else (4,)),
        )
        yield at + "mlp.experts.gate_up_proj", (4, 64, 32)
        yield at + "mlp.experts.down_proj", (4, 32, 32)
        for name in ("gate_proj", "up_proj", "down_proj"):
            yield f"{at}mlp.shared_experts.{name}.weight", (32, 32)


def tensors(seed: int = 1) -> dict[str, npt.NDArray[Any]]:
    """Every tensor, float32 but for the table of experts, which is int64 as transformers keeps it."""
    rng = np.random.default_rng(seed)
    return {
        name: rng.integers(0, 4, shape, dtype=np.int64)
        if name.endswith("tid2eid")
        else rng.standard_normal(shape).astype(np.float32)
        for name, shape in shapes()
    }


_DTYPES = {"float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32", "uint8": "U8"}


def header(entries: dict[str, Any]) -> bytes:
    raw = json.dumps(entries).encode()
    return struct.pack("<Q", len(raw)) + raw


def safetensors(values: dict[str, npt.NDArray[Any]]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = b""
    for name, value in values.items():
        raw = value.tobytes()
        dtype = _DTYPES[str(value.dtype)]
        entries[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    return header(entries) + data


def write(folder: Path, values: dict[str, npt.NDArray[Any]] | None = None, **config: Any) -> Path:
    """A checkpoint folder. config: entries to change; None takes one away."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = {key: value for key, value in (CONFIG | config).items() if value is not None}
    (folder / "config.json").write_text(json.dumps(changed), encoding="utf-8")
    (folder / "model.safetensors").write_bytes(safetensors(tensors() if values is None else values))
    return folder
