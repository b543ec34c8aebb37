"""What a component is: a piece of behaviour as a pure function from an input tape to an output tape, and its two sides.

A component joins by a file in parity/components/ that defines COMPONENT, by an oracle with its contract in
oracles/<name>/, and by goldens in goldens/<name>/.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

Run = Callable[[bytes], bytes]
Axis = Literal["numerical", "token", "kv", "wire", "performance"]
AXES: tuple[Axis, ...] = ("numerical", "token", "kv", "wire", "performance")

Input = bytes | tuple[str, bytes]
"""A tape, or (name of its setup, tape)."""


@dataclass(frozen=True)
class Generated:
    """Inputs out of bytes: `make` decodes least..most random bytes (parity.choices) into a well-formed tape."""

    make: Callable[[bytes], Input]
    least: int
    most: int

    @property
    def choices(self) -> SearchStrategy[bytes]:
        """The bytes, for hypothesis, which shrinks them: fewer and smaller ones mean fewer and simpler events."""
        return st.binary(min_size=self.least, max_size=self.most)


@dataclass(frozen=True)
class Speed:
    """One typical request, for the performance axis.

    prepare: returns a call of the replacement on objects that are ready, and the same request as an input tape.
    The replacement passes when it takes at most `ratio` times its oracle or at most `micros`, whichever is larger.
    """

    prepare: Callable[[], tuple[Callable[[], object], Input]]
    ratio: float = 3.0
    micros: float = 50.0


def plain(run: Run) -> Callable[[str], Run]:
    """The replacement of a component that has no setups."""
    return lambda setup: run


@dataclass(frozen=True, eq=False)  # told apart by identity, so that one can be a key
class Component:
    """One component.

    axes: those that a change of it can affect; all of them must be green.
    replacement: our side, by name of the setup (`plain` where there is none).
    inputs: well-formed tapes with ordinary and hostile content, for the fuzz.
    soak: one larger input, made fast.
    sources: globs from the repository's root; with the goldens and the harness they make the component's digest.
    locks: packages whose lock lines belong to the digest.
    setups: what each setup hands the oracle.
    resolve: a golden case to its tape, where the input itself is not stored (a real model file).
    equal: whether two output tapes say the same; byte for byte, but for numbers held to a tolerance.
    native: the replacement is the engine, reached through the bridge; the ledger does not switch it.
    """

    name: str
    about: str
    axes: tuple[Axis, ...]
    replacement: Callable[[str], Run]
    inputs: Generated
    soak: Callable[[random.Random], Input]
    speed: Speed
    sources: tuple[str, ...]
    locks: tuple[str, ...] = ()
    setups: Mapping[str, Callable[[], bytes]] = field(default_factory=lambda: {"": bytes})
    resolve: Callable[[Mapping[str, Any]], bytes] | None = None
    equal: Callable[[bytes, bytes], bool] = operator.eq
    native: bool = False


def split(value: Input) -> tuple[str, bytes]:
    """(setup, tape) of an input."""
    return ("", value) if isinstance(value, bytes) else value
