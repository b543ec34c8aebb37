"""The llama forward in numpy, straight from a GGUF file: a reference that shares no code with host/ or native/.

Written from the published architecture (RMSNorm, rotary pairs, grouped-query attention, SwiGLU), for proving logits
where torch cannot be had. It is checked itself against frozen transformers logits (goldens/logits_smollm2).
"""

from __future__ import annotations

import os
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


class LlamaReference:
    """A dense llama-architecture model with dequantised fp32 weights.

    Covers what `general.architecture = llama` files without rope scaling hold. dtype is that of the activations.
    """

    def __init__(self, path: str | os.PathLike[str], dtype: npt.DTypeLike = np.float32) -> None:
        reader = gguf.GGUFReader(path)

        def field(name: str) -> Any:
            return reader.fields["llama." + name].contents()

        self.dtype = np.dtype(dtype)
        self.n_layer = int(field("block_count"))
        self.n_head = int(field("attention.head_count"))
        self.n_head_kv = int(field("attention.head_count_kv"))
        self.eps = float(field("attention.layer_norm_rms_epsilon"))
        self.rope_base = float(field("rope.freq_base"))
        self.weights: dict[str, Array] = {
            t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype(self.dtype, copy=False) for t in reader.tensors
        }
        self.head_dim = self.weights["blk.0.attn_q.weight"].shape[0] // self.n_head
        self.rope_dim = int(field("rope.dimension_count"))

    def logits(self, ids: npt.NDArray[np.int32]) -> Array:
        """Logits [n_tokens, n_vocab] of every position of one sequence."""
        w = self.weights
        n = len(ids)
        x = w["token_embd.weight"][ids]  # [n, d_model]
        causal = np.triu(np.full((n, n), -np.inf), k=1)
        for i in range(self.n_layer):
            blk = f"blk.{i}."
            h = self._norm(x, w[blk + "attn_norm.weight"])
            q = self._rope((h @ w[blk + "attn_q.weight"].T).reshape(n, self.n_head, self.head_dim))
            k = self._rope((h @ w[blk + "attn_k.weight"].T).reshape(n, self.n_head_kv, self.head_dim))
            v = (h @ w[blk + "attn_v.weight"].T).reshape(n, self.n_head_kv, self.head_dim)
            out = np.empty_like(q)
            for head in range(self.n_head):
                kv = head // (self.n_head // self.n_head_kv)
                score = (q[:, head] @ k[:, kv].T).astype(np.float64) / np.sqrt(self.head_dim) + causal
                score = np.exp(score - score.max(axis=1, keepdims=True))
                score /= score.sum(axis=1, keepdims=True)
                out[:, head] = score.astype(self.dtype) @ v[:, kv]
            x = x + out.reshape(n, -1) @ w[blk + "attn_output.weight"].T
            h = self._norm(x, w[blk + "ffn_norm.weight"])
            gate = h @ w[blk + "ffn_gate.weight"].T
            up = h @ w[blk + "ffn_up.weight"].T
            x = x + (gate / (1 + np.exp(-gate)) * up) @ w[blk + "ffn_down.weight"].T
        head_weight = w.get("output.weight", w["token_embd.weight"])
        return np.asarray(self._norm(x, w["output_norm.weight"]) @ head_weight.T)

    def _norm(self, x: Array, weight: Array) -> Array:
        wide = x.astype(np.float64)
        scale = 1 / np.sqrt((wide * wide).mean(axis=1, keepdims=True) + self.eps)
        return np.asarray((wide * scale).astype(self.dtype) * weight)

    def _rope(self, x: Array) -> Array:
        """Rotates the pairs (2j, 2j+1) of every head by its position: GGUF's layout for this architecture.

        The angle is rounded to fp32 as it is where these models are trained and in transformers: at position 2,000 that
        rounding is worth 1e-3 in a logit, ten times all other error.
        """
        half = self.rope_dim // 2
        freq = (self.rope_base ** (-np.arange(half, dtype=np.float64) / half)).astype(np.float32)
        angle = np.arange(len(x), dtype=np.float32)[:, None, None] * freq  # [n, 1, half]
        cos, sin = np.cos(angle.astype(np.float64)), np.sin(angle.astype(np.float64))
        even, odd = x[..., 0 : self.rope_dim : 2], x[..., 1 : self.rope_dim : 2]
        out = x.copy()
        out[..., 0 : self.rope_dim : 2] = even * cos - odd * sin
        out[..., 1 : self.rope_dim : 2] = even * sin + odd * cos
        return out
