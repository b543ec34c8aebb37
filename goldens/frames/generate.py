"""Writes worked/*.jsonl: frames put together integer by integer from the format's table, and lines that tell the same.

    PYTHONPATH=host python goldens/frames/generate.py

Nothing here calls the codec.
"""

from __future__ import annotations

import base64
import json
import pathlib
import struct
from collections.abc import Sequence

from ds4.sys.tape import line

HERE = pathlib.Path(__file__).parent / "worked"
Case = dict[str, str]
START = 1469598103934665603


def u32(*values: int) -> bytes:
    return b"".join(value.to_bytes(4, "big") for value in values)


def u64(value: int) -> bytes:
    """Two u32, the high half first."""
    return u32(value >> 32, value % 2**32)


def frame(number: int, body: bytes, *, length: int | None = None, magic: int = 0x44533444) -> bytes:
    return u32(magic, number, len(body) if length is None else length) + body


def binary(name: str, command: bytes, raw: bytes, expected: bytes) -> Case:
    return {
        "case": name,
        "input_b64": base64.b64encode(command + raw).decode("ascii"),
        "expected": expected.decode("ascii"),
    }


def text(name: str, tape: bytes, expected: bytes) -> Case:
    return {"case": name, "input": tape.decode("ascii"), "expected": expected.decode("ascii")}


def decode(name: str, raw: bytes, expected: bytes) -> Case:
    return binary(name, b"decode\n", raw, expected)


def error(code: str, subject: str) -> bytes:
    return line("error", f"frame_{code}", subject)


# ---- bodies: each with the lines that tell the same ----


def hello(
    name: bytes = b"flash", *, length: int | None = None, values: Sequence[int] = (1, 2, 0, 21, 0, 1, 32768, 43, 8080)
) -> bytes:
    return u32(*values, len(name) if length is None else length) + name


def hop(
    host: bytes = b"10.0.0.2",
    port: int = 9000,
    start: int = 22,
    end: int = 42,
    flags: int = 1,
    length: int | None = None,
) -> bytes:
    return u32(len(host) if length is None else length, port, start, end, flags) + host


def back(host: bytes = b"", kind: int = 1, port: int = 0, length: int | None = None) -> bytes:
    return u32(kind, len(host) if length is None else length, port) + host


def work(
    tokens: Sequence[int] = (7, 8),
    activations: bytes = b"\0\x3c\0\xc0",
    route: bytes = b"",
    hops: int = 0,
    *,
    flags: int = 7,
    bits: int = 16,
    count: int | None = None,
    token_bytes: int | None = None,
    activation_bytes: int | None = None,
    route_bytes: int | None = None,
) -> bytes:
    return b"".join(
        (
            u32(1),
            u64(9),
            u64(2**32 + 3),
            u64(START),
            u64(2**64 - 2),
            u32(
                100,
                len(tokens) if count is None else count,
                0,
                21,
                flags,
                4 * len(tokens) if token_bytes is None else token_bytes,
                len(activations) if activation_bytes is None else activation_bytes,
                bits,
                hops,
                4,
                len(route) if route_bytes is None else route_bytes,
            ),
            u32(*tokens),
            activations,
            route,
        )
    )


def work_lines(
    tokens: Sequence[int] = (7, 8),
    activations: bytes = b"\0\x3c\0\xc0",
    route: bytes = b"",
    *,
    flags: int = 7,
    bits: int = 16,
) -> bytes:
    return (
        line("work", 1, 9, 2**32 + 3, START, 2**64 - 2, 100, 0, 21, flags, bits, 4)
        + line("tokens", *tokens)
        + line("activations", activations)
        + route
    )


TELEMETRY = (0, 21, 0, 100, 2, 1500, 30, 7, 8, 2**32 - 1)


def result(
    payload: bytes = bytes(8),
    records: int = 0,
    *,
    status: int = 0,
    kind: int = 1,
    bits: int = 16,
    count: int | None = None,
    telemetry_bytes: int | None = None,
    payload_bytes: int | None = None,
) -> bytes:
    return b"".join(
        (
            u64(2**32 + 3),
            u64(2**64 - 2),
            u32(
                status,
                kind,
                records if count is None else count,
                40 * records if telemetry_bytes is None else telemetry_bytes,
                len(payload) if payload_bytes is None else payload_bytes,
                bits,
            ),
            u32(*TELEMETRY) * records,
            payload,
        )
    )


def result_lines(
    payload: bytes = bytes(8), records: int = 0, *, status: int = 0, kind: int = 1, bits: int = 16
) -> bytes:
    head = line("result", 2**32 + 3, 2**64 - 2, status, kind, bits)
    return head + line("telemetry", *TELEMETRY) * records + line("payload", payload)


SAVE = u32(1) + u64(9) + u64(2**32 + 3) + u64(2**64 - 2) + u32(4096, 22, 42)


def start(
    tokens: Sequence[int] = (7, 8, 9),
    message: bytes = b"",
    *,
    status: int = 0,
    count: int | None = None,
    token_bytes: int | None = None,
    message_bytes: int | None = None,
) -> bytes:
    return b"".join(
        (
            u32(1),
            u64(9),
            u64(2**32 + 3),
            u64(2**64 - 2),
            u32(len(tokens) if count is None else count, 22, 42),
            u64(2**33 + 1),
            u32(
                status,
                4 * len(tokens) if token_bytes is None else token_bytes,
                len(message) if message_bytes is None else message_bytes,
            ),
            u32(*tokens),
            message,
        )
    )


def start_lines(
    verb: str, tokens: Sequence[int] = (7, 8, 9), message: bytes | None = None, *, status: int = 0
) -> bytes:
    head = line(verb, 1, 9, 2**32 + 3, 2**64 - 2, 22, 42, 2**33 + 1, status) + line("tokens", *tokens)
    return head if message is None else head + line("message", message)


def chunk(data: bytes, length: int | None = None) -> bytes:
    return u64(2**32 + 3) + u32(len(data) if length is None else length) + data


def done(message: bytes = b"", status: int = 0, length: int | None = None) -> bytes:
    return u64(2**32 + 3) + u32(status, len(message) if length is None else length) + message


EVERY = (
    (1, hello()),
    (2, b"no such layer"),
    (3, work(route=hop() + back(), hops=1)),
    (4, result(records=1)),
    (5, SAVE),
    (6, start(message=b"why")),
    (7, chunk(b"\0\1\2")),
    (8, done(b"oh")),
    (9, start()),
)


def messages() -> list[Case]:
    out = []

    def both(name: str, number: int, body: bytes, lines: bytes) -> None:
        out.append(decode(f"{name}, read", frame(number, body), lines))
        out.append(text(f"{name}, written", b"encode\n" + lines, line("bytes", frame(number, body))))

    numbers = (1, 2, 0, 21, 0, 1, 32768, 43, 8080)
    both("hello", 1, hello(), line("hello", *numbers, b"flash"))
    both("hello without a name", 1, hello(b""), line("hello", *numbers, b""))
    both("hello with the longest name", 1, hello(b"\xff" * 127), line("hello", *numbers, b"\xff" * 127))
    most = (2**32 - 1,) * 9
    both("hello of the largest numbers", 1, hello(values=most), line("hello", *most, b"flash"))
    apart = tuple(0x01020304 * (i + 1) for i in range(9))
    both("hello of distinct bytes", 1, hello(values=apart), line("hello", *apart, b"flash"))
    both("failure", 2, b"no such layer", line("failure", b"no such layer"))
    both("failure without words", 2, b"", line("failure", b""))
    both("failure of every byte", 2, bytes(range(256)), line("failure", bytes(range(256))))
    both("the longest failure", 2, b"x" * 65536, line("failure", b"x" * 65536))

    both("work without activations or route", 3, work(activations=b""), work_lines(activations=b""))
    both("work of one token", 3, work([2**32 - 1]), work_lines([2**32 - 1]))
    for bits, data in (
        (8, b"\x38\x77\xff"),
        (16, b"\0\x3c"),
        (32, struct.pack("<2f", 1, -2)),
        (0, struct.pack("<f", 1)),
    ):
        both(f"work of {bits} bits", 3, work(activations=data, bits=bits), work_lines(activations=data, bits=bits))
    for flags in (0, 1, 2, 4, 8, 15):
        both(f"work with flags {flags}", 3, work(flags=flags), work_lines(flags=flags))
    upstream = line("return", 1, b"", 0)
    near = line("hop", b"10.0.0.2", 9000, 22, 42, 1)
    both("work with a hop", 3, work(route=hop() + back(), hops=1), work_lines(route=near + upstream))
    far = hop(b"h" * 1024, 2**32 - 1, 0, 2**32 - 1, 2**32 - 1)
    far_line = line("hop", b"h" * 1024, 2**32 - 1, 0, 2**32 - 1, 2**32 - 1)
    both(
        "work with hops and a return address",
        3,
        work(route=hop(b"a") + far + back(b"r" * 1024, 7, 8), hops=2),
        work_lines(route=line("hop", b"a", 9000, 22, 42, 1) + far_line + line("return", 7, b"r" * 1024, 8)),
    )

    for kind in (0, 1, 2):
        both(f"result of kind {kind}", 4, result(kind=kind), result_lines(kind=kind))
    both("an acknowledgement", 4, result(b"", kind=0), result_lines(b"", kind=0))
    both("a result with telemetry", 4, result(records=2), result_lines(records=2))
    both("a result of 8 bits", 4, result(b"abc", bits=8), result_lines(b"abc", bits=8))
    both("a result of 32 bits", 4, result(bytes(12), kind=2, bits=32), result_lines(bytes(12), kind=2, bits=32))
    both("a result of no bits is of 32", 4, result(bytes(12), bits=0), result_lines(bytes(12), bits=0))
    both("a failed result is a message", 4, result(b"odd", status=1, bits=32), result_lines(b"odd", status=1, bits=32))
    both("an acknowledgement of odd bytes", 4, result(b"odd", kind=0, bits=32), result_lines(b"odd", kind=0, bits=32))

    both("a save request", 5, SAVE, line("snapshot-save", 1, 9, 2**32 + 3, 2**64 - 2, 4096, 22, 42))
    both("a snapshot's begin", 6, start(message=b""), start_lines("snapshot-begin", message=b""))
    both(
        "a snapshot refused",
        6,
        start([], b"no\0session", status=1),
        start_lines("snapshot-begin", [], b"no\0session", status=1),
    )
    both("a snapshot's begin with a message", 6, start(message=b"why"), start_lines("snapshot-begin", message=b"why"))
    both("a snapshot to load", 9, start(), start_lines("snapshot-load"))
    both("a snapshot to load of no tokens", 9, start([], status=5), start_lines("snapshot-load", [], status=5))
    both("a chunk", 7, chunk(bytes(range(256))), line("snapshot-chunk", 2**32 + 3, bytes(range(256))))
    both("an empty chunk", 7, chunk(b""), line("snapshot-chunk", 2**32 + 3, b""))
    both("done", 8, done(), line("snapshot-done", 2**32 + 3, 0, b""))
    both("done with the longest message", 8, done(b"m" * 65536, 9), line("snapshot-done", 2**32 + 3, 9, b"m" * 65536))
    spelled = bytes.fromhex(
        "44533444 00000001 0000002d 00000001 00000002 00000000 00000015 00000000 00000001 00008000 0000002b 00001f90"
        "00000005 666c6173 68"
    )
    out.append(
        decode("hello, spelled out in hex", spelled, line("hello", 1, 2, 0, 21, 0, 1, 32768, 43, 8080, b"flash"))
    )
    return out


def faults() -> list[Case]:
    out = []

    def bad(name: str, raw: bytes, code: str, subject: str) -> None:
        out.append(decode(name, raw, error(code, subject)))

    for number, body in EVERY:
        raw = frame(number, body)
        for cut in range(len(raw)):
            bad(f"type {number}, cut after {cut} bytes", raw[:cut], "truncated", "header" if cut < 12 else "body")
        bad(f"type {number}, a byte too many", raw + b"\0", "trailing", "body")
    limits = {
        1: (40, 167),
        2: (0, 65536),
        3: (80, 2**30),
        4: (40, 2**30),
        5: (40, 40),
        6: (60, 2**27),
        7: (12, 2**23 + 12),
        8: (16, 65552),
        9: (60, 2**27),
    }
    for number, (least, most) in limits.items():
        if least:
            bad(f"type {number}, a body below the least", frame(number, bytes(least - 1)), "length", "body")
        for length in (most + 1, 2**32 - 1):
            bad(f"type {number}, a body of {length}", frame(number, b"", length=length), "length", "body")
        bad(
            f"type {number}, a body of the most that is not there", frame(number, b"", length=most), "truncated", "body"
        )
    for number in (0, 10, 2**24, 2**32 - 1):
        bad(f"type {number}", frame(number, bytes(60)), "type", "type")
    bad("another magic", frame(1, hello(), magic=0x44533445), "magic", "magic")
    bad("the magic the other way round", frame(1, hello(), magic=0x44345344), "magic", "magic")
    bad("magic before type", frame(0, b"", magic=1), "magic", "magic")
    bad("type before length", frame(10, b"", length=2**32 - 1), "type", "type")

    bad("hello, a name longer than it says", frame(1, hello(length=4)), "sizes", "name")
    bad("hello, a name shorter than it says", frame(1, hello(length=6)), "sizes", "name")
    bad("hello, a name of 2^32-1", frame(1, hello(length=2**32 - 1)), "sizes", "name")
    bad("hello, a zero byte in the name", frame(1, hello(b"fl\0sh")), "name", "name")
    bad("hello, sizes before the name", frame(1, hello(b"fl\0sh", length=4)), "sizes", "name")

    for flags in (16, 2**31, 2**32 - 1):
        bad(f"work, flags {flags}", frame(3, work(flags=flags)), "flags", "flags")
    for bits in (1, 4, 7, 9, 64, 2**32 - 1):
        bad(f"work, {bits} bits", frame(3, work(bits=bits)), "bits", "activation_bits")
    bad("work, no tokens", frame(3, work([])), "tokens", "tokens")
    bad("work, no tokens but bytes", frame(3, work([], token_bytes=4)), "tokens", "tokens")
    bad("work, a token fewer than bytes", frame(3, work(count=1)), "tokens", "tokens")
    bad("work, a token more than bytes", frame(3, work(count=3)), "tokens", "tokens")
    bad("work, token bytes overflow 32 bits", frame(3, work(count=2**30 + 2)), "tokens", "tokens")
    bad("work, more tokens than the body", frame(3, work(count=2**29, token_bytes=2**31)), "sizes", "body")
    bad("work, activations too few", frame(3, work(activation_bytes=6)), "sizes", "body")
    bad(
        "work, lengths that overflow 32 bits",
        frame(3, work(activation_bytes=2**32 - 4, route_bytes=8)),
        "sizes",
        "body",
    )
    bad("work, a route too long", frame(3, work(route_bytes=1)), "sizes", "body")
    for bits, data in ((16, b"abc"), (32, b"abcdef"), (0, b"ab")):
        bad(
            f"work, {len(data)} bytes of {bits} bits",
            frame(3, work(activations=data, bits=bits)),
            "activations",
            "activations",
        )

    def routed(name: str, route: bytes, hops: int, code: str) -> None:
        bad(f"work, {name}", frame(3, work(route=route, hops=hops)), code, "route")

    routed("a route without hops", back(), 0, "trailing")
    routed("hops without a route", b"", 1, "truncated")
    routed("more hops than bytes", hop() + back(), 2, "truncated")
    routed("2^32-1 hops", hop() + back(), 2**32 - 1, "truncated")
    routed("a hop of an empty host and nothing else", hop(b""), 1, "truncated")
    routed("two hops of empty hosts and nothing else", hop(b"") * 2, 2, "truncated")
    routed("half a hop", hop()[:21], 1, "truncated")
    routed("a host of no bytes", hop(b"") + back() + b"x", 1, "host")
    routed("a host of 1025 bytes", hop(b"h" * 1025) + back(), 1, "host")
    routed("a host of 2^32-1 bytes", hop(length=2**32 - 1) + back(), 1, "host")
    routed("a host that runs out", hop(length=200) + back(), 1, "truncated")
    routed("a zero byte in a host", hop(b"a\0b") + back(), 1, "host")
    routed("a second hop that is cut", hop() + hop()[:19] + bytes(3), 2, "truncated")
    routed("no return address", hop(), 1, "truncated")
    routed("half a return address", hop() + back()[:11], 1, "truncated")
    routed("a return host of 1025 bytes", hop() + back(b"r" * 1025), 1, "host")
    routed("a return host that runs out", hop() + back(b"rr", length=3), 1, "truncated")
    routed("a zero byte in the return host", hop() + back(b"\0"), 1, "host")
    routed("a byte behind the return address", hop() + back() + b"\0", 1, "trailing")
    bad("work, flags before bits", frame(3, work(flags=16, bits=5)), "flags", "flags")
    bad("work, bits before tokens", frame(3, work([], bits=5)), "bits", "activation_bits")
    bad("work, tokens before sizes", frame(3, work(count=3, route_bytes=9)), "tokens", "tokens")
    bad("work, sizes before activations", frame(3, work(activations=b"abc", route_bytes=9)), "sizes", "body")
    bad("work, activations before route", frame(3, work(activations=b"abc", hops=9)), "activations", "activations")

    for kind in (3, 2**32 - 1):
        bad(f"result, kind {kind}", frame(4, result(kind=kind)), "kind", "kind")
    for bits in (1, 24, 2**32 - 1):
        bad(f"result, {bits} bits", frame(4, result(bits=bits)), "bits", "payload_bits")
    bad(
        "result, telemetry of a wrong length", frame(4, result(records=1, telemetry_bytes=44)), "telemetry", "telemetry"
    )
    bad(
        "result, 40 x count overflows 32 bits",
        frame(4, result(count=2**29, telemetry_bytes=0)),
        "telemetry",
        "telemetry",
    )
    bad("result, more telemetry than the body", frame(4, result(count=3, telemetry_bytes=120)), "sizes", "body")
    bad("result, a payload too short", frame(4, result(payload_bytes=9)), "sizes", "body")
    bad(
        "result, lengths that overflow 32 bits",
        frame(4, result(count=107374182, telemetry_bytes=4294967280, payload_bytes=24)),
        "sizes",
        "body",
    )
    for bits, data in ((16, b"abc"), (32, b"ab"), (0, b"abcde")):
        bad(f"result, {len(data)} bytes of {bits} bits", frame(4, result(data, bits=bits)), "activations", "payload")
    bad("result, kind before bits", frame(4, result(kind=3, bits=1)), "kind", "kind")
    bad("result, bits before telemetry", frame(4, result(bits=1, count=7)), "bits", "payload_bits")
    bad("result, telemetry before sizes", frame(4, result(count=7, payload_bytes=1)), "telemetry", "telemetry")
    bad("result, sizes before the payload", frame(4, result(b"abc", payload_bytes=2)), "sizes", "body")

    for number, verb in ((6, "begin"), (9, "load")):
        bad(f"{verb}, a token fewer than bytes", frame(number, start(count=2)), "tokens", "tokens")
        bad(f"{verb}, a token more than bytes", frame(number, start(count=4)), "tokens", "tokens")
        bad(f"{verb}, token bytes overflow 32 bits", frame(number, start(count=2**30 + 3)), "tokens", "tokens")
        bad(f"{verb}, more tokens than the body", frame(number, start(count=5, token_bytes=20)), "sizes", "body")
    bad("begin, a message too long", frame(6, start(message=b"why", message_bytes=4)), "sizes", "body")
    bad("begin, a message too short", frame(6, start(message=b"why", message_bytes=2)), "sizes", "body")
    bad("begin, lengths that overflow 32 bits", frame(6, start(message_bytes=2**32 - 1)), "sizes", "body")
    bad("load, a message", frame(9, start(message=b"why")), "message", "message")
    bad("load, bytes without a message", frame(9, start(message=b"why", message_bytes=0)), "sizes", "body")
    bad("load, tokens before the message", frame(9, start(message=b"why", count=4)), "tokens", "tokens")
    bad("load, the message before sizes", frame(9, start(message_bytes=1)), "message", "message")
    for length in (2, 4, 2**32 - 1):
        bad(f"chunk of 3 bytes that says {length}", frame(7, chunk(b"abc", length)), "sizes", "body")
        bad(f"done with 3 bytes that says {length}", frame(8, done(b"abc", 0, length)), "sizes", "body")

    def refuse(name: str, lines: bytes, code: str, subject: str) -> None:
        out.append(text(f"writing {name}", b"encode\n" + lines, error(code, subject)))

    shapes = {
        "hello": (
            "model_id quant_bits layer_start layer_end has_output has_hidden ctx layers port",
            line("_", b"n")[1:],
        ),
        "work": (
            "model_id - - - - pos0 layer_start layer_end flags activation_bits route_index",
            b"\n" + line("tokens", 7) + line("activations", b""),
        ),
        "result": ("- - status kind payload_bits", b"\n" + line("payload", b"")),
        "snapshot-save": ("model_id - - - token_count layer_start layer_end", b"\n"),
        "snapshot-begin": (
            "model_id - - - layer_start layer_end - status",
            b"\n" + line("tokens") + line("message", b""),
        ),
        "snapshot-load": ("model_id - - - layer_start layer_end - status", b"\n" + line("tokens")),
        "snapshot-done": ("- status", line("_", b"m")[1:]),
    }
    for verb, (names, rest) in shapes.items():
        fields = names.split()
        for at, name in enumerate(fields):
            if name != "-":
                values = [2**32 if i == at else 2**64 - 1 if fields[i] == "-" else 0 for i in range(len(fields))]
                refuse(f"{verb} with a large {name}", line(verb, *values)[:-1] + rest, "range", name)
        narrow = [name for name in fields if name != "-"]
        values = [2**64 - 1] * len(fields)
        refuse(f"{verb} of nothing but large numbers", line(verb, *values)[:-1] + rest, "range", narrow[0])
    refuse("work with a large token", work_lines([7, 2**32]), "range", "tokens")
    refuse("begin with a large token", start_lines("snapshot-begin", [2**64 - 1], b""), "range", "tokens")
    refuse("load with a large token", start_lines("snapshot-load", [2**32]), "range", "tokens")
    upstream = line("return", 1, b"", 0)
    for at in range(4):
        values = [2**32 if i == at else 0 for i in range(4)]
        refuse(
            f"a hop with a large number {at}", work_lines(route=line("hop", b"h", *values) + upstream), "range", "route"
        )
    refuse(
        "a return of a large kind",
        work_lines(route=line("hop", b"h", 0, 0, 0, 0) + line("return", 2**32, b"", 0)),
        "range",
        "route",
    )
    refuse(
        "a return to a large port",
        work_lines(route=line("hop", b"h", 0, 0, 0, 0) + line("return", 0, b"", 2**32)),
        "range",
        "route",
    )
    for at in range(10):
        record = line("telemetry", *[2**32 if i == at else 0 for i in range(10)])
        lines = line("result", 0, 0, 0, 0, 0) + line("telemetry", *[0] * 10) + record + line("payload", b"")
        refuse(f"telemetry with a large number {at}", lines, "range", "telemetry")
    numbers = (1, 2, 0, 21, 0, 1, 32768, 43, 8080)
    refuse("hello with a name of 128 bytes", line("hello", *numbers, b"n" * 128), "name", "name")
    refuse("hello with a zero byte", line("hello", *numbers, b"a\0b"), "name", "name")
    refuse("work with flags 16", work_lines(flags=16), "flags", "flags")
    refuse("work of 12 bits", work_lines(bits=12), "bits", "activation_bits")
    refuse("work of no tokens", work_lines([]), "tokens", "tokens")
    refuse("work of odd activations", work_lines(activations=b"abc"), "activations", "activations")
    refuse("result of kind 3", result_lines(kind=3), "kind", "kind")
    refuse("result of 12 bits", result_lines(bits=12), "bits", "payload_bits")
    refuse("result of an odd payload", result_lines(b"abc"), "activations", "payload")
    for host, what in ((b"", "no bytes"), (b"h" * 1025, "1025 bytes"), (b"a\0b", "a zero byte")):
        refuse(
            f"a hop to a host of {what}", work_lines(route=line("hop", host, 1, 2, 3, 0) + upstream), "host", "route"
        )
        if host:
            refuse(
                f"a return to a host of {what}",
                work_lines(route=line("hop", b"h", 1, 2, 3, 0) + line("return", 1, host, 0)),
                "host",
                "route",
            )
    refuse("a failure of 65537 bytes", line("failure", b"x" * 65537), "length", "body")
    refuse("done with a message of 65537 bytes", line("snapshot-done", 1, 2, b"x" * 65537), "length", "body")
    refuse("range before tokens", work_lines([2**32], flags=2**32), "range", "flags")
    refuse(
        "large tokens before a large hop",
        work_lines([2**32], route=line("hop", b"", 2**32, 0, 0, 0) + upstream),
        "range",
        "tokens",
    )
    refuse(
        "a large hop before flags",
        work_lines(flags=16, route=line("hop", b"", 2**32, 0, 0, 0) + upstream),
        "range",
        "route",
    )
    refuse("flags before bits", work_lines(flags=16, bits=5), "flags", "flags")
    refuse("bits before tokens", work_lines([], bits=5), "bits", "activation_bits")
    refuse("tokens before activations", work_lines([], b"abc"), "tokens", "tokens")
    refuse(
        "activations before hosts",
        work_lines(activations=b"abc", route=line("hop", b"", 0, 0, 0, 0) + upstream),
        "activations",
        "activations",
    )
    refuse("kind before bits", result_lines(kind=3, bits=5), "kind", "kind")
    refuse("bits before the payload", result_lines(b"abc", bits=5), "bits", "payload_bits")
    out.append(text("an id to hash that is no u32", line("hash", 0, 1, 2**32), error("range", "ids")))
    for bits in (1, 4, 7, 12, 24, 64, 2**64 - 1):
        for verb in ("pack", "unpack"):
            out.append(text(f"{verb} {bits} bits", line(verb, bits), error("bits", "bits")))
    for length in (1, 2, 3, 5, 7):
        for bits in (0, 8, 16, 32):
            out.append(
                binary(
                    f"pack {length} bytes to {bits} bits",
                    line("pack", bits),
                    bytes(length),
                    error("activations", "values"),
                )
            )
    for bits, length in ((16, 1), (16, 3), (32, 2), (32, 5), (0, 7)):
        out.append(
            binary(
                f"unpack {length} bytes of {bits} bits",
                line("unpack", bits),
                bytes(length),
                error("activations", "values"),
            )
        )
    out.append(binary("bits before lengths", line("pack", 5), bytes(3), error("bits", "bits")))
    return out


def write(name: str, cases: list[Case]) -> None:
    assert len({case["case"] for case in cases}) == len(cases), name
    HERE.mkdir(exist_ok=True)
    (HERE / name).write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    print(f"{name}: {len(cases)} cases")


if __name__ == "__main__":
    write("messages.jsonl", messages())
    write("faults.jsonl", faults())
