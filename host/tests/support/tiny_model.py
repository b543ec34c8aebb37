"""A tiny `llama` model on disk and its bind plan, made without ds4.core: for tests of ds4.sys."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from pathlib import Path

import gguf
from ds4.sys.descriptors import Family, GgmlType, HParams, ModelDesc, Role, RopeKind, Slot
from support.gguf_writer import tiny_llama

HPARAMS = HParams(
    family=Family.LLAMA,
    n_layer=2,
    d_model=32,
    n_head=4,
    n_head_kv=2,
    head_dim=8,
    d_ff=64,
    n_vocab=16,
    n_ctx_train=128,
    rope_kind=RopeKind.NORM,
    rope_dim=8,
    rms_eps=1e-5,
    rope_base=10000.0,
)
_ROLES = {
    "token_embd": Role.TOKEN_EMBD,
    "output_norm": Role.OUTPUT_NORM,
    "attn_norm": Role.ATTN_NORM,
    "attn_q": Role.ATTN_Q,
    "attn_k": Role.ATTN_K,
    "attn_v": Role.ATTN_V,
    "attn_output": Role.ATTN_OUT,
    "ffn_norm": Role.FFN_NORM,
    "ffn_gate": Role.FFN_GATE,
    "ffn_up": Role.FFN_UP,
    "ffn_down": Role.FFN_DOWN,
}


def _weights(nbytes: int, kind: GgmlType, rng: random.Random) -> bytes:
    """Q8_0 blocks of small scales and any values, or F32 ones: a model whose output depends on all of its input."""
    if kind == GgmlType.F32:
        return struct.pack("<f", 1.0) * (nbytes // 4)
    blocks = [struct.pack("<e", 0.004) + rng.randbytes(32) for _ in range(nbytes // 34)]
    return b"".join(blocks)


def write(folder: Path, seed: int = 1) -> ModelDesc:
    """Writes tiny.gguf with random weights and returns its plan."""
    path = folder / "tiny.gguf"
    tiny_llama().write(path)
    data = bytearray(path.read_bytes())
    rng = random.Random(seed)
    slots = []
    for tensor in gguf.GGUFReader(path).tensors:
        kind, at, nbytes = GgmlType(int(tensor.tensor_type)), int(tensor.data_offset), int(tensor.n_bytes)
        data[at : at + nbytes] = _weights(nbytes, kind, rng)
        parts = tensor.name.split(".")
        slots.append(
            Slot(
                role=_ROLES[parts[-2]],
                layer=int(parts[1]) if parts[0] == "blk" else -1,
                type=kind,
                dims=tuple(int(dim) for dim in tensor.shape),
                shard=0,
                offset=at,
                nbytes=nbytes,
                name=tensor.name,
            )
        )
    path.write_bytes(data)
    return ModelDesc(HPARAMS, (str(path),), tuple(slots))


def ids(count: int, seed: int = 7) -> Iterator[int]:
    rng = random.Random(seed)
    return (rng.randrange(HPARAMS.n_vocab) for _ in range(count))
