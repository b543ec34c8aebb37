"""What llama and its kin share: a contract is the few facts in which one differs from the others.

The forward of all of them is native/engine/families/llama.c; the roles that each has stand in
native/engine/plan_llama.c once more.

Sources: the key and tensor names are those published by the `gguf` package.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from ds4.core.families import rope as ropes
from ds4.core.families.cache import row_bytes
from ds4.core.families.contract import (
    EXPERT_TYPES,
    MATRIX_TYPES,
    VECTOR_TYPES,
    Lane,
    PromptFacts,
    SlotSpec,
    State,
    note_unknown,
)
from ds4.core.families.keys import Keys, Neutral, refuse_unsupported
from ds4.core.families.neutral import neutral_values
from ds4.core.inventory import Inventory
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.descriptors import Decoder, Family, GgmlType, HParams, LayerFlags, Role, RopeKind, RopeScaling

_F32 = struct.Struct("<f")

# Bounds of the engine, several times what is published. They also keep a wild count from being multiplied out into a
# list of slots, and every product of two widths within an int64.
MAX_LAYERS = 1024
MAX_HEADS = 1 << 16
MAX_HEAD_DIM = 1024
MAX_WIDTH = 1 << 24
MAX_EXPERTS = 1 << 16

# Keys that change the arithmetic in ways the plainest of these forwards does not have, with the values that mean "not
# used". The order is that of the checks.
NEUTRAL: Mapping[str, Neutral] = neutral_values(
    "expert_count",
    "expert_used_count",
    "attention.causal",
    "attention.clamp_kqv",
    "attention.max_alibi_bias",
    "attention.sliding_window_pattern",
    "attention.shared_kv_layers",
    "attention.key_length_mla",
    "attention.value_length_mla",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
    "rope.dimension_sections",
    "rope.scaling.alpha",
    "use_parallel_residual",
    "nextn_predict_layers",
)

# Keys that carry no arithmetic.
_INFORMATIVE = frozenset({"tensor_data_layout", "rope.scaling.finetuned"})

# Keys that every family here reads; a family's own stand in its `reads`.
READ = frozenset(
    {
        *("block_count", "embedding_length", "feed_forward_length", "context_length", "vocab_size"),
        *("attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length"),
        *("attention.layer_norm_rms_epsilon", "attention.scale", "attention.sliding_window"),
        *("rope.dimension_count", "rope.freq_base", "rope.scale_linear", "rope.scaling.type", "rope.scaling.factor"),
        *("rope.scaling.attn_factor", "rope.scaling.original_context_length", "rope.scaling.yarn_ext_factor"),
        *("rope.scaling.yarn_log_multiplier", "rope.scaling.yarn_attn_factor", "rope.scaling.yarn_beta_slow"),
        *("rope.scaling.yarn_beta_fast", *_INFORMATIVE),
    }
)

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
    decoder: Decoder | None = None
    unknown_keys: tuple[str, ...] = ()


Finish: TypeAlias = "Callable[[Keys, Config], Config]"
"""A family's own keys and rules, applied to what all of them have in common."""


def _plain(keys: Keys, config: Config) -> Config:
    return config


@dataclass(frozen=True)
class DecoderFamily:
    """A FamilyContract. neutral: as NEUTRAL, with what this family knows taken out and what it does not know added.

    biases: q, k and v have them. head_norms: RMSNorm of each head of q and k before they rotate. post_norms: RMSNorm of
    attention's and the feed-forward's results before they are added. experts: routed ones instead of the feed-forward.
    rope_freqs: the file may divide each pair's frequency (Llama 3's context extension). rope_base: where the file does
    not say. finish: the family's own keys and rules; reads: those keys.
    """

    FAMILY: Family
    ARCHITECTURE: str
    rope_kind: RopeKind
    neutral: Mapping[str, Neutral] = field(default_factory=lambda: NEUTRAL)
    biases: bool = False
    head_norms: bool = False
    post_norms: bool = False
    experts: bool = False
    rope_freqs: bool = False
    rope_base: float = 10000.0
    finish: Finish = _plain
    reads: frozenset[str] = frozenset()
    PROMPT: PromptFacts = field(default_factory=PromptFacts)
    LANES: frozenset[Lane] = frozenset(Lane)
    STATE: State = State.POSITIONS

    def validate(self, inventory: Inventory) -> Config:
        """Reads and cross-checks every key. Raises ModelFileError or UnsupportedModelError naming the key."""
        keys = Keys(inventory.metadata, self.ARCHITECTURE)
        refuse_unsupported(keys, self.neutral)

        n_layer = keys.integer("block_count", 1, MAX_LAYERS)
        d_model = keys.integer("embedding_length", 1, MAX_WIDTH)
        d_ff = keys.uniform("feed_forward_length", n_layer, MAX_WIDTH, default=0 if self.experts else None)
        n_head = keys.uniform("attention.head_count", n_layer, MAX_HEADS)
        n_head_kv = keys.uniform("attention.head_count_kv", n_layer, n_head, default=n_head)
        if n_head % n_head_kv:
            keys.fail(
                "attention.head_count_kv", "kv heads do not divide the heads", f"a divisor of {n_head}", n_head_kv
            )
        head_dim = _head_dim(keys, d_model, n_head)
        n_ctx_train = keys.integer("context_length", 1)
        rope_dim = keys.integer("rope.dimension_count", 2, head_dim, default=head_dim)
        if rope_dim % 2:
            keys.fail("rope.dimension_count", "rope rotates pairs", "an even number", rope_dim)
        rope = ropes.scaling(keys, n_ctx_train)
        rope_base = keys.number("rope.freq_base", 1.0, 1e12, default=self.rope_base)
        if rope.kind is RopeScaling.YARN and rope_base == 1.0:
            keys.fail("rope.freq_base", "YaRN divides by its logarithm", "more than 1", rope_base)
        window = keys.integer("attention.sliding_window", 0, default=0)
        config = Config(
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
        )
        return replace(self.finish(keys, config), unknown_keys=keys.unread(_INFORMATIVE))

    def slots(self, config: Config) -> list[SlotSpec]:
        """Embedding, layers in order, then the head: the order in which a token reads them."""
        c = config
        table = (c.d_model, c.n_vocab)
        out = [SlotSpec(Role.TOKEN_EMBD, -1, "token_embd.weight", table, MATRIX_TYPES)]
        for layer in range(c.n_layer):
            out += self._layer(c, layer)
        out += [
            SlotSpec(Role.OUTPUT_NORM, -1, "output_norm.weight", (c.d_model,), VECTOR_TYPES),
            SlotSpec(Role.OUTPUT, -1, "output.weight", table, MATRIX_TYPES, required=False),
        ]
        if self.rope_freqs:
            half = (c.rope_dim // 2,)
            out.append(SlotSpec(Role.ROPE_FREQS, -1, "rope_freqs.weight", half, VECTOR_TYPES, required=False))
        return out

    def names(self, *, required: bool = False) -> frozenset[str]:
        """Names of its tensors, `*` for the layer; required: without those that a file need not have."""
        decoder = Decoder((LayerFlags(0),), n_expert=1, n_expert_used=1, d_expert=1)
        one = Config(*(1,) * 8, *(1.0,) * 2, 2, 1.0, RopeScaling.NONE, *(1.0,) * 5, 0, 0, decoder)
        specs = [spec for spec in self.slots(one) if spec.required or not required]
        return frozenset(spec.name.replace("blk.0.", "blk.*.") for spec in specs)

    def _layer(self, c: Config, layer: int) -> Iterator[SlotSpec]:
        q, kv, width = c.n_head * c.head_dim, c.n_head_kv * c.head_dim, c.d_model

        def vector(role: Role, name: str, length: int) -> SlotSpec:
            return SlotSpec(role, layer, f"blk.{layer}.{name}", (length,), VECTOR_TYPES)

        def matrix(role: Role, name: str, *dims: int) -> SlotSpec:
            types = EXPERT_TYPES if len(dims) > 2 else MATRIX_TYPES
            return SlotSpec(role, layer, f"blk.{layer}.{name}.weight", dims, types)

        yield vector(Role.ATTN_NORM, "attn_norm.weight", width)
        yield matrix(Role.ATTN_Q, "attn_q", width, q)
        yield matrix(Role.ATTN_K, "attn_k", width, kv)
        yield matrix(Role.ATTN_V, "attn_v", width, kv)
        if self.biases:
            yield vector(Role.ATTN_Q_BIAS, "attn_q.bias", q)
            yield vector(Role.ATTN_K_BIAS, "attn_k.bias", kv)
            yield vector(Role.ATTN_V_BIAS, "attn_v.bias", kv)
        if self.head_norms:
            yield vector(Role.ATTN_Q_NORM, "attn_q_norm.weight", c.head_dim)
            yield vector(Role.ATTN_K_NORM, "attn_k_norm.weight", c.head_dim)
        yield matrix(Role.ATTN_OUT, "attn_output", q, width)
        if self.post_norms:
            yield vector(Role.ATTN_POST_NORM, "post_attention_norm.weight", width)
        yield vector(Role.FFN_NORM, "ffn_norm.weight", width)
        if self.experts and c.decoder is not None:
            count, hidden = c.decoder.n_expert, c.decoder.d_expert
            yield matrix(Role.ROUTER, "ffn_gate_inp", width, count)
            yield matrix(Role.EXPERTS_GATE, "ffn_gate_exps", width, hidden, count)
            yield matrix(Role.EXPERTS_UP, "ffn_up_exps", width, hidden, count)
            yield matrix(Role.EXPERTS_DOWN, "ffn_down_exps", hidden, width, count)
        else:
            yield matrix(Role.FFN_GATE, "ffn_gate", width, c.d_ff)
            yield matrix(Role.FFN_UP, "ffn_up", width, c.d_ff)
            yield matrix(Role.FFN_DOWN, "ffn_down", c.d_ff, width)
        if self.post_norms:
            yield vector(Role.FFN_POST_NORM, "post_ffw_norm.weight", width)

    def kv_bytes_per_position(self, hparams: HParams, kv_type: GgmlType) -> int:
        """K and V of n_head_kv heads of head_dim, for each layer."""
        return 2 * hparams.n_layer * row_bytes(kv_type, hparams.n_head_kv * hparams.head_dim)

    def bank_bytes(self, hparams: HParams, kv_type: GgmlType, n_ctx: int, max_rows: int) -> int:
        return self.kv_bytes_per_position(hparams, kv_type) * n_ctx

    def hparams(self, config: Config) -> HParams:
        """The engine's parameters; floats are rounded to the engine's own width here, so that both see the same."""
        c = config
        return HParams(
            family=self.FAMILY,
            n_layer=c.n_layer,
            d_model=c.d_model,
            n_head=c.n_head,
            n_head_kv=c.n_head_kv,
            head_dim=c.head_dim,
            d_ff=c.d_ff,
            n_vocab=c.n_vocab,
            n_ctx_train=c.n_ctx_train,
            rope_kind=self.rope_kind,
            rope_dim=c.rope_dim,
            rms_eps=single(c.rms_eps),
            rope_base=single(c.rope_base),
            rope_scaling=c.rope_scaling,
            attn_scale=single(c.attn_scale),
            rope_factor=single(c.rope_factor),
            rope_attn_factor=single(c.rope_attn_factor),
            rope_ext_factor=single(c.rope_ext_factor),
            rope_beta_fast=single(c.rope_beta_fast),
            rope_beta_slow=single(c.rope_beta_slow),
            rope_ctx_original=c.rope_ctx_original,
            sliding_window=c.sliding_window,
            decoder=c.decoder,
        )

    def required(self, hparams: HParams) -> Iterator[tuple[Role, int]]:
        yield Role.TOKEN_EMBD, -1
        yield Role.OUTPUT_NORM, -1
        for role in self._roles():
            yield from ((role, layer) for layer in range(hparams.n_layer))

    def _roles(self) -> Iterator[Role]:
        """Those of every layer."""
        yield from (Role.ATTN_NORM, Role.ATTN_Q, Role.ATTN_K, Role.ATTN_V, Role.ATTN_OUT, Role.FFN_NORM)
        if self.biases:
            yield from (Role.ATTN_Q_BIAS, Role.ATTN_K_BIAS, Role.ATTN_V_BIAS)
        if self.head_norms:
            yield from (Role.ATTN_Q_NORM, Role.ATTN_K_NORM)
        if self.post_norms:
            yield from (Role.ATTN_POST_NORM, Role.FFN_POST_NORM)
        if self.experts:
            yield from (Role.ROUTER, Role.EXPERTS_GATE, Role.EXPERTS_UP, Role.EXPERTS_DOWN)
        else:
            yield from (Role.FFN_GATE, Role.FFN_UP, Role.FFN_DOWN)

    def unknown(self, config: Config) -> tuple[str, ...]:
        return config.unknown_keys

    def notes(self, config: Config) -> tuple[str, ...]:
        return tuple(note_unknown(key) for key in config.unknown_keys)

    def ignorable(self, name: str) -> bool:
        return _IGNORABLE.fullmatch(name) is not None


def neutral(*, known: frozenset[str] = frozenset(), more: Mapping[str, Neutral] | None = None) -> Mapping[str, Neutral]:
    """NEUTRAL for a family that knows the keys `known`, and does not know those of `more`."""
    return {key: values for key, values in NEUTRAL.items() if key not in known} | dict(more or {})


def single(value: float) -> float:
    """The value rounded to binary32."""
    rounded: float = _F32.unpack(_F32.pack(value))[0]
    return rounded


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
