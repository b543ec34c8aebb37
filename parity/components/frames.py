"""`frames`: the messages of the distributed wire, the token chain and the activation widths."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable

from ds4.dist import frames
from ds4.dist.chain import START
from ds4.dist.messages import Hop, Return, Work
from ds4.dist.tapes import by_tape
from ds4.sys.tape import line

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain
from parity.damage import NUMBERS, WIDE, damaged

WORDS = (b"", b"a", b"flash", b"10.0.0.7", b"\0", b"\xff", b"no such layer", b"%- x")
BITS = (16, 8, 32, 0, 16, 8, 32, 7)


def tape(data: bytes) -> bytes:
    """A tape out of bytes: every kind of message, whole, nearly whole or refused, and the number codecs."""
    choices = Choices(data)
    kind = choices.below(16)
    if kind < 7:
        return b"decode\n" + _frame(choices)
    if kind < 12:
        return b"encode\n" + _lines(choices)
    if kind == 12:
        start = choices.of((START, START, 0, 2**64 - 1, choices.of(WIDE)))
        return line("hash", start, *[_number(choices, 4) for _ in range(choices.below(9))])
    if kind < 15:
        extra = bytes(choices.below(3)) if choices.once_in(16) else b""
        bits = choices.of(BITS) if choices.below(16) else choices.of(WIDE)
        return line("pack", bits) + b"".join([_float(choices) for _ in range(choices.left // 3)]) + extra
    return line("unpack", choices.of(BITS)) + bytes([choices.below(256) for _ in range(choices.left)])


def _float(choices: Choices) -> bytes:
    """A float near where rounding to half or to 8 bits changes its mind: three choices."""
    kind, sign = choices.below(128), choices.below(2)
    exponent = 127 + kind % 44 - 26 if kind < 116 else choices.of((0, 255, 0, 255, 1, 254))
    shape = choices.below(256)
    tie = 1 << shape % 23
    mantissa = (0, tie, tie - 1, tie + 1, 0x7FFFFF & ~(tie - 1), 0x7FFFFF, tie | tie << 1, tie | tie << 1 | 1,
                tie | tie << 2, 0x700000 | tie, shape * 0x8081)[shape // 24]  # fmt: skip
    return struct.pack("<I", sign << 31 | exponent << 23 | mantissa & 0x7FFFFF)


def _number(choices: Choices, width: int) -> int:
    """Mostly small, seldom too large for its field."""
    kind = choices.below(24)
    if kind < 20:
        return kind
    numbers = WIDE if width == 8 or kind == 23 else NUMBERS
    return choices.of(numbers)


def _word(choices: Choices) -> bytes:
    return choices.of(WORDS) * choices.of((1, 1, 1, 2, 3))


# ---- bytes ----

_FIXED = {1: "10I", 2: "", 3: "I4Q11I", 4: "2Q6I", 5: "I3Q3I", 6: "I3Q3IQ3I", 7: "QI", 8: "Q2I", 9: "I3Q3IQ3I"}


def _frame(choices: Choices) -> bytes:
    """A frame whose lengths are right, and then perhaps not."""
    if choices.once_in(16):
        return b"DS4D" * choices.below(2) + bytes([choices.below(256) for _ in range(choices.left)])
    number = choices.of((1, 2, 3, 3, 3, 3, 4, 4, 5, 6, 7, 8, 9))
    shape = struct.Struct(">" + _FIXED[number])
    wide = [size == "Q" for size in "".join(_spelled(_FIXED[number]))]
    values = [_number(choices, 8 if is_wide else 4) & (2**64 - 1 if is_wide else 2**32 - 1) for is_wide in wide]
    rest = b""
    tokens = b"".join([struct.pack(">I", choices.of(NUMBERS)) for _ in range(choices.below(4))])
    if number == 1:
        rest = _word(choices)
        values[9] = len(rest)
    elif number == 2:
        rest = _word(choices)
    elif number == 3:
        tokens = tokens or b"\0\0\0\7"
        bits = choices.of(BITS)
        values[9], values[12] = choices.below(17), bits
        hot = bytes(choices.below(4) * (bits // 8 or 4)) if choices.below(8) else bytes(choices.below(8))
        hops, route = _route(choices)
        values[6], values[10], values[11], values[13], values[15] = (
            len(tokens) // 4,
            len(tokens),
            len(hot),
            hops,
            len(route),
        )
        rest = tokens + hot + route
    elif number == 4:
        values[2], values[3], values[7] = choices.of((0, 0, 1)), choices.below(4), choices.of(BITS)
        records = choices.below(3)
        rest = bytes([choices.below(256)]) * (40 * records)
        body = bytes(4 * choices.below(4)) if choices.below(4) else _word(choices)
        values[4], values[5], values[6] = records, len(rest), len(body)
        rest += body
    elif number in (6, 9):
        message = b"" if number == 9 and choices.below(8) else _word(choices)
        values[4], values[9], values[10] = len(tokens) // 4, len(tokens), len(message)
        rest = tokens + message
    elif number in (7, 8):
        rest = _word(choices)
        values[-1] = len(rest)
    body = shape.pack(*values) + rest
    length = choices.of(NUMBERS) if choices.once_in(24) else len(body)
    raw = struct.pack(">4sII", b"DS4D", choices.of(NUMBERS) if choices.once_in(24) else number, length) + body
    inner = [at for at in range(12, 12 + shape.size, 4) if at + 4 <= len(raw)]
    hit = damaged(choices, raw, "big", inner)
    # Damage that changes the length is met by the header alone; mostly the header is put right again.
    if len(hit) != len(raw) and len(hit) >= 12 and choices.below(3):
        hit = hit[:8] + struct.pack(">I", len(hit) - 12) + hit[12:]
    return hit


def _spelled(codes: str) -> list[str]:
    """ "I3Q" as I, QQQ."""
    out, count = [], ""
    for code in codes:
        if code.isdigit():
            count += code
        else:
            out.append(code * int(count or 1))
            count = ""
    return out


def _route(choices: Choices) -> tuple[int, bytes]:
    """(hops, bytes)."""
    hops = choices.below(3)
    if not hops:
        return (0, b"") if choices.below(12) else (choices.below(2), bytes(choices.of((1, 20, 40))))
    out = b""
    for _ in range(hops):
        host = _host(choices, 1)
        length = len(host) if choices.below(12) else choices.of(NUMBERS)
        out += struct.pack(">5I", length, 9000, 22, 42, choices.below(2)) + host
    host = _host(choices, 0)
    length = len(host) if choices.below(12) else choices.of(NUMBERS)
    out += struct.pack(">3I", 1, length, 0) + host + bytes(choices.once_in(12))
    return (hops if choices.below(8) else choices.of(NUMBERS)), out


def _host(choices: Choices, least: int) -> bytes:
    if choices.once_in(24):
        return b"h" * choices.of((1024, 1025))
    host = _word(choices)
    return host if choices.once_in(12) else host.replace(b"\0", b"0") or b"b" * least


# ---- lines ----

_WIDTHS = {
    "hello": (4,) * 9,
    "work": (4, 8, 8, 8, 8, 4, 4, 4, 4, 4, 4),
    "result": (8, 8, 4, 4, 4),
    "snapshot-save": (4, 8, 8, 8, 4, 4, 4),
    "snapshot-begin": (4, 8, 8, 8, 4, 4, 8, 4),
    "snapshot-load": (4, 8, 8, 8, 4, 4, 8, 4),
    "snapshot-chunk": (8,),
    "snapshot-done": (8, 4),
    "failure": (),
}
VERBS = tuple(_WIDTHS)


def _lines(choices: Choices) -> bytes:
    """A message as lines."""
    verb = choices.of(VERBS)
    values = [_number(choices, width) for width in _WIDTHS[verb]]
    tokens = line("tokens", *[_number(choices, 4) for _ in range(choices.below(4))])
    if verb == "work":
        values[8], values[9] = choices.below(17), choices.of(BITS)
        hot = bytes(choices.below(4) * (values[9] // 8 or 4)) if choices.below(4) else _word(choices)
        out = line(verb, *values) + tokens + line("activations", hot)
        hops = choices.below(3)
        for _ in range(hops):
            out += line("hop", _host(choices, 1), *[_number(choices, 4) for _ in range(4)])
        return out + (line("return", _number(choices, 4), _host(choices, 0), _number(choices, 4)) if hops else b"")
    if verb == "result":
        values[2], values[3], values[4] = choices.of((0, 0, 1)), choices.below(4), choices.of(BITS)
        records = [line("telemetry", *[_number(choices, 4) for _ in range(10)]) for _ in range(choices.below(3))]
        body = bytes(4 * choices.below(4)) if choices.below(2) else _word(choices)
        return line(verb, *values) + b"".join(records) + line("payload", body)
    if verb in ("snapshot-begin", "snapshot-load"):
        return line(verb, *values) + tokens + (line("message", _word(choices)) if verb == "snapshot-begin" else b"")
    if verb == "snapshot-save":
        return line(verb, *values)
    word = b"n" * choices.of((127, 128, 65536, 65537)) if choices.once_in(24) else _word(choices)
    return line(verb, *values, word)


def soak(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.4:
        return tape(rng.randbytes(200))
    if kind < 0.6:
        bits = rng.choice((8, 16, 32))
        return line(rng.choice(("pack", "unpack")), bits) + rng.randbytes(4 * rng.randrange(4000))
    if kind < 0.7:
        return line("hash", rng.randrange(2**64), *[rng.randrange(2**32) for _ in range(rng.randrange(3000))])
    raw = bytearray(frames.encode_python(_work(rng, rng.randrange(1, 3000), rng.randrange(8000))))
    if rng.random() < 0.3:
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return b"decode\n" + bytes(raw)


def _work(rng: random.Random, tokens: int, values: int) -> Work:
    hops = tuple([Hop(b"10.0.0.%d" % i, 9000, 10 * i, 10 * i + 9, 0) for i in range(rng.randrange(4))])
    back = Return(1, b"", 0) if hops else None
    ids = tuple([rng.randrange(129280) for _ in range(tokens)])
    return Work(1, 9, 3, START, 5, 0, 0, 21, 7, 16, 0, ids, rng.randbytes(2 * values), hops, back)


def _piece() -> tuple[Callable[[], object], bytes]:
    """A work frame of 512 tokens and 32 KiB of activations read, as a worker does for each piece of a prefill."""
    raw = frames.encode_python(_work(random.Random(5), 512, 1 << 14))
    return lambda: frames.decode_python(raw), b"decode\n" + raw


COMPONENT = Component(
    name="frames",
    about="the messages of the distributed wire, the hash that chains tokens, and activations in 32, 16 or 8 bits",
    axes=("wire", "numerical", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=32, most=128),
    soak=soak,
    speed=Speed(_piece),
    sources=(
        "host/ds4/dist/messages.py",
        "host/ds4/dist/route.py",
        "host/ds4/dist/frames.py",
        "host/ds4/dist/chain.py",
        "host/ds4/dist/activations.py",
        "host/ds4/dist/tapes.py",
        "oracles/frames/*",
        "parity/components/frames.py",
        "parity/choices.py",
        "parity/damage.py",
        "goldens/frames/**",
    ),
)
