"""The `llama` family: Llama 1-3, SmolLM, Mistral 7B, TinyLlama and all that are converted under that architecture.

    x = token_embd[token]
    for each layer:   h = rms_norm(x) * attn_norm;  q, k, v = Wq h, Wk h, Wv h;  rope(q), rope(k)
                      x += Wo attention(q, k, v)                    n_head queries share n_head_kv keys and values
                      h = rms_norm(x) * ffn_norm;   x += Wdown (silu(Wgate h) * (Wup h))
    logits = W (rms_norm(x) * output_norm)                          W: output.weight, or token_embd if the file has none

Converters permute the rows of Wq and Wk so that rotated pairs are neighbours: RopeKind.NORM.

Sources: the key and tensor names are those published by the `gguf` package; the meaning of the rope scaling keys is
that of llama.cpp's loader; YaRN is arXiv 2309.00071.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ds4.core.cursor import shown
from ds4.core.families.cache import row_bytes
from ds4.core.families.contract import MATRIX_TYPES, VECTOR_TYPES, Lane, PromptFacts, SlotSpec, State, note_unknown
from ds4.core.families.keys import Keys, Neutral, refuse_unsupported
from ds4.core.inventory import Inventory
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.descriptors import Family, GgmlType, HParams, Role, RopeKind, RopeScaling

FAMILY = Family.LLAMA
ARCHITECTURE = "llama"
LANES = frozenset(Lane)
STATE = State.POSITIONS
PROMPT = PromptFacts()

_F32 = struct.Struct("<f")

# Bounds of the engine, several times what is published. They also keep a wild count from being multiplied out into a
# list of slots, and every product of two widths within an int64.
MAX_LAYERS = 1024
MAX_HEADS = 1 << 16
MAX_HEAD_DIM = 1024
MAX_WIDTH = 1 << 24

# Keys that change the arithmetic in ways this forward does not have, with the values that mean "not used".
_NEUTRAL: dict[str, Neutral] = {
    "expert_count": (0,),
    "expert_used_count": (0,),
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.max_alibi_bias": (0.0,),
    "attention.sliding_window_pattern": (),
    "attention.shared_kv_layers": (0,),
    "attention.key_length_mla": (0,),
    "attention.value_length_mla": (0,),
    "attn_logit_softcapping": (0.0,),
    "final_logit_softcapping": (0.0,),
    "embedding_scale": (0.0, 1.0),
    "residual_scale": (0.0, 1.0),
    "logit_scale": (0.0, 1.0),
    "rope.dimension_sections": (),
    "rope.scaling.alpha": (0.0,),
    "use_parallel_residual": (False,),
    "nextn_predict_layers": (0,),
}

# Keys that carry no arithmetic.
_INFORMATIVE = frozenset({"tensor_data_layout", "rope.scaling.finetuned"})

# Weights that older converters stored although they follow from the metadata (the rope frequencies of each layer).
_IGNORABLE = re.compile(r"blk\.\d+\.attn_rot_embd(\.weight)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Config:
    """A validated file's shape. rope_attn_factor has YaRN's magnitude correction folded in."""

    n_layer: int
    d_model: int
    n_head: int
    n_head_kv: int
    head_dim: int
    d_ff: int
    n_vocab: int
    n_ctx_train: int
    rms_eps: float
    attn_scale: float
    rope_dim: int
    rope_base: float
    rope_scaling: RopeScaling
    rope_factor: float
    rope_attn_factor: float
    rope_ext_factor: float
    rope_beta_fast: float
    rope_beta_slow: float
    rope_ctx_original: int
    sliding_window: int
    unknown_keys: tuple[str, ...]


def validate(inventory: Inventory) -> Config:
    """Reads and cross-checks every key. Raises ModelFileError or UnsupportedModelError naming the key."""
    keys = Keys(inventory.metadata, ARCHITECTURE)
    refuse_unsupported(keys, _NEUTRAL)

    n_layer = keys.integer("block_count", 1, MAX_LAYERS)
    d_model = keys.integer("embedding_length", 1, MAX_WIDTH)
    d_ff = keys.uniform("feed_forward_length", n_layer, MAX_WIDTH)
    n_head = keys.uniform("attention.head_count", n_layer, MAX_HEADS)
    n_head_kv = keys.uniform("attention.head_count_kv", n_layer, n_head, default=n_head)
    if n_head % n_head_kv:
        keys.fail("attention.head_count_kv", "kv heads do not divide the heads", f"a divisor of {n_head}", n_head_kv)
    head_dim = _head_dim(keys, d_model, n_head)
    n_ctx_train = keys.integer("context_length", 1)
    rope_dim = keys.integer("rope.dimension_count", 2, head_dim, default=head_dim)
    if rope_dim % 2:
        keys.fail("rope.dimension_count", "rope rotates pairs", "an even number", rope_dim)
    rope = _rope_scaling(keys, n_ctx_train)
    rope_base = keys.number("rope.freq_base", 1.0, 1e12, default=10000.0)
    if rope.kind is RopeScaling.YARN and rope_base == 1.0:
        keys.fail("rope.freq_base", "YaRN divides by its logarithm", "more than 1", rope_base)
    window = keys.integer("attention.sliding_window", 0, default=0)
    return Config(
        n_layer=n_layer,
        d_model=d_model,
        n_head=n_head,
        n_head_kv=n_head_kv,
        head_dim=head_dim,
        d_ff=d_ff,
        n_vocab=_vocabulary(keys, inventory, d_model),
        n_ctx_train=n_ctx_train,
        rms_eps=keys.number("attention.layer_norm_rms_epsilon", 0.0, 1.0),
        attn_scale=keys.number("attention.scale", 0.0, 1e4, default=0.0),
        rope_dim=rope_dim,
        rope_base=rope_base,
        rope_scaling=rope.kind,
        rope_factor=rope.factor,
        rope_attn_factor=rope.attn_factor,
        rope_ext_factor=rope.ext_factor,
        rope_beta_fast=rope.beta_fast,
        rope_beta_slow=rope.beta_slow,
        rope_ctx_original=rope.ctx_original,
        sliding_window=window,
        unknown_keys=keys.unread(_INFORMATIVE),
    )


def slots(config: Config) -> list[SlotSpec]:
    """Embedding, layers in order, then the head: the order in which a token reads them."""
    c = config
    q, kv = c.n_head * c.head_dim, c.n_head_kv * c.head_dim
    matrix, vector, width = MATRIX_TYPES, VECTOR_TYPES, (c.d_model,)
    to_q, to_kv, from_q = (c.d_model, q), (c.d_model, kv), (q, c.d_model)
    widen, narrow, table = (c.d_model, c.d_ff), (c.d_ff, c.d_model), (c.d_model, c.n_vocab)
    out = [SlotSpec(Role.TOKEN_EMBD, -1, "token_embd.weight", table, matrix)]
    for layer in range(c.n_layer):
        at = f"blk.{layer}."
        out += [
            SlotSpec(Role.ATTN_NORM, layer, at + "attn_norm.weight", width, vector),
            SlotSpec(Role.ATTN_Q, layer, at + "attn_q.weight", to_q, matrix),
            SlotSpec(Role.ATTN_K, layer, at + "attn_k.weight", to_kv, matrix),
            SlotSpec(Role.ATTN_V, layer, at + "attn_v.weight", to_kv, matrix),
            SlotSpec(Role.ATTN_OUT, layer, at + "attn_output.weight", from_q, matrix),
            SlotSpec(Role.FFN_NORM, layer, at + "ffn_norm.weight", width, vector),
            SlotSpec(Role.FFN_GATE, layer, at + "ffn_gate.weight", widen, matrix),
            SlotSpec(Role.FFN_UP, layer, at + "ffn_up.weight", widen, matrix),
            SlotSpec(Role.FFN_DOWN, layer, at + "ffn_down.weight", narrow, matrix),
        ]
    out += [
        SlotSpec(Role.OUTPUT_NORM, -1, "output_norm.weight", width, vector),
        SlotSpec(Role.OUTPUT, -1, "output.weight", table, matrix, required=False),
        SlotSpec(Role.ROPE_FREQS, -1, "rope_freqs.weight", (c.rope_dim // 2,), vector, required=False),
    ]
    return out


def kv_bytes_per_position(hparams: HParams, kv_type: GgmlType) -> int:
    """K and V of n_head_kv heads of head_dim, for each layer."""
    return 2 * hparams.n_layer * row_bytes(kv_type, hparams.n_head_kv * hparams.head_dim)


def bank_bytes(hparams: HParams, kv_type: GgmlType, n_ctx: int, max_rows: int) -> int:
    return kv_bytes_per_position(hparams, kv_type) * n_ctx


def hparams(config: Config) -> HParams:
    """The engine's parameters; floats are rounded to the engine's own width here, so that both see the same."""
    c = config
    return HParams(
        family=FAMILY,
        n_layer=c.n_layer,
        d_model=c.d_model,
        n_head=c.n_head,
        n_head_kv=c.n_head_kv,
        head_dim=c.head_dim,
        d_ff=c.d_ff,
        n_vocab=c.n_vocab,
        n_ctx_train=c.n_ctx_train,
        rope_kind=RopeKind.NORM,
        rope_dim=c.rope_dim,
        rms_eps=_single(c.rms_eps),
        rope_base=_single(c.rope_base),
        rope_scaling=c.rope_scaling,
        attn_scale=_single(c.attn_scale),
        rope_factor=_single(c.rope_factor),
        rope_attn_factor=_single(c.rope_attn_factor),
        rope_ext_factor=_single(c.rope_ext_factor),
        rope_beta_fast=_single(c.rope_beta_fast),
        rope_beta_slow=_single(c.rope_beta_slow),
        rope_ctx_original=c.rope_ctx_original,
        sliding_window=c.sliding_window,
    )


def required(hparams: HParams) -> Iterator[tuple[Role, int]]:
    for role in Role:
        if role in (Role.TOKEN_EMBD, Role.OUTPUT_NORM):
            yield role, -1
        elif Role.ATTN_NORM <= role <= Role.FFN_DOWN:
            yield from ((role, layer) for layer in range(hparams.n_layer))


def _single(value: float) -> float:
    """The value rounded to binary32."""
    rounded: float = _F32.unpack(_F32.pack(value))[0]
    return rounded


def unknown(config: Config) -> tuple[str, ...]:
    return config.unknown_keys


def notes(config: Config) -> tuple[str, ...]:
    return tuple(note_unknown(key) for key in config.unknown_keys)


def ignorable(name: str) -> bool:
    return _IGNORABLE.fullmatch(name) is not None


def _head_dim(keys: Keys, d_model: int, n_head: int) -> int:
    """Keys and values have one length here; it is d_model / n_head where the file does not say."""
    stated = [keys.integer(key, 1, default=0) for key in ("attention.key_length", "attention.value_length")]
    if not all(stated) and d_model % n_head:
        keys.fail("attention.head_count", "heads do not divide the embedding", f"a divisor of {d_model}", n_head)
    key_length, value_length = (length or d_model // n_head for length in stated)
    if key_length != value_length:
        raise UnsupportedModelError(
            "keys and values of different length are not supported",
            code="unsupported_shape",
            subject=keys.name("attention.value_length"),
            expected=key_length,
            found=value_length,
        )
    if not 1 <= key_length <= MAX_HEAD_DIM:
        keys.fail("attention.key_length", "a head is too long or empty", f"1..{MAX_HEAD_DIM}", key_length)
    if key_length * n_head > MAX_WIDTH:
        keys.fail("attention.head_count", "heads are too wide together", f"at most {MAX_WIDTH}", key_length * n_head)
    return key_length


def _vocabulary(keys: Keys, inventory: Inventory, d_model: int) -> int:
    """Rows of the embedding; `vocab_size` and the tokens list, where the file has them, must say the same."""
    embedding = inventory.tensors.get("token_embd.weight")
    if embedding is None or len(embedding.dims) != 2:
        raise ModelFileError(
            "a required tensor is missing" if embedding is None else "wrong dimensions",
            code="tensor_missing" if embedding is None else "tensor_dims",
            subject="token_embd.weight",
            expected=f"[{d_model}, vocabulary]",
            found="nothing" if embedding is None else list(embedding.dims),
        )
    rows = embedding.dims[1]
    stated = keys.integer("vocab_size", 1, default=rows)
    if stated != rows:
        keys.fail("vocab_size", "the vocabulary and the embedding disagree", f"{rows} (rows of the embedding)", stated)
    tokens = inventory.metadata.count("tokenizer.ggml.tokens")
    if tokens is not None and tokens != rows:
        raise ModelFileError(
            "the tokens list and the embedding disagree",
            code="metadata_range",
            subject="tokenizer.ggml.tokens",
            expected=f"{rows} tokens (rows of the embedding)",
            found=tokens,
        )
    if rows > MAX_WIDTH:
        keys.fail("vocab_size", "the vocabulary is too large", f"at most {MAX_WIDTH}", rows)
    return rows


@dataclass(frozen=True, slots=True)
class _Rope:
    kind: RopeScaling
    factor: float = 1.0
    attn_factor: float = 1.0
    ext_factor: float = 0.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    ctx_original: int = 0


def _rope_scaling(keys: Keys, n_ctx_train: int) -> _Rope:
    """How positions past the original context are reached.

    A factor without a type is linear scaling, as it was before the type key existed; factor 0 has always meant 1.
    """
    old = keys.number("rope.scale_linear", 0.0, 1e6, default=0.0)
    factor = keys.number("rope.scaling.factor", 0.0, 1e6, default=old) or 1.0
    attn_factor = keys.number("rope.scaling.attn_factor", 1e-3, 1e3, default=1.0)
    kind = keys.string("rope.scaling.type", "linear")
    if kind not in ("none", "linear", "yarn"):
        raise UnsupportedModelError(
            "this rope scaling is not supported",
            code="unsupported_key",
            subject=keys.name("rope.scaling.type"),
            expected="none, linear or yarn",
            found=shown(kind),
        )
    yarn = _yarn(keys, factor, attn_factor, n_ctx_train)
    if kind == "none":
        return _Rope(RopeScaling.NONE, attn_factor=attn_factor)
    if factor < 1.0:
        keys.fail("rope.scaling.factor", "rope scaling only stretches", "1 or more", factor)
    if kind == "yarn":
        return yarn
    scaling = RopeScaling.LINEAR if factor > 1.0 else RopeScaling.NONE
    return _Rope(scaling, factor=factor, attn_factor=attn_factor)


def _yarn(keys: Keys, factor: float, attn_factor: float, n_ctx_train: int) -> _Rope:
    """YaRN's keys. Cos and sin are multiplied by m(s) = 0.1 ln s + 1, or by m(s) / (0.1 k ln s + 1) if the file gives a
    log multiplier k, and by attn_factor; only with ext_factor 0 does the magnitude stay as it is."""
    ext_factor = keys.number("rope.scaling.yarn_ext_factor", 0.0, 1.0, default=1.0)
    log_multiplier = keys.number("rope.scaling.yarn_log_multiplier", 0.0, 1e4, default=0.0)
    given = keys.number("rope.scaling.yarn_attn_factor", 1e-3, 1e3, default=1.0)
    beta_slow = keys.number("rope.scaling.yarn_beta_slow", 1e-3, 1e6, default=1.0)
    beta_fast = keys.number("rope.scaling.yarn_beta_fast", beta_slow, 1e6, default=max(32.0, beta_slow))
    ctx_original = keys.integer("rope.scaling.original_context_length", 1, default=n_ctx_train)
    magnitude = given
    if ext_factor > 0.0:
        stretch = 0.1 * math.log(max(factor, 1.0))
        magnitude = (stretch + 1.0) / (stretch * log_multiplier + 1.0)
    return _Rope(
        RopeScaling.YARN,
        factor=factor,
        attn_factor=magnitude * attn_factor,
        ext_factor=ext_factor,
        beta_fast=beta_fast,
        beta_slow=beta_slow,
        ctx_original=ctx_original,
    )
