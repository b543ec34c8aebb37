"""The `deepseek4.*` keys: read, ranged, cross-checked, and turned into the engine's parameters.

What files differ in and what is made of it:

    compress_ratios      one entry a layer, or one more that stands for the drafting block and must be 0
    swiglu_clamp_*       one number for all layers, or one a layer; those after the last layer repeat it
    block_count          llama.cpp counts the drafting block, ds4 does not: see mtp
    rope.scaling.*       belongs to layers with a ratio; YaRN without change of magnitude, or none
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ds4.core.cursor import shown
from ds4.core.families.deepseek4.mtp import Drafting, find
from ds4.core.families.keys import Keys, refuse_unsupported
from ds4.core.families.neutral import neutral_values
from ds4.core.inventory import Inventory
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.descriptors import Dsv4, Family, HParams, RopeKind, RopeScaling

ARCHITECTURE = "deepseek4"
RATIOS = (0, 4, 128)

_F32 = struct.Struct("<f")
_SQRT_SOFTPLUS = 4  # of expert_gating_func

# Bounds of the engine, several times what is published; products of any two stay within an int64.
MAX_LAYERS = 1024
MAX_HEADS = 1 << 14
MAX_HEAD_DIM = 1024
MAX_WIDTH = 1 << 24
MAX_EXPERTS = 1 << 15
MAX_STREAMS = 16
MAX_ITERATIONS = 1000
MAX_WINDOW = 1 << 16
MAX_TOP_K = 1 << 20
HEAD_DIM_UNIT = 16

_NEUTRAL = neutral_values(
    "attention.causal",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.kv_lora_rank",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "attention.scale",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "router_logit_softcapping",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
    "leading_dense_block_count",
    "moe_every_n_layers",
    "expert_group_count",
    "expert_group_used_count",
    "rope.dimension_sections",
    "rope.scale_linear",
    "rope.scaling.alpha",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_log_multiplier",
    "use_parallel_residual",
)

# Keys that carry no arithmetic, or say again what others have said.
_INFORMATIVE = frozenset(
    {"tensor_data_layout", "rope.scaling.finetuned", "feed_forward_length", "embedding_length_out"}
)


@dataclass(frozen=True, slots=True)
class Config:
    """A validated file's shape. mtp: where its drafting block lies; None without one."""

    hparams: HParams
    mtp: Drafting | None
    unknown_keys: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Attention:
    n_head: int
    head_dim: int
    rope_dim: int
    lora_q: int
    lora_o: int
    groups_o: int
    window: int


@dataclass(frozen=True, slots=True)
class _Experts:
    count: int
    used: int
    width: int
    shared: int
    scale: float


@dataclass(frozen=True, slots=True)
class _Rope:
    kind: RopeScaling
    factor: float = 1.0
    ext_factor: float = 0.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ctx_original: int = 0


def validate(inventory: Inventory) -> Config:
    """Reads and cross-checks every key. Raises ModelFileError or UnsupportedModelError naming the key."""
    keys = Keys(inventory.metadata, ARCHITECTURE)
    refuse_unsupported(keys, _NEUTRAL)

    n_block = keys.integer("block_count", 1, MAX_LAYERS)
    mtp = find(inventory, keys, n_block)
    n_layer = n_block if mtp is None else mtp.layer
    d_model = keys.integer("embedding_length", 1, MAX_WIDTH)
    n_ctx_train = keys.integer("context_length", 1)
    attention = _attention(keys)
    experts = _experts(keys)
    ratios = _ratios(keys, n_layer)
    n_hash = keys.integer("hash_layer_count", 0, n_layer)
    streams = keys.integer("hyper_connection.count", 1, MAX_STREAMS)
    if streams * d_model > MAX_WIDTH:
        keys.fail("hyper_connection.count", "streams are too wide together", f"at most {MAX_WIDTH}", streams * d_model)
    index_dim = keys.integer("attention.indexer.key_length", 1, MAX_HEAD_DIM)
    if index_dim < attention.rope_dim:
        keys.fail(
            "attention.indexer.key_length",
            "rope turns more dims than there are",
            f"at least {attention.rope_dim}",
            index_dim,
        )
    base = keys.number("rope.freq_base", 1.0, 1e12)
    compress_base = _single(keys.number("attention.compress_rope_freq_base", 1.0, 1e12))
    rope = _rope(keys)
    if rope.kind is RopeScaling.YARN and compress_base == 1.0:
        keys.fail("attention.compress_rope_freq_base", "YaRN divides by its logarithm", "more than 1", compress_base)
    clamps, shared_clamps = _clamps(keys, n_layer, n_layer + (mtp is not None))
    hparams = HParams(
        family=Family.DEEPSEEK4,
        n_layer=n_layer,
        d_model=d_model,
        n_head=attention.n_head,
        n_head_kv=1,
        head_dim=attention.head_dim,
        d_ff=experts.shared,
        n_vocab=_vocabulary(keys, inventory, d_model),
        n_ctx_train=n_ctx_train,
        rope_kind=RopeKind.NORM,
        rope_dim=attention.rope_dim,
        rms_eps=_single(keys.number("attention.layer_norm_rms_epsilon", 0.0, 1.0)),
        rope_base=_single(base),
        rope_scaling=rope.kind,
        rope_factor=_single(rope.factor),
        rope_ext_factor=rope.ext_factor,
        rope_beta_fast=_single(rope.beta_fast),
        rope_beta_slow=_single(rope.beta_slow),
        rope_ctx_original=rope.ctx_original,
        sliding_window=attention.window,
        dsv4=Dsv4(
            lora_q=attention.lora_q,
            lora_o=attention.lora_o,
            groups_o=attention.groups_o,
            n_expert=experts.count,
            n_expert_used=experts.used,
            d_expert=experts.width,
            n_hash_layer=n_hash,
            index_heads=keys.integer("attention.indexer.head_count", 1, MAX_HEADS),
            index_dim=index_dim,
            index_top_k=keys.integer("attention.indexer.top_k", 1, MAX_TOP_K),
            hc_count=streams,
            hc_iterations=keys.integer("hyper_connection.sinkhorn_iterations", 1, MAX_ITERATIONS),
            n_mtp=int(mtp is not None),
            expert_scale=_single(experts.scale),
            hc_eps=_single(keys.number("hyper_connection.epsilon", 0.0, 1.0)),
            compress_rope_base=compress_base,
            ratios=ratios,
            clamp_experts=clamps,
            clamp_shared=shared_clamps,
        ),
    )
    said = keys.integer("nextn_predict_layers", 0, MAX_LAYERS, default=0)
    notes = ("the file names a drafting block but does not hold it",) if said and mtp is None else ()
    return Config(hparams, mtp, keys.unread(_INFORMATIVE), notes)


def _single(value: float) -> float:
    """The value rounded to binary32, so that host and engine see the same."""
    rounded: float = _F32.unpack(_F32.pack(value))[0]
    return rounded


def _attention(keys: Keys) -> _Attention:
    n_head = keys.integer("attention.head_count", 1, MAX_HEADS)
    n_head_kv = keys.integer("attention.head_count_kv", 1, n_head, default=1)
    if n_head_kv != 1:
        raise _shape(keys, "attention.head_count_kv", "heads share one latent row", 1, n_head_kv)
    head_dim = keys.integer("attention.key_length", 1, MAX_HEAD_DIM)
    if head_dim % HEAD_DIM_UNIT:
        raise _shape(keys, "attention.key_length", "rows are read in units", f"a multiple of {HEAD_DIM_UNIT}", head_dim)
    value_length = keys.integer("attention.value_length", 1, MAX_HEAD_DIM, default=head_dim)
    if value_length != head_dim:
        raise _shape(keys, "attention.value_length", "keys and values are the same rows", head_dim, value_length)
    rope_dim = keys.integer("rope.dimension_count", 2, head_dim)
    if rope_dim % 2:
        keys.fail("rope.dimension_count", "rope rotates pairs", "an even number", rope_dim)
    groups = keys.integer("attention.output_group_count", 1, n_head)
    if n_head % groups:
        keys.fail("attention.output_group_count", "groups do not divide the heads", f"a divisor of {n_head}", groups)
    lora_o = keys.integer("attention.output_lora_rank", 1, MAX_WIDTH)
    if groups * lora_o > MAX_WIDTH:
        keys.fail("attention.output_lora_rank", "groups are too wide together", f"at most {MAX_WIDTH}", groups * lora_o)
    return _Attention(
        n_head=n_head,
        head_dim=head_dim,
        rope_dim=rope_dim,
        lora_q=keys.integer("attention.q_lora_rank", 1, MAX_WIDTH),
        lora_o=lora_o,
        groups_o=groups,
        window=keys.integer("attention.sliding_window", 1, MAX_WINDOW),
    )


def _experts(keys: Keys) -> _Experts:
    count = keys.integer("expert_count", 1, MAX_EXPERTS)
    gating = keys.integer("expert_gating_func", 0, default=_SQRT_SOFTPLUS)
    if gating != _SQRT_SOFTPLUS:
        raise _shape(keys, "expert_gating_func", "routers score by sqrt(softplus)", _SQRT_SOFTPLUS, gating)
    if not keys.flag("expert_weights_norm"):
        raise _shape(keys, "expert_weights_norm", "expert weights are normalised", True, False)
    width = keys.integer("expert_feed_forward_length", 1, MAX_WIDTH)
    shared = keys.integer("expert_shared_count", 1, MAX_EXPERTS)
    together = keys.integer("expert_shared_feed_forward_length", 1, MAX_WIDTH, default=width * shared)
    if together > MAX_WIDTH:
        keys.fail("expert_shared_count", "shared experts are too wide together", f"at most {MAX_WIDTH}", together)
    used = keys.integer("expert_used_count", 1, count)
    if used * width > MAX_WIDTH:
        keys.fail("expert_used_count", "used experts are too wide together", f"at most {MAX_WIDTH}", used * width)
    return _Experts(
        count=count,
        used=used,
        width=width,
        shared=together,
        scale=keys.number("expert_weights_scale", 1e-6, 1e6),
    )


def _shape(keys: Keys, key: str, message: str, expected: object, found: object) -> UnsupportedModelError:
    return UnsupportedModelError(
        message, code="unsupported_shape", subject=keys.name(key), expected=expected, found=found
    )


def _ratios(keys: Keys, n_layer: int) -> tuple[int, ...]:
    key = "attention.compress_ratios"
    values = keys.integers(key, n_layer, n_layer + 1)
    for index, value in enumerate(values):
        allowed = RATIOS if index < n_layer else (0,)
        if value not in allowed:
            message = "no such compression" if index < n_layer else "the drafting block does not compress"
            raise _shape(keys, f"{key}[{index}]", message, " or ".join(map(str, allowed)), value)
    return tuple(values[:n_layer])


def _clamps(keys: Keys, n_layer: int, n_block: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Of routed experts and of the shared one, for each block. Least: what a weight can be told from 0 by."""
    routed = keys.layered("swiglu_clamp_exp", n_layer, 1e-6, 1e6)
    key = "swiglu_clamp_shexp"
    shared = keys.layered(key, n_layer, 1e-6, 1e6) if keys.name(key) in keys.metadata else routed
    return _stretched(routed, n_block), _stretched(shared, n_block)


def _stretched(values: tuple[float, ...], count: int) -> tuple[float, ...]:
    more = (values[-1],) * (count - len(values))
    return tuple(map(_single, (*values[:count], *more)))


def _rope(keys: Keys) -> _Rope:
    kind = keys.string("rope.scaling.type", "none")
    if kind not in ("none", "yarn"):
        raise UnsupportedModelError(
            "this rope scaling is not supported",
            code="unsupported_key",
            subject=keys.name("rope.scaling.type"),
            expected="none or yarn",
            found=shown(kind),
        )
    if kind == "none":
        if keys.number("rope.scaling.factor", 1.0, 1e6, default=1.0) != 1.0:
            keys.fail("rope.scaling.type", "a scaling factor without a scaling", "yarn", kind)
        return _Rope(RopeScaling.NONE)
    beta_slow = keys.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, default=1.0)
    return _Rope(
        RopeScaling.YARN,
        factor=keys.number("rope.scaling.factor", 1.0, 1e6),
        ext_factor=1.0,
        beta_fast=keys.number("rope.scaling.yarn_beta_fast", beta_slow, 1e6, default=max(32.0, beta_slow)),
        beta_slow=beta_slow,
        ctx_original=keys.integer("rope.scaling.original_context_length", 1),
    )


def _vocabulary(keys: Keys, inventory: Inventory, d_model: int) -> int:
    """`vocab_size`, or rows of the embedding where the file does not say; the tokens list must agree."""
    key = "vocab_size"
    embedding = inventory.tensors.get("token_embd.weight")
    rows = embedding.dims[1] if embedding is not None and len(embedding.dims) == 2 else None
    if keys.name(key) in keys.metadata:
        count = keys.integer(key, 1, MAX_WIDTH)
        if rows is not None and rows != count:
            keys.fail(key, "the vocabulary and the embedding disagree", f"{rows} (rows of the embedding)", count)
    elif rows is not None and rows <= MAX_WIDTH:
        count = rows
    else:
        raise ModelFileError(
            "the vocabulary's size is not to be found",
            code="tensor_missing" if embedding is None else "tensor_dims",
            subject="token_embd.weight",
            expected=f"[{d_model}, vocabulary]",
            found="nothing" if embedding is None else list(embedding.dims),
        )
    tokens = inventory.metadata.count("tokenizer.ggml.tokens")
    if tokens is not None and tokens != count:
        raise ModelFileError(
            "the tokens list and the vocabulary's size disagree",
            code="metadata_range",
            subject="tokenizer.ggml.tokens",
            expected=f"{count} tokens",
            found=tokens,
        )
    return count
