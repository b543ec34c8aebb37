"""Writes torch/*.jsonl: torch's and transformers' answers in float64, and by how much an engine may differ.

    python goldens/ops/generate.py

Results are torch's (rms_norm, silu, matmul, scaled_dot_product_attention) in float64 on the float32 inputs; rotations
of the rotary embedding are transformers' (default, linear, yarn, llama3), which computes them in fp32, so that the
bound of every angle is the wide one; quantised weights and caches are the gguf package's.
"""

from __future__ import annotations

import base64
import json
import math
import pathlib
import struct
from collections.abc import Callable, Sequence

import gguf
import numpy as np
import torch
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from torch.nn import functional
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

HERE = pathlib.Path(__file__).parent / "torch"
U, LEAST = 2.0**-24, 2.0**-120
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208]}  # fmt: skip
Array = np.ndarray
Rows = list[str]


def h32(value: float) -> str:
    return struct.pack(">f", value).hex()


def row(verb: str, values: Array) -> str:
    return f"{verb} {values.astype('>f4').tobytes().hex(' ', 4)}\n"


def result(values: Array, within: Array | None = None) -> str:
    """within None: bit for bit. The value written is rounded too, by half a unit at most."""
    if within is None:
        return "".join(row("row", v) for v in values)
    within = within + U * np.abs(values) + LEAST
    return "".join(row("row", v) + row("within", w) for v, w in zip(values, within, strict=True))


def case(name: str, words: Sequence[object], raw: list[Array | bytes], expected: str) -> str:
    data = b"".join(p if isinstance(p, bytes) else p.astype("<f4").tobytes() for p in raw)
    tape = " ".join(map(str, words)).encode() + b"\n" + data
    return json.dumps({"case": name, "input_b64": base64.b64encode(tape).decode(), "expected": expected}) + "\n"


def normal(rng: np.random.Generator, *shape: int, size: float = 1.0) -> Array:
    return (rng.normal(size=shape) * size).astype(np.float32)


def f64(x: Array) -> torch.Tensor:
    return torch.from_numpy(np.asarray(x, np.float64))


def weights(rng: np.random.Generator, name: str, rows: int, cols: int) -> tuple[bytes, Array, Array]:
    """Blocks, the numbers that they are, and the magnitudes of the terms of each: its own, or of step and offset."""
    kind = GGMLQuantizationType[name]
    elements, size = GGML_QUANT_SIZES[kind]
    if name not in SCALES:
        x = normal(rng, rows, cols)
        if name == "F32":
            return x.tobytes(), x, np.abs(x)
        raw = x.astype("<f2").view(np.uint8) if name == "F16" else gguf.quants.quantize(x, kind)
        values = x.astype("<f2").astype(np.float32) if name == "F16" else gguf.quants.dequantize(raw, kind)
        return raw.tobytes(), values.reshape(rows, cols), np.abs(values).reshape(rows, cols)
    blocks = rng.integers(0, 256, (rows * cols // elements, size), dtype=np.uint8)
    for at in SCALES[name]:
        scales = (rng.random(len(blocks)) * 0.02 + 0.002).astype("<f2")
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(-1, 2)
    values, steps = gguf.quants.dequantize(blocks, kind), blocks.copy()
    for at in SCALES[name][1:]:  # the offset's scale
        steps[:, at : at + 2] = 0
    step = gguf.quants.dequantize(steps, kind)
    mass = np.abs(step) + np.abs(values - step)
    return blocks.tobytes(), values.reshape(rows, cols), mass.reshape(rows, cols)


TYPES = ("F32", "F16", "BF16", *SCALES)


def embed(rng: np.random.Generator) -> Rows:
    rows = []
    for name in TYPES:
        raw, table, _ = weights(rng, name, 3, 256)
        rows.append(case(name, ["embed", name, 3, 256, 2, 0, 2], [raw], result(table[[2, 0, 2]])))
    return rows


def element_wise(rng: np.random.Generator) -> Rows:
    rows = []
    for width in (1, 7, 64, 333):
        a, b, w = normal(rng, 3, width, size=4), normal(rng, 3, width), normal(rng, width)
        rows.append(case(f"add, {width}", ["add", 3, width], [a, b], result(a + b)))
        gated = (functional.silu(f64(a)) * f64(b)).numpy()
        bound = 16 * U * np.abs(gated) + 2.0**-124 * np.abs(a.astype("f8") * b)
        rows.append(case(f"swiglu, {width}", ["swiglu", 3, width], [a, b], result(gated, bound)))
        eps = float(np.float32(1e-5))
        normed = functional.rms_norm(f64(a), (width,), f64(w), eps).numpy()
        bound = (16 + width / 16) * U * np.abs(normed)
        rows.append(case(f"rmsnorm, {width}", ["rmsnorm", 3, width, h32(eps)], [w, a], result(normed, bound)))
    gate = np.array([[-200, -100, -88, -20, -1e-6, 0, 1e-6, 20, 88, 200]], np.float32)
    up = np.array([[3, -3, 1e4, 1, 1, 7, 1, 1, -2, 1e3]], np.float32)
    gated = (functional.silu(f64(gate)) * f64(up)).numpy()
    bound = 16 * U * np.abs(gated) + 2.0**-124 * np.abs(gate.astype("f8") * up)
    rows.append(case("swiglu, far ends", ["swiglu", 1, 10], [gate, up], result(gated, bound)))
    small = np.full((2, 40), 1e-6, np.float32)
    small[1] = 0
    normed = functional.rms_norm(f64(small), (40,), None, float(np.float32(1e-6))).numpy()
    bound = (16 + 40 / 16) * U * np.abs(normed)
    rows.append(
        case("rmsnorm, eps decides", ["rmsnorm", 2, 40, h32(1e-6)], [np.ones(40), small], result(normed, bound))
    )
    return rows


def matmul(rng: np.random.Generator) -> Rows:
    rows = []
    for name in TYPES:
        n_in, n_out, count = 256, 5, 2
        raw, w, terms = weights(rng, name, n_out, n_in)
        x = normal(rng, count, n_in)
        y = (f64(x) @ f64(w).T).numpy()
        mass = np.abs(x).astype("f8") @ terms.astype("f8").T
        rows.append(case(name, ["matmul", name, n_out, n_in, count], [x, raw], result(y, (16 + n_in / 4) * U * mass)))
    for n_out, n_in, count in ((1, 1, 1), (3, 5, 7), (17, 33, 4)):
        x, w = normal(rng, count, n_in), normal(rng, n_out, n_in)
        mass = np.abs(x).astype("f8") @ np.abs(w).astype("f8").T
        y = (f64(x) @ f64(w).T).numpy()
        name = f"F32, {n_out} x {n_in}, {count} rows"
        rows.append(case(name, ["matmul", "F32", n_out, n_in, count], [x, w], result(y, (16 + n_in / 4) * U * mass)))
    return rows


def rotations(dim: int, base: float, scaling: dict[str, object] | None) -> tuple[Array, float]:
    """(inv_freq, factor on cos and sin) as transformers has them."""
    parameters = {"rope_theta": base, **(scaling or {"rope_type": "default"})}
    config = LlamaConfig(hidden_size=4 * dim, num_attention_heads=4, head_dim=dim, max_position_embeddings=4096)
    config.rope_parameters = parameters
    if scaling is None:
        return (1.0 / base ** (torch.arange(0, dim, 2).float() / dim)).numpy(), 1.0
    inv_freq, factor = ROPE_INIT_FUNCTIONS[str(scaling["rope_type"])](config, torch.device("cpu"))
    return inv_freq.numpy(), float(factor)


def turned(x: Array, positions: list[int], heads: int, neox: bool, inv_freq: Array, magnitude: float) -> str:
    angles = (np.asarray(positions, np.float32)[:, None] * inv_freq[None]).astype(np.float64)
    half = len(inv_freq)
    parts = x.astype("f8").reshape(len(positions), heads, -1)
    a = np.arange(half) if neox else 2 * np.arange(half)
    b = a + half if neox else a + 1
    c, s = magnitude * np.cos(angles)[:, None], magnitude * np.sin(angles)[:, None]
    y, within = parts.copy(), np.zeros_like(parts)
    y[..., a], y[..., b] = parts[..., a] * c - parts[..., b] * s, parts[..., a] * s + parts[..., b] * c
    size = magnitude * (np.abs(parts[..., a]) + np.abs(parts[..., b]))
    within[..., a] = within[..., b] = (8 + 4 * angles[:, None]) * U * size
    return result(y.reshape(len(positions), -1), within.reshape(len(positions), -1))


def rope(rng: np.random.Generator) -> Rows:
    rows, positions, heads = [], [0, 1, 77, 2000, 30000], 2
    yarn = {
        "rope_type": "yarn",
        "factor": 4.0,
        "original_max_position_embeddings": 4096,
        "beta_fast": 32.0,
        "beta_slow": 1.0,
    }
    llama3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 8192}  # fmt: skip
    kinds: list[tuple[str, float, dict[str, object] | None]] = [
        ("default", 10000.0, None), ("default", 500000.0, None),
        ("linear", 10000.0, {"rope_type": "linear", "factor": 4.0}),
        ("yarn", 10000.0, yarn), ("yarn", 1000000.0, {**yarn, "factor": 40.0}), ("llama3", 500000.0, llama3),
    ]  # fmt: skip
    for name, base, scaling in kinds:
        for neox in (False, True):
            dim = 64
            inv_freq, magnitude = rotations(dim, base, scaling)
            x = normal(rng, len(positions), heads * dim)
            divisors = np.zeros(0, np.float32)
            word = "none"
            if name == "linear":
                word = f"linear:{h32(4.0)}"
            elif name == "yarn" and scaling is not None:
                word = ":".join(["yarn", h32(float(str(scaling["factor"]))), h32(1.0), h32(32.0), h32(1.0), "4096"])
            elif name == "llama3":  # a file holds them as divisors of the plain rotations
                divisors = (rotations(dim, base, None)[0].astype("f8") / inv_freq).astype(np.float32)
            words = [
                "rope",
                "neox" if neox else "norm",
                heads,
                dim,
                dim,
                h32(base),
                h32(magnitude),
                word,
                len(divisors),
                *positions,
            ]
            title = f"{name}, base {base:g}, {'neox' if neox else 'norm'}"
            expected = turned(x, positions, heads, neox, inv_freq, float(np.float32(magnitude)))
            rows.append(case(title, words, [divisors, x], expected))
    return rows


def cached(kind: str, x: Array) -> Array:
    if kind == "F16":
        return x.astype(np.float16).astype(np.float32)
    if kind == "Q8_0":
        raw = gguf.quants.quantize(x.reshape(-1, 32), GGMLQuantizationType.Q8_0)
        return gguf.quants.dequantize(raw, GGMLQuantizationType.Q8_0).reshape(x.shape)
    return x


def attention(rng: np.random.Generator) -> Rows:
    rows = []
    shapes = [("F32", 4, 2, 16, 0, 9), ("F32", 3, 1, 20, 3, 9), ("F16", 4, 4, 32, 0, 6), ("F16", 6, 2, 24, 2, 7),
              ("Q8_0", 4, 2, 32, 0, 8), ("Q8_0", 2, 1, 64, 4, 8), ("F32", 2, 2, 8, 0, 1)]  # fmt: skip
    for kind, n_head, n_head_kv, dim, window, count in shapes:
        q = normal(rng, count, n_head, dim, size=2)
        k, v = normal(rng, count, n_head_kv, dim, size=1.5), normal(rng, count, n_head_kv, dim)
        scale = float(np.float32(1 / math.sqrt(dim)))
        there = np.tril(np.ones((count, count), bool))
        if window:
            there &= ~np.tril(np.ones((count, count), bool), -window)
        group = n_head // n_head_kv
        keys, values = (f64(np.repeat(cached(kind, x), group, axis=1)).transpose(0, 1) for x in (k, v))
        query = f64(q).transpose(0, 1)
        y = functional.scaled_dot_product_attention(query, keys, values, attn_mask=torch.from_numpy(there), scale=scale)
        # The bounds, by the contract's formulas.
        s = scale * (query @ keys.transpose(1, 2)).masked_fill(~torch.from_numpy(there), -torch.inf)
        mass = scale * (query.abs() @ keys.abs().transpose(1, 2)).masked_fill(~torch.from_numpy(there), 0.0)
        p = torch.softmax(s, -1)
        below = (p * (s.amax(-1, keepdim=True) - s).nan_to_num(0.0, 0.0, 0.0)).sum(-1, keepdim=True)
        e = (16 + dim / 4) * U * mass.amax(-1, keepdim=True)
        seen = torch.from_numpy(there.sum(-1))[None, :, None]
        within = (2 * e + (32 + seen / 4 + 2 * below) * U) * (p @ values.abs())
        flat = [t.transpose(0, 1).reshape(count, -1).numpy() for t in (y, within)]
        words = ["attention", kind, n_head, n_head_kv, dim, h32(scale), window, *[f"0:{i}" for i in range(count)]]
        title = f"{kind}, {n_head} heads over {n_head_kv} of {dim}, window {window}, {count} rows"
        rows.append(case(title, words, [q, k, v], result(*flat)))
    return rows


def main() -> None:
    files: dict[str, Callable[[np.random.Generator], Rows]] = {
        "embed": embed, "element_wise": element_wise, "matmul": matmul, "rope": rope, "attention": attention,
    }  # fmt: skip
    rng = np.random.default_rng(20261129)
    for name, made in files.items():
        (HERE / f"{name}.jsonl").write_text("".join(made(rng)), encoding="utf-8")


if __name__ == "__main__":
    main()
