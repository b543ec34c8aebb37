"""What a model family promises to the rest of the host: its metadata, its tensors, its parameters for the engine.

A family is one module here that has these names (modules satisfy the protocol; there is no registry to subclass), and
one forward in native/engine/families.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ds4.core.cursor import shown
from ds4.core.inventory import Inventory
from ds4.sys.descriptors import Family, GgmlType, HParams, Role

MATRIX_TYPES: frozenset[GgmlType] = frozenset(GgmlType) - {GgmlType.I32}
VECTOR_TYPES: frozenset[GgmlType] = frozenset({GgmlType.F32})


class SlotSpec(NamedTuple):
    """A place that a tensor must, or may, fill. dims: GGUF order, the contiguous one first. layer: -1 for none."""

    role: Role
    layer: int
    name: str
    dims: tuple[int, ...]
    accepted: frozenset[GgmlType]
    required: bool = True


def note_unknown(key: str) -> str:
    """What is said of a key with the family's prefix that the family does not know."""
    return f"the key {shown(key)} is not known to this family and was not used"


class FamilyContract(Protocol):
    """A family's module."""

    @property
    def FAMILY(self) -> Family: ...

    @property
    def ARCHITECTURE(self) -> str: ...

    def validate(self, inventory: Inventory) -> Any:
        """The family's own Config, or ModelFileError / UnsupportedModelError naming the key or tensor."""

    def slots(self, config: Any) -> list[SlotSpec]:
        """Every slot of a model so configured, in the plan's order."""

    def hparams(self, config: Any) -> HParams: ...

    def unknown(self, config: Any) -> tuple[str, ...]:
        """Keys with the family's prefix that were not used."""

    def notes(self, config: Any) -> tuple[str, ...]:
        """What a person should know about the file that is no reason to refuse it."""

    def ignorable(self, name: str) -> bool:
        """Whether a tensor that fills no slot changes nothing by being left out."""
