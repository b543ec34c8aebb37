"""Both sides of a component on one input, and on its goldens."""

from __future__ import annotations

import base64
import functools
import json
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ds4.sys.oracles import Oracle, oracle

from parity.component import Component, Input, Run, split
from parity.registry import ROOT, GateError


@dataclass(frozen=True)
class Disagreement:
    """An input on which the two sides, or a side and a golden, differ. expected None: the sides differ, no golden."""

    component: str
    setup: str
    tape: bytes
    oracle: bytes
    replacement: bytes
    expected: bytes | None = None
    golden: str = ""
    case: str = ""

    def summary(self) -> str:
        """Where the outputs part, one line for each side."""
        sides = {"golden": self.expected, "oracle": self.oracle, "python": self.replacement}
        texts = {side: out for side, out in sides.items() if out is not None}
        rows = [out.split(b"\n") for out in texts.values()]
        at = next((i for i in range(max(map(len, rows))) if len({r[i] if i < len(r) else None for r in rows}) > 1), 0)
        shown = [
            f"  {side:7} line {at + 1}: {_clip(r[at]) if at < len(r) else '(nothing)'}"
            for side, r in zip(texts, rows, strict=True)
        ]
        return "\n".join(shown)


def _clip(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    return text if len(text) <= 160 else text[:160] + "…"


class Sides:
    """The two sides of a component, made once for each setup."""

    def __init__(self, component: Component) -> None:
        self.component = component
        self._made: dict[str, tuple[Run, Run]] = {}

    def of(self, setup: str) -> tuple[Run, Run]:
        """(oracle, replacement) for a setup."""
        sides = self._made.get(setup)
        if sides is None:
            made = self.component.setups.get(setup)
            if made is None:
                raise GateError(
                    "no such setup", subject=self.component.name, expected=", ".join(self.component.setups), found=setup
                )
            prepared = made()
            theirs = Oracle(self.component.name, prepared) if prepared else oracle(self.component.name)
            sides = self._made[setup] = theirs.run, self.component.replacement(setup)
        return sides

    def compare(self, value: Input) -> Disagreement | None:
        """None when both sides write the same."""
        setup, tape = split(value)
        theirs, ours = self.of(setup)
        a, b = theirs(tape), shielded(ours, tape)
        if self.component.equal(a, b):
            return None
        return Disagreement(self.component.name, setup, tape, a, b)


def shielded(run: Run, tape: bytes) -> bytes:
    """The replacement's output; an exception of its own is an output too, and one that no oracle writes."""
    try:
        return run(tape)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return f"raised {type(error).__name__}: {error} ({Path(where.filename).name}:{where.lineno})\n".encode()


@functools.cache
def sides(component: Component) -> Sides:
    return Sides(component)


# ---- goldens ----


@dataclass(frozen=True)
class Case:
    """One golden. golden: its file, from goldens/."""

    golden: str
    case: str
    setup: str
    tape: bytes
    expected: bytes


def golden_files(component: Component) -> list[Path]:
    return sorted((ROOT / "goldens" / component.name).rglob("*.jsonl"))


def cases(component: Component) -> Iterator[Case]:
    """Every golden case, in the order of files and lines."""
    for path in golden_files(component):
        name = path.relative_to(ROOT / "goldens").as_posix()
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                raw: dict[str, Any] = json.loads(line)
                try:
                    tape = input_of(component, raw)
                    expected = raw["expected"].encode("utf-8", "surrogatepass")
                except KeyError as error:
                    raise GateError(f"a golden case without {error}", subject=f"{name}:{number}") from None
                yield Case(name, str(raw["case"]), str(raw.get("setup", "")), tape, expected)


def input_of(component: Component, raw: Mapping[str, Any]) -> bytes:
    """The input tape of a golden case as it stands in its file."""
    if "input" in raw:
        return str(raw["input"]).encode("utf-8", "surrogatepass")
    if "input_b64" in raw:
        return base64.b64decode(raw["input_b64"], validate=True)
    if component.resolve is None:
        raise KeyError("input")
    return component.resolve(raw)


def check_goldens(component: Component) -> tuple[int, list[Disagreement]]:
    """How many cases there are, and those that a side does not answer as the golden has it."""
    both = sides(component)
    count, failed = 0, []
    for case in cases(component):
        count += 1
        theirs, ours = both.of(case.setup)
        a, b = theirs(case.tape), shielded(ours, case.tape)
        if not (component.equal(case.expected, a) and component.equal(case.expected, b)):
            failed.append(
                Disagreement(component.name, case.setup, case.tape, a, b, case.expected, case.golden, case.case)
            )
    return count, failed
