"""Writes worked/ties.jsonl: cases whose answer is worked out by hand from the contract, ties above all.

    python goldens/sampler/generate_worked.py

Weights are 1 for equal logits, and logits are small integers, so that every sum and product here is exact.
"""

from __future__ import annotations

import json
import math
import pathlib
import struct
from typing import Any

HERE = pathlib.Path(__file__).parent / "worked"
INF = math.inf
REFUSED = "error engine_argument"

# (what it shows, logits, settings that differ from "temperature 1, nothing else", the answer)
CASES: list[tuple[str, list[float], dict[str, Any], str]] = [
    ("greedy: the highest", [1, 3, 2], {"t": 0}, "token 1"),
    ("greedy: of equal ones the lowest id", [1, 3, 3, 3], {"t": 0}, "token 1"),
    ("greedy: one that is no number is never chosen", [math.nan, 1, 2], {"t": 0}, "token 2"),
    ("greedy: a mask hides the highest", [1, 3, 2], {"t": 0, "mask": "101"}, "token 2"),
    ("greedy: a bias lifts one to a tie, the lower id wins", [1, 3, 2], {"t": 0, "bias": "0 40000000"}, "token 0"),
    ("greedy: the uniform does nothing", [1, 3, 2], {"t": 0, "u": 0.999}, "token 1"),
    ("greedy: filters do nothing", [1, 3, 2], {"t": 0, "k": 1, "p": 0.5, "m": 0.5}, "token 1"),
    ("nothing is possible: token 0", [-INF, -INF], {}, "token 0"),
    ("nothing is possible: the lowest id that the mask allows", [-INF, -INF, -INF], {"mask": "011"}, "token 1"),
    ("a mask that allows nothing: token 0", [1, 2], {"mask": "00"}, "token 0"),
    ("four equal: uniform 0 is the first", [0, 0, 0, 0], {"u": 0.0}, "token 0"),
    ("four equal: just below a quarter is the first", [0, 0, 0, 0], {"u": 0.2499}, "token 0"),
    ("four equal: a quarter is the second", [0, 0, 0, 0], {"u": 0.25}, "token 1"),
    ("four equal: three quarters is the last", [0, 0, 0, 0], {"u": 0.75}, "token 3"),
    ("the largest uniform is the last", [0, 0, 0, 0], {"u": 1 - 2**-53}, "token 3"),
    ("the draw goes by id, not by rank", [0, 1000, 0], {"u": 0.0, "k": 1}, "token 1"),
    ("the draw goes by id: two of one weight apart", [7, 0, 7], {"u": 0.5, "k": 2}, "token 2"),
    ("the draw goes by id: below the half", [7, 0, 7], {"u": 0.4999, "k": 2}, "token 0"),
    ("top_k of equal ones keeps the lowest ids", [2, 2, 2, 2], {"k": 2, "u": 0.999}, "token 1"),
    ("top_k above the vocabulary keeps all", [2, 2], {"k": 9, "u": 0.5}, "token 1"),
    ("top_p of exactly a half keeps two of four", [2, 2, 2, 2], {"p": 0.5, "u": 0.999}, "token 1"),
    ("top_p just above a half keeps three of four", [2, 2, 2, 2], {"p": 0.50001, "u": 0.999}, "token 2"),
    ("top_p keeps at least one", [2, 2, 2, 2], {"p": 1e-6, "u": 0.999}, "token 0"),
    ("top_p counts what top_k left", [2, 2, 2, 2], {"k": 2, "p": 0.5, "u": 0.999}, "token 0"),
    ("min_p keeps equal ones, however many", [5, 5, 5, 5], {"m": 0.99, "u": 0.75}, "token 3"),
    ("min_p drops what is far below", [9, 0, 9], {"m": 0.5, "u": 0.5}, "token 2"),
    ("two infinite share the draw", [INF, 1, INF], {"u": 0.5}, "token 2"),
    ("a low temperature leaves the highest", [1, 2, 3], {"t": 1e-30, "u": 0.0}, "token 2"),
    ("a high temperature makes all equal", [1000, 0, -1000, 5], {"t": 1e30, "u": 0.75}, "token 3"),
    ("repetition divides what is above 0", [4, 3], {"t": 0, "r": 2.0, "history": "1 0"}, "token 1"),
    ("repetition multiplies what is below 0", [-2, -3], {"t": 0, "r": 2.0, "history": "1 0"}, "token 1"),
    ("repetition counts an id once", [8, 3], {"t": 0, "r": 2.0, "history": "3 0 0 0"}, "token 0"),
    ("frequency counts each time", [4, 3], {"t": 0, "f": 0.5, "history": "0 0 0 0"}, "token 1"),
    ("frequency to a tie: the lower id", [4, 3], {"t": 0, "f": 0.5, "history": "0 0 0"}, "token 0"),
    ("frequency does not count the prompt", [4, 3], {"t": 0, "f": 2.0, "history": "3 0 0 0"}, "token 0"),
    ("presence counts once", [4, 3.5], {"t": 0, "q": 0.75, "history": "0 0 0 0"}, "token 1"),
    ("presence does not count the prompt", [4, 3.5], {"t": 0, "q": 0.75, "history": "3 0 0 0"}, "token 0"),
    ("a negative presence lifts", [3, 3.5], {"t": 0, "q": -1.0, "history": "0 0"}, "token 0"),
    ("penalties come after the bias", [1, 3], {"t": 0, "r": 2.0, "bias": "0 40a00000", "history": "1 0"}, "token 0"),
    ("an id outside the vocabulary does nothing", [4, 3], {"t": 0, "r": 9.0, "history": "0 -1 2 99"}, "token 0"),
    ("log-probabilities are of the raw logits", [0, 0], {"t": 0, "bias": "1 40000000", "top": 2},
     "token 1\nlogprob bf317218\ntop 0:bf317218 1:bf317218"),
    ("no more likeliest than there are", [0, 0], {"t": 0, "top": 64},
     "token 0\nlogprob bf317218\ntop 0:bf317218 1:bf317218"),
    ("one that cannot be has no probability", [0, -INF], {"t": 0, "top": 2},
     "token 0\nlogprob 00000000\ntop 0:00000000 1:ff800000"),
    ("no logits", [], {"mask": "%-"}, REFUSED),
    ("a temperature below 0", [1], {"t": -1.0}, REFUSED),
    ("an infinite temperature", [1], {"t": INF}, REFUSED),
    ("a temperature that is no number", [1], {"t": math.nan}, REFUSED),
    ("a negative top_k", [1], {"k": -1}, REFUSED),
    ("top_p of 0", [1], {"p": 0.0}, REFUSED),
    ("top_p above 1", [1], {"p": 1.5}, REFUSED),
    ("min_p of 1", [1], {"m": 1.0}, REFUSED),
    ("min_p below 0", [1], {"m": -0.5}, REFUSED),
    ("repetition of 0", [1], {"r": 0.0}, REFUSED),
    ("an infinite repetition", [1], {"r": INF}, REFUSED),
    ("frequency above 2", [1], {"f": 2.5}, REFUSED),
    ("presence below -2", [1], {"q": -2.5}, REFUSED),
    ("a bias past the vocabulary", [1], {"bias": "1 3f800000"}, REFUSED),
    ("a bias of a negative id", [1], {"bias": "-1 3f800000"}, REFUSED),
    ("a bias that is no number", [1], {"bias": "0 7fc00000"}, REFUSED),
    ("a uniform of 1", [1], {"u": 1.0}, REFUSED),
    ("a uniform below 0", [1], {"u": -0.1}, REFUSED),
    ("a uniform that is no number, though greedy", [1], {"t": 0, "u": math.nan}, REFUSED),
    (
        "the log-probability of one that is no number is -infinity",
        [math.nan, 5], {"mask": "10", "top": 1}, "token 0\nlogprob ff800000\ntop 1:00000000",
    ),
]  # fmt: skip


def h32(value: float) -> str:
    return struct.pack(">f", value).hex()


def tape(logits: list[float], s: dict[str, Any]) -> str:
    settings = [h32(s.get("t", 1)), str(s.get("k", 0)), h32(s.get("p", 1)), h32(s.get("m", 0)),
                h32(s.get("r", 1)), h32(s.get("f", 0)), h32(s.get("q", 0))]  # fmt: skip
    rows = (
        ["sampler", *settings], ["uniform", struct.pack(">d", s.get("u", 0.5)).hex()], ["logits", *map(h32, logits)],
        ["bias", *s.get("bias", "").split()], ["mask", s.get("mask", "all")], ["history", s.get("history", "0")],
        ["top", str(s.get("top", 0))],
    )  # fmt: skip
    return "".join(" ".join(row) + "\n" for row in rows)


def main() -> None:
    rows = [
        json.dumps({"case": name, "input": tape(logits, settings), "expected": answer + "\n"}) + "\n"
        for name, logits, settings, answer in CASES
    ]
    (HERE / "ties.jsonl").write_text("".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
