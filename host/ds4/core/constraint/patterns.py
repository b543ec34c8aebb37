"""How large a regular expression is once its repetitions are written out: what its compiler pays for."""

from __future__ import annotations

import re
from typing import Final

MAX_EXPANDED: Final = 20_000
"""Places of a pattern. `(a{1000}){1000}` takes the compiler seconds."""

_PIECE = re.compile(r"\\.|\[\^?\]?(?:\\.|\[:\w+:\]|[^\]\\])*\]|\{(\d+)(,?)(\d*)\}|.", re.DOTALL)


def expanded(pattern: str) -> int:
    """Places of the pattern, each repetition counted as often as it may at most be written out. An estimate that needs
    no correct pattern."""
    sizes, last = [0], [0]  # of the groups that are open; of the last item in each
    for piece in _PIECE.finditer(pattern):
        text = piece[0]
        if piece[1] is not None:
            times = max(int(piece[1][:9]), int((piece[3] or "0")[:9]))
            sizes[-1] += last[-1] * max(0, times - 1)
            last[-1] *= max(1, times)
        elif text == "(":
            sizes.append(0)
            last.append(0)
        elif text == ")" and len(sizes) > 1:
            size = sizes.pop()
            last.pop()
            sizes[-1] += size
            last[-1] = size
        elif text not in "*+?|)":
            sizes[-1] += 1
            last[-1] = 1
    return sum(sizes)
