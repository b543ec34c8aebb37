"""`quants`: the engine's reading and writing of block formats, bit for bit."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import numpy as np
from ds4.errors import EngineError
from ds4.sys import tape
from ds4.sys.descriptors import GgmlType
from ds4.sys.probe import dequantize, quantize, type_block

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

_NAME = re.compile(rb"[0-9A-Za-z_]{1,16}")
_HEX_IN_A_LINE = 32


def engine(data: bytes) -> bytes:
    """The engine's answer to a tape."""
    words, raw = tape.command(data)
    if len(words) != 2 or words[0] not in (b"dequantize", b"quantize") or not _NAME.fullmatch(words[1]):
        raise tape.TapeError(f"not a command of quants: {words[:3]!r}")
    reading, name = words[0] == b"dequantize", words[1].decode("ascii")
    if name not in GgmlType.__members__:
        return tape.line("error", "engine_argument")
    kind = GgmlType[name]
    if not reading and kind is GgmlType.Q8_0 and not np.isfinite(np.frombuffer(raw[: len(raw) & -4], "<f4")).all():
        raise tape.TapeError("a number of the cache that is not finite")
    elements, size = type_block(kind)
    try:
        if reading:
            values = np.asarray(dequantize(kind, raw, len(raw) // size * elements))
            return _hex("values", np.where(np.isnan(values), np.float32(np.nan), values).astype(">f4"))
        blocks = quantize(kind, raw, len(raw) // 4)
    except EngineError as error:
        return tape.line("error", error.code)
    return _written(kind, blocks)


def _written(kind: GgmlType, blocks: bytes) -> bytes:
    if kind is GgmlType.Q8_0:
        table = np.frombuffer(blocks, np.dtype([("d", "<u2"), ("q", "i1", 32)]))
        rows = [b"block %04x " % d + " ".join(map(str, q)).encode() for d, q in table.tolist()]
        return b"".join([row + b"\n" for row in rows])
    halves = np.frombuffer(blocks, "<u2")
    infinity, nan = (0x7C00, 0x7E00) if kind is GgmlType.F16 else (0x7F80, 0x7FC0)
    return _hex("halves", np.where(halves & 0x7FFF > infinity, nan, halves).astype(">u2"))


def _hex(verb: str, numbers: np.ndarray) -> bytes:
    size = numbers.dtype.itemsize
    lines = [
        f"{verb} {numbers[at : at + _HEX_IN_A_LINE].tobytes().hex(' ', size)}\n"
        for at in range(0, len(numbers), _HEX_IN_A_LINE)
    ]
    return "".join(lines).encode()


# ---- inputs ----

KINDS = (
    *(GgmlType.F32, GgmlType.F16, GgmlType.BF16, GgmlType.Q4_0, GgmlType.Q4_1, GgmlType.Q5_0, GgmlType.Q5_1),
    *(GgmlType.Q8_0, GgmlType.Q2_K, GgmlType.Q3_K, GgmlType.Q4_K, GgmlType.Q5_K, GgmlType.Q6_K),
    *(GgmlType.IQ2_XXS, GgmlType.MXFP4),
)  # fmt: skip
WRITTEN = (GgmlType.Q8_0, GgmlType.F16, GgmlType.BF16)
SCALES = {  # where a block's fp16 scales are
    GgmlType.Q4_0: (0,), GgmlType.Q4_1: (0, 2), GgmlType.Q5_0: (0,), GgmlType.Q5_1: (0, 2), GgmlType.Q8_0: (0,),
    GgmlType.Q2_K: (80, 82), GgmlType.Q3_K: (108,), GgmlType.Q4_K: (0, 2), GgmlType.Q5_K: (0, 2), GgmlType.Q6_K: (208,),
    GgmlType.IQ2_XXS: (0,),
}  # fmt: skip
# Zeros, subnormals, one, the largest, infinities and a NaN, of fp16; and the like of fp32.
EXTREMES = (0x0000, 0x8000, 0x0001, 0x83FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E01, 0x2E66)
NUMBERS = np.array(
    [0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x3F800000, 0xBF000000, 0x3FC00000, 0x40200000, 0x42FE0000, 0x477FE000,
     0x477FEFFF, 0x477FF000, 0xC77FF000, 0x33000000, 0x33000001, 0x33400000, 0x387FC000, 0x387FE000, 0x3F808000,
     0x3F818000, 0x3F808001, 0x7F7FFFFF, 0xFF7F8000, 0x00FFFFFF, 0x02FE0000, 0x02FDFFFF, 0x4B000000],
    "<u4",
)  # fmt: skip


def _blocks(choices: Choices, kind: GgmlType, seed: random.Random) -> bytes:
    """A block or two with random contents, and scales that are ordinary, at an end, or anything."""
    _, size = type_block(kind)
    count = 1 + choices.below(3) if size > 4 else 1 + choices.below(70)
    raw = bytearray(seed.randbytes(count * size))
    for at in range(0, len(raw), size):
        for scale in SCALES.get(kind, ()):
            way = choices.below(4)
            bits = (0x1000 + choices.below(0x2C00), choices.of(EXTREMES), 0x8000 + choices.below(0x7C00), -1)[way]
            if bits >= 0:
                raw[at + scale : at + scale + 2] = bits.to_bytes(2, "little")
    return bytes(raw)


def _numbers(choices: Choices, kind: GgmlType, seed: random.Random) -> bytes:
    """Numbers of one size, of any size, or at the ends of rounding; finite for the cache's format."""
    count = 32 * (1 + choices.below(3)) if kind is GgmlType.Q8_0 else 1 + choices.below(70)
    way = choices.below(4)
    bits = np.frombuffer(seed.randbytes(4 * count), "<u4")
    if way == 0:
        scale = 2.0 ** (choices.below(184) - 146)
        values = ((bits.astype(np.int64) - (1 << 31)) * (scale / (1 << 31))).astype("<f4")
    elif way == 1:
        values = NUMBERS[bits % len(NUMBERS)].view("<f4")
    elif way == 2:  # halves of the step between two integers of a block, and their neighbours
        step = np.float32(2.0 ** (choices.below(24) - 12)) * np.float32(1 + choices.below(200))
        near = (((bits % 511).astype("<i4") - 255) / np.float32(2)).astype("<f4") * step
        values = (near.view("<u4") + (bits >> 20) % 3 - 1).astype("<u4").view("<f4")
        values = np.where(near == 0, near, values)
    else:
        values = bits.view("<f4")
    if kind is GgmlType.Q8_0:
        values = np.where(np.isfinite(values), values, np.float32(0.5))
    return values.astype("<f4").tobytes()


def make(data: bytes) -> bytes:
    """A tape out of bytes: half of them name a type and shape the content, the rest seed it."""
    choices = Choices(data[:24])
    seed = random.Random(data[24:])
    writing = choices.below(4) == 3
    kind = choices.of(KINDS)
    if writing and not choices.once_in(16):
        kind = WRITTEN[kind % 3]
    with np.errstate(all="ignore"):
        raw = (_numbers if writing else _blocks)(choices, kind, seed)
    if choices.once_in(16):
        raw = raw[: choices.below(len(raw) + 1)]
        if writing and kind is GgmlType.Q8_0:
            raw += bytes(-len(raw) % 4)
    name = kind.name if not choices.once_in(32) else choices.of(("Q8_K", "f32", "IQ2_XS", "Q4", "Q4_0_", "0"))
    return tape.line("quantize" if writing else "dequantize", name) + raw


def soak(rng: random.Random) -> bytes:
    kind = rng.choice(KINDS)
    elements, size = type_block(kind)
    return tape.line("dequantize", kind.name) + rng.randbytes(rng.randrange(1, 16384 // elements + 2) * size)


def _tensor() -> tuple[Callable[[], object], bytes]:
    """Sixteen rows of 1,024 in Q4_K, the format that most files use."""
    elements, size = type_block(GgmlType.Q4_K)
    raw = random.Random(1).randbytes(16 * 1024 // elements * size)
    return lambda: dequantize(GgmlType.Q4_K, raw, 16 * 1024), tape.line("dequantize", "Q4_K") + raw


COMPONENT = Component(
    name="quants",
    about="blocks of the quantised formats to numbers, and the blocks that the engine writes itself, bit for bit",
    axes=("numerical", "performance"),
    replacement=plain(engine),
    inputs=Generated(make, least=28, most=40),
    soak=soak,
    speed=Speed(_tensor, ratio=1.0),
    sources=(
        "native/quant/*",
        "native/bridge/probe.c",
        "native/bridge/ds4_bridge.h",
        "native/sources.bzl",
        "host/ds4/sys/probe.py",
        "oracles/quants/*",
        "parity/components/quants.py",
        "parity/choices.py",
        "goldens/quants/*",
    ),
    native=True,
)
