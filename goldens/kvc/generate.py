"""Writes worked/*.jsonl: KV records put together byte by byte from the format's table.

    PYTHONPATH=host python goldens/kvc/generate.py

Nothing here calls the codec. sizes.jsonl holds two of the file sizes that the Rust generation of the host published for
records of a live server, with the parts that they are the sum of; its inputs are made by the component, since they are
too large to be stored. (The third, of 301,972,407 bytes, is a unit test over a sparse file.)
"""

from __future__ import annotations

import base64
import hashlib
import json
import pathlib
from typing import Any

from ds4.sys.tape import line

HERE = pathlib.Path(__file__).parent / "worked"
Case = dict[str, Any]
DIGEST = bytes(range(32))
FOOTER = b"KVI\x01" + DIGEST + b"KVI!"
MARKS = {"responses-visible": 2, "thinking-visible": 4, "bank replay": 16, "image pixels": 32}


def number(value: int, width: int) -> bytes:
    return value.to_bytes(width, "little")


def title(text: bytes, length: int | None = None) -> bytes:
    return number(len(text) if length is None else length, 4) + text


def tools(*entries: tuple[bytes, bytes], count: int | None = None, magic: bytes = b"KTM\x01") -> bytes:
    out = magic + number(len(entries) if count is None else count, 4)
    for key, body in entries:
        out += number(len(key), 4) + number(len(body), 4) + key + body
    return out


def file(
    text: bytes = b"Hi %\n",
    payload: bytes = b"\xde\xad\xbe\xef",
    trailer: bytes = b"",
    *,
    bits: int = 0,
    quant: int = 4,
    reason: int = 2,
    model: int = 0,
    tokens: int = 3,
    hits: int = 1,
    ctx: int = 4096,
    abi: int = 2,
    reserved: bytes = b"\0\0\0",
    created: int = 1700000000,
    used: int = 1700000600,
    payload_bytes: int | None = None,
    text_bytes: int | None = None,
    magic: bytes = b"KVC\x01",
) -> bytes:
    return b"".join(
        (
            magic,
            number(quant, 1),
            number(reason, 1),
            number(bits, 1),
            number(model, 1),
            number(tokens, 4),
            number(hits, 4),
            number(ctx, 4),
            number(abi, 1),
            reserved,
            number(created, 8),
            number(used, 8),
            number(len(payload) if payload_bytes is None else payload_bytes, 8),
            number(len(text) if text_bytes is None else text_bytes, 4),
            text,
            payload,
            trailer,
        )
    )


def read(
    text: bytes = b"Hi %\n", payload: int = 4, *, quant: int = 4, reason: int = 2, marks: int = 0, model: int = 0,
    tokens: int = 3, hits: int = 1, ctx: int = 4096, created: int = 1700000000, used: int = 1700000600,
    name: bytes | None = None, heading: bytes | None = None, calls: tuple[tuple[bytes, bytes], ...] = (),
    identity: bytes | None = None,
) -> bytes:  # fmt: skip
    """What reading tells. name: the bytes that the file's name is the SHA-1 of; the text if not given."""
    out = line("record", quant, reason, marks, model, tokens, hits, ctx, created, used)
    out += line("text", text) + line("payload", 52 + len(text), payload)
    out += sections(heading, calls, identity)
    return out + line("name", hashlib.sha1(text if name is None else name).hexdigest() + ".kv")


def sections(heading: bytes | None, calls: tuple[tuple[bytes, bytes], ...], identity: bytes | None) -> bytes:
    out = b"" if heading is None else line("title", heading)
    out += b"".join(line("tool", key, body) for key, body in calls)
    return out + (b"" if identity is None else line("identity", identity))


def decode(name: str, raw: bytes, expected: bytes) -> Case:
    return {
        "case": name,
        "input_b64": base64.b64encode(b"decode\n" + raw).decode("ascii"),
        "expected": expected.decode("ascii"),
    }


def encode(name: str, tape: bytes, expected: bytes) -> Case:
    return {"case": name, "input": tape.decode("ascii"), "expected": expected.decode("ascii")}


def error(code: str, subject: str) -> bytes:
    return line("error", f"kvc_{code}", subject)


def samples() -> list[Case]:
    out = []

    def both(name: str, raw: bytes, told: bytes, payload: bytes = b"\xde\xad\xbe\xef") -> None:
        """A record read, and the same written: the lines of a reading are those of a writing, but for two."""
        out.append(decode(f"{name}, read", raw, told))
        rows = told.splitlines(keepends=True)
        tape = rows[0].replace(b"record", b"encode") + rows[1] + line("payload", payload) + b"".join(rows[3:-1])
        out.append(encode(f"{name}, written", tape, line("bytes", raw) + rows[-1]))

    both("plain", file(), read())
    both("nothing but a header", file(b"", b""), read(b"", 0), b"")
    both("text without a payload", file(b"t", b""), read(b"t", 0), b"")
    both("a payload without text", file(b""), read(b""))
    for quant in (2, 4):
        both(f"quant {quant}", file(quant=quant), read(quant=quant))
    for reason in range(10):
        both(f"reason {reason}", file(reason=reason), read(reason=reason))
    for reason in (10, 11, 128, 255):
        out.append(decode(f"reason {reason} is unknown, read", file(reason=reason), read(reason=0)))
    for name, bit in MARKS.items():
        both(f"marked {name}", file(bits=bit), read(marks=bit))
    both("all marks", file(bits=54), read(marks=54))
    for model in (1, 127, 255):
        both(f"model {model}", file(model=model), read(model=model))
    most = 2**32 - 1
    both("the largest numbers", file(tokens=most, hits=most, ctx=most, created=2**64 - 1, used=2**64 - 1),
         read(tokens=most, hits=most, ctx=most, created=2**64 - 1, used=2**64 - 1))  # fmt: skip
    both("distinct bytes in each number",
         file(tokens=0x01020304, hits=0x05060708, ctx=0x090A0B0C, created=0x0D0E0F1011121314, used=0x15161718191A1B1C),
         read(tokens=0x01020304, hits=0x05060708, ctx=0x090A0B0C, created=0x0D0E0F1011121314, used=0x15161718191A1B1C),
    )  # fmt: skip
    every = bytes(range(256))
    both("every byte in the text", file(every), read(every))
    heading = b"plan \xc3\xa9\0"
    stamp = number(1700000000, 8)
    both("a title", file(trailer=title(heading), bits=8), read(heading=heading, name=heading + stamp))
    both("an empty title", file(trailer=title(b""), bits=8), read(heading=b"", name=stamp))
    long = b"t" * 65536
    both("the longest title", file(trailer=title(long), bits=8), read(heading=long, name=long + stamp))
    both("a title and its moment", file(trailer=title(b"plan"), bits=8, created=2**64 - 1),
         read(heading=b"plan", name=b"plan" + b"\xff" * 8, created=2**64 - 1))  # fmt: skip
    one = ((b"call_1", b"<a>"),)
    both("a tool map", file(trailer=tools(*one), bits=1), read(calls=one))
    smallest = ((b"i", b"b"),)
    both("the smallest tool map", file(trailer=tools(*smallest), bits=1), read(calls=smallest))
    twice = ((b"b", b"2"), (b"a", b"1"), (b"b", b"3"))
    both("ids out of order and twice", file(trailer=tools(*twice), bits=1), read(calls=twice))
    wide = ((b"i" * 256, b"b" * 70000),)
    both("the longest id and a long body", file(trailer=tools(*wide), bits=1), read(calls=wide))
    magical = ((b"KTM\x01", b"KVI\x01KVI!"),)
    both("magics within a map", file(trailer=tools(*magical) + FOOTER, bits=65), read(calls=magical, identity=DIGEST))
    both("an identity", file(trailer=FOOTER, bits=64), read(identity=DIGEST))
    own = b"KVI\x01" + b"KVI!" * 7
    both("an identity of magics", file(trailer=b"KVI\x01" + own + b"KVI!", bits=64), read(identity=own))
    both("everything", file(trailer=title(heading) + tools(*twice) + FOOTER, bits=127),
         read(marks=54, heading=heading, name=heading + stamp, calls=twice, identity=DIGEST))  # fmt: skip
    spelled = bytes.fromhex(
        "4b564301 04024300 03000000 01000000 00100000 02000000 00f15365 00000000 58f35365 00000000 04000000 00000000"
        "05000000 48692025 0adeadbe ef4b544d 01010000 00020000 00030000 0063313c 613e4b56 49010001 02030405 06070809"
        "0a0b0c0d 0e0f1011 12131415 16171819 1a1b1c1d 1e1f4b56 4921"
    )
    both("spelled out in hex", spelled, read(marks=2, calls=((b"c1", b"<a>"),), identity=DIGEST))
    return out


def faults() -> list[Case]:
    out = []
    calls = ((b"a", b"12"), (b"bc", b"3"))
    mapped = file(trailer=title(b"ab") + tools(*calls), bits=9)
    # Where a cut falls tells what is missing: text of 5 bytes, payload of 4, title, map.
    parts = [(52, "header"), (57, "text"), (61, "payload"), (67, "title")]
    for cut in range(len(mapped)):
        subject = next((name for end, name in parts if cut < end), "tool_map")
        verdict = error("truncated", subject)
        if 75 <= cut < 75 + 20:  # the count is believed only if that many entries of 10 bytes could follow
            verdict = error("tool_count", "tool_map")
        out.append(decode(f"cut after {cut} bytes", mapped[:cut], verdict))
    footed = file(trailer=FOOTER, bits=64)
    for cut in range(61, len(footed)):
        out.append(decode(f"with a footer, cut after {cut} bytes", footed[:cut], error("truncated", "identity")))

    def bad(name: str, raw: bytes, code: str, subject: str) -> None:
        out.append(decode(name, raw, error(code, subject)))

    for magic in (b"KVD\x01", b"kvc\x01", b"\x01CVK", b"GGUF"):
        bad(f"magic {magic[:3]!r}", file(magic=magic), "magic", "magic")
    for version in (0, 2, 255):
        bad(f"version {version}", file(magic=b"KVC" + number(version, 1)), "version", "version")
    for abi in (0, 1, 3, 255):
        bad(f"payload ABI {abi}", file(abi=abi), "abi", "abi")
    for at in range(3):
        bad(f"reserved byte {at}", file(reserved=bytes(1 if i == at else 0 for i in range(3))), "reserved", "reserved")
    for quant in (0, 1, 3, 5, 8, 255):
        bad(f"quant {quant}", file(quant=quant), "quant", "quant")
    bad("extension bit 7", file(bits=128), "extension", "extensions")
    bad("extension bit 7 among all", file(bits=255), "extension", "extensions")
    bad("no tokens", file(tokens=0), "tokens", "tokens")
    for length in (10, 2**31, 2**32 - 1):
        bad(f"text of {length} bytes", file(text_bytes=length), "truncated", "text")
    for length in (5, 2**32, 2**63, 2**64 - 57, 2**64 - 1):
        bad(f"a payload of {length} bytes", file(payload_bytes=length), "truncated", "payload")
    bad("a byte behind the payload", file(trailer=b"\0"), "trailing", "trailer")
    bad("a map that no bit announces", file(trailer=tools(*calls)), "trailing", "trailer")
    bad("a footer that no bit announces", file(trailer=FOOTER), "trailing", "trailer")
    bad("a byte behind the title", file(trailer=title(b"ab") + b"\0", bits=8), "trailing", "trailer")
    bad("a byte behind the map", file(trailer=tools(*calls) + b"\0", bits=1), "trailing", "trailer")
    bad("a byte before the footer", file(trailer=b"\0" + FOOTER, bits=64), "trailing", "trailer")
    bad("a byte behind the footer", file(trailer=FOOTER + b"\0", bits=64), "identity", "identity")
    for at in (0, 3, 36, 39):
        wrong = bytearray(FOOTER)
        wrong[at] ^= 1
        bad(f"footer byte {at}", file(trailer=bytes(wrong), bits=64), "identity", "identity")
    bad("sections in another order", file(trailer=tools(*calls) + title(b"ab"), bits=9), "title", "title")
    bad("a title announced, none there", file(bits=8), "truncated", "title")
    bad("a map announced, none there", file(bits=1), "truncated", "tool_map")
    for length in (65537, 2**32 - 1):
        bad(f"a title of {length} bytes", file(trailer=title(b"ab", length), bits=8), "title", "title")
    bad("a title of 65536 bytes that are not there", file(trailer=title(b"ab", 65536), bits=8), "truncated", "title")
    bad("a title that runs into the footer", file(trailer=title(b"ab", 3) + FOOTER, bits=72), "truncated", "title")
    for magic in (b"KTM\x00", b"KTM\x02", b"KVM\x01", b"\x01MTK"):
        bad(f"map magic {magic!r}", file(trailer=tools(*calls, magic=magic), bits=1), "tool_magic", "tool_map")
    for count in (0, 3, 400001, 2**32 - 1):
        bad(f"a map of {count}", file(trailer=tools(*calls, count=count), bits=1), "tool_count", "tool_map")
    roomy = tools((b"a", b"x" * 100), count=2)
    bad("one entry short", file(trailer=roomy, bits=1), "truncated", "tool_map")
    bad("one entry more than said", file(trailer=tools(*calls, count=1), bits=1), "trailing", "trailer")

    def entry(id_bytes: int, body_bytes: int, data: bytes) -> bytes:
        trailer = b"KTM\x01" + number(1, 4) + number(id_bytes, 4) + number(body_bytes, 4) + data
        return file(trailer=trailer, bits=1)

    bad("an empty id", entry(0, 2, b"ab"), "tool_id", "tool_map")
    bad("an id of 257 bytes", entry(257, 1, b"a" * 258), "tool_id", "tool_map")
    bad("an id of 2^32-1 bytes", entry(2**32 - 1, 1, b"ab"), "tool_id", "tool_map")
    bad("an empty body", entry(2, 0, b"ab"), "tool_body", "tool_map")
    bad("a body of 2^29+1 bytes", entry(1, 2**29 + 1, b"ab"), "tool_body", "tool_map")
    bad("a body of 2^32-1 bytes", entry(1, 2**32 - 1, b"ab"), "tool_body", "tool_map")
    bad("a body of 2^29 bytes that are not there", entry(1, 2**29, b"ab"), "truncated", "tool_map")
    bad("an id that runs out", entry(256, 1, b"ab"), "truncated", "tool_map")
    bad("a zero byte in an id", entry(2, 1, b"a\0b"), "tool_id", "tool_map")
    bad("a zero byte in a body", entry(1, 2, b"ab\0"), "tool_body", "tool_map")
    # Two faults at a time: the first looked for is the verdict.
    bad("magic before version", file(magic=b"KVD\x02"), "magic", "magic")
    bad("version before abi", file(magic=b"KVC\x02", abi=0), "version", "version")
    bad("abi before reserved", file(abi=0, reserved=b"\1\1\1"), "abi", "abi")
    bad("reserved before quant", file(reserved=b"\1\1\1", quant=0), "reserved", "reserved")
    bad("quant before extensions", file(quant=0, bits=128), "quant", "quant")
    bad("extensions before tokens", file(bits=128, tokens=0), "extension", "extensions")
    bad("tokens before text", file(tokens=0, text_bytes=999), "tokens", "tokens")
    bad("text before payload", file(text_bytes=999, payload_bytes=999), "truncated", "text")
    bad("payload before footer", file(payload_bytes=999, bits=64), "truncated", "payload")
    bad("footer before title", file(trailer=title(b"ab", 65537) + FOOTER[:-1] + b"?", bits=72), "identity", "identity")
    bad("title before map", file(trailer=title(b"", 65537) + b"KTM\x02" + bytes(4), bits=9), "title", "title")
    bad("map magic before count", file(trailer=tools(magic=b"KTM\x02"), bits=1), "tool_magic", "tool_map")
    bad("id length before body length", entry(0, 0, b"ab"), "tool_id", "tool_map")
    bad("lengths before truncation", entry(257, 2**20, b"ab"), "tool_id", "tool_map")
    bad("zero in the id before zero in the body", entry(1, 1, b"\0\0"), "tool_id", "tool_map")

    fields = {"quant": 1, "reason": 1, "marks": 1, "model": 1, "tokens": 4, "hits": 4, "ctx": 4}
    good = {
        "quant": 4,
        "reason": 2,
        "marks": 0,
        "model": 0,
        "tokens": 3,
        "hits": 1,
        "ctx": 4096,
        "created": 1,
        "used": 2,
    }

    def writing(name: str, code: str, subject: str, extra: bytes = b"", **values: int) -> None:
        numbers = good | values
        tape = line("encode", *numbers.values()) + line("text", b"t") + line("payload", b"p") + extra
        out.append(encode(f"writing {name}", tape, error(code, subject)))

    for name, width in fields.items():
        for value in (1 << 8 * width, 2**64 - 1):
            writing(f"{name} as {value}", "range", name, **{name: value})
    for quant in (0, 1, 3, 5, 255):
        writing(f"quant {quant}", "quant", "quant", quant=quant)
    for reason in (10, 255):
        writing(f"reason {reason}", "reason", "reason", reason=reason)
    for marks in (1, 8, 64, 128, 55, 255):
        writing(f"marks {marks}", "extension", "extensions", marks=marks)
    writing("no tokens", "tokens", "tokens", tokens=0)
    writing("too long a title", "title", "title", line("title", b"t" * 65537))
    for length in (0, 31, 33):
        writing(f"an identity of {length} bytes", "identity", "identity", line("identity", bytes(length)))
    for name, key, body, code in (
        ("an empty id", b"", b"b", "tool_id"), ("an id of 257 bytes", b"i" * 257, b"b", "tool_id"),
        ("a zero byte in an id", b"i\0", b"b", "tool_id"), ("an empty body", b"i", b"", "tool_body"),
        ("a zero byte in a body", b"i", b"\0b", "tool_body"), ("an empty id and body", b"", b"", "tool_id"),
        ("zero bytes in both", b"\0", b"\0", "tool_id"),
    ):  # fmt: skip
        writing(name, code, "tool_map", line("tool", b"ok", b"ok") + line("tool", key, body))
    writing("two numbers too large", "range", "reason", reason=256, model=256)
    writing("range before quant", "range", "ctx", quant=3, ctx=2**32)
    writing("quant before reason", "quant", "quant", quant=3, reason=10)
    writing("reason before marks", "reason", "reason", reason=10, marks=1)
    writing("marks before tokens", "extension", "extensions", marks=1, tokens=0)
    writing("tokens before title", "tokens", "tokens", line("title", b"t" * 65537), tokens=0)
    writing("title before tools", "title", "title", line("title", b"t" * 65537) + line("tool", b"", b"b"))
    writing("tools before identity", "tool_id", "tool_map", line("tool", b"", b"b") + line("identity", b""))
    writing("the first bad tool", "tool_body", "tool_map", line("tool", b"i", b"") + line("tool", b"", b"b"))
    return out


def sizes() -> list[Case]:
    """What is too large to store.

    tools: [bytes of the id, bytes of the body, how many]. cut: bytes left off at the end, or added if negative.
    """
    out: list[Case] = []

    def case(name: str, text: int, payload: int, tools: list[list[int]], total: int, cut: int, expected: bytes) -> None:
        count = sum(times for _, _, times in tools)
        assert 52 + text + payload + 8 * bool(count) + sum((8 + a + b) * times for a, b, times in tools) == total
        parts = {"text": text, "payload": payload, "tools": tools, "total": total, "cut": cut}
        out.append({"case": name, "record": parts, "expected": expected.decode("ascii")})

    # Published: text, payload and, in the first, a map of one entry.
    one = ((b"i" * 37, b"b" * 244),)
    sizes = (1913, 25848936, [[37, 244, 1]], 25851198)
    case("a record with a tool map", *sizes, 0, read(b"t" * 1913, 25848936, calls=one))
    case("a record with a tool map, without its last byte", *sizes, 1, error("truncated", "tool_map"))
    sizes = (14617, 41941920, [], 41956589)
    case("a record saved within a prefill", *sizes, 0, read(b"t" * 14617, 41941920))
    case("a record saved within a prefill, without its last byte", *sizes, 1, error("truncated", "payload"))
    # A map of 400000 is read to its end, where one byte too many is; one of 400001 is not read at all.
    case(
        "a tool map of the most entries, and a byte", 1, 1, [[1, 1, 400000]], 4000062, -1, error("trailing", "trailer")
    )
    case("a tool map of one entry more", 1, 1, [[1, 1, 400001]], 4000072, -1, error("tool_count", "tool_map"))
    return out


def write(name: str, cases: list[Case]) -> None:
    assert len({case["case"] for case in cases}) == len(cases), name
    HERE.mkdir(exist_ok=True)
    (HERE / name).write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    print(f"{name}: {len(cases)} cases")


if __name__ == "__main__":
    write("samples.jsonl", samples())
    write("faults.jsonl", faults())
    write("sizes.jsonl", sizes())
