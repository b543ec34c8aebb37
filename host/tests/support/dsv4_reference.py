"""DeepSeek V4 in numpy, written from its published formulas for whole sequences: what the engine's forward is held to.

Nothing of the engine is used but the bind plan, which says where the weights are. Everything is float64; a rounding is
done where the `Simulation` asks for it. As float64 and the engine's fp32 may round a number differently that lies in
the middle of two codes, `margin` says for each position how near a deciding number of it came to such a middle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
from ds4.core import bind, inventory
from ds4.sys.descriptors import GgmlType, HParams, Role, Rounding

Array = npt.NDArray[np.float64]

_SUBNORMAL = [m / 8 * 2.0**-6 for m in range(8)]
E4M3 = np.array(_SUBNORMAL + [(1 + m / 8) * 2.0 ** (e - 7) for e in range(1, 16) for m in range(8)])
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


HEAD = (Role.OUTPUT_HC_FN, Role.OUTPUT_HC_BASE, Role.OUTPUT_HC_SCALE, Role.OUTPUT_NORM)
MTP_HEAD = (Role.MTP_HC_FN, Role.MTP_HC_BASE, Role.MTP_HC_SCALE, Role.MTP_NORM)


def nearest(x: Array, codes: Array) -> Array:
    """The nearest of the codes' values by sign and magnitude, ties to the even code."""
    size = np.minimum(np.abs(x), codes[-1])
    high = np.clip(np.searchsorted(codes, size), 1, len(codes) - 1)
    low = high - 1
    below, above = size - codes[low], codes[high] - size
    upper = (above < below) | ((above == below) & (high % 2 == 0))
    return np.asarray(np.copysign(np.where(upper, codes[high], codes[low]), x), np.float64)


@dataclass(frozen=True)
class Simulation:
    """rounding: what the cache and the indexer imitate. kv: the type that cached rows are stored as. activations:
    inputs of products with quantised weights are rounded to int8."""

    rounding: Rounding = Rounding(0)
    kv: GgmlType = GgmlType.F32
    activations: bool = False


def groups(x: Array, size: int) -> list[Array]:
    """The last axis in groups; the last one may be smaller."""
    return [x[..., at : at + size] for at in range(0, x.shape[-1], size)]


def narrow(x: Array, size: int, codes: Array, least: float) -> tuple[Array, Array]:
    """The last axis in groups of `size`, each under the power of two that brings its largest element, at least
    `least`, to the largest code; and by how much of the largest element each element misses the middle of two codes."""
    out, missed = [], []
    for group in groups(x, size):
        most = np.maximum(np.abs(group).max(-1, keepdims=True), least)
        power = np.log2(most / codes[-1])
        scale = 2.0 ** np.ceil(power)
        middles = (codes[1:] + codes[:-1]) / 2
        near = np.abs(np.abs(group / scale)[..., None] - middles).min(-1) * scale / most
        out.append(nearest(group / scale, codes) * scale)
        missed.append(np.minimum(near, np.abs(power - np.round(power))))
    return np.concatenate(out, -1), np.concatenate(missed, -1)


def fp8(x: Array) -> Array:
    """E4M3 in groups of 64 along the last axis, each under a power of two."""
    return narrow(x, 64, E4M3[:127], 1e-4)[0]


def hadamard(x: Array) -> Array:
    """The orthonormal Hadamard transform of the last axis."""
    size = x.shape[-1]
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return np.asarray(x @ matrix / math.sqrt(size), np.float64)


def hadamard_fp4(x: Array) -> Array:
    """The Hadamard transform, then E2M1 in groups of 32 under powers of two."""
    return narrow(hadamard(x), 32, E2M1, 6 * 2.0**-126)[0]


def int8(x: Array, *, half: bool) -> tuple[Array, Array]:
    """Blocks of 32 as d * q, d = most / 127, and how near a middle came. half: d itself is stored as a binary16."""
    out, missed = [], []
    for block in groups(x, 32):
        most = np.abs(block).max(-1, keepdims=True)
        d = most / 127
        y = block / np.where(d > 0, d, 1)
        stored = d.astype(np.float16).astype(np.float64) if half else d
        out.append(np.rint(y) * stored)
        missed.append(np.where(d > 0, np.abs(np.abs(y - np.floor(y)) - 0.5) / 127, 1))
    return np.concatenate(out, -1), np.concatenate(missed, -1)


def sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)), np.float64)


class Reference:
    """The model of a file. Tokens [T] in; residuals, logits and drafts out.

    margin: after a call, [T]: the least that a number of each position missed a middle by, relative to the largest of
    its group; of the differences that decide a selection likewise.
    """

    def __init__(self, path: Path | bind.BindPlan, simulation: Simulation | None = None) -> None:
        """path: of the file, or its plan."""
        plan = path if isinstance(path, bind.BindPlan) else bind.plan(inventory.load(path))
        self.h: HParams = plan.hparams
        assert self.h.dsv4 is not None
        self.v = self.h.dsv4
        self.simulation = simulation or Simulation()
        self.margin = np.ones(0)
        self.files = [Path(shard.path).read_bytes() for shard in plan.shards]
        self.slots = {(slot.role, slot.layer): slot for slot in plan.slots}
        self.cache: dict[tuple[Role, int], Array] = {}

    def w(self, role: Role, layer: int = -1) -> Array:
        """The weight, its dims from the slowest to the contiguous one."""
        if (role, layer) not in self.cache:
            slot = self.slots[role, layer]
            raw = np.frombuffer(self.files[slot.shard], np.uint8)[slot.offset : slot.offset + slot.nbytes]
            if slot.type == GgmlType.I32:
                values = raw.view(np.int32).astype(np.float64)
            else:
                values = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(int(slot.type))).astype(np.float64)
            self.cache[role, layer] = values.reshape(slot.dims[::-1])
        return self.cache[role, layer]

    def has(self, role: Role, layer: int) -> bool:
        return (role, layer) in self.slots

    # ---- rounding ----

    def near(self, missed: Array, at: npt.NDArray[np.int64]) -> None:
        """Notes how near the numbers of some positions came to a middle. missed: [len(at), ...]"""
        if len(at):
            np.minimum.at(self.margin, at, missed.reshape(len(at), -1).min(1))

    def mul(self, x: Array, role: Role, layer: int) -> Array:
        """W x for each row of x [T, n]: a row is of the position of its number."""
        return np.asarray(self.taken(x, role, layer) @ self.w(role, layer).T, np.float64)

    def taken(self, x: Array, role: Role, layer: int) -> Array:
        """x as a product with this weight takes it."""
        if not self.simulation.activations or self.slots[role, layer].type != GgmlType.Q8_0:
            return x
        rounded, missed = int8(x, half=False)
        self.near(missed, np.arange(len(x)))
        return rounded

    def stored(self, rows: Array, at: npt.NDArray[np.int64]) -> Array:
        """What the cache keeps of rows that the positions `at` complete."""
        if self.simulation.kv == GgmlType.F16:
            return rows.astype(np.float16).astype(np.float64)  # neighbours are too near to each other for a margin
        if self.simulation.kv == GgmlType.Q8_0:
            rows, missed = int8(rows, half=True)
            self.near(missed, at)
        return rows

    def latent(self, rows: Array, at: npt.NDArray[np.int64]) -> Array:
        """The same of rows of keys and values, whose unrotated part may be rounded first."""
        if Rounding.KV_FP8 in self.simulation.rounding:
            plain = self.h.head_dim - self.h.rope_dim
            rounded, missed = narrow(rows[:, :plain], 64, E4M3[:127], 1e-4)
            self.near(missed, at)
            rows = np.concatenate([rounded, rows[:, plain:]], 1)
        return self.stored(rows, at)

    def indexed(self, x: Array, at: npt.NDArray[np.int64]) -> Array:
        """Queries or rows of the indexer."""
        if Rounding.INDEX_FP4 in self.simulation.rounding:
            x, missed = narrow(hadamard(x), 32, E2M1, 6 * 2.0**-126)
            self.near(missed, at)
        return x

    def best(self, scores: Array, count: int, position: int) -> list[int]:
        """The largest `count` of a position's scores, ties to the lower number."""
        order = np.argsort(-scores, kind="stable")
        if count < len(scores):
            gap = scores[order[count - 1]] - scores[order[count]]
            if gap > 0 or scores[order[count]] != 0:  # nothing is nearer to 0 than 0
                self.margin[position] = min(self.margin[position], gap / np.abs(scores).max())
        return [int(i) for i in order[:count]]

    # ---- parts ----

    def rms(self, x: Array, weight: Array | None = None) -> Array:
        y = x / np.sqrt(np.mean(x * x, -1, keepdims=True) + self.h.rms_eps)
        return np.asarray(y if weight is None else y * weight, np.float64)

    def frequencies(self, compressed: bool) -> Array:
        r = self.h.rope_dim
        i = np.arange(r // 2)
        if not compressed:
            return np.asarray(self.h.rope_base ** (-2.0 * i / r), np.float64)
        base = self.v.compress_rope_base
        g = base ** (-2.0 * i / r)

        def corr(beta: float) -> float:
            return r * math.log(self.h.rope_ctx_original / (beta * 2 * math.pi)) / (2 * math.log(base))

        low = max(0, math.floor(corr(self.h.rope_beta_fast)))
        high = min(r - 1, math.ceil(corr(self.h.rope_beta_slow)))
        ramp = np.clip((i - low) / max(0.001, high - low), 0, 1)
        return np.asarray(g / self.h.rope_factor * ramp + g * (1 - ramp), np.float64)

    def rope(self, x: Array, positions: npt.NDArray[np.int64], compressed: bool, sign: int = 1) -> Array:
        """x: [T, ..., width]; the last rope_dim of each turn, in pairs."""
        r = self.h.rope_dim
        frequency = self.frequencies(compressed).astype(np.float32)
        angle = sign * (positions.astype(np.float32)[:, None] * frequency).astype(np.float64)
        angle = angle.reshape(len(positions), *[1] * (x.ndim - 2), r // 2)
        out = x.copy()
        a, b = x[..., -r::2], x[..., -r + 1 :: 2]
        out[..., -r::2] = a * np.cos(angle) - b * np.sin(angle)
        out[..., -r + 1 :: 2] = a * np.sin(angle) + b * np.cos(angle)
        return out

    def mix(self, x: Array, fn: Array, scale: Array, base: Array) -> tuple[Array, Array, Array]:
        """x: [T, n, D]. pre [T, n], post [T, n], C [T, n, n]."""
        n, eps = self.v.hc_count, self.v.hc_eps
        m = self.rms(x.reshape(len(x), -1)) @ fn.T
        pre = sigmoid(m[:, :n] * scale[0] + base[:n]) + eps
        if m.shape[1] == n:
            return pre, pre, pre
        post = 2 * sigmoid(m[:, n : 2 * n] * scale[1] + base[n : 2 * n])
        c = (m[:, 2 * n :] * scale[2] + base[2 * n :]).reshape(-1, n, n)
        c = np.exp(c - c.max(-1, keepdims=True))
        c = c / c.sum(-1, keepdims=True) + eps
        c = c / (c.sum(1, keepdims=True) + eps)
        for _ in range(self.v.hc_iterations - 1):
            c = c / (c.sum(2, keepdims=True) + eps)
            c = c / (c.sum(1, keepdims=True) + eps)
        return pre, post, c

    def compressed(self, u: Array, kv: Role, layer: int, width: int) -> Array:
        """The rows of every whole window, normed and turned."""
        ratio = self.v.ratios[layer]
        gate, ape, norm = Role(kv + 1), Role(kv + 2), Role(kv + 3)
        count = len(u) // ratio
        a = self.mul(u, kv, layer)
        g = self.mul(u, gate, layer) + self.w(ape, layer)[np.arange(len(u)) % ratio]
        rows = np.zeros((count, width))
        for w in range(count):
            own = slice(ratio * w, ratio * (w + 1))
            if ratio == 4:
                before = slice(ratio * (w - 1), ratio * w) if w else slice(0, 0)
                values = np.concatenate([a[before, :width], a[own, width:]])
                gates = np.concatenate([g[before, :width], g[own, width:]])
            else:
                values, gates = a[own], g[own]
            p = np.exp(gates - gates.max(0))
            rows[w] = (p * values).sum(0) / p.sum(0)
        return self.rope(self.rms(rows, self.w(norm, layer)), ratio * np.arange(count), True)

    def chosen(self, u: Array, qr: Array, layer: int) -> list[list[int]]:
        """The compressed rows that each position takes."""
        heads, width, top = self.v.index_heads, self.v.index_dim, self.v.index_top_k
        positions = np.arange(len(u))
        q = self.mul(qr, Role.INDEX_Q_B, layer).reshape(len(u), heads, width)
        q = self.indexed(self.rope(q, positions, True), positions)
        rows = self.compressed(u, Role.INDEX_KV, layer, width)
        closing = 4 * np.arange(len(rows)) + 3
        rows = self.stored(self.indexed(rows, closing), closing)
        weights = self.mul(u, Role.INDEX_PROJ, layer) / math.sqrt(heads * width)
        taken = []
        for p in range(len(u)):
            seen = (p + 1) // 4
            scores = weights[p] @ np.maximum(0, q[p] @ rows[:seen].T)
            taken.append(sorted(self.best(scores, top, p)))
        return taken

    def attention(self, u: Array, layer: int, ratio: int) -> Array:
        h, v, count = self.h, self.v, len(u)
        positions = np.arange(count)
        qr = self.rms(self.mul(u, Role.ATTN_Q_A, layer), self.w(Role.ATTN_Q_A_NORM, layer))
        q = self.rms(self.mul(qr, Role.ATTN_Q_B, layer).reshape(count, h.n_head, h.head_dim))
        kv = self.rms(self.mul(u, Role.ATTN_KV, layer), self.w(Role.ATTN_KV_NORM, layer))
        q, kv = self.rope(q, positions, ratio > 0), self.latent(self.rope(kv, positions, ratio > 0), positions)
        rows = np.zeros((0, h.head_dim))
        if ratio:
            rows = self.compressed(u, Role.COMPRESS_KV, layer, h.head_dim)
            rows = self.latent(rows, ratio * (np.arange(len(rows)) + 1) - 1)
        taken = self.chosen(u, qr, layer) if ratio == 4 else None
        out = np.zeros_like(q)
        sinks = self.w(Role.ATTN_SINKS, layer).reshape(-1, 1)
        for p in range(count):
            mine = list(range((p + 1) // ratio)) if ratio and taken is None else taken[p] if taken else []
            keys = np.concatenate([kv[max(0, p - h.sliding_window + 1) : p + 1], rows[mine]])
            z = np.concatenate([q[p] @ keys.T / math.sqrt(h.head_dim), sinks], 1)
            z = np.exp(z - z.max(1, keepdims=True))
            out[p] = (z[:, :-1] / z.sum(1, keepdims=True)) @ keys
        out = self.rope(out, positions, ratio > 0, -1)
        inputs = self.taken(out.reshape(count, -1), Role.ATTN_OUT_A, layer).reshape(count, v.groups_o, -1)
        blocks = self.w(Role.ATTN_OUT_A, layer).reshape(v.groups_o, v.lora_o, -1)
        low = np.einsum("tgi,goi->tgo", inputs, blocks).reshape(count, -1)
        return self.mul(low, Role.ATTN_OUT_B, layer)

    def gated(self, g: Array, u: Array, clamp: float) -> Array:
        g, u = np.minimum(g, clamp), np.clip(u, -clamp, clamp)
        return np.asarray(g * sigmoid(g) * u, np.float64)

    def experts(self, u: Array, tokens: npt.NDArray[np.int64], layer: int) -> Array:
        v = self.v
        x = self.mul(u, Role.ROUTER, layer)
        s = np.sqrt(np.where(x > 20, x, np.log1p(np.exp(np.minimum(x, 20)))))
        if layer < v.n_hash_layer:
            ids = self.w(Role.ROUTER_HASH, layer)[tokens].astype(np.int64)
        else:
            bias = self.w(Role.ROUTER_BIAS, layer) if self.has(Role.ROUTER_BIAS, layer) else 0
            ids = np.array([self.best(row, v.n_expert_used, t) for t, row in enumerate(s + bias)])
        weights = np.take_along_axis(s, ids, 1)
        weights = weights / np.maximum(weights.sum(1, keepdims=True), 2.0**-14) * v.expert_scale
        shared = [self.mul(u, role, layer) for role in (Role.SHARED_GATE, Role.SHARED_UP)]
        y = self.mul(self.gated(*shared, v.clamp_shared[layer]), Role.SHARED_DOWN, layer)
        gate, up, down = (self.w(role, layer) for role in (Role.EXPERTS_GATE, Role.EXPERTS_UP, Role.EXPERTS_DOWN))
        to_gate, to_up = (self.taken(u, role, layer) for role in (Role.EXPERTS_GATE, Role.EXPERTS_UP))
        hidden = np.zeros((len(u), v.n_expert_used, v.d_expert))
        for t in range(len(u)):
            for i, e in enumerate(ids[t]):
                hidden[t, i] = (
                    self.gated(gate[e] @ to_gate[t], up[e] @ to_up[t], v.clamp_experts[layer]) * weights[t, i]
                )
        hidden = self.taken(hidden.reshape(len(u), -1), Role.EXPERTS_DOWN, layer).reshape(hidden.shape)
        for t in range(len(u)):
            for i, e in enumerate(ids[t]):
                y[t] += down[e] @ hidden[t, i]
        return y

    # ---- the whole ----

    def block(self, x: Array, tokens: npt.NDArray[np.int64], layer: int, ratio: int) -> Array:
        """One layer: streams [T, n, D] to streams."""
        parts = (
            (Role.HC_ATTN_FN, Role.ATTN_NORM, lambda u: self.attention(u, layer, ratio)),
            (Role.HC_FFN_FN, Role.FFN_NORM, lambda u: self.experts(u, tokens, layer)),
        )
        for first, norm, inner in parts:
            fn, base, scale = (self.w(Role(first + i), layer) for i in range(3))
            pre, post, c = self.mix(x, fn, scale.ravel(), base.ravel())
            y = inner(self.rms(np.einsum("th,thd->td", pre, x), self.w(norm, layer)))
            x = post[:, :, None] * y[:, None, :] + np.einsum("tjk,tjd->tkd", c, x)
        return x

    def residuals(self, tokens: list[int]) -> list[Array]:
        """[n_layer + 1] residuals [T, n, D]: the embedding, then each layer's output."""
        ids = np.array(tokens, np.int64)
        self.margin = np.ones(len(ids))
        x = np.repeat(self.w(Role.TOKEN_EMBD)[ids][:, None, :], self.v.hc_count, 1)
        out = [x]
        for layer, ratio in enumerate(self.v.ratios[: self.h.n_layer]):
            out.append(self.block(out[-1], ids, layer, ratio))
        return out

    def head(self, x: Array, roles: tuple[Role, ...] = HEAD, layer: int = -1) -> Array:
        """roles: of the hyper-connection's fn, base and scale, and of the norm."""
        fn, base, scale, norm = (self.w(role, layer) for role in roles)
        pre, _, _ = self.mix(x, fn, scale.ravel(), base.ravel())
        u = self.rms(np.einsum("th,thd->td", pre, x), norm)
        return self.mul(u, Role.OUTPUT, -1)

    def logits(self, tokens: list[int]) -> Array:
        """[T, n_vocab]"""
        return self.head(self.residuals(tokens)[-1])

    def drafts(self, tokens: list[int]) -> Array:
        """[T - 1, n_vocab]: row p - 1 is what the block that drafts expects after token p, from it and the residual of
        position p - 1."""
        layer, ids = self.h.n_layer, np.array(tokens, np.int64)
        before = self.rms(self.residuals(tokens)[-1][:-1], self.w(Role.MTP_H_NORM, layer))
        token = self.rms(self.w(Role.TOKEN_EMBD)[ids[1:]], self.w(Role.MTP_E_NORM, layer))
        if self.has(Role.MTP_EH_PROJ, layer):
            e, h = np.split(self.w(Role.MTP_EH_PROJ, layer), 2, axis=1)
        else:
            e, h = self.w(Role.MTP_E_PROJ, layer), self.w(Role.MTP_H_PROJ, layer)
        x = self.block((token @ e.T)[:, None, :] + before @ h.T, ids[1:], layer, 0)
        return self.head(x, MTP_HEAD, layer) if self.has(Role.MTP_HC_FN, layer) else self.head(x)
