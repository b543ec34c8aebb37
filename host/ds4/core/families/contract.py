"""What a model family promises to the rest of the host: its metadata, its tensors, its parameters for the engine.

A family is one module or package here that has these names (modules satisfy the protocol; there is no registry to
subclass), and one forward in native/engine/families.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any, NamedTuple, Protocol

from ds4.core.cursor import shown
from ds4.core.inventory import Inventory
from ds4.sys.descriptors import Family, GgmlType, HParams, Role

MATRIX_TYPES: frozenset[GgmlType] = frozenset(GgmlType) - {GgmlType.I32, GgmlType.IQ2_XXS, GgmlType.MXFP4}
EXPERT_TYPES: frozenset[GgmlType] = MATRIX_TYPES | {GgmlType.IQ2_XXS, GgmlType.MXFP4}
"""What matrices of families with routed experts may also be stored as."""
VECTOR_TYPES: frozenset[GgmlType] = frozenset({GgmlType.F32})
TABLE_TYPES: frozenset[GgmlType] = frozenset({GgmlType.I32})


class Lane(Enum):
    """How requests may run: all of them in shared steps and joining at any time; in a batch that is closed when it
    starts; or one by one."""

    CONTINUOUS = "continuous"
    STATIC = "static"
    SERIAL = "serial"


class State(Enum):
    """What a bank remembers. POSITIONS: every position by itself, so that it can go back to any. ROLLING: sums over
    positions, so that it can go back a little way, or to a snapshot, and else is built anew."""

    POSITIONS = "positions"
    ROLLING = "rolling"


class PromptFacts(NamedTuple):
    """What a family's published models have in common besides the forward.

    pre: names of the pre-tokenizer; empty: any. markup: tokens that its chat encoding needs. encoder: the name of a
    chat encoding of its own, used before any template of the file; "": the file's template. stops: tokens that end an
    answer.
    """

    pre: frozenset[str] = frozenset()
    markup: tuple[str, ...] = ()
    encoder: str = ""
    stops: tuple[str, ...] = ()


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

    @property
    def LANES(self) -> frozenset[Lane]: ...

    @property
    def STATE(self) -> State: ...

    @property
    def PROMPT(self) -> PromptFacts: ...

    def validate(self, inventory: Inventory) -> Any:
        """The family's own Config, or ModelFileError / UnsupportedModelError naming the key or tensor."""

    def slots(self, config: Any) -> list[SlotSpec]:
        """Every slot of a model so configured, in the plan's order."""

    def hparams(self, config: Any) -> HParams: ...

    def required(self, hparams: HParams) -> Iterable[tuple[Role, int]]:
        """(role, layer) of every slot that a plan with these parameters must fill."""

    def kv_bytes_per_position(self, hparams: HParams, kv_type: GgmlType) -> int:
        """Bytes that one further position of a bank takes; native's ds4_kv_bytes_per_position, without native."""

    def bank_bytes(self, hparams: HParams, kv_type: GgmlType, n_ctx: int, max_rows: int) -> int:
        """Bytes of state of a full bank of n_ctx positions in a session whose steps have max_rows rows at most;
        native's ds4_bank_bytes, without native."""

    def unknown(self, config: Any) -> tuple[str, ...]:
        """Keys with the family's prefix that were not used."""

    def notes(self, config: Any) -> tuple[str, ...]:
        """What a person should know about the file that is no reason to refuse it."""

    def ignorable(self, name: str) -> bool:
        """Whether a tensor that fills no slot changes nothing by being left out."""
