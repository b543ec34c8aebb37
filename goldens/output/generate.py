"""Writes worked/transcripts.jsonl, splits.jsonl and closers.jsonl: answers worked out by hand, cut everywhere.

    PYTHONPATH=host python goldens/output/generate.py

No stream machine is here, and ours is not called. What a text says is read from the whole of it (`said`), and must be
what stands beside it in TRANSCRIPTS, written by hand. What has become certain after a piece is what all continuations
have in common: those that complete any marker which may have begun, and some that complete none.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Iterator
from itertools import groupby

from dsml.certainty import case
from dsml.closers import CLOSERS
from dsml.reading import STAND, Atom, said
from dsml.transcripts import DOUBLED, TRANSCRIPTS, Said

HERE = pathlib.Path(__file__).parent


def joined(atoms: list[Atom], kind: str) -> Said:
    out: Said = []
    for verb, group in groupby(atoms, key=lambda atom: atom[0]):
        texts = [text for _, _, text in group]
        if verb in ("reasoning", "content", "arguments"):
            out.append((verb, "".join(texts).replace(STAND, "")))
        else:
            out += [(verb, text) if verb in ("call", "void", "block") else (verb,) for text in texts]
    return [*out, (kind,)]


def cut(text: str) -> Iterator[int]:
    """Places inside and beside markup."""
    spots = [found.span() for found in re.finditer(r"\n*</?[^<>]*>?|&[a-z]*;?", text)]
    return (n for n in range(1, len(text)) if any(start <= n <= end for start, end in spots))


def main() -> None:
    whole, splits, closers = [], [], []
    for name, text, thinking, tools, by_hand in TRANSCRIPTS:
        atoms, kind, _ = said(text, thinking, tools)
        assert joined(atoms, kind) == by_hand, (name, joined(atoms, kind))
        whole.append(case(name, [text], thinking, tools))
        whole.append(case(f"{name}, by characters", list(text), thinking, tools))
        if len(text) < 330 and name not in DOUBLED:
            splits += [case(f"{name}, cut at {n}", [text[:n], text[n:]], thinking, tools) for n in cut(text)]
    for text, missing in CLOSERS:
        closers.append(case(f"{text!r} ends there", [text], False, True, missing))
        if missing is not None:
            assert said(text + missing, False, True)[1] == "tool_calls", text
    for name, cases in (("transcripts", whole), ("splits", splits), ("closers", closers)):
        with (HERE / "worked" / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(one) + "\n" for one in cases)
        print(name, len(cases))


if __name__ == "__main__":
    main()
