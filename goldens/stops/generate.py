"""Writes utf8.jsonl, splits.jsonl and search.jsonl: what may be shown of an answer, by definition.

    PYTHONPATH=host python goldens/stops/generate.py

Nothing here is a stream machine, or calls ours. After every piece the whole answer so far is looked at anew:

- Its certain characters are the longest common prefix of `(so far + ending).decode("utf-8", "replace")`, decoded by
  CPython, over endings that bring about whatever can still happen.
- The stop is the first place in them where any stop string is complete; of those complete there, the longest.
- Without one, all is shown but the longest end that is a proper prefix of a stop string.
"""

from __future__ import annotations

import json
import os
import pathlib
import random
from collections.abc import Iterable, Iterator

from ds4.sys.tape import escape, line

HERE = pathlib.Path(__file__).parent
Piece = bytes | None  # None: a flush

# With these behind it, any unfinished sequence is finished in one way and broken in another.
ENDINGS = [b"", b"A", *(bytes([b]) + b"\x80\xbf"[:n] for b in (0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF) for n in (0, 1, 2))]


def certain(raw: bytes) -> str:
    return os.path.commonprefix([(raw + ending).decode("utf-8", "replace") for ending in ENDINGS])


def pending(raw: bytes, text: str) -> int:
    return next(n for n in range(4) if raw[: len(raw) - n].decode("utf-8", "replace") == text)


def first_stop(stops: list[str], text: str) -> tuple[str, str] | None:
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return text[: end - len(stop)], stop
    return None


def held(stops: list[str], text: str) -> int:
    return max((n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n])), default=0)


def expected(stops: list[str], pieces: Iterable[Piece]) -> bytes:
    if "" in stops:
        return b"error stop_empty stops\n"
    out, raw, shown, found = b"", b"", 0, None
    for piece in pieces:
        if found is not None:
            out += b"stop %- " + escape(found[1]) + b"\n"
            continue
        raw += piece or b""
        text = raw.decode("utf-8", "replace") if piece is None else certain(raw)
        found = first_stop(stops, text)
        if found is not None:
            out += b"stop " + escape(found[0][shown:]) + b" " + escape(found[1]) + b"\n"
            continue
        holding = 0 if piece is None else held(stops, text)
        safe = text[: len(text) - holding]
        half = 0 if piece is None else pending(raw, text)
        out += b"shown %b %d %d\n" % (escape(safe[shown:]), half, holding)
        raw, shown = (b"", 0) if piece is None else (raw, len(safe))
    return out


def case(name: str, stops: list[str], pieces: list[Piece]) -> dict[str, str]:
    rows = [line("stops", *(stop.encode() for stop in stops))]
    rows += [b"flush\n" if piece is None else line("push", piece) for piece in pieces]
    return {"case": name, "input": b"".join(rows).decode(), "expected": expected(stops, pieces).decode()}


def splits(raw: bytes) -> Iterator[tuple[str, list[Piece]]]:
    """Whole, byte by byte, and cut once at every place; a flush behind each."""
    yield "whole", [raw, None]
    yield "bytes", [*(raw[i : i + 1] for i in range(len(raw))), None]
    for at in range(1, len(raw)):
        yield f"cut at {at}", [raw[:at], raw[at:], None]


# First bytes of each row of the table of well-formed UTF-8 with the bounds of what follows, and beyond them by one.
WELL_FORMED = """
00 7f c280 dfbf e0a080 e0bfbf e18080 ecbfbf ed8080 ed9fbf ee8080 efbfbf f0908080 f0bfbfbf f1808080
f3bfbfbf f4808080 f48fbfbf efbbbf efbfbd
"""
BROKEN = """
80 bf c0 c080 c1bf c27f c2c0 c2c280 df e0 e09fbf e080 e0a0 e0a07f e0a0c0 e180 e1807f e1c0 ec80c280
ed eda0 eda080 edbfbf eda080edb080 ed9f ed9f41 ee80 efbf efbfc0 f0 f08f f08fbfbf f090 f0907f f09080
f0908041 f09080c0 f1 f180 f18080 f180807f f3bfbf f4 f490 f4908080 f48f f48fbf f48fbf41 f5 f5808080
f8888080 fe ff ffff e28241 e282e282ac f09f98f09f9880 c3a9c3 808080 f4f4
"""
ANSWERS = [
    (["</think>"], "so</think>ok"),
    (["</think>"], "a</thi</think>"),
    (["</think>"], "a < b </ think>"),
    (["\nUser:", "\n\n"], "Hi.\nUse this\nUser: x"),
    (["\nUser:", "\n\n"], "one\n\nUser:"),
    (["aab"], "aaaab"),
    (["abab"], "abaabab"),
    (["abcd", "bc"], "xabcd"),
    (["bc", "abc"], "xabcd"),
    (["abc", "bc", "c"], "aabc"),
    (["abcde", "cdx", "x"], "abcdx"),
    (["aaaa", "aab"], "aaab"),
    (["a", "a"], "ba"),
    (["€"], "1€2"),
    (["é€"], "éé€"),
    (["😀"], "😁😀"),
    (["\U0001f1e9\U0001f1ea"], "\U0001f1e9\U0001f1e9\U0001f1ea"),
    (["\ufffd"], "a\ufffd"),
    (["\0"], "a\0b"),
    ([], "anything"),
    (["never"], "nev nneve"),
    ([" % "], "5 % 2"),
]
MIXED = [
    (["\ufffd"], b"ok\xc3"),
    (["\ufffd"], b"ok\xc3("),
    (["a\ufffdb"], b"xa\xe2\x82bc"),
    (["\ufffd\ufffd"], b"\xed\xa0"),
    (["€"], b"\xe2\x82\xe2\x82\xac"),
    (["ab"], b"a\xffab"),
    (["a\ufffd"], b"a\xf0\x9f\x98"),
]


def write(name: str, cases: Iterable[dict[str, str]]) -> None:
    text = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in cases)
    (HERE / name).write_text(text, encoding="utf-8")


def searches() -> Iterator[dict[str, str]]:
    """Random answers over two or three characters, cut and flushed anywhere."""
    chance = random.Random(20261129)
    for number in range(400):
        alphabet = chance.choice(("ab", "abc", "a€", "é😀a", "<\n>"))
        stops = ["".join(chance.choices(alphabet, k=chance.randint(1, 5))) for _ in range(chance.randint(1, 4))]
        pieces: list[Piece] = []
        for _ in range(chance.randint(1, 8)):
            raw = "".join(chance.choices(alphabet, k=chance.randint(0, 6))).encode()
            at = chance.randint(0, len(raw))
            pieces += [raw[:at], raw[at:]]
            if chance.random() < 0.15:
                pieces.append(None)
        yield case(f"search {number}", stops, [*pieces, None])


def main() -> None:
    sequences = [bytes.fromhex(word) for word in f"{WELL_FORMED} {BROKEN}".split()]
    write(
        "utf8.jsonl",
        (
            case(f"{raw.hex()} {where}, {how}", [], pieces)
            for raw in sequences
            for where, whole in (("alone", raw), ("between letters", b"a" + raw + b"z"))
            for how, pieces in splits(whole)
        ),
    )
    answers = [*((stops, text.encode()) for stops, text in ANSWERS), *MIXED]
    write(
        "splits.jsonl",
        (
            case(f"{n}: {stops} {how}", stops, pieces)
            for n, (stops, raw) in enumerate(answers)
            for how, pieces in splits(raw)
        ),
    )
    edges = [case("an empty stop string", ["a", ""], [b"a", None]), case("no pieces", ["a"], [])]
    edges.append(
        case("a stop string does not reach over a flush", ["st"], [b"s", None, b"t", None, b"st", None, b"st"])
    )
    edges.append(case("half a character does not reach over a flush", [], [b"\xe2\x82", None, b"\xac", None]))
    edges.append(case("empty pieces", ["ab"], [b"", b"a", b"", None, b"", None]))
    write("search.jsonl", [*edges, *searches()])


if __name__ == "__main__":
    main()
