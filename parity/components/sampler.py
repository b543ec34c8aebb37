"""`sampler`: one row of logits to a token by the engine's sampler, and the log-probabilities of a step."""

from __future__ import annotations

import math
import random
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from ds4.errors import EngineError
from ds4.sys import ops, tape
from ds4.sys.descriptors import MAX_TOP, SamplerDesc
from ds4.sys.probe import sample_logits

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

_F32, _F64 = re.compile(rb"[0-9a-f]{8}"), re.compile(rb"[0-9a-f]{16}")
_LOGPROB = 2.0**-22
_ORDER = (b"sampler", b"uniform", b"logits", b"bias", b"mask", b"history", b"top")


@dataclass(frozen=True)
class Request:
    """A tape as the engine takes it. allowed: a bool for each id, or None; logits: float32 in the machine's order."""

    desc: SamplerDesc
    uniform: float
    logits: bytes
    allowed: np.ndarray | None = None
    history: tuple[int, ...] = ()
    n_prompt: int = 0
    top: int = 0


# ---- the wire ----


def _hex32(value: float) -> str:
    return struct.pack(">f", value).hex()


def write(r: Request) -> bytes:
    """A request as a tape."""
    d = r.desc
    numbers = (d.temperature, d.top_k, d.top_p, d.min_p, d.repetition_penalty, d.frequency_penalty, d.presence_penalty)
    words = [str(x) if isinstance(x, int) else _hex32(x) for x in numbers]
    logits = np.frombuffer(r.logits, "=f4").astype(">f4").tobytes().hex(" ", 4)
    biases = [f"{token} {_hex32(value)}" for token, value in d.bias]
    mask = "all" if r.allowed is None else r.allowed.astype("u1").astype("S1").tobytes().decode("ascii") or "%-"
    lines = [
        ["sampler", *words], ["uniform", struct.pack(">d", r.uniform).hex()], ["logits", *filter(None, [logits])],
        ["bias", *biases], ["mask", mask], ["history", str(r.n_prompt), *map(str, r.history)], ["top", str(r.top)],
    ]  # fmt: skip
    return "".join([" ".join(words) + "\n" for words in lines]).encode("ascii")


def read(data: bytes) -> Request:
    """A tape as a request. TapeError unless it is one."""
    rows = list(tape.lines(data))
    if tuple(row[0] if row else b"" for row in rows) != _ORDER:
        raise tape.TapeError("not the seven lines of a sampler")
    settings, uniform, logits, bias, mask, history, top = (row[1:] for row in rows)
    if len(settings) != 7 or len(uniform) != 1 or len(mask) != 1 or not history or len(top) != 1 or len(bias) % 2:
        raise tape.TapeError("a line with too few or too many words")
    if not all(map(_F32.fullmatch, logits)) or not _F64.fullmatch(uniform[0]):
        raise tape.TapeError("a number that is no hex of its bits")
    raw = np.frombuffer(bytes.fromhex(b"".join(logits).decode("ascii")), ">f4").astype("=f4")
    temperature, _, top_p, min_p, repetition, frequency, presence = (
        0.0 if i == 1 else _number(word) for i, word in enumerate(settings)
    )
    ids = [_int32(word) for word in bias[::2]]
    tokens = [_int32(word) for word in history]
    wanted = _int32(top[0])
    if sorted(set(ids)) != ids or not 0 <= tokens[0] <= len(tokens) - 1 or not 0 <= wanted <= MAX_TOP:
        raise tape.TapeError("bias ids that do not rise, a prompt past the history, or a top that is out of range")
    if wanted and len(raw) and (np.isposinf(raw).any() or not np.isfinite(raw).any()):
        raise tape.TapeError("log-probabilities of logits whose sum is no number")
    desc = SamplerDesc(
        temperature, top_p, min_p, repetition, frequency, presence, _int32(settings[1]),
        bias=tuple(zip(ids, map(_number, bias[1::2]), strict=True)),
    )  # fmt: skip
    drawn = struct.unpack(">d", bytes.fromhex(uniform[0].decode("ascii")))[0]
    return Request(desc, drawn, raw.tobytes(), _allowed(mask[0], len(raw)), tuple(tokens[1:]), tokens[0], wanted)


def _int32(word: bytes) -> int:
    value = tape.integer(word)
    if not -(2**31) <= value < 2**31:
        raise tape.TapeError(f"past 32 bits: {value}")
    return value


def _number(word: bytes) -> float:
    if not _F32.fullmatch(word):
        raise tape.TapeError(f"no hex of a number: {word[:20]!r}")
    value: float = struct.unpack(">f", bytes.fromhex(word.decode("ascii")))[0]
    return value


def _allowed(word: bytes, count: int) -> np.ndarray | None:
    if word == b"all":
        return None
    word = tape.unescape(word)
    if len(word) != count or word.strip(b"01"):
        raise tape.TapeError("a mask that is not a 0 or 1 for each logit")
    return np.asarray(np.frombuffer(word, "u1") == ord("1"))


# ---- our side ----


def _bits(allowed: np.ndarray | None) -> bytes | None:
    """The words that the engine reads a mask from."""
    if allowed is None:
        return None
    return np.packbits(np.pad(allowed, (0, -len(allowed) % 32)), bitorder="little").tobytes()


def engine(data: bytes) -> bytes:
    """The engine's answer to a tape.

    A step draws with a uniform of its own; its log-probabilities are asked for with a mask that leaves it no choice.
    """
    r = read(data)
    try:
        token = sample_logits(
            r.desc, bytearray(r.logits), r.history, r.n_prompt, mask=_bits(r.allowed), uniform=r.uniform
        )
    except EngineError as error:
        return tape.line("error", error.code)
    out = tape.line("token", token)
    if not r.top:
        return out
    only = np.arange(len(r.logits) // 4) == token
    drawn = ops.sample(SamplerDesc(), r.logits, [0], top=r.top, mask=_bits(only))
    if drawn.token != token:
        return out + tape.line("forced", token, drawn.token)
    top = [f"{token}:{_hex32(value)}" for token, value in drawn.top]
    return out + tape.line("logprob", _hex32(drawn.logprob)) + tape.line("top", *top)


def equal(a: bytes, b: bytes) -> bool:
    """Whether two output tapes say the same: one token in common, log-probabilities within a rounding."""
    if a == b:
        return True
    left, right = ([row.split(b" ") for row in out.split(b"\n")] for out in (a, b))
    if [(row[0], len(row)) for row in left] != [(row[0], len(row)) for row in right] or left[0][0] != b"token":
        return False
    mine, theirs = left[0][1].split(b"~"), right[0][1].split(b"~")
    common = [token for token in mine if token in theirs]
    if not common:
        return False
    for one, other in zip(left[1:], right[1:], strict=True):
        if one[0] == b"logprob":
            pairs = [(one[1].split(b"~")[mine.index(t)], other[1].split(b"~")[theirs.index(t)]) for t in common]
        elif one[0] == b"top":
            if [w[:-8] for w in one[1:]] != [w[:-8] for w in other[1:]]:
                return False
            pairs = [(x[-8:], y[-8:]) for x, y in zip(one[1:], other[1:], strict=True)]
        elif one != other:
            return False
        else:
            pairs = []
        if not all(_near(_number(x), _number(y)) for x, y in pairs):
            return False
    return True


def _near(x: float, y: float) -> bool:
    return x == y or abs(x - y) <= _LOGPROB * max(1.0, min(abs(x), abs(y)))


# ---- inputs ----

TEMPERATURES = (1.0, 0.0, 0.7, 0.5, 2.0, 0.0, 1.5, 0.1, 1e-3, 100.0, 1e-30, 1e30)
PARTS = (1.0, 0.5, 0.9, 0.25, 0.75, 0.95, 0.1, 0.99, 0.0625, 1e-6, 0.999)
FLOORS = (0.0, 0.05, 0.25, 0.5, 0.1, 0.01, 0.9, 1e-5)
REPETITIONS = (1.0, 1.1, 2.0, 1.3, 0.5, 1.0)
PENALTIES = (0.0, 0.5, 0.25, 2.0, -0.5, 0.1, -2.0, 0.7)
UNIFORMS = (0.0, 0.5, 0.25, 0.75, 0.125, 1 - 2.0**-53, 2.0**-53, 1 / 3, 5e-324, 1 - 2.0**-24)
ODD = (math.nan, math.inf, -math.inf, 3e38, -3e38, 1e-45, -0.0)
BAD = (
    *(("temperature", x) for x in (-1.0, math.nan, math.inf)),
    *(("top_p", x) for x in (0.0, 1.0000001, math.nan)),
    *(("min_p", x) for x in (1.0, -1e-9, math.nan)),
    *(("repetition_penalty", x) for x in (0.0, -1.0, math.inf)),
    *(("frequency_penalty", x) for x in (2.0000002, -2.5)),
    *(("presence_penalty", x) for x in (3.0, math.nan)),
    *(("top_k", x) for x in (-1, -(2**31))),
)


def _logits(choices: Choices, noise: random.Random) -> np.ndarray:
    """Few values, so that ranks tie; a grid, so that penalties are exact; any numbers; now and then what is none."""
    count = (1 + choices.below(12)) if not choices.once_in(4) else 1 + choices.below(200)
    way = choices.below(5)
    bits = np.frombuffer(noise.randbytes(4 * count), "<u4")
    if way == 0:
        logits = (bits % (1 + choices.below(4))).astype("=f4")
    elif way == 1:
        logits = ((bits % 512).astype("=f4") - 256) / np.float32(16)
    elif way == 2:
        logits = np.log((bits % 16 + 1).astype("=f4"))  # weights 1..16: sums that land on the parts asked for
    else:
        logits = ((bits / 2.0**31 - 1) * (1, 8, 30, 300)[choices.below(4)]).astype("=f4")
    if choices.once_in(8):
        for _ in range(1 + choices.below(4)):
            logits[choices.below(count)] = choices.of(ODD)
    return logits


def make(data: bytes) -> bytes:
    """A tape out of bytes."""
    choices = Choices(data[:36])
    noise = random.Random(data[36:])
    logits = _logits(choices, noise)
    n = len(logits)
    greedy = choices.below(8) == 7
    desc = SamplerDesc(
        temperature=0.0 if greedy else choices.of(TEMPERATURES),
        top_k=choices.of((0, 0, 1 + choices.below(n + 2), 40)),
        top_p=choices.of(PARTS) if choices.below(2) else 1.0,
        min_p=choices.of(FLOORS) if choices.below(3) == 2 else 0.0,
        repetition_penalty=choices.of(REPETITIONS),
        frequency_penalty=choices.of(PENALTIES) if choices.below(2) else 0.0,
        presence_penalty=choices.of(PENALTIES) if choices.below(2) else 0.0,
    )
    way = choices.below(3)
    uniform = (choices.of(UNIFORMS), choices.below(n + 1) / (n + 1), noise.random())[way]
    bias = {choices.below(n): ((choices.below(64) - 32) / 4, 100.0, -100.0, -math.inf)[choices.below(4)]
            for _ in range(choices.below(3))}  # fmt: skip
    desc = replace(desc, bias=tuple(sorted(bias.items())))
    allowed = None
    if choices.below(4) == 3:
        allowed = np.frombuffer(noise.randbytes(n), "u1") < choices.of((128, 24, 230, 0))
    history = tuple(choices.below(n + 2) - 1 if i % 7 == 6 else choices.below(n) for i in range(choices.below(9)))
    top = choices.of((0, 0, 0, 0, 0, 0, 3, MAX_TOP))  # dear: a step is run for it
    if np.isposinf(logits).any() or not np.isfinite(logits).any():
        top = 0
    n_prompt = choices.below(len(history) + 1)
    if choices.once_in(24):
        desc, uniform, logits = _spoilt(choices, desc, uniform, logits)
        allowed = None
    elif history and n > 1 and choices.once_in(4):
        desc, allowed = _tied(choices, desc, logits, history, n_prompt)
    return write(Request(desc, uniform, logits.tobytes(), allowed, history, n_prompt, top))


def _tied(
    choices: Choices, desc: SamplerDesc, logits: np.ndarray, history: tuple[int, ...], n_prompt: int
) -> tuple[SamplerDesc, np.ndarray]:
    """A greedy choice between an id of the history and one next to it, whose logit is what the penalties leave of the
    first, or its neighbour: how each of them is rounded decides it."""
    if choices.below(2):  # penalties whose sum and product are rounded
        desc = replace(desc, frequency_penalty=choices.of((0.1, 0.7, -0.3)), presence_penalty=choices.of((0.6, 0.2)))
    one = history[-1] % len(logits)
    other = (one + choices.of((1, len(logits) - 1))) % len(logits)
    f32, times = np.float32, history[n_prompt:].count(one)
    with np.errstate(over="ignore", invalid="ignore"):
        left = logits[one] + f32(dict(desc.bias).get(one, 0.0))
        if one in history:
            repetition = f32(desc.repetition_penalty)
            left = left / repetition if left > 0 else left * repetition
        if times:
            left = left - (f32(times) * f32(desc.frequency_penalty) + f32(desc.presence_penalty))
    if np.isfinite(left):
        logits[other] = choices.of((left, np.nextafter(left, f32(9e9)), np.nextafter(left, f32(-9e9))))
    allowed = np.zeros(len(logits), bool)
    allowed[[one, other]] = True
    return replace(desc, temperature=0.0), allowed


def _spoilt(
    choices: Choices, desc: SamplerDesc, uniform: float, logits: np.ndarray
) -> tuple[SamplerDesc, float, np.ndarray]:
    """The same with something that the engine must refuse."""
    way = choices.below(6)
    if way == 0:
        return desc, choices.of((1.0, -5e-324, math.nan, math.inf, -1.0)), logits
    if way == 1:
        return desc, uniform, logits[:0]
    if way == 2:
        bad = choices.of(((len(logits), 1.0), (2**31 - 1, 1.0), (0, math.nan)))
        return replace(desc, bias=(bad,) if choices.below(2) else ((-1, 0.5), bad)), uniform, logits
    field, value = choices.of(BAD)
    return replace(desc, **{field: value}), uniform, logits  # type: ignore[arg-type]


def _row(rng: random.Random, count: int) -> Request:
    """A request over a whole vocabulary, with what a chat sends."""
    bits = np.frombuffer(rng.randbytes(8 * count), "<u8").astype("f8") / 2.0**64
    logits = (-4 * np.log(-np.log(np.clip(bits, 1e-12, 1 - 1e-12)))).astype("=f4")
    history = tuple(rng.randrange(count) for _ in range(rng.randrange(400)))
    desc = SamplerDesc(
        temperature=rng.choice((0.0, 0.2, 0.7, 1.0, 1.5)), top_k=rng.choice((0, 20, 40, 1000)),
        top_p=rng.choice((1.0, 0.95, 0.9)), min_p=rng.choice((0.0, 0.05)), repetition_penalty=rng.choice((1.0, 1.1)),
        frequency_penalty=rng.choice((0.0, 0.3)), presence_penalty=rng.choice((0.0, 0.1)),
        bias=((rng.randrange(count), rng.uniform(-5, 5)),),
    )  # fmt: skip
    return Request(desc, rng.random(), logits.tobytes(), None, history, rng.randrange(len(history) + 1), 20)


def soak(rng: random.Random) -> bytes:
    return write(_row(rng, rng.randrange(2000, 20000)))


def _draw() -> tuple[Callable[[], object], bytes]:
    """SmolLM2's vocabulary at the settings that its authors name."""
    made = _row(random.Random(1), 49152)
    desc = SamplerDesc(temperature=0.2, top_p=0.9, top_k=40)
    request = replace(made, desc=desc, history=(), n_prompt=0, top=0)
    store = bytearray(request.logits)  # without penalties nothing is changed in it
    empty: Sequence[int] = ()
    return lambda: sample_logits(desc, store, empty, 0, uniform=request.uniform), write(request)


COMPONENT = Component(
    name="sampler",
    about="one row of logits to a token, given the uniform: bias, mask, penalties, filters, draw; log-probabilities",
    axes=("numerical", "token", "performance"),
    replacement=plain(engine),
    inputs=Generated(make, least=40, most=56),
    equal=equal,
    soak=soak,
    speed=Speed(_draw, ratio=1.0),
    sources=(
        "native/sampling/*",
        "native/backends/cpu/*",
        "native/bridge/*",
        "native/sources.bzl",
        "host/ds4/sys/probe.py",
        "host/ds4/sys/ops.py",
        "oracles/sampler/*",
        "parity/components/sampler.py",
        "parity/choices.py",
        "goldens/sampler/*",
    ),
    native=True,
)
