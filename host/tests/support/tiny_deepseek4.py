"""A whole `deepseek4` model of some hundred kilobytes, written down by hand: nothing is shared with ds4.core.families.

Layers of every kind: two without compression, one of ratio 4 with its indexer, one of ratio 128, one more of ratio 4;
the first two route by token id. `PRO` is another whose numbers all differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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

Key = tuple[str, int, "int | float | bool | str"]
Numbers = tuple[str, int, tuple[float, ...]]


@dataclass(frozen=True)
class Shape:
    ratios: tuple[int, ...] = (0, 0, 4, 128, 4)
    hashed: int = 2
    vocab: int = 24
    width: int = 32
    streams: int = 2
    heads: int = 4
    head: int = 16
    rope: int = 8
    lora_q: int = 32
    lora_o: int = 32
    groups: int = 2
    experts: int = 6
    used: int = 2
    hidden: int = 32
    index_heads: int = 4
    index_dim: int = 32
    top_k: int = 4
    window: int = 16
    scale: float = 1.5

    @property
    def mix(self) -> int:
        return (2 + self.streams) * self.streams


FLASH = Shape()
PRO = Shape(
    ratios=(128, 128, 4, 128),
    hashed=3,
    vocab=40,
    width=64,
    streams=4,
    heads=6,
    head=32,
    rope=16,
    lora_q=96,
    groups=3,
    experts=12,
    used=3,
    hidden=64,
    index_heads=8,
    index_dim=64,
    top_k=8,
    window=32,
    scale=2.5,
)


def keys_of(s: Shape) -> tuple[Key, ...]:
    return (
        ("block_count", U32, len(s.ratios)),
        ("context_length", U32, 4096),
        ("embedding_length", U32, s.width),
        ("vocab_size", U32, s.vocab),
        ("attention.head_count", U32, s.heads),
        ("attention.head_count_kv", U32, 1),
        ("attention.key_length", U32, s.head),
        ("attention.value_length", U32, s.head),
        ("rope.dimension_count", U32, s.rope),
        ("attention.q_lora_rank", U32, s.lora_q),
        ("attention.output_lora_rank", U32, s.lora_o),
        ("attention.output_group_count", U32, s.groups),
        ("attention.sliding_window", U32, s.window),
        ("attention.layer_norm_rms_epsilon", F32, 1e-6),
        ("attention.indexer.head_count", U32, s.index_heads),
        ("attention.indexer.key_length", U32, s.index_dim),
        ("attention.indexer.top_k", U32, s.top_k),
        ("attention.compress_rope_freq_base", F32, 160000.0),
        ("expert_count", U32, s.experts),
        ("expert_used_count", U32, s.used),
        ("expert_feed_forward_length", U32, s.hidden),
        ("expert_shared_count", U32, 1),
        ("expert_gating_func", U32, 4),
        ("expert_weights_scale", F32, s.scale),
        ("expert_weights_norm", BOOL, True),
        ("hash_layer_count", U32, s.hashed),
        ("hyper_connection.count", U32, s.streams),
        ("hyper_connection.sinkhorn_iterations", U32, 20),
        ("hyper_connection.epsilon", F32, 1e-6),
        ("rope.freq_base", F32, 10000.0),
        ("rope.scaling.type", STRING, "yarn"),
        ("rope.scaling.factor", F32, 16.0),
        ("rope.scaling.original_context_length", U32, 256),
        ("rope.scaling.yarn_beta_fast", F32, 32.0),
        ("rope.scaling.yarn_beta_slow", F32, 1.0),
    )


def lists_of(s: Shape) -> tuple[Numbers, ...]:
    return (
        ("attention.compress_ratios", I32, (*s.ratios, 0)),
        ("swiglu_clamp_exp", F32, (10.0,) * len(s.ratios)),
        ("swiglu_clamp_shexp", F32, (9.0,) * len(s.ratios)),
    )


RATIOS, LAYERS, HASHED = FLASH.ratios, len(FLASH.ratios), FLASH.hashed
VOCAB, WIDTH = FLASH.vocab, FLASH.width
KEYS, ARRAYS = keys_of(FLASH), lists_of(FLASH)


def tiny_deepseek4(s: Shape = FLASH) -> GgufWriter:
    w = GgufWriter()
    w.string("general.architecture", ARCH)
    w.string("general.name", "Tiny V4")
    for key, kind, value in keys_of(s):
        if isinstance(value, str):
            w.string(f"{ARCH}.{key}", value)
        else:
            w.number(f"{ARCH}.{key}", kind, value)
    for key, kind, values in lists_of(s):
        w.array(f"{ARCH}.{key}", kind, values)
    w.tensors += tiny_tensors(s)
    return w


def tiny_tensors(s: Shape = FLASH) -> Iterator[Tensor]:
    yield Tensor("token_embd.weight", (s.width, s.vocab), TYPE_F16)
    for layer, ratio in enumerate(s.ratios):
        yield from layer_tensors(f"blk.{layer}.", ratio, s, hashed=layer < s.hashed)
    yield Tensor("output_hc_fn.weight", (s.streams * s.width, s.streams), TYPE_F16)
    yield Tensor("output_hc_base.weight", (s.streams,))
    yield Tensor("output_hc_scale.weight", (1,))
    yield Tensor("output_norm.weight", (s.width,))
    yield Tensor("output.weight", (s.width, s.vocab), TYPE_Q8_0)


def layer_tensors(at: str, ratio: int, s: Shape = FLASH, *, hashed: bool) -> Iterator[Tensor]:
    def matrix(name: str, *dims: int, kind: int = TYPE_Q8_0) -> Tensor:
        return Tensor(f"{at}{name}.weight", dims, kind)

    def vector(name: str, count: int) -> Tensor:
        return Tensor(f"{at}{name}.weight", (count,), TYPE_F32)

    for part in ("attn", "ffn"):
        yield matrix(f"hc_{part}_fn", s.streams * s.width, s.mix, kind=TYPE_F16)
        yield vector(f"hc_{part}_scale", 3)
        yield vector(f"hc_{part}_base", s.mix)
        yield vector(f"{part}_norm", s.width)
    yield matrix("attn_q_a", s.width, s.lora_q)
    yield vector("attn_q_a_norm", s.lora_q)
    yield matrix("attn_q_b", s.lora_q, s.heads * s.head)
    yield matrix("attn_kv", s.width, s.head)
    yield vector("attn_kv_a_norm", s.head)
    yield vector("attn_sinks", s.heads)
    yield matrix("attn_output_a", s.heads * s.head // s.groups, s.groups * s.lora_o)
    yield matrix("attn_output_b", s.groups * s.lora_o, s.width)
    if ratio:
        wide = s.head * (2 if ratio == 4 else 1)
        yield matrix("attn_compressor_kv", s.width, wide, kind=TYPE_F16)
        yield matrix("attn_compressor_gate", s.width, wide, kind=TYPE_F16)
        yield matrix("attn_compressor_ape", wide, ratio, kind=TYPE_F16)
        yield vector("attn_compressor_norm", s.head)
    if ratio == 4:
        yield matrix("indexer.attn_q_b", s.lora_q, s.index_heads * s.index_dim, kind=TYPE_F16)
        yield matrix("indexer.proj", s.width, s.index_heads, kind=TYPE_F16)
        yield matrix("indexer_compressor_kv", s.width, 2 * s.index_dim, kind=TYPE_F16)
        yield matrix("indexer_compressor_gate", s.width, 2 * s.index_dim, kind=TYPE_F16)
        yield matrix("indexer_compressor_ape", 2 * s.index_dim, 4, kind=TYPE_F16)
        yield vector("indexer_compressor_norm", s.index_dim)
    yield matrix("ffn_gate_inp", s.width, s.experts, kind=TYPE_F16)
    if hashed:
        yield Tensor(at + "ffn_gate_tid2eid.weight", (s.used, s.vocab), TYPE_I32)
    else:
        yield Tensor(at + "exp_probs_b.bias", (s.experts,), TYPE_F32)
    yield matrix("ffn_gate_exps", s.width, s.hidden, s.experts)
    yield matrix("ffn_up_exps", s.width, s.hidden, s.experts)
    yield matrix("ffn_down_exps", s.hidden, s.width, s.experts)
    yield matrix("ffn_gate_shexp", s.width, s.hidden)
    yield matrix("ffn_up_shexp", s.width, s.hidden)
    yield matrix("ffn_down_shexp", s.hidden, s.width)


def drafting_tensors(s: Shape = FLASH) -> Iterator[Tensor]:
    """The drafting block as ds4 publishes it."""
    at = "mtp.0."
    yield from layer_tensors(at, 0, s, hashed=False)
    yield Tensor(at + "e_proj.weight", (s.width, s.width), TYPE_Q8_0)
    yield Tensor(at + "h_proj.weight", (s.width, s.width), TYPE_Q8_0)
    for name in ("enorm", "hnorm", "norm"):
        yield Tensor(f"{at}{name}.weight", (s.width,))
    yield Tensor(at + "hc_head_fn.weight", (s.streams * s.width, s.streams), TYPE_F32)
    yield Tensor(at + "hc_head_base.weight", (s.streams,))
    yield Tensor(at + "hc_head_scale.weight", (1,))


def nextn_tensors(layer: int | None = None, s: Shape = FLASH) -> Iterator[Tensor]:
    """The drafting block as llama.cpp's converter writes it."""
    at = f"blk.{len(s.ratios) if layer is None else layer}."
    yield from layer_tensors(at, 0, s, hashed=False)
    yield Tensor(at + "nextn.eh_proj.weight", (2 * s.width, s.width), TYPE_Q8_0)
    for name in ("enorm", "hnorm", "shared_head_norm"):
        yield Tensor(f"{at}nextn.{name}.weight", (s.width,))
