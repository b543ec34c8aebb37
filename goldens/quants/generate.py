"""Writes package/read.jsonl and package/written.jsonl: blocks as the gguf package reads and writes them.

    python goldens/quants/generate.py

Contents are random bits, so that every value of a nibble, a scale and a sign occurs; the fp16 scales are ordinary,
zero, subnormal, the largest, infinite or no number. fp16 is numpy's. Numbers to write to Q8_0 avoid halves, where the
package rounds away from zero.
"""

from __future__ import annotations

import base64
import json
import pathlib

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize, quantize

HERE = pathlib.Path(__file__).parent / "package"
TYPES = ("F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K")
EXPERTS = ("IQ2_XXS", "MXFP4")  # with draws of their own
# Where each format has its fp16 scales.
SCALES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108],
          "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ2_XXS": [0]}  # fmt: skip
# MXFP4's scale is a byte, a power of two: subnormal ones, ordinary ones, and those whose products may be infinite.
EXPONENTS = {f"a scale of 2^({e} - 127)": e for e in (0, 1, 2, 64, 127, 200, 252, 253, 254, 255)}
# name: the bits of the scales, taken in turn
WAYS = {
    "ordinary scales": (0x2C9A, 0x1F31),
    "a negative scale and a small one": (0xA8C1, 0x0457),
    "scales of zero, of both signs": (0x0000, 0x8000),
    "subnormal scales": (0x0001, 0x83FF),
    "the largest scales": (0x7BFF, 0xFBFF),
    "an infinite scale": (0x7C00, 0x2C00),
    "a scale that is no number": (0x7E00, 0x2C00),
}


def lines(verb: str, bits: np.ndarray, digits: int) -> str:
    words = [f"{int(value):0{digits}x}" for value in bits]
    return "".join(f"{verb} {' '.join(words[at : at + 32])}\n" for at in range(0, len(words), 32))


def numbers(values: np.ndarray) -> str:
    bits = np.where(np.isnan(values), 0x7FC00000, np.asarray(values, "<f4").view("<u4"))
    return lines("values", bits, 8)


def case(name: str, command: str, raw: bytes, expected: str) -> str:
    row = {"case": name, "input_b64": base64.b64encode(command.encode() + b"\n" + raw).decode(), "expected": expected}
    return json.dumps(row) + "\n"


def read(rng: np.random.Generator, types: tuple[str, ...]) -> list[str]:
    rows = []
    for name in types:
        kind = GGMLQuantizationType[name]
        elements, size = GGML_QUANT_SIZES[kind]
        ways = WAYS if name in SCALES else {"any bits": ()}
        for way, bits in (EXPONENTS if name == "MXFP4" else ways).items():
            block = rng.integers(0, 256, size if elements > 1 else 96 * size, dtype=np.uint8)
            if name == "MXFP4":
                block[0], bits = bits, ()
            for at, scale in zip(SCALES.get(name, []), bits, strict=False):
                block[at : at + 2] = np.frombuffer(np.uint16(scale).tobytes(), np.uint8)
            if name == "F32":
                values = block.view("<f4")
            elif name == "F16":
                values = block.view("<f2").astype("f4")
            else:
                values = dequantize(block, kind)
            rows.append(case(f"{name}, {way}", f"dequantize {name}", block.tobytes(), numbers(values)))
        rows.append(case(f"{name}, nothing", f"dequantize {name}", b"", ""))
        if size > 1:
            cut = case(f"{name}, a byte short", f"dequantize {name}", bytes(size - 1), "error engine_argument\n")
            rows.append(cut)
    return rows


def written(rng: np.random.Generator) -> list[str]:
    rows = []
    edges = np.array(
        [0.0, -0.0, 1.0, -2.5, 65504.0, 65519.99, 65520.0, -65520.0, 1e-8, 2.0**-25, 2.0**-25 * 1.0001, 2.0**-24,
         6.1e-5, 2.0**-14, 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 3.4e38, np.inf, -np.inf,
         np.nan, 1e-45], "<f4"
    )  # fmt: skip
    for what, x in {
        "edges": edges,
        "sizes": (rng.normal(size=96) * 2.0 ** rng.integers(-30, 17, 96)).astype("<f4"),
    }.items():
        with np.errstate(over="ignore"):
            half = x.astype("<f2")
        bits = np.where(np.isnan(x), 0x7E00, half.view("<u2"))
        rows.append(case(f"F16, {what}", "quantize F16", x.tobytes(), lines("halves", bits, 4)))
        brain = quantize(x, GGMLQuantizationType.BF16).view("<u2")
        bits = np.where(np.isnan(x), 0x7FC0, brain)
        rows.append(case(f"BF16, {what}", "quantize BF16", x.tobytes(), lines("halves", bits, 4)))
    for power in (-20, -3, 0, 5, 12):
        x = (rng.normal(size=64) * 2.0**power).astype("<f4")
        halves = x.reshape(2, 32) / (np.abs(x.reshape(2, 32)).max(1, keepdims=True) / 127)
        assert (np.abs(np.abs(halves % 1) - 0.5) > 1e-3).all(), "a half: draw again"
        blocks = quantize(x, GGMLQuantizationType.Q8_0).reshape(2, 34)
        text = "".join(
            f"block {int(b[:2].view('<u2')[0]):04x} {' '.join(map(str, b[2:].view(np.int8)))}\n" for b in blocks
        )
        rows.append(case(f"Q8_0, numbers of about 2^{power}", "quantize Q8_0", x.tobytes(), text))
    zeros = "block 0000 " + " ".join(["0"] * 32) + "\n"
    rows.append(case("Q8_0, zeros", "quantize Q8_0", bytes(128), zeros))
    rows.append(case("Q8_0, not a whole block", "quantize Q8_0", bytes(124), "error engine_argument\n"))
    rows.append(
        case("a type that the engine does not write", "quantize Q4_K", bytes(1024), "error engine_unsupported\n")
    )
    return rows


def main() -> None:
    rng = np.random.default_rng(20261129)
    with np.errstate(all="ignore"):
        rows = read(rng, TYPES)
        rows.append(case("a name that is no type", "dequantize Q9_9", bytes(34), "error engine_argument\n"))
        rows += read(np.random.default_rng(20261130), EXPERTS)
        (HERE / "read.jsonl").write_text("".join(rows), encoding="utf-8")
        (HERE / "written.jsonl").write_text("".join(written(rng)), encoding="utf-8")


if __name__ == "__main__":
    main()
