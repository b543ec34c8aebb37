"""How large a regular expression is once its repetitions, and the terminals in it, are written out: what its compiler
pays for."""

from __future__ import annotations

import re
from collections import Counter
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


_DEFINED = re.compile(
    r"^[ \t]*+[?!]?(_?[A-Z][A-Z0-9_]*+)[ \t]*+(?:\.[ \t]*+-?\d++[ \t]*+)?(?:\[[^\]\n]*+\][ \t]*+)?:", re.MULTILINE
)
_NEXT = re.compile(r"^[ \t]*+[?!]?\w[^\n:\"/|(]*+:|^[ \t]*+%", re.MULTILINE)
_NAMED = re.compile(r"\"(?:[^\"\\\n]|\\.)*+\"|//[^\n]*+|/(?:[^/\\\n]|\\.)++/|(?<![\w<])(_?[A-Z][A-Z0-9_]*+)(?!\w)")


def terminals(lark: str) -> int:
    """Places of a grammar's largest terminal, each reference to another counted as large as that is: a chain in which
    each takes the next one twice is written out. An estimate that needs no correct grammar; grammars inside it share
    its names. More than MAX_EXPANDED counts as one more."""
    uses: dict[str, Counter[str]] = {}
    for found in _DEFINED.finditer(lark):
        after = _NEXT.search(lark, found.end())
        body = lark[found.end() : len(lark) if after is None else after.start()]
        uses.setdefault(found[1], Counter()).update([name for name in _NAMED.findall(body) if name])
    sizes: dict[str, int] = {}
    for first in uses:
        todo = [] if first in sizes else [(first, iter(uses[first]))]
        sizes.setdefault(first, 1)  # while it is being looked at: one that takes itself is an error of its own
        while todo:
            name, rest = todo[-1]
            if (used := next((one for one in rest if one in uses and one not in sizes), None)) is not None:
                sizes[used] = 1
                todo.append((used, iter(uses[used])))
                continue
            total = 1 + sum([sizes.get(used, 1) * times for used, times in uses[name].items()])
            sizes[name] = min(total, MAX_EXPANDED + 1)
            todo.pop()
    return max(sizes.values(), default=0)
