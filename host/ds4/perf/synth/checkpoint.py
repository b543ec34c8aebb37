"""A transformers checkpoint of `deepseek_v4`: its config as keys, its tensors by the slot that each fills.

No tensor is transposed: torch's [out, in] rows are GGUF's [in, out]. What is not one to one: gate_up_proj [E, 2F, D]
holds each expert's gate rows, then its up rows. Sources: transformers' configuration and modelling files of
deepseek_v4.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from ds4.core.cursor import shown
from ds4.core.families import SlotSpec
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.perf.synth.arrays import Floats
from ds4.perf.synth.safetensors import Checkpoint, Stored
from ds4.perf.synth.shapes import Shape
from ds4.sys.descriptors import Role

MODEL_TYPE = "deepseek_v4"
PIECE = 1 << 22  # elements of a tensor that are held at a time

_RATIOS = {"sliding_attention": 0, "compressed_sparse_attention": 4, "heavily_compressed_attention": 128}

_TOP = {
    Role.TOKEN_EMBD: "model.embed_tokens.weight",
    Role.OUTPUT: "lm_head.weight",
    Role.OUTPUT_NORM: "model.norm.weight",
    Role.OUTPUT_HC_FN: "model.hc_head.hc_fn",
    Role.OUTPUT_HC_BASE: "model.hc_head.hc_base",
    Role.OUTPUT_HC_SCALE: "model.hc_head.hc_scale",
}
_COMPRESSOR = "self_attn.compressor."
_INDEXER = _COMPRESSOR + "indexer."
_LAYER = {
    Role.HC_ATTN_FN: "attn_hc.fn",
    Role.HC_ATTN_BASE: "attn_hc.base",
    Role.HC_ATTN_SCALE: "attn_hc.scale",
    Role.HC_FFN_FN: "ffn_hc.fn",
    Role.HC_FFN_BASE: "ffn_hc.base",
    Role.HC_FFN_SCALE: "ffn_hc.scale",
    Role.ATTN_NORM: "input_layernorm.weight",
    Role.FFN_NORM: "post_attention_layernorm.weight",
    Role.ATTN_Q_A: "self_attn.q_a_proj.weight",
    Role.ATTN_Q_A_NORM: "self_attn.q_a_norm.weight",
    Role.ATTN_Q_B: "self_attn.q_b_proj.weight",
    Role.ATTN_KV: "self_attn.kv_proj.weight",
    Role.ATTN_KV_NORM: "self_attn.kv_norm.weight",
    Role.ATTN_SINKS: "self_attn.sinks",
    Role.ATTN_OUT_A: "self_attn.o_a_proj.weight",
    Role.ATTN_OUT_B: "self_attn.o_b_proj.weight",
    Role.COMPRESS_KV: _COMPRESSOR + "kv_proj.weight",
    Role.COMPRESS_GATE: _COMPRESSOR + "gate_proj.weight",
    Role.COMPRESS_APE: _COMPRESSOR + "position_bias",
    Role.COMPRESS_NORM: _COMPRESSOR + "kv_norm.weight",
    Role.INDEX_Q_B: _INDEXER + "q_b_proj.weight",
    Role.INDEX_PROJ: _INDEXER + "scorer.weights_proj.weight",
    Role.INDEX_KV: _INDEXER + "kv_proj.weight",
    Role.INDEX_GATE: _INDEXER + "gate_proj.weight",
    Role.INDEX_APE: _INDEXER + "position_bias",
    Role.INDEX_NORM: _INDEXER + "kv_norm.weight",
    Role.ROUTER: "mlp.gate.weight",
    Role.ROUTER_BIAS: "mlp.gate.e_score_correction_bias",
    Role.ROUTER_HASH: "mlp.gate.tid2eid",
    Role.EXPERTS_GATE: "mlp.experts.gate_up_proj",
    Role.EXPERTS_UP: "mlp.experts.gate_up_proj",
    Role.EXPERTS_DOWN: "mlp.experts.down_proj",
    Role.SHARED_GATE: "mlp.shared_experts.gate_proj.weight",
    Role.SHARED_UP: "mlp.shared_experts.up_proj.weight",
    Role.SHARED_DOWN: "mlp.shared_experts.down_proj.weight",
}


def source_name(spec: SlotSpec) -> str:
    """The checkpoint's name of the tensor that a slot is filled from."""
    return _TOP[spec.role] if spec.layer < 0 else f"model.layers.{spec.layer}.{_LAYER[spec.role]}"


def pieces(checkpoint: Checkpoint, spec: SlotSpec) -> Iterator[Floats]:
    """A slot's elements in GGUF's order, PIECE of them at a time at most. Raises ModelFileError: `tensor_missing`,
    `tensor_dims`, `checkpoint_dtype`, or `tensor_values` for a table of experts that names one there is not."""
    stored = find(checkpoint, spec)
    if spec.role is Role.ROUTER_HASH:
        for start, stop in _runs(0, stored.count):
            yield stored.integers(start, stop).astype(np.float32)
        return
    for start, stop in _stretches(spec):
        for at, end in _runs(start, stop):
            yield stored.floats(at, end)


def find(checkpoint: Checkpoint, spec: SlotSpec) -> Stored:
    """The tensor that a slot is filled from, of the right shape."""
    name = source_name(spec)
    shape = tuple(reversed(spec.dims))
    if spec.role in (Role.EXPERTS_GATE, Role.EXPERTS_UP):
        shape = (shape[0], 2 * shape[1], shape[2])
    stored = checkpoint.get(name)
    if stored is None:
        raise ModelFileError(
            "the checkpoint lacks a tensor", code="tensor_missing", subject=name, expected=list(shape), found="nothing"
        )
    if stored.shape != shape:
        raise ModelFileError(
            "wrong shape", code="tensor_dims", subject=name, expected=list(shape), found=list(stored.shape)
        )
    return stored


def _stretches(spec: SlotSpec) -> Iterator[tuple[int, int]]:
    """Which elements of the source are the slot's, in order."""
    count = spec.dims[0] * spec.dims[1] if len(spec.dims) > 1 else spec.dims[0]
    if spec.role in (Role.EXPERTS_GATE, Role.EXPERTS_UP):
        half = 0 if spec.role is Role.EXPERTS_GATE else count
        for expert in range(spec.dims[2]):
            yield 2 * count * expert + half, 2 * count * expert + half + count
    else:
        yield 0, count * (spec.dims[2] if len(spec.dims) > 2 else 1)


def _runs(start: int, stop: int) -> Iterator[tuple[int, int]]:
    for at in range(start, stop, PIECE):
        yield at, min(at + PIECE, stop)


def unused(checkpoint: Checkpoint, specs: list[SlotSpec]) -> list[str]:
    """Tensors of the checkpoint that no slot is filled from."""
    used = {source_name(spec) for spec in specs}
    return [name for name in checkpoint if name not in used]


class Dsv4Reader:
    """What `convert` asks of a checkpoint, for a config of deepseek_v4."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.shape = shape_of(config)

    def has(self, source: Checkpoint, spec: SlotSpec) -> bool:
        return source_name(spec) in source

    def check(self, source: Checkpoint, spec: SlotSpec) -> None:
        find(source, spec)

    def unused(self, source: Checkpoint, specs: list[SlotSpec]) -> list[str]:
        return unused(source, specs)

    def pieces(self, source: Checkpoint, spec: SlotSpec) -> Iterator[Floats]:
        return pieces(source, spec)


# ---- config.json


def shape_of(config: dict[str, Any]) -> Shape:
    """The keys of a config. Raises ModelFileError, code `checkpoint_config`, for one that is missing or of a wrong
    type, UnsupportedModelError for what cannot be written."""
    if config.get("tie_word_embeddings") or config.get("attention_bias") or config.get("mlp_bias"):
        raise UnsupportedModelError(
            "tied embeddings and biases are not supported", code="unsupported_shape", subject="config.json"
        )
    read = Reader(config)
    layers, head = read.integer("num_hidden_layers"), read.integer("head_dim")
    clamp = read.number("swiglu_limit")
    rope = config.get("rope_parameters")
    main, compress = _ropes(config, rope if isinstance(rope, dict) else {})
    rope_dim = config.get("qk_rope_head_dim", round(head * read.number("partial_rotary_factor", 0.125)))
    shape: Shape = {
        "architecture": "deepseek4",
        "block_count": layers,
        "context_length": read.integer("max_position_embeddings"),
        "embedding_length": read.integer("hidden_size"),
        "vocab_size": read.integer("vocab_size"),
        "attention.head_count": read.integer("num_attention_heads"),
        "attention.head_count_kv": read.integer("num_key_value_heads", 1),
        "attention.key_length": head,
        "attention.value_length": head,
        "rope.dimension_count": rope_dim,
        "attention.q_lora_rank": read.integer("q_lora_rank"),
        "attention.output_lora_rank": read.integer("o_lora_rank"),
        "attention.output_group_count": read.integer("o_groups"),
        "expert_count": read.integer("n_routed_experts"),
        "expert_used_count": read.integer("num_experts_per_tok"),
        "expert_feed_forward_length": read.integer("moe_intermediate_size"),
        "expert_shared_count": read.integer("n_shared_experts", 1),
        "expert_gating_func": 4 if config.get("scoring_func", "sqrtsoftplus") == "sqrtsoftplus" else 0,
        "expert_weights_scale": read.number("routed_scaling_factor"),
        "expert_weights_norm": bool(config.get("norm_topk_prob", True)),
        "hash_layer_count": _hashed(config, read, layers),
        "swiglu_clamp_exp": [clamp] * layers,
        "swiglu_clamp_shexp": [clamp] * layers,
        "attention.sliding_window": read.integer("sliding_window"),
        "attention.compress_ratios": [*_ratios(config, layers), 0],
        "attention.indexer.head_count": read.integer("index_n_heads"),
        "attention.indexer.key_length": read.integer("index_head_dim"),
        "attention.indexer.top_k": read.integer("index_topk"),
        "hyper_connection.count": read.integer("hc_mult"),
        "hyper_connection.sinkhorn_iterations": read.integer("hc_sinkhorn_iters"),
        "hyper_connection.epsilon": read.number("hc_eps"),
        "attention.layer_norm_rms_epsilon": read.number("rms_norm_eps"),
        "rope.freq_base": main,
        **compress,
    }
    return shape


class Reader:
    """Numbers of a config. prefix: of its keys, for errors."""

    def __init__(self, config: dict[str, Any], prefix: str = "") -> None:
        self.config, self.prefix = config, prefix

    def integer(self, key: str, default: int | None = None) -> int:
        value = self.config.get(key, default)
        if type(value) is not int:
            self.fail(key, "an integer", value)
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.config.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            self.fail(key, "a number", value)
        return float(value)

    def fail(self, key: str, expected: str, found: object) -> NoReturn:
        raise ModelFileError(
            "missing from the config, or of a wrong type",
            code="checkpoint_config",
            subject=shown(self.prefix + key),
            expected=expected,
            found=shown(repr(found)),
        )


def _ratios(config: dict[str, Any], layers: int) -> list[int]:
    """compress_ratios, or layer_types with their own rates."""
    types = config.get("layer_types")
    stated = config.get("compress_ratios")
    read = Reader(config)
    if isinstance(types, list):
        rates = config.get("compress_rates")
        known = _RATIOS | rates if isinstance(rates, dict) else _RATIOS
        if len(types) != layers or not all(isinstance(name, str) and type(known.get(name)) is int for name in types):
            read.fail("layer_types", f"{layers} of " + ", ".join(_RATIOS), types)
        return [known[name] for name in types]
    if not isinstance(stated, list) or len(stated) < layers or not all(type(ratio) is int for ratio in stated):
        read.fail("compress_ratios", f"layer_types, or {layers} integers", stated)
    return stated[:layers]


def _hashed(config: dict[str, Any], read: Reader, layers: int) -> int:
    types = config.get("mlp_layer_types")
    if not isinstance(types, list):
        return read.integer("num_hash_layers")
    hashed = types.count("hash_moe")
    if len(types) != layers or types != ["hash_moe"] * hashed + ["moe"] * (layers - hashed):
        read.fail("mlp_layer_types", f"{layers}: hash_moe first, then moe", types)
    return hashed


def _ropes(config: dict[str, Any], parameters: dict[str, Any]) -> tuple[float, Shape]:
    """The base of layers without compression, and the keys for those with it."""
    read = Reader(config)
    main = parameters.get("main")
    base = Reader(main, "rope_parameters.main.").number("rope_theta") if isinstance(main, dict) else None
    found = parameters.get("compress", parameters)
    compress = Reader(found if isinstance(found, dict) else {}, "rope_parameters.compress.")
    theta = read.config.get("compress_rope_theta")
    theta = compress.number("rope_theta") if theta is None else read.number("compress_rope_theta")
    kind = compress.config.get("rope_type", "default")
    out: Shape = {"attention.compress_rope_freq_base": theta}
    if kind == "yarn":
        if compress.number("attention_factor", 1.0) != 1.0 and "compress" in parameters:
            raise UnsupportedModelError(
                "YaRN with a magnitude is not supported",
                code="unsupported_shape",
                subject="rope_parameters.compress.attention_factor",
                expected=1.0,
                found=compress.number("attention_factor"),
            )
        out |= {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": compress.number("factor"),
            "rope.scaling.original_context_length": compress.integer("original_max_position_embeddings"),
            "rope.scaling.yarn_beta_fast": compress.number("beta_fast", 32.0),
            "rope.scaling.yarn_beta_slow": compress.number("beta_slow", 1.0),
        }
    elif kind != "default":
        raise UnsupportedModelError(
            "this rope is not supported",
            code="unsupported_shape",
            subject="rope_parameters.compress.rope_type",
            expected="yarn or default",
            found=shown(str(kind)),
        )
    return base if base is not None else read.number("rope_theta"), out
