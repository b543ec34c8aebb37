"""Writes worked/*.jsonl: session payloads packed field by field from the format's table.

    PYTHONPATH=host python goldens/payload/generate.py

Nothing here calls the codec. A payload is 13 little-endian u32 (magic 0x34565344, version, context, prefill width, raw
capacity, raw window or layout tag, compressed capacity, token count, layers, head dim, indexer head dim, vocabulary,
live rows), the ids, and a tail. The expected tapes are written from the same numbers, the verdicts from the reader's
rules as stated case by case.
"""

from __future__ import annotations

import base64
import json
import pathlib

from ds4.sys.tape import line

HERE = pathlib.Path(__file__).parent / "worked"
Case = dict[str, str]

# layout: (family, value of the field at 20, raw window on the tape, rows are tokens, takes a full context)
LAYOUTS = {
    "deepseek": ("deepseek", 512, 512, False, False),
    "solar": ("solar", 0x33524C53, 0, True, False),
    "exaone": ("exaone", 0x33415845, 0, True, False),
    "motif": ("motif", 0x3346544D, 0, True, False),
    "dots": ("dots", 0x33535444, 0, True, False),
    "qwen": ("qwen", 0x334E5751, 0, False, True),
    "qwen-fp8": ("qwen", 0x33465751, 0, False, True),
    "step": ("step", 0x33505453, 0, True, False),
    "ling": ("ling", 0x33474E4C, 0, True, False),
}


def pack(
    field_20: int,
    ids: list[int],
    *,
    magic: int = 0x34565344,
    version: int = 3,
    ctx: int = 8192,
    count: int | None = None,
    vocab: int = 129280,
    live: int | None = None,
    tail: bytes = b"",
) -> bytes:
    count = len(ids) if count is None else count
    live = count if live is None else live
    raw = b"".join(
        value.to_bytes(4, "little")
        for value in (magic, version, ctx, 64, 8192, field_20, 2048, count, 61, 128, 64, vocab, live, *ids)
    )
    return raw + tail


def binary(name: str, command: bytes, raw: bytes, expected: bytes) -> Case:
    return {
        "case": name,
        "input_b64": base64.b64encode(command + raw).decode("ascii"),
        "expected": expected.decode("ascii"),
    }


def text(name: str, tape: bytes, expected: bytes) -> Case:
    return {"case": name, "input": tape.decode("ascii"), "expected": expected.decode("ascii")}


def whole(
    layout: str, ids: list[int], *, version: int = 3, ctx: int = 8192, vocab: int = 129280, live: int = 3, tail: int = 0
) -> bytes:
    window = LAYOUTS[layout][2]
    live = live if ids else 0
    return (
        line("payload", version, layout, ctx, 64, 8192, window, 2048, len(ids), 61, 128, 64, vocab, live)
        + line("ids", *ids)
        + line("tail", 52 + 4 * len(ids), tail)
    )


def samples() -> list[Case]:
    out = []
    ids = [10, 0, 129279]
    for layout, (family, mark, window, _, full) in LAYOUTS.items():
        raw = pack(mark, ids)
        for reader in ("any", family):
            out.append(binary(f"{layout} read by {reader}", line("decode", reader, 0), raw, whole(layout, ids)))
        out.append(
            text(
                f"{layout} written",
                line("encode", layout, 8192, 64, 8192, window, 2048, 61, 128, 64, 129280, 3) + line("ids", *ids),
                line("bytes", raw),
            )
        )
        most = 3 if full else 4
        out.append(binary(f"{layout} that just fits the reader", line("decode", family, most), raw, whole(layout, ids)))
        tight = pack(mark, ids, ctx=most)
        out.append(
            binary(
                f"{layout} that just fits its own context",
                line("decode", family, 0),
                tight,
                whole(layout, ids, ctx=most),
            )
        )
        out.append(
            binary(
                f"{layout} of no tokens",
                line("decode", family, 1),
                pack(mark, [], tail=b"x"),
                whole(layout, [], tail=1),
            )
        )
    for version in (1, 2, 3):
        raw = pack(512, ids, version=version)
        out.append(binary(f"version {version}", line("decode", "any", 0), raw, whole("deepseek", ids, version=version)))
    for tail in (1, 3, 4, 100):
        raw = pack(512, ids, tail=b"\xaa" * tail)
        out.append(binary(f"a tail of {tail} bytes", line("decode", "any", 0), raw, whole("deepseek", ids, tail=tail)))
    for layout in ("qwen", "qwen-fp8", "deepseek"):
        raw = pack(LAYOUTS[layout][1], ids, live=368640)
        out.append(
            binary(f"{layout} with other live rows", line("decode", "any", 0), raw, whole(layout, ids, live=368640))
        )
    empty = pack(0x334E5751, [], ctx=0, vocab=0)
    out.append(
        binary("qwen of nothing in no context", line("decode", "qwen", 0), empty, whole("qwen", [], ctx=0, vocab=0))
    )
    most = 2**32 - 1
    raw = pack(most, [most - 1], ctx=most, vocab=most)
    expected = line("payload", 3, "deepseek", most, 64, 8192, most, 2048, 1, 61, 128, 64, most, 1) + line(
        "ids", most - 1
    )
    out.append(binary("the largest numbers", line("decode", "any", most), raw, expected + line("tail", 56, 0)))
    near = 0x33524C54
    expected = line("payload", 3, "deepseek", 8192, 64, 8192, near, 2048, 0, 61, 128, 64, 129280, 0) + line("ids")
    out.append(
        binary("a window one above a tag", line("decode", "any", 0), pack(near, []), expected + line("tail", 52, 0))
    )
    # The worked bytes of the published fixture, spelled out.
    spelled = bytes.fromhex(
        "44535634 03000000 00200000 40000000 00200000 00020000 00080000 03000000 3d000000 80000000 40000000 00f90100"
        "03000000 0a000000 14000000 1e000000"
    )
    expected = line("payload", 3, "deepseek", 8192, 64, 8192, 512, 2048, 3, 61, 128, 64, 129280, 3)
    expected += line("ids", 10, 20, 30) + line("tail", 64, 0)
    out.append(binary("spelled out in hex", line("decode", "deepseek", 0), spelled, expected))
    command = line("encode", "deepseek", 8192, 64, 8192, 512, 2048, 61, 128, 64, 129280, 3) + line("ids", 10, 20, 30)
    out.append(text("spelled out in hex, written", command, line("bytes", spelled)))
    return out


def error(code: str, subject: str) -> bytes:
    return line("error", f"payload_{code}", subject)


def faults() -> list[Case]:
    out = []
    ids = [7, 8, 9]
    raw = pack(512, ids, tail=b"tail")
    for cut in range(len(raw) - 4):
        subject = "header" if cut < 52 else "ids"
        out.append(binary(f"cut after {cut} bytes", line("decode", "any", 0), raw[:cut], error("truncated", subject)))

    def decode(name: str, raw: bytes, code: str, subject: str, family: str = "any", ctx: int = 0) -> None:
        out.append(binary(name, line("decode", family, ctx), raw, error(code, subject)))

    decode("another magic", pack(512, ids, magic=0x34565345), "magic", "magic")
    decode("the magic the other way round", pack(512, ids, magic=0x44535634), "magic", "magic")
    for version in (0, 4, 2**24 * 3, 2**32 - 1):
        decode(f"version {version}", pack(512, ids, version=version), "version", "version")
    for layout, (family, mark, _, rows, full) in LAYOUTS.items():
        for reader in sorted({f for f, *_ in LAYOUTS.values()} - {family}):
            decode(f"{layout} read by {reader}", pack(mark, ids), "family", "layout", reader)
        least = 3 if full else 4
        decode(f"{layout}, a reader too small", pack(mark, ids), "context", "token_count", "any", least - 1)
        decode(f"{layout}, its own context too small", pack(mark, ids, ctx=least - 1), "context", "token_count")
        if rows:
            decode(f"{layout}, rows too few", pack(mark, ids, live=2), "live_rows", "live_rows")
            decode(f"{layout}, rows too many", pack(mark, ids, live=4), "live_rows", "live_rows")
    decode("no tokens in no context", pack(512, [], ctx=0), "context", "token_count")
    decode("an id that is the vocabulary's size", pack(512, [7, 9], vocab=9), "token", "ids")
    decode("no vocabulary", pack(512, [0], vocab=0), "token", "ids")
    decode("one id more than there are bytes", pack(512, ids, count=4), "truncated", "ids")
    decode("more ids than can be", pack(512, ids, ctx=2**32 - 1, count=2**30 - 1), "truncated", "ids")
    decode("4 x count overflows 32 bits", pack(512, ids, ctx=2**32 - 1, count=2**30 + 3), "truncated", "ids")
    # Two faults at a time: the first looked for is the verdict.
    solar = 0x33524C53
    decode("magic before version", pack(512, ids, magic=0, version=0), "magic", "magic")
    decode("version before family", pack(512, ids, version=9), "version", "version", "solar")
    decode("family before context", pack(solar, ids), "family", "layout", "qwen", 1)
    decode("context before truncation", pack(512, ids, count=2**31), "context", "token_count")
    decode("truncation before live rows", pack(solar, ids, count=4, live=0), "truncated", "ids")
    decode("live rows before ids", pack(solar, ids, live=1, vocab=1), "live_rows", "live_rows")

    names = ("ctx", "prefill_width", "raw_capacity", "raw_window", "compressed_capacity", "layers", "head_dim",
             "indexer_head_dim", "vocab", "live_rows")  # fmt: skip
    good = [8192, 64, 8192, 512, 2048, 61, 128, 64, 129280, 3]

    def encode(name: str, layout: str, values: list[int], code: str, subject: str, tokens: list[int] = ids) -> None:
        out.append(text(name, line("encode", layout, *values) + line("ids", *tokens), error(code, subject)))

    for at, name in enumerate(names):
        for value in (2**32, 2**64 - 1):
            values = good[:at] + [value] + good[at + 1 :]
            encode(f"writing {name} as {value}", "deepseek", values, "range", name)
    encode("writing an id that is no u32", "deepseek", good, "range", "ids", [1, 2**32])
    encode(
        "writing two numbers that are too large",
        "deepseek",
        [8192, 2**32, *good[2:8], 2**33, 3],
        "range",
        "prefill_width",
    )
    for layout, (_, mark, *_) in LAYOUTS.items():
        if layout != "deepseek":
            encode(
                f"a deepseek window that says {layout}",
                "deepseek",
                [*good[:3], mark, *good[4:]],
                "layout",
                "raw_window",
            )
            encode(f"a window of {layout}", layout, [*good[:3], 1, *good[4:]], "layout", "raw_window")
    plain = [*good[:3], 0, *good[4:]]
    encode("writing too much for the context", "solar", [3, *plain[1:]], "context", "token_count")
    encode("writing too much for a context that can be full", "qwen", [2, *plain[1:]], "context", "token_count")
    encode("writing other live rows", "step", [*plain[:9], 4], "live_rows", "live_rows")
    encode("writing an id outside the vocabulary", "ling", [*plain[:8], 9, 3], "token", "ids")
    encode("range before layout", "solar", [2**32, *good[1:]], "range", "ctx")
    encode("layout before context", "solar", [1, *good[1:]], "layout", "raw_window")
    encode("context before live rows, writing", "solar", [1, *plain[1:9], 9], "context", "token_count")
    encode("live rows before ids, writing", "solar", [*plain[:8], 1, 9], "live_rows", "live_rows")
    return out


def write(name: str, cases: list[Case]) -> None:
    assert len({case["case"] for case in cases}) == len(cases), name
    HERE.mkdir(exist_ok=True)
    (HERE / name).write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    print(f"{name}: {len(cases)} cases")


if __name__ == "__main__":
    write("samples.jsonl", samples())
    write("faults.jsonl", faults())
