"""`stops`: bytes in pieces to the text that may be shown."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from ds4.core.output.stops import StopMatcher
from ds4.core.output.utf8 import Utf8Stream
from ds4.core.tapes.stops import StopsInput, by_tape, write_input

from parity.choices import Choices
from parity.component import Component, Generated, Speed, plain

ALPHABETS = (
    ("a", "b"),
    ("a", "b", "c", "ab", "aab"),
    ("é", "€", "a", "\u00e8", "\u20ad"),
    ("😀", "😁", "\U0001f1e9", "a"),
    ("</", "think", ">", "<", "\n"),
    ("\ufffd", "a", "\ufeff", "\0"),
)
# Whole and broken sequences of every row of the UTF-8 table, and bytes that begin nothing.
FRAGMENTS = (
    *(bytes([b]) for b in (0x80, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF, 0xA0, 0x90)),
    *(
        bytes.fromhex(h)
        for h in "e0a0 e09f ed9f eda0 edbf f090 f08f f48f f490 e282 f09f98 edafbfedb0 c280 efbfbd".split()
    ),
)


def tape(data: bytes, events: int = 24) -> bytes:
    """A tape out of bytes: stop strings over a small alphabet, and pieces of text that keeps nearly being one."""
    choices = Choices(data)
    alphabet = choices.of(ALPHABETS)
    stops = ["".join([choices.of(alphabet) for _ in range(1 + choices.below(5))]) for _ in range(choices.below(5))]
    if choices.once_in(64):
        stops.insert(choices.below(len(stops) + 1), "")
    pieces: list[bytes | None] = []
    rest = b""
    for _ in range(events):
        if not choices.left:
            break
        if choices.once_in(20):
            pieces.append(None)
            continue
        piece = rest + b"".join([_atom(choices, alphabet, stops) for _ in range(choices.below(5))])
        cut = choices.below(len(piece) + 1) if choices.once_in(2) else len(piece)
        pieces.append(piece[:cut])
        rest = piece[cut:]
    return write_input(StopsInput(tuple(stops), (*pieces, None)))


def _atom(choices: Choices, alphabet: tuple[str, ...], stops: list[str]) -> bytes:
    kind = choices.below(16)
    if kind < 9:
        return choices.of(alphabet).encode()
    if kind < 13 and stops:
        stop = choices.of(stops)
        return stop[: choices.below(len(stop) + (kind == 12) or 1)].encode()
    return choices.of(FRAGMENTS) if kind < 15 else bytes([choices.below(256)])


def soak(rng: random.Random) -> bytes:
    return tape(rng.randbytes(1 << 16), 8000)


def _answer() -> tuple[Callable[[], object], bytes]:
    """An answer of 64 tokens under four stop strings, some of which nearly begin now and then."""
    stops = ("</think>", "\nUser:", "<|im_end|>", "END")
    text = "The answer is 42 , as every caf\xe9 knows : it says <b> so on a wall .\n\n Ask again in an Era of peace !"
    words = [" " + word for word in text.split(" ")]
    pieces = [piece for word in words for piece in re.split(b"(?<=\xc3)", word.encode())]
    pieces = (pieces * 3)[:64]

    def answer() -> str:
        decoder, matcher = Utf8Stream(), StopMatcher(stops)
        shown = [matcher.push(decoder.push(piece))[0] for piece in pieces]
        shown.append(matcher.push(decoder.flush())[0] + matcher.flush())
        return "".join(shown)

    return answer, write_input(StopsInput(stops, (*pieces, None)))


COMPONENT = Component(
    name="stops",
    about="bytes of an answer in any pieces to the text that may be shown: UTF-8 and stop strings held back",
    axes=("token", "wire", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(tape, least=24, most=160),
    soak=soak,
    speed=Speed(_answer),
    sources=(
        "host/ds4/core/output/stops.py",
        "host/ds4/core/output/utf8.py",
        "host/ds4/core/tapes/stops.py",
        "oracles/stops/*",
        "parity/components/stops.py",
        "parity/choices.py",
        "goldens/stops/*",
    ),
)
