"""Writes numbers/*.jsonl: the token chain, and floats to 16 and 8 bits and back.

    pip install numpy==2.4.6
    PYTHONPATH=host python goldens/frames/generate_numbers.py

Nothing here calls the codec. Halves are numpy's float16; only a NaN is written by rule, as sign and quiet bit, since
numpy keeps some of its payload. 8-bit codes are found by search: the table of the 120 magnitudes is written from its
rule, and each float goes to the nearest by exact fractions, ties to the even code. The chain is FNV-1a with Python
integers; one of its cases is a published vector of FNV.
"""

from __future__ import annotations

import base64
import json
import pathlib
import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np
from ds4.sys.tape import line

HERE = pathlib.Path(__file__).parent / "numbers"
Case = dict[str, str]
START = 1469598103934665603


def binary(name: str, command: bytes, raw: bytes, expected: bytes) -> Case:
    return {
        "case": name,
        "input_b64": base64.b64encode(command + raw).decode("ascii"),
        "expected": expected.decode("ascii"),
    }


def text(name: str, tape: bytes, expected: bytes) -> Case:
    return {"case": name, "input": tape.decode("ascii"), "expected": expected.decode("ascii")}


def fnv(start: int, data: bytes) -> int:
    for byte in data:
        start = ((start ^ byte) * 1099511628211) % 2**64
    return start


def hashes() -> Iterator[Case]:
    def case(name: str, start: int, ids: Sequence[int]) -> Case:
        data = b"".join(value.to_bytes(4, "little") for value in ids)
        return text(name, line("hash", start, *ids), line("hash", fnv(start, data)))

    yield case("the chain of no tokens", START, [])
    for ids in ([0], [1], [1, 2], [2, 1], [2**32 - 1], [0x01020304], [0, 0, 0, 0], list(range(100))):
        yield case(f"the chain of {ids if len(ids) < 5 else 'a hundred tokens'}", START, ids)
    yield case("from zero", 0, [0, 1])
    yield case("from the largest", 2**64 - 1, [7])
    first = fnv(START, bytes([1, 0, 0, 0]))
    yield case("a chain continued", first, [2])
    # Published: FNV-1a, 64 bits, of "foob" from FNV's own basis.
    basis = 14695981039346656037
    published = 0xDD120E790C2512AF
    assert fnv(basis, b"foob") == published
    yield text("the published FNV-1a of foob", line("hash", basis, 0x626F6F66), line("hash", published))
    yield text("no ids leave the start", line("hash", 5), line("hash", 5))


# The 120 magnitudes that 8 bits write: m x 2^-9, then (1 + m / 8) x 2^(e - 7).
MAGNITUDES = [Fraction(m, 512) for m in range(8)] + [
    (1 + Fraction(m, 8)) * Fraction(2) ** (e - 7) for e in range(1, 15) for m in range(8)
]
NAN, SIGN = 0x7FC00000, 0x80000000


def f32(value: Fraction) -> int:
    """The bits of a value that a 32-bit float has exactly."""
    bits: int = struct.unpack("<I", struct.pack("<f", float(value)))[0]
    assert Fraction(struct.unpack("<f", struct.pack("<I", bits))[0]) == value
    return bits


def nearest_code(bits: int) -> int:
    """The 8-bit code of a float by search."""
    sign, magnitude = bits >> 31 << 7, bits & 0x7FFFFFFF
    if magnitude > 0x7F800000:
        return sign | 0x7F
    if magnitude == 0x7F800000:
        return sign | 0x77
    value = Fraction(struct.unpack("<f", struct.pack("<I", magnitude))[0])
    return sign | min(range(120), key=lambda code: (abs(MAGNITUDES[code] - value), code % 2))


def words(bits: Sequence[int]) -> bytes:
    return np.array(bits, dtype="<u4").tobytes()


def signed(bits: Sequence[int]) -> list[int]:
    return [value | sign for value in bits for sign in (0, SIGN)]


def slices(bits: Sequence[int], size: int = 128) -> Iterator[tuple[str, list[int]]]:
    for at in range(0, len(bits), size):
        yield f"{at}..{min(at + size, len(bits)) - 1}", list(bits[at : at + size])


ODD = [0, 1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FBFFFFF, 0x7FC00000, 0x7FFFFFFF]
"""Zero, subnormals, the largest, infinity, and NaNs of both kinds."""


def eights() -> Iterator[Case]:
    table = [f32(m) for m in MAGNITUDES] + [f32(Fraction(240))] * 7 + [NAN]
    assert len(table) == 128
    raw, values = bytes(range(256)), [bits | sign for sign in (0, SIGN) for bits in table]
    yield binary("every 8-bit code", line("unpack", 8), raw, line("bytes", words(values)))
    middles = [f32((a + b) / 2) for a, b in zip(MAGNITUDES, MAGNITUDES[1:], strict=False)]
    around = [bits + step for bits in (*middles, *table[1:120]) for step in (-1, 0, 1)]
    for which, some in slices(signed(around)):
        codes = bytes(nearest_code(bits) for bits in some)
        yield binary(
            f"to 8 bits around each value and tie, {which}", line("pack", 8), words(some), line("bytes", codes)
        )
    edge = [f32(Fraction(v)) for v in (239, 241, 247, 248, 249, 255, 256, 448, 480, 65504, 2**100)]
    some = signed([*ODD, *edge])
    codes = bytes(nearest_code(bits) for bits in some)
    yield binary("to 8 bits at the edges", line("pack", 8), words(some), line("bytes", codes))


def halves() -> Iterator[Case]:
    codes = np.array([sign << 15 | e << 10 | m for sign in (0, 1) for e in range(32)
                      for m in (0, 1, 2, 0x155, 0x200, 0x2AA, 0x3FE, 0x3FF)], dtype="<u2")  # fmt: skip
    with np.errstate(invalid="ignore"):
        wide = codes.view("<f2").astype("<f4")
    bits = wide.view("<u4").copy()
    bits[np.isnan(wide)] = NAN
    bits |= (codes.astype("<u4") >> 15) << 31
    for at in range(0, len(codes), 128):
        part = slice(at, at + 128)
        yield binary(
            f"halves {at}..{at + 127}", line("unpack", 16), codes[part].tobytes(), line("bytes", bits[part].tobytes())
        )
    finite = [int(b) for b in bits[:248]]
    ups = [int(b) for b in np.arange(1, 31744, 127, dtype="<u2").view("<f2").astype("<f4").view("<u4")]
    ties = [f32((Fraction(float(np.uint16(c).view("<f2"))) + Fraction(float(np.uint16(c + 1).view("<f2")))) / 2)
            for c in [*range(0, 12), 1022, 1023, 1024, 1025, 2047, 2048, 15359, 15360, 31741, 31742]]  # fmt: skip
    tiny = [f32(Fraction(1, 2**25)), f32(Fraction(1, 2**26)), f32(Fraction(1, 2**24))]
    over = [f32(Fraction(v)) for v in (65504, 65519, 65520, 65521, 65536, 2**100)]
    around = [bits + step for bits in (*finite[1:], *ups, *ties, *tiny, *over) for step in (-1, 0, 1)]
    for which, some in slices(signed([*ODD, *around])):
        with np.errstate(all="ignore"):
            narrow = np.array(some, dtype="<u4").view("<f4").astype("<f2")
        out = narrow.view("<u2").copy()
        out[np.isnan(narrow)] = 0x7E00
        out |= (np.array(some, dtype="<u4") >> 31 << 15).astype("<u2")
        yield binary(f"to halves, {which}", line("pack", 16), words(some), line("bytes", out.astype("<u2").tobytes()))


def plain() -> Iterator[Case]:
    patterns = words([*signed(ODD), 0x01020304, 0xFFFFFFFF])
    for bits in (0, 32):
        for verb in ("pack", "unpack"):
            yield binary(f"{verb} {bits} changes nothing", line(verb, bits), patterns, line("bytes", patterns))
    for bits in (0, 8, 16, 32):
        for verb in ("pack", "unpack"):
            yield text(f"{verb} nothing to {bits}", line(verb, bits), line("bytes", b""))


def write(name: str, cases: list[Case]) -> None:
    assert len({case["case"] for case in cases}) == len(cases), name
    HERE.mkdir(exist_ok=True)
    (HERE / name).write_text("".join(json.dumps(case) + "\n" for case in cases), encoding="utf-8")
    print(f"{name}: {len(cases)} cases")


if __name__ == "__main__":
    write("chain.jsonl", [*hashes()])
    write("eights.jsonl", [*eights()])
    write("halves.jsonl", [*halves(), *plain()])
