"""The malformed corpus: every fault of a GGUF file that we know of, and the verdict that each must have.

The verdicts are worked out by hand from docs/gguf.md and the order of checks in oracles/gguf/README.md. The faults of
one file are those that both readers of the project are held to (host/tests/support/gguf_faults.py, each with its
verdict); here they get the names under which others know them, and what one file alone does not show: shards, arrays
that are only looked into on demand, several faults at once, files that are cut or larger than what is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ds4.sys.tape import escape
from support.gguf_faults import FAULTS, nested
from support.gguf_writer import (
    ARRAY,
    BOOL,
    F32,
    I8,
    I32,
    STRING,
    TYPE_F16,
    TYPE_Q8_0,
    U8,
    U16,
    U32,
    U64,
    array,
    string,
    tiny_llama,
    tiny_shards,
    u32,
    u64,
)
from support.gguf_writer import GgufWriter as W

File = tuple[bytes, int, bytes]
"""(name, true size, head)."""


@dataclass(frozen=True)
class Case:
    name: str
    files: tuple[File, ...]
    expected: str
    command: str = "load"


# Names under which the faults of gguf_faults.py are known: the enum of llama.cpp's tests/test-gguf.cpp, and advisories.
KNOWN_AS = {
    "another magic": "test-gguf HEADER_BAD_MAGIC",
    "version 0": "test-gguf HEADER_BAD_VERSION_0",
    "version 1": "test-gguf HEADER_BAD_VERSION_1",
    "a future version": "test-gguf HEADER_BAD_VERSION_FUTURE",
    "a tensor count of all ones": "test-gguf HEADER_BAD_N_TENSORS; CVE-2024-21836",
    "a key count of all ones": "test-gguf HEADER_BAD_N_KV; CVE-2024-23605",
    "a key longer than the format allows": "test-gguf KV_BAD_KEY_SIZE; CVE-2024-23496",
    "an empty key": "test-gguf KV_EMPTY_KEY",
    "a value type of 13": "test-gguf KV_BAD_TYPE",
    "a key twice": "test-gguf KV_DUPLICATE_KEY",
    "an alignment of 48": "test-gguf KV_BAD_ALIGN, TENSORS_BAD_ALIGN, DATA_BAD_ALIGN",
    "an alignment of another type": "test-gguf KV_WRONG_TYPE_ALIGN",
    "an alignment of 2^31": "alignment without an upper bound, oss-security 2026 Q2",
    "an alignment of 0": "a division by zero, Ollama up to 0.3.14",
    "a tensor name of 65 bytes": "test-gguf TENSORS_BAD_NAME_SIZE",
    "a tensor of five dimensions": "test-gguf TENSORS_BAD_N_DIMS",
    "a tensor of 2^32-1 dimensions": "n_dims that exhausts memory, oss-security 2026 Q2; CVE-2024-21802",
    "a zero dimension": "test-gguf TENSORS_ZERO_DIM; refused here, newer releases of llama.cpp let it pass",
    "dimensions whose product wraps to a small one": "test-gguf TENSORS_NE_TOO_BIG; CVE-2024-21802",
    "a quantised size in bytes that overflows": "CVE-2026-33298, the quantised variant",
    "a tensor type that nobody knows": "test-gguf TENSORS_BAD_TYPE",
    "an offset that is not aligned": "test-gguf TENSORS_BAD_OFFSET",
    "a tensor twice": "test-gguf TENSORS_DUPLICATE_NAME",
    "an alignment that the offsets do not keep": "test-gguf TENSORS_INCONSISTENT_ALIGN, DATA_INCONSISTENT_ALIGN",
    "data that is too short by a byte": "test-gguf DATA_NOT_ENOUGH_DATA",
    "an offset past the end": "CVE-2026-7482, data read behind the file",
    "a string of 2^64-1 bytes": "CVE-2024-23496",
    "an array whose size wraps": "CVE-2024-21825",
    "an array string of 2^64-1 bytes": "CVE-2024-21825",
}

RIGHT: dict[str, bytes] = {
    "test-gguf HEADER_EMPTY": W().build(),
    "test-gguf TENSORS_CUSTOM_ALIGN, DATA_CUSTOM_ALIGN": (
        W(alignment=64).u32("general.alignment", 64).tensor("a", (3,)).tensor("b", (5, 2)).build()
    ),
    "version 2": W(version=2).u32("a", 1).tensor("t", (8,)).build(),
    "tensors that share all bytes, some, and none": (
        W()
        .tensor("a", (32,))
        .tensor("b", (16,), data=b"", offset=0)
        .tensor("c", (8,), data=b"", offset=96)
        .tensor("d", (8,))
        .build()
    ),
    "offsets out of order": (
        W().tensor("late", (8,), offset=32, data=b"").tensor("early", (8,), data=bytes(64)).build()
    ),
    "arrays of arrays": W().raw("a", ARRAY, array(ARRAY, [array(STRING, ["x", ""]), array(U8, [1, 2])])).build(),
    "an empty array": W().array("a", STRING, []).array("b", F32, []).build(),
    "a whole model": tiny_llama().build(),
    "names at their limits": W().u32("k" * 65535, 1).tensor("n" * 64, (1, 1, 1, 1)).build(),
}
"""Right files that belong to the list: what is legal, and the success cases of llama.cpp's test."""


def error(code: str, subject: str) -> str:
    return f"error {code} {escape(subject).decode()}\n"


def one(name: str, raw: bytes, expected: str, command: str = "load", size: int | None = None) -> Case:
    return Case(name, ((b"m.gguf", len(raw) if size is None else size, raw),), expected, command)


def cases() -> Iterator[Case]:
    yield from _single()
    yield from _further()
    yield from _edges()
    yield from _types()
    yield from _arrays()
    yield from _several()
    yield from _sets()
    yield from _largest()


def _largest() -> Iterator[Case]:
    """As many elements as there may be, of which no file has the bytes."""
    for dims in ((2**63 - 1,), (7**2 * 73 * 127, 337 * 92737 * 649657)):
        raw = W().tensor("t", dims, 24, data=b"").build()
        yield one(f"2^63 - 1 elements in {len(dims)} dimensions", raw, past("t"))


def _single() -> Iterator[Case]:
    assert set(KNOWN_AS) <= set(FAULTS)
    for name, (file, code, subject, _, _) in FAULTS.items():
        raw = file if isinstance(file, bytes) else file.build()
        title = f"{name} ({KNOWN_AS[name]})" if name in KNOWN_AS else name
        if len(raw) <= 70_000:
            yield one(title, raw, error(code, subject))
        else:  # a count within a large file: its header is enough
            yield one(title, raw[:24], error(code, subject), size=len(raw))


def _further() -> Iterator[Case]:
    wrapping = W().tensor("a", (0x7FFFFFFFFFFFFFC0,), 24, data=b"").tensor("b", (0x7FFFFFFFFFFFFFC0,), 24, data=b"")
    yield one("test-gguf DATA_MEM_SIZE_OVERFLOW; CVE-2025-53630, CVE-2026-27940", wrapping.build(), past("a"))
    pad = W().tensor("a", (4, 2**30 - 1, 2**30 + 1), data=b"")
    yield one("test-gguf TENSORS_NBYTES_PAD_WRAP; CVE-2026-33298", pad.build(), error("gguf_dims", "a"))
    big = W().tensor("a", (2**31, 2**29 + 1), 27, data=b"")
    yield one("test-gguf TENSORS_NBYTES_TOO_BIG", big.build(), error("gguf_dims", "a"))
    # 2^64-1 of a signed 64-bit dimension is -1.
    yield one(
        "test-gguf TENSORS_BAD_SHAPE, a negative dimension",
        W().tensor("a", (2**64 - 1,), data=b"").build(),
        error("gguf_dims", "a"),
    )
    yield one(
        "an end that wraps past 2^64",
        W().tensor("a", (2**60,), offset=2**63 - 32, data=b"").build(),
        past("a"),
    )
    yield one("a file of one byte less than its header", bytes(W().build()[:23]), error("gguf_truncated", "key count"))
    yield one("four right bytes", b"GGUF", error("gguf_truncated", "version"))
    yield one("a big-endian file of version 2", b"GGUF\0\0\0\2" + bytes(16), error("gguf_big_endian", "version"))
    yield one("a version of 65536, big-endian 256", W(version=65536).build(), error("gguf_big_endian", "version"))
    yield one("a key with a mark that turns text around", W().u32("a\u202eb", 1).build(), error("gguf_name", "key 0"))
    yield one("a key with a mark that cannot be seen", W().u32("a\u200bb", 1).build(), error("gguf_name", "key 0"))
    yield one(
        "a tensor name that ends in a C1 control", W().tensor("a\x9b", (1,)).build(), error("gguf_name", "tensor 0")
    )
    yield one("an overlong UTF-8 form", W().raw(b"\xc0\xaf", U32, u32(1)).build(), error("gguf_utf8", "key 0"))
    yield one("UTF-8 beyond U+10FFFF", W().string("a", b"\xf4\x90\x80\x80").build(), error("gguf_utf8", "a"))
    yield one("a UTF-8 sequence cut short", W().string("a", b"\xe2\x82").build(), error("gguf_utf8", "a"))
    yield one(
        "a long subject is cut",
        W().raw("k" * 97, BOOL, b"\x02").build(),
        error("gguf_bool", "k" * 93 + "..."),
    )
    yield one("a long subject of 96 stays", W().raw("k" * 96, BOOL, b"\x02").build(), error("gguf_bool", "k" * 96))
    yield one(
        "a subject that is not ASCII",
        W().raw("é€😀", BOOL, b"\x02").build(),
        error("gguf_bool", "\\xe9\\u20ac\\U0001f600"),
    )
    yield one(
        "tensors of a file that has no room for a directory",
        W(n_tensors=1).build(),
        error("gguf_count", "tensor count"),
    )
    cut = W().string("general.name", "x" * 40).tensor("t", (8,)).build()
    yield one("a head that ends within the metadata", cut[:60], "short 0\n", size=len(cut))
    yield one("a head without the data is enough to judge it", cut[:140], past("t"), size=len(cut) - 1)


def header(n_tensors: int, n_keys: int) -> bytes:
    return b"GGUF" + u32(3) + u64(n_tensors) + u64(n_keys)


def _edges() -> Iterator[Case]:
    """The last value that is right and the first that is wrong.

    A count that is right leads on to keys or tensors, which are not on the tape.
    """
    tensors, keys = error("gguf_count", "tensor count"), error("gguf_count", "key count")
    yield one("65536 keys", header(0, 65536), "short 0\n", size=24 + 14 * 65536)
    yield one("65536 keys in a byte too few", header(0, 65536), keys, size=23 + 14 * 65536)
    yield one("65537 keys", header(0, 65537), keys, size=24 + 14 * 65537)
    yield one("262144 tensors", header(262144, 0), "short 0\n", size=16 + 33 * 262144)
    yield one("262144 tensors in a byte too few", header(262144, 0), tensors, size=15 + 33 * 262144)
    yield one("262145 tensors", header(262145, 0), tensors, size=16 + 33 * 262145)
    for version, code in (
        (0xFFFF0000, "gguf_big_endian"),
        (0x00000100, "gguf_big_endian"),
        (0xFFFF0100, "gguf_version"),
    ):
        swapped = int.from_bytes(version.to_bytes(4, "little"), "big")
        expected = error(code if swapped <= 65535 else "gguf_version", "version")
        yield one(f"a version of {version}, {swapped} the other way round", W(version=version).build(), expected)
    for low, high in ((0x00, 0x1F), (0x7F, 0x9F), (0xAD, 0xAD), (0x61C, 0x61C), (0x200B, 0x200F), (0x2028, 0x202E),
                      (0x2060, 0x206F), (0xFEFF, 0xFEFF), (0xFFF0, 0xFFFF), (0xE0000, 0xE0FFF)):  # fmt: skip
        for point in sorted({low, high}):
            raw = W().u32(f"a{chr(point)}", 1).build()
            yield one(f"a key with U+{point:04X}", raw, error("gguf_name", "key 0"))
        for point in (low - 1, high + 1):
            if point >= 0x20:
                raw = W().raw(f"a{chr(point)}", BOOL, b"\2").build()
                shown = chr(point) if 0x20 <= point < 0x7F else ascii(chr(point))[1:-1]
                yield one(f"a key with U+{point:04X} is read", raw, error("gguf_bool", f"a{shown}"))
    inner = [array(U8, []), array(U8, [])]
    short = W(alignment=1).raw("a", ARRAY, array(ARRAY, inner, count=3)).build()
    yield one("an array of one array too many", short, error("gguf_array_count", "a"))
    strings = W(alignment=1).raw("a", ARRAY, array(STRING, ["", ""], count=3)).build()
    yield one("an array of one string too many", strings, error("gguf_array_count", "a"))


# Elements and bytes of a block, from the static assertions of ggml-common.h.
BLOCKS = {
    **{0: (1, 4), 1: (1, 2), 2: (32, 18), 3: (32, 20), 6: (32, 22), 7: (32, 24), 8: (32, 34), 9: (32, 36)},
    **{10: (256, 84), 11: (256, 110), 12: (256, 144), 13: (256, 176), 14: (256, 210), 15: (256, 292), 16: (256, 66)},
    **{17: (256, 74), 18: (256, 98), 19: (256, 50), 20: (32, 18), 21: (256, 110), 22: (256, 82), 23: (256, 136)},
    **{24: (1, 1), 25: (1, 2), 26: (1, 4), 27: (1, 8), 28: (1, 8), 29: (256, 56), 30: (1, 2), 34: (256, 54)},
    **{35: (256, 66), 39: (32, 17), 40: (64, 36), 41: (128, 18), 42: (64, 18)},
}


def _types() -> Iterator[Case]:
    for number in range(44):
        block, nbytes = BLOCKS.get(number, (1, 1))
        raw = W().tensor("t", (2 * block, 3), number, data=bytes(6 * nbytes)).build()
        if number in BLOCKS:
            told = f"ok 1\nshard 0 0 3 32 96 {len(raw)} 0 1\ntensor t 0 {number} 96 {6 * nbytes} {2 * block} 3\n"
            yield one(f"a tensor of type {number}", raw, told)
            yield one(f"a tensor of type {number}, a byte too short", raw[:-1], past("t"))
        else:
            yield one(f"a tensor of type {number}, which there is not", raw, kind("t"))
        if block > 1:
            crooked = W().tensor("t", (block + block // 2, 2), number, data=b"").build()
            yield one(f"rows of one block and a half of type {number}", crooked, error("gguf_blocks", "t"))


def past(name: str) -> str:
    return error("gguf_tensor_past_end", name)


def _arrays() -> Iterator[Case]:
    """What `load` leaves to those who ask for an array, and `check` finds."""
    text = W().raw("a", ARRAY, array(STRING, ["x", b"\xff"])).build()
    yield one("an array string that is no UTF-8", text, error("gguf_utf8", "a[1]"), "check")
    flag = W().raw("a", ARRAY, u32(BOOL) + u64(3) + b"\0\1\2").build()
    yield one("an array boolean of 2", flag, error("gguf_bool", "a[2]"), "check")
    inner = W().raw("a", ARRAY, array(ARRAY, [array(U8, [1]), array(STRING, ["x", "y", b"\xc3"])])).build()
    yield one("a string of an inner array that is no UTF-8", inner, error("gguf_utf8", "a[1][2]"), "check")
    both = W().raw("a", ARRAY, array(ARRAY, [array(STRING, [b"\xff"]), u32(BOOL) + u64(1) + b"\2"]))
    yield one("two bad elements: the first in the file", both.build(), error("gguf_utf8", "a[0][0]"), "check")
    late = W().raw("a", ARRAY, array(STRING, [b"\xff"])).tensor("t", (8,), offset=3200)
    yield one("a bad element and data past the end", late.build(), past("t"), "check")
    yield one(
        "an array of four levels with a bad boolean",
        W().raw("a", ARRAY, nested(3)[:12] + nested(2)[:12] + array(ARRAY, [u32(BOOL) + u64(1) + b"\7"])).build(),
        error("gguf_bool", "a[0][0][0][0]"),
        "check",
    )


def _several() -> Iterator[Case]:
    """Which of several faults is told."""
    yield one("bad version and bad counts", W(version=9, n_keys=2**63).build(), error("gguf_version", "version"))
    yield one("both counts bad", W(n_tensors=2**63, n_keys=2**63).build(), error("gguf_count", "tensor count"))
    yield one(
        "a repeated key whose value is bad as well",
        W().u32("a", 1).raw("a", 99, b"").build(),
        error("gguf_duplicate_key", "a"),
    )
    yield one(
        "a bad alignment and a bad tensor",
        W().u32("general.alignment", 3).tensor("a", (0,), 99, data=b"").build(),
        error("gguf_alignment", "general.alignment"),
    )
    yield one(
        "a bad alignment and a later bad key",
        W().u32("general.alignment", 3).raw("b", 99, b"").build(),
        error("gguf_value_type", "b"),
    )
    yield one(
        "a zero dimension, an overflow and an unknown type",
        W().tensor("a", (0, 2**63), 99, data=b"").build(),
        error("gguf_dims", "a"),
    )
    yield one("an unknown type and a crooked offset", W().tensor("a", (3,), 99, data=b"", offset=1).build(), kind("a"))
    yield one(
        "whole blocks before the offset",
        W().tensor("a", (3,), TYPE_Q8_0, data=b"", offset=1).build(),
        error("gguf_blocks", "a"),
    )
    yield one(
        "two tensors of one name, the first past the end",
        W().tensor("a", (8,), offset=3200).tensor("a", (8,), offset=0, data=b"").build(),
        past("a"),
    )
    yield one(
        "two tensors of one name, the second past the end",
        W().tensor("a", (8,)).tensor("a", (8,), offset=3200, data=b"").build(),
        error("gguf_duplicate_tensor", "a"),
    )
    yield one(
        "a tensor past the end, and a later one of a bad type",
        W().tensor("a", (8,), offset=3200).tensor("b", (8,), 99, data=b"").build(),
        kind("b"),
    )
    yield one(
        "a name that is too long, no UTF-8 and not there",
        W().raw(b"\xff" * 8, U32, u32(1), key_length=2**40).build(),
        error("gguf_string_length", "key 0"),
    )


def kind(name: str) -> str:
    return error("gguf_tensor_type", name)


def _sets() -> Iterator[Case]:
    """Shards that do not fit together."""

    def shards(change: int | None = None, key: str = "", value: tuple[int, bytes] | None = None) -> list[File]:
        made = tiny_shards()
        if change is not None:
            made.writers[change].without(key)
            if value is not None:
                made.writers[change].raw(key, *value)
        raws = [writer.build() for writer in made.writers]
        return [(b"m-%05d-of-00003.gguf" % (i + 1), len(raw), raw) for i, raw in enumerate(raws)]

    def case(name: str, files: list[File], code: str, subject: str) -> Case:
        return Case(name, tuple(files), error(code, subject))

    whole = shards()
    yield case("opened by the second shard", [whole[1], whole[0], whole[2]], "split_first", "m-00002-of-00003.gguf")
    yield case("a shard is missing", [whole[0], whole[2]], "split_missing", "m-00002-of-00003.gguf")
    yield case("two shards are missing", [whole[0]], "split_missing", "m-00002-of-00003.gguf")
    swapped = [whole[0], (whole[1][0], *whole[2][1:]), (whole[2][0], *whole[1][1:])]
    yield case("two shards are swapped", swapped, "split_number", "split.no")
    renamed = [(b"model.gguf", *whole[0][1:]), whole[1], whole[2]]
    yield case("a first shard of another name", renamed, "split_name", "model.gguf")
    four = [(name.replace(b"of-00003", b"of-00004"), size, raw) for name, size, raw in whole]
    yield case("names that tell of one shard more", four, "split_count", "split.count")
    yield case("no split.count in the first", shards(0, "split.count"), "metadata_missing", "split.count")
    yield case("no split.no in the third", shards(2, "split.no"), "metadata_missing", "split.no")
    yield case("split.no is a float", shards(1, "split.no", (F32, bytes(4))), "metadata_type", "split.no")
    minus = (I32, (-1).to_bytes(4, "little", signed=True))
    yield case("split.no is negative", shards(1, "split.no", minus), "metadata_range", "split.no")
    large = (U64, u64(2**32))
    yield case("split.count beyond 32 bits", shards(0, "split.count", large), "metadata_range", "split.count")
    total = (I32, u32(22))
    yield case(
        "a wrong total in the last", shards(2, "split.tensors.count", total), "split_tensors", "split.tensors.count"
    )
    wordy = (STRING, string("21"))
    yield case("a total that is text", shards(1, "split.tensors.count", wordy), "metadata_type", "split.tensors.count")
    double = tiny_shards()
    double.writers[1].tensors.append(double.writers[0].tensors[0])
    raws = [writer.build() for writer in double.writers]
    files = [(b"m-%05d-of-00003.gguf" % (i + 1), len(raw), raw) for i, raw in enumerate(raws)]
    yield case("a tensor in two shards", files, "split_duplicate", "token_embd.weight")
    broken = [whole[0], whole[1], (whole[2][0], 40, whole[2][2][:40])]
    yield case("a last shard that is cut", broken, "gguf_count", "tensor count")
    late = shards(1, "split.no")
    late[2] = (late[2][0], 0, b"")
    yield case("a shard that is cut, behind one out of place", late, "metadata_missing", "split.no")
    gone = [(whole[0][0], 3, b"GGU")]
    yield case("a broken first shard, and no others", gone, "gguf_magic", "magic")
    zero = [(b"m-00000-of-00002.gguf", len(single := W().build()), single)]
    yield Case("a number of 0 is no shard's", tuple(zero), f"ok 1\nshard 0 0 3 32 32 {len(single)} 0 0\n")
    other = W().number("split.count", U16, 2).build()
    yield case(
        "one of one that says it is one of two",
        [(b"m-00001-of-00001.gguf", len(other), other)],
        "split_count",
        "split.count",
    )
    nothing = W().build()
    bare = (b"m-00001-of-00001.gguf", len(nothing), nothing)
    yield Case("one of one without the keys of a set", (bare,), f"ok 1\nshard 0 0 3 32 32 {len(nothing)} 0 0\n")
    lost = W().number("split.count", U16, 3).number("split.no", U16, 1).build()
    yield case("wrong in both", [(b"m-00001-of-00002.gguf", len(lost), lost)], "split_count", "split.count")
    alone = W().number("split.tensors.count", U16, 2).tensor("a", (8,), TYPE_F16).build()
    yield one("a single file with a wrong total", alone, error("split_tensors", "split.tensors.count"))
    yield one(
        "a single file whose split.count is an array",
        W().array("split.count", I8, [1]).build(),
        error("metadata_type", "split.count"),
    )
