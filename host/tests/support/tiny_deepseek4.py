"""A whole `deepseek4` model of some hundred kilobytes, written down by hand: nothing is shared with ds4.core.families.

Layers of every kind: two without compression, one of ratio 4 with its indexer, one of ratio 128, one more of ratio 4;
the first two route by token id.
"""

from __future__ import annotations

from collections.abc import Iterator

from support.gguf_writer import (
    BOOL,
    F32,
    I32,
    STRING,
    TYPE_F16,
    TYPE_F32,
    TYPE_I32,
    TYPE_Q8_0,
    U32,
    GgufWriter,
    Tensor,
)

ARCH = "deepseek4"
RATIOS = (0, 0, 4, 128, 4)
LAYERS, HASHED, VOCAB = len(RATIOS), 2, 24
WIDTH, STREAMS, HEADS, HEAD, ROPE = 32, 2, 4, 16, 8
LORA_Q, LORA_O, GROUPS = 32, 32, 2
EXPERTS, USED, HIDDEN = 6, 2, 32
INDEX_HEADS, INDEX_DIM = 4, 32
MIX = (2 + STREAMS) * STREAMS

KEYS: tuple[tuple[str, int, int | float | bool | str], ...] = (
    ("block_count", U32, LAYERS),
    ("context_length", U32, 4096),
    ("embedding_length", U32, WIDTH),
    ("vocab_size", U32, VOCAB),
    ("attention.head_count", U32, HEADS),
    ("attention.head_count_kv", U32, 1),
    ("attention.key_length", U32, HEAD),
    ("attention.value_length", U32, HEAD),
    ("rope.dimension_count", U32, ROPE),
    ("attention.q_lora_rank", U32, LORA_Q),
    ("attention.output_lora_rank", U32, LORA_O),
    ("attention.output_group_count", U32, GROUPS),
    ("attention.sliding_window", U32, 16),
    ("attention.layer_norm_rms_epsilon", F32, 1e-6),
    ("attention.indexer.head_count", U32, INDEX_HEADS),
    ("attention.indexer.key_length", U32, INDEX_DIM),
    ("attention.indexer.top_k", U32, 4),
    ("attention.compress_rope_freq_base", F32, 160000.0),
    ("expert_count", U32, EXPERTS),
    ("expert_used_count", U32, USED),
    ("expert_feed_forward_length", U32, HIDDEN),
    ("expert_shared_count", U32, 1),
    ("expert_gating_func", U32, 4),
    ("expert_weights_scale", F32, 1.5),
    ("expert_weights_norm", BOOL, True),
    ("hash_layer_count", U32, HASHED),
    ("hyper_connection.count", U32, STREAMS),
    ("hyper_connection.sinkhorn_iterations", U32, 20),
    ("hyper_connection.epsilon", F32, 1e-6),
    ("rope.freq_base", F32, 10000.0),
    ("rope.scaling.type", STRING, "yarn"),
    ("rope.scaling.factor", F32, 16.0),
    ("rope.scaling.original_context_length", U32, 256),
    ("rope.scaling.yarn_beta_fast", F32, 32.0),
    ("rope.scaling.yarn_beta_slow", F32, 1.0),
)
ARRAYS: tuple[tuple[str, int, tuple[float, ...]], ...] = (
    ("attention.compress_ratios", I32, (*RATIOS, 0)),
    ("swiglu_clamp_exp", F32, (10.0,) * LAYERS),
    ("swiglu_clamp_shexp", F32, (9.0,) * LAYERS),
)


def tiny_deepseek4() -> GgufWriter:
    w = GgufWriter()
    w.string("general.architecture", ARCH)
    w.string("general.name", "Tiny V4")
    for key, kind, value in KEYS:
        if isinstance(value, str):
            w.string(f"{ARCH}.{key}", value)
        else:
            w.number(f"{ARCH}.{key}", kind, value)
    for key, kind, values in ARRAYS:
        w.array(f"{ARCH}.{key}", kind, values)
    w.tensors += tiny_tensors()
    return w


def tiny_tensors() -> Iterator[Tensor]:
    yield Tensor("token_embd.weight", (WIDTH, VOCAB), TYPE_F16)
    for layer, ratio in enumerate(RATIOS):
        yield from layer_tensors(f"blk.{layer}.", ratio, hashed=layer < HASHED)
    yield Tensor("output_hc_fn.weight", (STREAMS * WIDTH, STREAMS), TYPE_F16)
    yield Tensor("output_hc_base.weight", (STREAMS,))
    yield Tensor("output_hc_scale.weight", (1,))
    yield Tensor("output_norm.weight", (WIDTH,))
    yield Tensor("output.weight", (WIDTH, VOCAB), TYPE_Q8_0)


def layer_tensors(at: str, ratio: int, *, hashed: bool) -> Iterator[Tensor]:
    def matrix(name: str, *dims: int, kind: int = TYPE_Q8_0) -> Tensor:
        return Tensor(f"{at}{name}.weight", dims, kind)

    def vector(name: str, count: int) -> Tensor:
        return Tensor(f"{at}{name}.weight", (count,), TYPE_F32)

    for part in ("attn", "ffn"):
        yield matrix(f"hc_{part}_fn", STREAMS * WIDTH, MIX, kind=TYPE_F16)
        yield vector(f"hc_{part}_scale", 3)
        yield vector(f"hc_{part}_base", MIX)
        yield vector(f"{part}_norm", WIDTH)
    yield matrix("attn_q_a", WIDTH, LORA_Q)
    yield vector("attn_q_a_norm", LORA_Q)
    yield matrix("attn_q_b", LORA_Q, HEADS * HEAD)
    yield matrix("attn_kv", WIDTH, HEAD)
    yield vector("attn_kv_a_norm", HEAD)
    yield vector("attn_sinks", HEADS)
    yield matrix("attn_output_a", HEADS * HEAD // GROUPS, GROUPS * LORA_O)
    yield matrix("attn_output_b", GROUPS * LORA_O, WIDTH)
    if ratio:
        wide = HEAD * (2 if ratio == 4 else 1)
        yield matrix("attn_compressor_kv", WIDTH, wide, kind=TYPE_F16)
        yield matrix("attn_compressor_gate", WIDTH, wide, kind=TYPE_F16)
        yield matrix("attn_compressor_ape", wide, ratio, kind=TYPE_F16)
        yield vector("attn_compressor_norm", HEAD)
    if ratio == 4:
        yield matrix("indexer.attn_q_b", LORA_Q, INDEX_HEADS * INDEX_DIM, kind=TYPE_F16)
        yield matrix("indexer.proj", WIDTH, INDEX_HEADS, kind=TYPE_F16)
        yield matrix("indexer_compressor_kv", WIDTH, 2 * INDEX_DIM, kind=TYPE_F16)
        yield matrix("indexer_compressor_gate", WIDTH, 2 * INDEX_DIM, kind=TYPE_F16)
        yield matrix("indexer_compressor_ape", 2 * INDEX_DIM, 4, kind=TYPE_F16)
        yield vector("indexer_compressor_norm", INDEX_DIM)
    yield matrix("ffn_gate_inp", WIDTH, EXPERTS, kind=TYPE_F16)
    if hashed:
        yield Tensor(at + "ffn_gate_tid2eid.weight", (USED, VOCAB), TYPE_I32)
    else:
        yield Tensor(at + "exp_probs_b.bias", (EXPERTS,), TYPE_F32)
    yield matrix("ffn_gate_exps", WIDTH, HIDDEN, EXPERTS)
    yield matrix("ffn_up_exps", WIDTH, HIDDEN, EXPERTS)
    yield matrix("ffn_down_exps", HIDDEN, WIDTH, EXPERTS)
    yield matrix("ffn_gate_shexp", WIDTH, HIDDEN)
    yield matrix("ffn_up_shexp", WIDTH, HIDDEN)
    yield matrix("ffn_down_shexp", HIDDEN, WIDTH)


def drafting_tensors() -> Iterator[Tensor]:
    """The drafting block as ds4 publishes it."""
    at = "mtp.0."
    yield from layer_tensors(at, 0, hashed=False)
    yield Tensor(at + "e_proj.weight", (WIDTH, WIDTH), TYPE_Q8_0)
    yield Tensor(at + "h_proj.weight", (WIDTH, WIDTH), TYPE_Q8_0)
    for name in ("enorm", "hnorm", "norm"):
        yield Tensor(f"{at}{name}.weight", (WIDTH,))
    yield Tensor(at + "hc_head_fn.weight", (STREAMS * WIDTH, STREAMS), TYPE_F32)
    yield Tensor(at + "hc_head_base.weight", (STREAMS,))
    yield Tensor(at + "hc_head_scale.weight", (1,))


def nextn_tensors(layer: int = LAYERS) -> Iterator[Tensor]:
    """The drafting block as llama.cpp's converter writes it."""
    at = f"blk.{layer}."
    yield from layer_tensors(at, 0, hashed=False)
    yield Tensor(at + "nextn.eh_proj.weight", (2 * WIDTH, WIDTH), TYPE_Q8_0)
    for name in ("enorm", "hnorm", "shared_head_norm"):
        yield Tensor(f"{at}nextn.{name}.weight", (WIDTH,))
