"""What has become certain after a piece of a text, and the case that says so."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from itertools import groupby

from ds4.sys.tape import line
from dsml.reading import STAND, TAGS, Atom, said

MARKERS = [
    "</think>",
    *(f"{lead}<{p}tool_calls>" for p in TAGS for lead in ("\n\n", "")),
    "&lt;/｜DSML｜parameter>",
    "&lt;",
    "&gt;",
    "&amp;",
    "&quot;",
]
MARKERS += ["&apos;"] + [
    m for p in TAGS for m in (f"<{p}parameter name='", f'<{p}invoke name="z">', f"</{p}tool_calls>")
]
CLOSES = [f"</{p}{name}>" for p in TAGS for name in ("parameter", "invoke")]
ENDINGS = ("x", " x", ";x", "<x", '"', '">', "é", *CLOSES)


@functools.cache
def certain(text: str, thinking: bool, tools: bool) -> list[Atom]:
    endings = [marker[n:] for marker in MARKERS for n in range(1, len(marker)) if text.endswith(marker[:n])]
    endings += [close[n:] for close in CLOSES for n in range(1, len(close)) if text.endswith(close[:n])]
    common = said(text, thinking, tools)[0]
    for ending in dict.fromkeys((*ENDINGS, *endings)):
        other = said(text + ending, thinking, tools)[0]
        same = 0
        while same < len(common) and same < len(other) and common[same] == other[same]:
            same += 1
        common = common[:same]
    return common


def rows(atoms: Iterable[Atom]) -> bytes:
    out = b""
    for (verb, index), group in groupby(atoms, key=lambda atom: atom[:2]):
        if verb in ("reasoning", "content"):
            out += line(verb, "".join(text for _, _, text in group).encode())
        elif verb == "arguments":
            shown = "".join(text for _, _, text in group).replace(STAND, "")
            out += line(verb, index, shown.encode())
        else:
            for _, _, text in group:
                words = {"call": (index, text.encode()), "end": (index,), "reasoned": ()}
                out += line(verb, *words.get(verb, (text.encode(),)))
    return out


def mode(atoms: list[Atom], text: str, thinking: bool, tools: bool) -> str:
    """Where the text stands: what is behind it decides nothing about that."""
    if any(verb == "block" for verb, _, _ in atoms):
        return "done"
    end = said(text, thinking, tools)[1]
    return {"unterminated": "block", "stop": "content"}.get(end, end)


def case(name: str, pieces: list[str], thinking: bool, tools: bool, closers: str | None = None) -> dict[str, str]:
    out, sofar, shown = b"", "", 0
    for piece in pieces:
        sofar += piece
        atoms = certain(sofar, thinking, tools)
        out += rows(atoms[shown:]) + line("now", mode(atoms, sofar, thinking, tools))
        shown = len(atoms)
    atoms, kind, start = said(sofar, thinking, tools)
    if kind == "unterminated":
        out += line("finish", kind, sofar[start:].encode(), "-" if closers is None else closers.encode())
    else:
        out += rows(atoms[shown:]) + line("finish", kind)
    tape = (
        line("output", int(thinking), int(tools))
        + b"".join(line("push", piece.encode()) for piece in pieces)
        + b"finish\n"
    )
    return {"case": name, "input": tape.decode(), "expected": out.decode()}
