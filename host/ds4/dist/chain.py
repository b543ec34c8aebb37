"""The hash that chains a session's tokens, so that both ends of a connection know that they hold the same.

64-bit FNV-1a over the four little-endian bytes of each id, from a start of the protocol's own. It finds mistakes, not
malice.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from ds4.core import components
from ds4.errors import FrameError

START = 1469598103934665603
"""The hash of no tokens. One digit short of FNV's offset basis: whoever wrote it first left it out, and the wire has it
so."""

PRIME = 1099511628211
U32_MAX = 2**32 - 1
_MASK = 2**64 - 1


def chain_python(tokens: Sequence[int], start: int = START) -> int:
    """The hash after `tokens`, when it was `start` before. Raises FrameError (frame_range) for an id that is no u32."""
    try:
        raw = struct.pack(f"<{len(tokens)}I", *tokens)
    except struct.error:
        bad = next(token for token in tokens if not 0 <= token <= U32_MAX)
        raise FrameError("no u32", code="frame_range", subject="ids", expected=f"0..{U32_MAX}", found=bad) from None
    value = start
    for byte in raw:
        value = (value ^ byte) * PRIME & _MASK
    return value


def _chain_oracle(tokens: Sequence[int], start: int = START) -> int:
    from ds4.dist import tapes

    return tapes.chain_by_oracle(tokens, start)


chain = components.pick("frames", python=chain_python, oracle=_chain_oracle)
