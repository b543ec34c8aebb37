"""Plain Python mirrors of the PODs and enums of native/bridge/ds4_bridge.h.

They hold data only: no cffi, no library. Rooms that describe a model or a step (`ds4.core`) build these, and
`ds4.sys.convert` copies them into the C structs. Field names are the header's; a field the header reserves is left out,
and a pointer with a count beside it is a tuple.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, IntFlag

ABI_VERSION = 1
MAX_DIMS = 4
MAX_TOP = 64
STEPS_IN_FLIGHT = 2


class Status(IntEnum):
    """ds4_status."""

    OK = 0
    ARG = 1
    IO = 2
    FORMAT = 3
    MISMATCH = 4
    UNSUPPORTED = 5
    MEMORY = 6
    CANCELLED = 7
    CONTEXT = 8
    BUSY = 9
    INTERNAL = 10
    REWIND = 11


class Family(IntEnum):
    """ds4_family."""

    LLAMA = 1
    DEEPSEEK4 = 2
    SMOLLM3 = 3
    QWEN2 = 4
    QWEN3 = 5
    QWEN3MOE = 6
    GEMMA3 = 7


class GgmlType(IntEnum):
    """ds4_type: the tensor types that the engine computes with, by GGUF's own numbers.

    `ds4.core.ggml_types.TENSOR_TYPES` knows the published types beyond these, so that a file can be measured and
    described even where it cannot be served.
    """

    F32 = 0
    F16 = 1
    Q4_0 = 2
    Q4_1 = 3
    Q5_0 = 6
    Q5_1 = 7
    Q8_0 = 8
    Q2_K = 10
    Q3_K = 11
    Q4_K = 12
    Q5_K = 13
    Q6_K = 14
    IQ2_XXS = 16
    I32 = 26
    BF16 = 30
    MXFP4 = 39


class Backend(IntEnum):
    """ds4_backend_kind."""

    CPU = 0
    GUARD = 1
    NULL = 2


class Numeric(IntEnum):
    """ds4_numeric."""

    SHIP = 0
    FLOAT = 1


class RopeKind(IntEnum):
    """ds4_rope_kind."""

    NORM = 0
    NEOX = 1


class RopeScaling(IntEnum):
    """ds4_rope_scaling."""

    NONE = 0
    LINEAR = 1
    YARN = 2


class Activation(IntEnum):
    """ds4_activation."""

    SILU = 0
    GELU = 1


class LayerFlags(IntFlag):
    """ds4_layer_flags."""

    LOCAL = 1
    NO_ROPE = 2


class Role(IntEnum):
    """ds4_role: what a tensor is for."""

    TOKEN_EMBD = 1
    OUTPUT_NORM = 2
    OUTPUT = 3
    ROPE_FREQS = 4
    ATTN_NORM = 10
    ATTN_Q = 11
    ATTN_K = 12
    ATTN_V = 13
    ATTN_OUT = 14
    FFN_NORM = 15
    FFN_GATE = 16
    FFN_UP = 17
    FFN_DOWN = 18
    ATTN_Q_BIAS = 20
    ATTN_K_BIAS = 21
    ATTN_V_BIAS = 22
    ATTN_Q_NORM = 23
    ATTN_K_NORM = 24
    ATTN_POST_NORM = 25
    FFN_POST_NORM = 26
    OUTPUT_HC_FN = 100
    OUTPUT_HC_BASE = 101
    OUTPUT_HC_SCALE = 102
    HC_ATTN_FN = 110
    HC_ATTN_BASE = 111
    HC_ATTN_SCALE = 112
    HC_FFN_FN = 113
    HC_FFN_BASE = 114
    HC_FFN_SCALE = 115
    ATTN_Q_A = 120
    ATTN_Q_A_NORM = 121
    ATTN_Q_B = 122
    ATTN_KV = 123
    ATTN_KV_NORM = 124
    ATTN_SINKS = 125
    ATTN_OUT_A = 126
    ATTN_OUT_B = 127
    COMPRESS_KV = 130
    COMPRESS_GATE = 131
    COMPRESS_APE = 132
    COMPRESS_NORM = 133
    INDEX_Q_B = 140
    INDEX_PROJ = 141
    INDEX_KV = 142
    INDEX_GATE = 143
    INDEX_APE = 144
    INDEX_NORM = 145
    ROUTER = 150
    ROUTER_BIAS = 151
    ROUTER_HASH = 152
    EXPERTS_GATE = 153
    EXPERTS_UP = 154
    EXPERTS_DOWN = 155
    SHARED_GATE = 156
    SHARED_UP = 157
    SHARED_DOWN = 158
    MTP_E_PROJ = 160
    MTP_H_PROJ = 161
    MTP_EH_PROJ = 162
    MTP_E_NORM = 163
    MTP_H_NORM = 164
    MTP_NORM = 165
    MTP_HC_FN = 166
    MTP_HC_BASE = 167
    MTP_HC_SCALE = 168
    MTP_TOKEN_EMBD = 169
    MTP_OUTPUT = 170


class RowFlags(IntFlag):
    """ds4_row_flags."""

    OUTPUT = 1
    LOGITS = 2


class SessionFlags(IntFlag):
    """ds4_session_flags."""

    HIDDEN = 1
    DRAFT = 2


class Rounding(IntFlag):
    """ds4_rounding; 0 is what the numeric mode says."""

    CHOSEN = 1
    KV_FP8 = 2
    INDEX_FP4 = 4


@dataclass(frozen=True, slots=True)
class Slot:
    """ds4_slot: one tensor of the bind plan.

    dims: GGUF order, dims[0] is the contiguous one; 1..MAX_DIMS of them (the C struct pads with 1).
    offset, nbytes: bytes, from the start of the shard's file (`bytes` in C).
    layer: 0..n_layer-1, or -1.
    """

    role: Role
    layer: int
    type: GgmlType
    dims: tuple[int, ...]
    shard: int
    offset: int
    nbytes: int
    name: str

    @property
    def n_dims(self) -> int:
        return len(self.dims)


@dataclass(frozen=True, slots=True)
class Dsv4:
    """ds4_dsv4: what DEEPSEEK4 has beyond HParams. The header gives each field's meaning.

    ratios: [n_layer] 0, 4 or 128; clamp_experts, clamp_shared: [n_layer + n_mtp], > 0.
    """

    lora_q: int
    lora_o: int
    groups_o: int
    n_expert: int
    n_expert_used: int
    d_expert: int
    n_hash_layer: int
    index_heads: int
    index_dim: int
    index_top_k: int
    hc_count: int
    hc_iterations: int
    n_mtp: int
    expert_scale: float
    hc_eps: float
    compress_rope_base: float
    ratios: tuple[int, ...]
    clamp_experts: tuple[float, ...]
    clamp_shared: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Decoder:
    """ds4_decoder: what LLAMA's kin have beyond HParams. The header gives each field's meaning. flags: [n_layer]."""

    flags: tuple[LayerFlags, ...]
    activation: Activation = Activation.SILU
    n_expert: int = 0
    n_expert_used: int = 0
    d_expert: int = 0
    expert_scale: float = 1.0
    embd_scale: float = 1.0
    rope_base_local: float = 0.0


@dataclass(frozen=True, slots=True)
class HParams:
    """ds4_hparams. The header gives each field's meaning; 0 for attn_scale means 1/sqrt(head_dim)."""

    family: Family
    n_layer: int
    d_model: int
    n_head: int
    n_head_kv: int
    head_dim: int
    d_ff: int
    n_vocab: int
    n_ctx_train: int
    rope_kind: RopeKind
    rope_dim: int
    rms_eps: float
    rope_base: float
    rope_scaling: RopeScaling = RopeScaling.NONE
    attn_scale: float = 0.0
    rope_factor: float = 1.0
    rope_attn_factor: float = 1.0
    rope_ext_factor: float = 0.0
    rope_beta_fast: float = 32.0
    rope_beta_slow: float = 1.0
    rope_ctx_original: int = 0
    sliding_window: int = 0
    dsv4: Dsv4 | None = None
    decoder: Decoder | None = None

    @property
    def n_blocks(self) -> int:
        """Layers, and the block that drafts."""
        return self.n_layer + (self.dsv4.n_mtp if self.dsv4 is not None else 0)


@dataclass(frozen=True, slots=True)
class ModelDesc:
    """ds4_model_desc: what to open. shards: file paths in shard order; slots: the bind plan."""

    hparams: HParams
    shards: tuple[str, ...]
    slots: tuple[Slot, ...]


@dataclass(frozen=True, slots=True)
class SessionDesc:
    """ds4_session_desc. n_ctx: positions of one bank; max_out >= n_banks; n_threads: 1..256."""

    n_banks: int
    n_ctx: int
    max_rows: int
    max_out: int
    n_threads: int
    backend: Backend = Backend.CPU
    numeric: Numeric = Numeric.SHIP
    kv_type: GgmlType = GgmlType.F16
    flags: SessionFlags = SessionFlags(0)
    rounding: Rounding = Rounding(0)


@dataclass(frozen=True, slots=True)
class SamplerDesc:
    """ds4_sampler. temperature 0 is greedy. bias: (token id, value added to its logit), each id once."""

    temperature: float = 0.0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    top_k: int = 0
    output_from: int = 0
    seed: int = 0
    bias: tuple[tuple[int, float], ...] = ()
