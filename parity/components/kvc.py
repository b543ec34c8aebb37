"""`kvc`: the record that keeps a session on disk, read and written."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Mapping
from typing import Any

from ds4.kv import record
from ds4.kv.extensions import Extensions, Tool
from ds4.kv.record import Header, Record
from ds4.kv.tapes import Encode, by_tape, write_input

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain
from parity.damage import NUMBERS, WIDE, damaged

WORDS = (b"", b"a", b"Hi %\n", b"\0", b"call_1", b"\xff\xfe", b"<tool a=1>", b"caf\xc3\xa9 ")
MARKS = (2, 4, 16, 32)
LONG = 64


def tape(data: bytes) -> bytes:
    """A tape out of bytes: records with every section, whole, nearly whole or refused, in both directions."""
    choices = Choices(data)
    if choices.once_in(24):
        return b"decode\n" + bytes([choices.below(256) for _ in range(choices.left)])
    return _encode(choices) if choices.below(3) == 0 else b"decode\n" + _file(choices)


def _word(choices: Choices) -> bytes:
    return choices.of(WORDS) * choices.of((1, 1, 1, 2, 5))


def _filled(choices: Choices) -> bytes:
    """A word fit for a tool map, mostly."""
    word = _word(choices)
    return word if choices.once_in(24) else word.replace(b"\0", b"0") or b"x"


def _trailer(choices: Choices) -> tuple[int, bytes]:
    """Extension bits and their sections."""
    bits, out = 0, b""
    if choices.below(3) == 0:
        title = _word(choices)
        bits, out = 8, struct.pack("<I", len(title)) + title
    if choices.below(2):
        tools = [(_filled(choices), _filled(choices)) for _ in range(1 + choices.below(3))]
        count = len(tools) if choices.below(12) else choices.of((0, 400_000, 400_001, len(tools) + 1, 2**32 - 1))
        bits |= 1
        out += b"KTM\x01" + struct.pack("<I", count)
        for at, (key, body) in enumerate(tools):
            lengths = [len(key), len(body)]
            if choices.once_in(12):
                lengths[choices.below(2)] = choices.of(NUMBERS)
            if choices.once_in(24) and at:
                key, lengths[0] = b"k" * 256, 256
            out += struct.pack("<II", *lengths) + key + body
    if choices.below(2):
        bits |= 64
        out += b"KVI\x01" + bytes([choices.below(256)]) * 32 + b"KVI!"
    return bits, out


def _file(choices: Choices) -> bytes:
    text, body = _word(choices), _word(choices)
    bits, trailer = _trailer(choices)
    lie = choices.once_in(10)
    bits = bits ^ choices.of((1, 8, 64, 128)) if lie else bits | choices.of((0, *MARKS, sum(MARKS)))
    quant, reason = choices.of((4, 4, 4, 2)), choices.of((0, 1, 5, 9, 10, 255))
    model, tokens, hits, ctx = choices.below(256), 1 + choices.below(256), choices.of(NUMBERS), choices.of(NUMBERS)
    created, used = choices.of(WIDE), choices.of(WIDE)
    head = struct.pack(
        "<3sBBBBBIIIB3sQQQI", b"KVC", 1, quant, reason, bits, model, tokens, hits, ctx, 2, b"\0\0\0", created, used,
        len(body), len(text),
    )  # fmt: skip
    raw = head + text + body + trailer
    fields = (0, 3, 4, 7, 8, 17, 20, 40, 44, 48, len(head) + len(text) + len(body), max(0, len(raw) - 40), len(raw) - 4)
    return damaged(choices, raw, "little", [at for at in fields if at + 4 <= len(raw)])


def _encode(choices: Choices) -> bytes:
    values = [
        choices.of((2, 4)),
        choices.below(10),
        choices.of((0, *MARKS, sum(MARKS))),
        choices.below(256),
        1 + choices.below(9),
        *(choices.of(NUMBERS) for _ in range(2)),
        *(choices.of(WIDE) for _ in range(2)),
    ]
    if choices.once_in(3):
        values[choices.below(len(values))] = choices.of(WIDE)
    tools = []
    for _ in range(choices.below(3)):
        tool = Tool(_filled(choices), _filled(choices))
        if choices.once_in(12):
            tool = choices.of((Tool(b"", b"x"), Tool(b"x", b""), Tool(b"i" * 256, b"x"), Tool(b"i" * 257, b"x")))
        tools.append(tool)
    title = _word(choices) if choices.below(3) == 0 else None
    if title and choices.once_in(32):
        title = b"t" * choices.of((65536, 65537))
    identity = bytes(choices.of((32, 32, 32, 31, 0))) if choices.below(2) else None
    return write_input(
        Encode(Record(Header(*values), _word(choices), _word(choices), Extensions(title, tuple(tools), identity)))
    )


def _large(rng: random.Random, text: int, body: int, tools: int) -> Record:
    header = Header(4, rng.randrange(10), 0, 0, 4096, 1, 8192, 1_700_000_000, 1_700_000_600)
    calls = tuple([Tool(b"call_%d" % i, b"<invoke>%d</invoke>" % rng.randrange(2**60)) for i in range(tools)])
    return Record(header, rng.randbytes(text), rng.randbytes(body), Extensions(None, calls, rng.randbytes(32)))


def soak(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return tape(rng.randbytes(96))
    given = _large(rng, rng.randrange(20_000), rng.randrange(40_000), rng.randrange(300))
    if rng.random() < 0.5:
        return write_input(Encode(given))
    raw = bytearray(record.encode_python(given))
    if rng.random() < 0.3:
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    return b"decode\n" + bytes(raw)


def _restore() -> tuple[Callable[[], object], bytes]:
    """A record of 16 KiB of text, 256 KiB of payload and eight tool calls read, as a lookup that hits does."""
    raw = record.encode_python(_large(random.Random(3), 1 << 14, 1 << 18, 8))
    return lambda: record.decode_python(raw).name, b"decode\n" + raw


def made(case: Mapping[str, Any]) -> bytes:
    """The tape of a golden case that is too large to store: {"record": {"text": bytes, "payload": bytes, "tools": [[id
    bytes, body bytes, how many]], "total": bytes of the file, "cut": bytes off its end, or on if negative}}."""
    given = case["record"]
    tools, cut = given["tools"], given["cut"]
    head = struct.pack(
        "<3sBBBBBIIIB3sQQQI", b"KVC", 1, 4, 2, 1 if tools else 0, 0, 3, 1, 4096, 2, b"\0\0\0", 1_700_000_000,
        1_700_000_600, given["payload"], given["text"],
    )  # fmt: skip
    entries = [(struct.pack("<II", a, b) + b"i" * a + b"b" * b) * times for a, b, times in tools]
    count = sum(times for _, _, times in tools)
    trailer = b"KTM\x01" + struct.pack("<I", count) + b"".join(entries) if tools else b""
    raw = b"".join((b"decode\n", head, b"t" * given["text"], bytes(given["payload"]), trailer, bytes(max(0, -cut))))
    whole = len(raw) - len(b"decode\n") - max(0, -cut)
    if whole != given["total"]:
        raise ValueError(f"a record of {whole} bytes, not of {given['total']}")
    return raw[: len(raw) - max(0, cut)]


COMPONENT = Component(
    name="kvc",
    about="the record that keeps a session on disk: header, text, payload, title, tool map, identity",
    axes=("kv", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=32, most=96),
    soak=soak,
    speed=Speed(_restore),
    sources=(
        "host/ds4/kv/record.py",
        "host/ds4/kv/extensions.py",
        "host/ds4/kv/tapes.py",
        "oracles/kvc/*",
        "parity/components/kvc.py",
        "parity/choices.py",
        "parity/damage.py",
        "goldens/kvc/**",
    ),
    resolve=made,
)
