"""`ops`: the engine's plain operations in float mode, each by itself, within bounds on their rounding."""

from __future__ import annotations

import functools
import random
import struct
import zlib
from collections.abc import Callable, Sequence

import numpy as np
from ds4.errors import EngineError
from ds4.sys import ops, tape
from ds4.sys.descriptors import GgmlType, Numeric, RopeKind, RopeScaling
from ds4.sys.ops import How
from ds4.sys.probe import matmul_probe, quantize, type_block

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

KERNELS = ("portable", "avx2", "avx512", "neon")
FloatArray = np.ndarray


@functools.cache
def kernels() -> tuple[str, ...]:
    """The kernel sets that this processor runs."""
    found = []
    for name in KERNELS:
        try:
            matmul_probe(GgmlType.F32, bytes(4), 1, 1, bytes(4), 1, kernels=name)
            found.append(name)
        except EngineError:
            pass
    return tuple(found)


def how(data: bytes) -> How:
    """What a tape is run with. The answer must not hang on it, so each tape takes its turn among all of them."""
    turn = zlib.crc32(data)
    sets = kernels()
    threads, step_rows = (1, 1, 1, 2)[(turn >> 8) % 4], (0, 1, 2, 3, 5, 0, 0, 0)[(turn >> 16) % 8]
    return How(Numeric.FLOAT, threads, sets[turn % len(sets)], step_rows)


def engine(data: bytes) -> bytes:
    """The engine's answer to a tape."""
    words, raw = tape.command(data)
    run = _OPERATIONS.get(words[0])
    if run is None:
        raise tape.TapeError(f"no such operation: {words[0][:20]!r}")
    try:
        values, width = run([w.decode("ascii") for w in words[1:]], raw, how(data))
    except (EngineError, ValueError, KeyError) as error:
        raise tape.TapeError(f"the engine refuses it: {error}") from error
    text = np.asarray(values).astype(">f4").tobytes()
    rows = [f"row {text[at : at + 4 * width].hex(' ', 4)}\n" for at in range(0, len(text), 4 * width)]
    return "".join(rows).encode("ascii")


def _float(word: str) -> float:
    value: float = struct.unpack(">f", bytes.fromhex(word))[0]
    return value


def _cut(raw: bytes, *counts: int) -> list[bytes]:
    """Arrays of so many fp32 off the front; what is left is the last."""
    parts, at = [], 0
    for count in counts:
        parts.append(raw[at : at + 4 * count])
        at += 4 * count
    return [*parts, raw[at:]]


Answer = tuple["memoryview[float]", int]


def _embed(words: list[str], raw: bytes, way: How) -> Answer:
    vocab, width = int(words[1]), int(words[2])
    return ops.embed(GgmlType[words[0]], raw, vocab, width, [int(w) for w in words[3:]], way), width


Pairwise = Callable[[bytes, bytes, int, int, How], "memoryview[float]"]


def _pairwise(of: Pairwise, words: list[str], raw: bytes, way: How) -> Answer:
    rows, width = int(words[0]), int(words[1])
    return of(raw[: len(raw) // 2], raw[len(raw) // 2 :], rows, width, way), width


def _rmsnorm(words: list[str], raw: bytes, way: How) -> Answer:
    rows, width = int(words[0]), int(words[1])
    weight, x = _cut(raw, width)
    return ops.rmsnorm(x, weight, rows, _float(words[2]), way), width


def _matmul(words: list[str], raw: bytes, way: How) -> Answer:
    n_out, n_in, rows = map(int, words[1:])
    x, weight = _cut(raw, rows * n_in)
    return ops.matmul(GgmlType[words[0]], weight, n_out, n_in, x, rows, way), n_out


def _rope(words: list[str], raw: bytes, way: How) -> Answer:
    n_head, head_dim, rope_dim = map(int, words[1:4])
    hparams: dict[str, float] = {
        "n_head": n_head, "head_dim": head_dim, "rope_dim": rope_dim, "rope_kind": RopeKind[words[0].upper()],
        "rope_base": _float(words[4]), "rope_attn_factor": _float(words[5]), "rope_factor": 1.0,
    }  # fmt: skip
    kind, *settings = words[6].split(":")
    hparams["rope_scaling"] = RopeScaling[kind.upper()]
    if settings:
        hparams["rope_factor"] = _float(settings[0])
    if kind == "yarn":
        names = ("rope_ext_factor", "rope_beta_fast", "rope_beta_slow")
        hparams |= zip(names, map(_float, settings[1:4]), strict=True)
        hparams["rope_ctx_original"] = int(settings[4])
    divisors, x = _cut(raw, int(words[7]))
    positions = [int(w) for w in words[8:]]
    return ops.rope(x, positions, hparams, divisors or None, way), n_head * head_dim


def _attention(words: list[str], raw: bytes, way: How) -> Answer:
    n_head, n_head_kv, head_dim = map(int, words[1:4])
    hparams = {"n_head": n_head, "n_head_kv": n_head_kv, "head_dim": head_dim, "attn_scale": _float(words[4]),
               "sliding_window": int(words[5])}  # fmt: skip
    pairs = [word.partition(":") for word in words[6:]]
    places = [(int(bank), int(position)) for bank, _, position in pairs]
    q, k, v = _cut(raw, len(places) * n_head * head_dim, len(places) * n_head_kv * head_dim)
    return ops.attention(q, k, v, places, hparams, GgmlType[words[0]], way), n_head * head_dim


_OPERATIONS: dict[bytes, Callable[[list[str], bytes, How], Answer]] = {
    b"embed": _embed,
    b"add": functools.partial(_pairwise, ops.add),
    b"swiglu": functools.partial(_pairwise, ops.swiglu),
    b"rmsnorm": _rmsnorm,
    b"matmul": _matmul,
    b"rope": _rope,
    b"attention": _attention,
}


# ---- comparison ----


def equal(a: bytes, b: bytes) -> bool:
    """Whether two output tapes say the same: each number within the allowance of the tape that has one."""
    if a == b:
        return True
    if not a.startswith(b"row ") or not b.startswith(b"row "):
        return False
    (rows, allowed), (others, too) = _parts(a), _parts(b)
    if [len(row) for row in rows] != [len(row) for row in others] or (allowed and too and len(allowed) != len(too)):
        return False
    if not allowed and not too:
        return rows == others
    if len(allowed or too) != len(rows):
        return False
    x, y = _numbers(rows), _numbers(others)
    bounds = [_numbers(side) for side in (allowed, too) if side]
    if any(len(bound) != len(x) for bound in bounds):
        return False
    return bool((np.abs(x - y) <= functools.reduce(np.maximum, bounds)).all())


def _numbers(lines: list[bytes]) -> FloatArray:
    return np.frombuffer(bytes.fromhex(b" ".join(lines).decode("ascii")), ">f4").astype("f8")


def _parts(out: bytes) -> tuple[list[bytes], list[bytes]]:
    lines = out.split(b"\n")
    return [ln[4:] for ln in lines if ln.startswith(b"row ")], [ln[7:] for ln in lines if ln.startswith(b"within ")]


# ---- inputs ----

KINDS = (
    *(GgmlType.F32, GgmlType.F16, GgmlType.BF16, GgmlType.Q4_0, GgmlType.Q4_1, GgmlType.Q5_0, GgmlType.Q5_1),
    *(GgmlType.Q8_0, GgmlType.Q2_K, GgmlType.Q3_K, GgmlType.Q4_K, GgmlType.Q5_K, GgmlType.Q6_K),
    *(GgmlType.IQ2_XXS, GgmlType.MXFP4),
)  # fmt: skip
SCALES = {  # where a block's fp16 scales are
    GgmlType.Q4_0: (0,), GgmlType.Q4_1: (0, 2), GgmlType.Q5_0: (0,), GgmlType.Q5_1: (0, 2), GgmlType.Q8_0: (0,),
    GgmlType.Q2_K: (80, 82), GgmlType.Q3_K: (108,), GgmlType.Q4_K: (0, 2), GgmlType.Q5_K: (0, 2), GgmlType.Q6_K: (208,),
    GgmlType.IQ2_XXS: (0,),
}  # fmt: skip
SIZES = (1.0, 0.03125, 8.0, 1.0, 300.0, 1e-3, 30000.0, 1e-20)
NAMES = (b"matmul", b"attention", b"rope", b"rmsnorm", b"swiglu", b"embed", b"matmul", b"attention", b"rope", b"add")


def _hex(value: float) -> str:
    return struct.pack(">f", value).hex()


def _floats(noise: random.Random, count: int, size: float) -> FloatArray:
    """count numbers below `size` in magnitude, of all lengths of mantissa; a few are zero."""
    bits = np.frombuffer(noise.randbytes(4 * count), "<u4")
    values = ((bits / 2.0**31 - 1) * size).astype("<f4")
    return np.where(bits % 61 == 0, np.float32(0), values)


def _spiked(choices: Choices, noise: random.Random, count: int) -> FloatArray:
    """Activations: of one size, with now and then some that are far larger."""
    values = _floats(noise, count, choices.of(SIZES))
    for _ in range(choices.below(3)):
        values[choices.below(count)] = np.float32((choices.below(256) - 128) * choices.of((1.0, 64.0, 4096.0, 1e-6)))
    return values


def _blocks(noise: random.Random, kind: GgmlType, count: int) -> bytes:
    """count elements of a weight, with scales such as models have."""
    elements, size = type_block(kind)
    if kind is GgmlType.F32:
        return _floats(noise, count, 1.0).tobytes()
    if kind in (GgmlType.F16, GgmlType.BF16):
        return quantize(kind, _floats(noise, count, 1.0).tobytes(), count)
    table = np.frombuffer(bytearray(noise.randbytes(count // elements * size)), "u1").reshape(-1, size)
    if kind is GgmlType.MXFP4:
        table[:, 0] = 118 + table[:, 0] % 5  # the exponent of such a scale
    for at in SCALES.get(kind, ()):
        scales = np.frombuffer(noise.randbytes(len(table)), "u1")
        table[:, at + 1] = scales & 0x80 | 0x18 + (scales & 15)  # 2^-9 .. 2^-5 and its sign
    return table.tobytes()


def make(data: bytes) -> bytes:
    """A tape out of bytes."""
    choices = Choices(data[:32])
    noise = random.Random(data[32:])
    return _MAKERS[choices.of(NAMES)](choices, noise)


def _tape(words: Sequence[object], *parts: FloatArray | bytes) -> bytes:
    head = " ".join(map(str, words)).encode("ascii") + b"\n"
    return head + b"".join([p if isinstance(p, bytes) else p.astype("<f4").tobytes() for p in parts])


def _make_embed(choices: Choices, noise: random.Random) -> bytes:
    kind = choices.of(KINDS)
    width = type_block(kind)[0] * (1 + choices.below(2)) if kind not in KINDS[:2] else 1 + choices.below(70)
    vocab = 1 + choices.below(5)
    ids = [choices.below(vocab) for _ in range(1 + choices.below(6))]
    return _tape(["embed", kind.name, vocab, width, *ids], _blocks(noise, kind, vocab * width))


def _make_pair(name: str, choices: Choices, noise: random.Random) -> bytes:
    rows, width = 1 + choices.below(4), 1 + choices.below(70)
    a, b = _spiked(choices, noise, rows * width), _spiked(choices, noise, rows * width)
    return _tape([name, rows, width], a, b)


def _make_rmsnorm(choices: Choices, noise: random.Random) -> bytes:
    rows, width = 1 + choices.below(4), 1 + choices.below(130)
    eps = choices.of((1e-5, 1e-6, 1e-12, 0.5, 1.0))
    weight = _floats(noise, width, choices.of((2.0, 0.1, 30.0)))
    return _tape(["rmsnorm", rows, width, _hex(eps)], weight, _spiked(choices, noise, rows * width))


def _make_matmul(choices: Choices, noise: random.Random) -> bytes:
    kind = choices.of(KINDS)
    elements, _ = type_block(kind)
    n_in = elements * (1 + choices.below(3 if elements == 256 else 8)) if elements > 1 else 1 + choices.below(200)
    n_out, rows = 1 + choices.below(9 if elements == 256 else 20), 1 + choices.below(6)
    x = _spiked(choices, noise, rows * n_in)
    return _tape(["matmul", kind.name, n_out, n_in, rows], x, _blocks(noise, kind, n_out * n_in))


def _make_rope(choices: Choices, noise: random.Random) -> bytes:
    n_head, pairs = 1 + choices.below(3), 1 + choices.below(33)
    rope_dim = 2 * pairs
    head_dim = rope_dim + choices.of((0, 0, 1, 6, 16))
    base = choices.of((10000.0, 100000.0, 500000.0, 1000000.0, 10.0))
    way = choices.below(3)
    scaling, magnitude = "none", choices.of((1.0, 1.0, 1.25, 0.5))
    if way == 1:
        scaling = f"linear:{_hex(choices.of((2.0, 4.0, 1.0, 3.7)))}"
    elif way == 2:
        numbers = (choices.of((4.0, 40.0, 16.0, 1.5)), choices.of((1.0, 1.0, 0.5, 0.0)), choices.of((32.0, 16.0)), 1.0)
        scaling = ":".join(["yarn", *map(_hex, numbers), str(choices.of((4096, 8192, 256, 32768)))])
    divisors = np.zeros(0, "<f4")
    if choices.once_in(4):
        divisors = np.abs(_floats(noise, pairs, 8.0)) + np.float32(1)
    positions = [(choices.below(256), choices.below(65536), choices.below(256) << 12)[choices.below(3)]
                 for _ in range(1 + choices.below(5))]  # fmt: skip
    words = ["rope", choices.of(("norm", "neox")), n_head, head_dim, rope_dim, _hex(base), _hex(magnitude), scaling]
    x = _floats(noise, len(positions) * n_head * head_dim, choices.of((1.0, 20.0, 0.01)))
    return _tape([*words, len(divisors), *positions], divisors, x)


def _make_attention(choices: Choices, noise: random.Random) -> bytes:
    cache = choices.of(("F32", "F16", "Q8_0"))
    n_head_kv, group = 1 + choices.below(3), 1 + choices.below(3)
    head_dim = 32 * (1 + choices.below(2)) if cache == "Q8_0" else 2 * (1 + choices.below(24))
    rows = 1 + choices.below(10)
    banks = 1 + choices.below(3)
    places, next_of = [], [0] * rows
    for _ in range(rows):
        bank = min(choices.below(banks), rows - 1)
        places.append(f"{bank}:{next_of[bank]}")
        next_of[bank] += 1
    scale = choices.of((head_dim**-0.5, 0.125, 1.0))
    window = choices.of((0, 0, 1, 2, 4, 100))
    words = ["attention", cache, n_head_kv * group, n_head_kv, head_dim, _hex(scale), window, *places]
    sizes = (choices.of((1.0, 4.0, 0.1, 60.0)), choices.of((1.0, 3.0)), choices.of((1.0, 50.0, 1e-3)))
    counts = (rows * n_head_kv * group * head_dim, rows * n_head_kv * head_dim, rows * n_head_kv * head_dim)
    return _tape(words, *[_floats(noise, n, size) for n, size in zip(counts, sizes, strict=True)])


_MAKERS: dict[bytes, Callable[[Choices, random.Random], bytes]] = {
    b"embed": _make_embed,
    b"add": functools.partial(_make_pair, "add"),
    b"swiglu": functools.partial(_make_pair, "swiglu"),
    b"rmsnorm": _make_rmsnorm,
    b"matmul": _make_matmul,
    b"rope": _make_rope,
    b"attention": _make_attention,
}


def soak(rng: random.Random) -> bytes:
    """One operation at a size of real layers: wide rows, many positions."""
    noise = random.Random(rng.randbytes(8))
    way = rng.randrange(4)
    if way == 0:
        kind = rng.choice(KINDS)
        n_in, n_out, rows = 256 * rng.randrange(1, 9), rng.randrange(1, 120), rng.randrange(1, 40)
        x = _floats(noise, rows * n_in, 3.0)
        return _tape(["matmul", kind.name, n_out, n_in, rows], x, _blocks(noise, kind, n_out * n_in))
    if way == 1:
        cache, rows, banks = rng.choice(("F32", "F16", "Q8_0")), rng.randrange(1, 300), rng.randrange(1, 5)
        places, next_of = [], [0] * banks
        for _ in range(rows):
            bank = rng.randrange(min(banks, rows))
            places.append(f"{bank}:{next_of[bank]}")
            next_of[bank] += 1
        words = ["attention", cache, 6, 2, 64, _hex(0.125), rng.choice((0, 0, 64)), *places]
        return _tape(words, *[_floats(noise, rows * n * 64, 2.0) for n in (6, 2, 2)])
    if way == 2:
        positions = [rng.randrange(1 << 17) for _ in range(rng.randrange(1, 60))]
        words = ["rope", rng.choice(("norm", "neox")), 4, 128, 128, _hex(1e6), _hex(1.0), "none", 0, *positions]
        return _tape(words, _floats(noise, len(positions) * 512, 5.0))
    rows, width = rng.randrange(1, 20), rng.randrange(1, 5000)
    if rng.randrange(2):
        weight = _floats(noise, width, 2.0)
        return _tape(["rmsnorm", rows, width, _hex(1e-5)], weight, _floats(noise, rows * width, 9.0))
    return _tape(["swiglu", rows, width], _floats(noise, rows * width, 9.0), _floats(noise, rows * width, 3.0))


def _product() -> tuple[Callable[[], object], bytes]:
    """SmolLM2's widest matrix product, for 16 rows."""
    noise = random.Random(1)
    n_out, n_in, rows = 1536, 576, 16
    x, weight = _floats(noise, rows * n_in, 3.0).tobytes(), _blocks(noise, GgmlType.Q4_1, n_out * n_in)
    data = _tape(["matmul", "Q4_1", n_out, n_in, rows], x, weight)
    return lambda: ops.matmul(GgmlType.Q4_1, weight, n_out, n_in, x, rows), data


COMPONENT = Component(
    name="ops",
    about="embedding, addition, RMSNorm, matrix product, SwiGLU, rotary embedding, attention; the engine in float mode",
    axes=("numerical", "kv", "performance"),
    replacement=plain(engine),
    inputs=Generated(make, least=36, most=48),
    equal=equal,
    soak=soak,
    speed=Speed(_product, ratio=1.0),
    sources=(
        "native/backends/cpu/*",
        "native/ops/*",
        "native/quant/*",
        "native/bridge/*",
        "native/engine/rope.c",
        "native/sources.bzl",
        "host/ds4/sys/ops.py",
        "host/ds4/sys/probe.py",
        "oracles/ops/*",
        "oracles/quants/blocks.*",
        "parity/components/ops.py",
        "parity/choices.py",
        "goldens/ops/*",
    ),
    native=True,
)
