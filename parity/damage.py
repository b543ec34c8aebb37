"""One mutation of valid bytes: what tells whether a reader believes what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from parity.choices import Choices

NUMBERS = (0, 1, 2, 3, 4, 5, 7, 8, 16, 32, 40, 64, 127, 128, 255, 256, 257, 1024, 1025, 65535, 65536, 65537, 2**24,
           2**29, 2**29 + 1, 2**30, 2**30 + 1, 2**31 - 1, 2**31, 2**32 - 4, 2**32 - 1)  # fmt: skip
"""Values of 32 bits at which something changes in one format or another."""

WIDE = (*NUMBERS, 2**32, 2**32 + 1, 2**63, 2**64 - 64, 2**64 - 1)
"""The same for 64 bits."""


def damaged(choices: Choices, raw: bytes, order: Literal["little", "big"], fields: Sequence[int] = ()) -> bytes:
    """`raw`, or something near it. fields: offsets of its 32-bit numbers, which are hit more often than other bytes."""
    kind = choices.below(12)
    if kind < 4 or not raw:
        return raw
    if kind == 4:
        return raw[: choices.below(len(raw))]
    if kind == 5:
        return raw[: -1 - choices.below(min(len(raw), 12))]
    if kind == 6:
        return raw + bytes([choices.below(256)] * (1 + choices.below(12)))
    out = bytearray(raw)
    if kind < 10 and fields:
        at = choices.of(fields)
        near = int.from_bytes(raw[at : at + 4], order)
        value = choices.of(NUMBERS) if choices.below(2) else (near + choices.below(9) - 4) % 2**32
        out[at : at + 4] = value.to_bytes(4, order)
    elif kind == 10:
        at = choices.below(len(raw))
        del out[at : at + 1 + choices.below(4)]
    else:
        out[choices.below(len(raw))] = choices.below(256)
    return bytes(out)
