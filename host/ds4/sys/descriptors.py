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


class Family(IntEnum):
    """ds4_family."""

    LLAMA = 1


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
    BF16 = 30


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


class RowFlags(IntFlag):
    """ds4_row_flags."""

    OUTPUT = 1
    LOGITS = 2


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
