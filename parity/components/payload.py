"""`payload`: the host's part of a session payload, read and written."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from ds4.core import payload
from ds4.core.payload import DEEPSEEK, FAMILIES, LAYOUTS, Shape
from ds4.core.tapes.payload import Encode, by_tape, write_input
from ds4.sys.tape import line

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain
from parity.damage import NUMBERS, WIDE, damaged

NAMES = tuple(LAYOUTS)
READERS = ("any", *sorted(FAMILIES))
FIELDS = tuple(range(0, 52, 4))


def tape(data: bytes) -> bytes:
    """A tape out of bytes: payloads of every layout, whole, nearly whole or refused, in both directions."""
    choices = Choices(data)
    if choices.once_in(16):
        return line("decode", "any", 0) + bytes([choices.below(256) for _ in range(choices.left)])
    layout = LAYOUTS[choices.of(NAMES)]
    tokens = [choices.below(1000) for _ in range(choices.below(7))]
    count = len(tokens)
    near = (count, count + 1, count + 2, 8192, max(0, count - 1), 0)
    ctx = near[3 - choices.below(6)]
    vocab = 1000 if choices.below(8) else choices.of((0, 1, 500, 999, 2**32 - 1))
    live = count if choices.below(8) else choices.of(NUMBERS)
    window = choices.of(NUMBERS) if layout is DEEPSEEK else 0
    sizes = [choices.of(NUMBERS) for _ in range(6)] if choices.below(2) else [64, 8192, 2048, 61, 128, 64]
    width, rows, packed, layers, head, indexer = sizes
    if choices.below(3) == 0:
        shape = Shape(layout, ctx, width, rows, window, packed, layers, head, indexer, vocab, live)
        return _encode(choices, shape, tokens)
    version = 3 if choices.below(8) else choices.below(5)
    fields = (ctx, width, rows, layout.tag or window, packed, count, layers, head, indexer, vocab, live)
    raw = struct.pack("<13I", payload.MAGIC, version, *fields) + struct.pack(f"<{count}I", *tokens)
    raw = damaged(choices, raw + bytes(choices.below(6)), "little", FIELDS)
    reader = choices.of(("any", layout.family, layout.family, choices.of(READERS)))
    return line("decode", reader, 0 if choices.below(2) else choices.of(near)) + raw


def _encode(choices: Choices, shape: Shape, tokens: list[int]) -> bytes:
    """Seldom with a number too large for its field, or a window that tells another layout."""
    values = [getattr(shape, name) for name in payload.SHAPE_FIELDS]
    if choices.once_in(3):
        values[choices.below(len(values))] = choices.of(WIDE)
    if choices.once_in(6):
        values[3] = choices.of([layout.tag for layout in LAYOUTS.values()])
    if choices.once_in(8) and tokens:
        tokens[choices.below(len(tokens))] = choices.of(WIDE)
    return write_input(Encode(Shape(shape.layout, *values), tokens))


def soak(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return tape(rng.randbytes(80))
    count = rng.randrange(20_000)
    live = count if rng.random() < 0.9 else rng.randrange(2**32)
    shape = Shape(
        LAYOUTS[rng.choice(NAMES)], rng.randrange(count, 40_000), 64, 8192, 0, 2048, 61, 128, 64, 129280, live
    )
    tokens = [rng.randrange(129280) for _ in range(count)]
    if rng.random() < 0.5:
        return write_input(Encode(shape, tokens))
    mark = shape.layout.tag or 512
    fields = (shape.ctx, 64, 8192, mark, 2048, count, 61, 128, 64, 129280, live)
    return (
        line("decode", "any", 0) + struct.pack(f"<13I{count}I", payload.MAGIC, 3, *fields, *tokens) + rng.randbytes(999)
    )


def _restore() -> tuple[Callable[[], object], bytes]:
    """A payload of 4,096 tokens read, as a restore of a bank does."""
    tokens = [(i * 7919) % 129280 for i in range(4096)]
    shape = Shape(DEEPSEEK, 8192, 64, 8192, 512, 2048, 61, 128, 64, 129280, 4096)
    raw = payload.encode_python(shape, tokens) + bytes(4096)
    return lambda: payload.decode_python(raw, family="deepseek", ctx=8192), line("decode", "deepseek", 8192) + raw


COMPONENT = Component(
    name="payload",
    about="the host's part of a session payload: 13 integers, token ids, and where the native tail lies",
    axes=("kv", "token", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=24, most=64),
    soak=soak,
    speed=Speed(_restore),
    sources=(
        "host/ds4/core/payload.py",
        "host/ds4/core/tapes/payload.py",
        "oracles/payload/*",
        "parity/components/payload.py",
        "parity/choices.py",
        "parity/damage.py",
        "goldens/payload/**",
    ),
)
