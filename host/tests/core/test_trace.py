"""The format of traces: what is written is read again; what is cut, garbled or impossible is a typed error."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from ds4.core.sampling import Sampling
from ds4.core.trace import Token, Trace, TracedChoice, TraceError, decode, encode


def drawn(rng: random.Random) -> Trace:
    """A trace of any shape."""

    def text() -> str:
        return "".join(rng.choice('aé\n"\\\u2028🙂\x00{}') for _ in range(rng.randrange(12)))

    choices = [
        TracedChoice(
            [rng.randrange(2**31) for _ in range(rng.randrange(1, 20))],
            Sampling(
                temperature=rng.choice((0, 0.7, 1.5)),
                top_p=rng.choice((1.0, 0.1)),
                top_k=rng.randrange(50),
                logit_bias={rng.randrange(1000): rng.uniform(-100, 100) for _ in range(rng.randrange(3))},
            ),
            rng.randrange(2**64),
            [text() for _ in range(rng.randrange(3))],
            rng.random() < 0.5,
            rng.random() < 0.5,
        )
        for _ in range(rng.randrange(4))
    ]
    tokens = [
        Token(rng.randrange(len(choices)), rng.randrange(2**31), rng.randrange(10**6) / 1000, 1, rng.randrange(99), 7)
        for _ in range(rng.randrange(30) if choices else 0)
    ]
    return Trace(
        *(text() for _ in range(2)), rng.randrange(2**40), *(text() for _ in range(4)), rng.randrange(1, 2**31),
        {text(): [text(), None, 1.5]}, choices, tokens, text(), rng.choice(("finished", "failed", "gone")), 12.5,
    )  # fmt: skip


WHOLE = encode(drawn(random.Random(5)))


@pytest.mark.parametrize("seed", range(200))
def test_what_is_written_is_read_again(seed: int) -> None:
    trace = drawn(random.Random(seed))
    assert decode(encode(trace)) == trace


def test_a_file_from_before_answers_were_marked_as_held_is_read() -> None:
    trace = replace(drawn(random.Random(5)), choices=CHOICES, tokens=TOKENS)
    assert decode(encode(trace).replace(b',"held":false', b"")) == trace


def test_every_cut_is_told() -> None:
    for end in range(len(WHOLE)):
        with pytest.raises(TraceError):
            decode(WHOLE[:end])


@pytest.mark.parametrize("seed", range(30))
def test_garbled_bytes_give_a_trace_or_a_typed_error_and_nothing_else(seed: int) -> None:
    rng = random.Random(seed)
    refused = 0
    for _ in range(100):
        data = bytearray(encode(drawn(rng)))
        for _ in range(rng.randrange(1, 4)):
            at = rng.randrange(len(data))
            match rng.randrange(3):
                case 0:
                    data[at] = rng.randrange(256)
                case 1:
                    del data[at : at + rng.randrange(1, 30)]
                case _:
                    data[at:at] = rng.choice(
                        (b"9" * 400, b"[" * 2000, b"NaN", b"null", b"-1", b"\n", b"\xff", b"1e999")
                    )
            data = data or bytearray(b"\n")
        try:
            decode(bytes(data))
        except TraceError:
            refused += 1
    assert refused > 50


def lines() -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for line in encode(replace(drawn(random.Random(5)), choices=CHOICES, tokens=TOKENS)).splitlines()
    ]


CHOICES = [TracedChoice([1, 2], Sampling(), 3)]
TOKENS = [Token(0, 5, 1.0, 1, 0, 10)]


@pytest.mark.parametrize(
    ("line", "change", "message"),
    [
        (0, {"kind": "gguf"}, "another line is due"),
        (0, {"version": 2}, "another version"),
        (0, {"version": True}, "line 1, version"),
        (0, {"context": 0}, "line 1, context"),
        (0, {"numeric": None}, "line 1, numeric"),
        (1, {"body": []}, "line 2, body"),
        (2, {"index": 1}, "line 3, index"),
        (2, {"prompt": []}, "line 3, prompt"),
        (2, {"prompt": [1, -1]}, "line 3, prompt"),
        (2, {"prompt": [1, True]}, "line 3, prompt"),
        (2, {"seed": 2**64}, "line 3, seed"),
        (2, {"sampling": {"temperature": -1}}, "line 3, sampling"),
        (2, {"sampling": {"logit_bias": {"x": 1}}}, "line 3, logit_bias"),
        (2, {"sampling": {"logit_bias": {"1": "x"}}}, "line 3, sampling"),
        (2, {"held": 1}, "line 3, held"),
        (2, {"stop": [1]}, "line 3, stop"),
        (3, {"choice": 1}, "line 4, choice"),
        (3, {"token": -1}, "line 4, token"),
        (3, {"ms": -1}, "line 4, ms"),
        (4, {"text": 1}, "line 5, text"),
        (5, {"outcome": "well"}, "no such outcome"),
        (5, {"tokens": 2}, "missing or too many"),
    ],
)
def test_what_cannot_be_is_refused_by_line_and_field(line: int, change: dict[str, Any], message: str) -> None:
    given = lines()
    given[line] |= change
    data = b"".join(json.dumps(one).encode() + b"\n" for one in given)
    with pytest.raises(TraceError, match=message):
        decode(data)


def test_fields_that_are_not_known_are_passed_over() -> None:
    data = b"".join(json.dumps({**one, "later": 1}).encode() + b"\n" for one in lines())
    assert decode(data).choices == CHOICES


@pytest.mark.parametrize("data", [b"", b"\n", b"GGUF\x03\x00\n", b"[]\n", b"{}\n", b"\xff\xfe\n", b'{"kind": 7}\n'])
def test_other_files_are_no_traces(data: bytes) -> None:
    with pytest.raises(TraceError):
        decode(data)
    with pytest.raises(TraceError, match="more behind the end"):
        decode(WHOLE + b"{}\n")
