"""What a test proves about a family or a file, said by the test itself once its assertions have held.

`./dev gate qualify` runs the tests and takes the proofs of those that passed into parity/qualified.toml; in any other
run they are properties of the test's report and nothing more.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from ds4.core.qualified import AXES
from ds4.errors import Ds4Error

PROPERTY = "proves"

Record = Callable[[str, object], None]
"""pytest's record_property."""


@dataclass(frozen=True, slots=True)
class Claim:
    """family: the architecture as model files name it. what: was shown; value: was measured, where the check asks for
    `bound` at most. artifact: path of the file whose weights were run; empty for models drawn from a seed. context:
    positions of a bank that were run; banks: those in use at once. numeric, kv: empty where nothing depends on them."""

    axis: str
    family: str
    what: str
    value: float | None = None
    bound: float | None = None
    artifact: str = ""
    backend: str = "cpu"
    numeric: str = ""
    kv: str = ""
    context: int = 0
    banks: int = 0

    def __post_init__(self) -> None:
        if self.axis not in AXES:
            raise Ds4Error("no such axis", subject="proof", expected=", ".join(AXES), found=self.axis)
        if self.value is not None and self.bound is not None and self.value > self.bound:
            raise Ds4Error("is no proof", subject=self.what, expected=f"at most {self.bound:g}", found=self.value)

    @property
    def figure(self) -> str:
        measured = "" if self.value is None else f" {self.value:.3g}"
        return f"{self.what}{measured}" + ("" if self.bound is None else f" (at most {self.bound:g})")

    def dump(self) -> str:
        return json.dumps(asdict(self))


def parse(text: str) -> Claim:
    return Claim(**json.loads(text))


def prove(record: Record, axis: str, family: str, what: str, **details: Any) -> None:
    """Records a claim. Call it last, after what it claims was asserted."""
    record(PROPERTY, Claim(axis, family, what, **details).dump())
