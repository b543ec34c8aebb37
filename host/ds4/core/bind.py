"""The bind plan: which tensor of which file fills which slot of a family.

Made from metadata alone, before native code opens anything. Native walks the files again for itself and refuses a plan
that differs from what it sees; `match` compares the other way round, the plan with what native says it bound.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from ds4.core import components
from ds4.core.cursor import shown
from ds4.core.families import FamilyContract, SlotSpec, contract_of
from ds4.core.families import contract as contract_for
from ds4.core.families.gap import gap
from ds4.core.ggml_types import TENSOR_TYPES
from ds4.core.inventory import Inventory
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.descriptors import MAX_DIMS, GgmlType, HParams, ModelDesc, Role, Slot

_INT32_MAX = 2**31 - 1
_KINDS = {int(kind): kind for kind in GgmlType}


@dataclass(frozen=True, slots=True)
class Shard:
    """A file of the plan. file_bytes: its size when the plan was made."""

    path: Path
    file_bytes: int
    data_offset: int
    alignment: int


@dataclass(frozen=True, slots=True)
class Layout:
    """What a file's metadata says its tensors must look like."""

    contract: FamilyContract
    hparams: HParams
    specs: tuple[SlotSpec, ...]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BindPlan:
    """slots: in the family's order, optional ones only where the file has them. ignored: tensors that fill no slot and
    change nothing. unknown: keys of the family that were not used. notes: for people."""

    architecture: str
    hparams: HParams
    shards: tuple[Shard, ...]
    slots: tuple[Slot, ...]
    ignored: tuple[str, ...]
    unknown: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def tied(self) -> bool:
        """Whether the head is the embedding."""
        return all(slot.role is not Role.OUTPUT for slot in self.slots)

    @property
    def weight_bytes(self) -> int:
        return sum(slot.nbytes for slot in self.slots)

    def desc(self) -> ModelDesc:
        return ModelDesc(self.hparams, tuple(str(shard.path) for shard in self.shards), self.slots)


def layout(inventory: Inventory, known: Callable[[str], FamilyContract] = contract_for) -> Layout:
    """The family's contract applied to the metadata. Raises ModelFileError or UnsupportedModelError naming the key.
    known: the contract of an architecture, or UnsupportedModelError."""
    metadata = inventory.metadata
    architecture = metadata.string("general.architecture")
    kind = metadata.string("general.type", "model")
    if kind != "model":
        raise UnsupportedModelError(
            "the file is not a model",
            code="unsupported_kind",
            subject="general.type",
            expected="model",
            found=shown(kind),
        )
    try:
        contract = known(architecture)
    except UnsupportedModelError as error:
        error.notes = gap(inventory)
        raise
    config = contract.validate(inventory)
    specs = tuple(contract.slots(config))
    return Layout(contract, contract.hparams(config), specs, contract.unknown(config), contract.notes(config))


def plan(inventory: Inventory, contract: FamilyContract | None = None) -> BindPlan:
    """The plan for a model of a known family. contract: only to insist on one; it must be the file's own.

    Raises ModelFileError with code `tensor_missing` or `tensor_dims`, UnsupportedModelError with code `tensor_type` or
    `tensor_unused`, or what `layout` raises. A tensor that no slot takes is an error, as the model would compute
    something else without it; the few that change nothing are listed as ignored.
    """
    made = _planner()(inventory)
    if contract is not None and contract.FAMILY != made.hparams.family:
        raise UnsupportedModelError(
            "the file is of another family",
            code="unsupported_architecture",
            subject="general.architecture",
            expected=contract.ARCHITECTURE,
            found=made.architecture,
        )
    return made


@functools.cache
def _planner() -> Callable[[Inventory], BindPlan]:
    return components.pick("bind", python=make, oracle=_by_oracle)


def _by_oracle(inventory: Inventory) -> BindPlan:
    from ds4.core.tapes import bind  # late: it imports this module

    if inventory.metadata.string("general.architecture", "") != bind.ARCHITECTURE:
        return make(inventory)  # of a family that the oracle does not state

    return bind.by_oracle(inventory)


def make(inventory: Inventory, known: Callable[[str], FamilyContract] = contract_for) -> BindPlan:
    """`plan` as Python decides it. known: as for `layout`."""
    shape = layout(inventory, known)
    slots = tuple(slot for spec in shape.specs if (slot := _fill(spec, inventory)) is not None)
    used = {spec.name for spec in shape.specs}
    left = [name for name in inventory.tensors if name not in used]
    ignored = tuple(name for name in left if shape.contract.ignorable(name))
    unused = [name for name in left if not shape.contract.ignorable(name)]
    if unused:
        error = UnsupportedModelError(
            "a tensor that this family's forward would leave out",
            code="tensor_unused",
            subject=shown(unused[0]),
            expected="no tensor besides the family's slots",
            found=f"{len(unused)} unused, {', '.join(shown(name) for name in unused[:4])}",
        )
        error.notes = gap(inventory)
        raise error
    made = BindPlan(
        architecture=shape.contract.ARCHITECTURE,
        hparams=shape.hparams,
        shards=shards(inventory),
        slots=slots,
        ignored=ignored,
        unknown=shape.unknown,
        notes=shape.notes,
    )
    check(made)
    return made


def shards(inventory: Inventory) -> tuple[Shard, ...]:
    """The plan's view of the files."""
    return tuple(Shard(s.path, s.file_bytes, s.data_offset, s.alignment) for s in inventory.shards)


def _fill(spec: SlotSpec, inventory: Inventory) -> Slot | None:
    """The slot filled from the inventory; None if it is optional and the file has no such tensor."""
    info = inventory.tensors.get(spec.name)
    if info is None:
        if not spec.required:
            return None
        raise ModelFileError(
            "a required tensor is missing",
            code="tensor_missing",
            subject=spec.name,
            expected=f"{_types(spec)} {list(spec.dims)}",
            found="nothing",
        )
    if info.dims != spec.dims:
        raise ModelFileError(
            "wrong dimensions", code="tensor_dims", subject=spec.name, expected=list(spec.dims), found=list(info.dims)
        )
    if info.type not in spec.accepted:
        raise UnsupportedModelError(
            "a tensor type that this slot does not take",
            code="tensor_type",
            subject=spec.name,
            expected=_types(spec),
            found=info.type_name,
        )
    kind = _KINDS[info.type]
    return Slot(spec.role, spec.layer, kind, info.dims, info.shard, info.offset, info.nbytes, info.name)


def _types(spec: SlotSpec) -> str:
    return " or ".join(kind.name for kind in sorted(spec.accepted))


def check(plan: BindPlan) -> None:
    """Whether a plan holds together by itself: each role filled once, layers in range, every tensor whole within its
    shard, sizes that follow from type and dims, numbers that fit the engine's fields.

    Raises ModelFileError with code `bind_plan`.
    """
    seen: set[tuple[Role, int]] = set()
    for field in fields(plan.hparams):
        value = getattr(plan.hparams, field.name)
        if isinstance(value, int) and not 0 <= value <= _INT32_MAX:
            _bad(field.name, "does not fit the engine", f"0..{_INT32_MAX}", value)
    layers, places = plan.hparams.n_blocks, plan.shards
    for slot in plan.slots:
        here, dims, offset = (slot.role, slot.layer), slot.dims, slot.offset
        if here in seen:
            _bad(slot.name, "the slot is filled twice", "one tensor", f"another {slot.role.name} of layer {slot.layer}")
        seen.add(here)
        if not -1 <= slot.layer < layers:
            _bad(slot.name, "no such layer", f"-1..{layers - 1}", slot.layer)
        if not 1 <= len(dims) <= MAX_DIMS or min(dims) < 1:
            _bad(slot.name, "bad dimensions", f"1..{MAX_DIMS} positive ones", list(dims))
        _, block, nbytes = TENSOR_TYPES[slot.type]
        expected = math.prod(dims) // block * nbytes
        if dims[0] % block or slot.nbytes != expected:
            _bad(slot.name, "the size does not follow from type and dims", expected, slot.nbytes)
        if not 0 <= slot.shard < len(places):
            _bad(slot.name, "no such shard", f"0..{len(places) - 1}", slot.shard)
        shard = places[slot.shard]
        if offset % shard.alignment:
            _bad(slot.name, "the data is not aligned", f"a multiple of {shard.alignment}", offset)
        if offset < shard.data_offset or offset + slot.nbytes > shard.file_bytes:
            span = f"{offset}..{offset + slot.nbytes}"
            _bad(slot.name, "outside the shard's data", f"within {shard.data_offset}..{shard.file_bytes}", span)
    for role, layer in contract_of(plan.hparams.family).required(plan.hparams):
        if (role, layer) not in seen:
            _bad(role.name, "the slot is not filled", f"a tensor for layer {layer}", "nothing")


def _bad(subject: str, message: str, expected: object, found: object) -> None:
    raise ModelFileError(message, code="bind_plan", subject=shown(subject), expected=expected, found=found)


def match(plan: BindPlan, native: Sequence[Slot]) -> None:
    """Compares the plan with the slots that native found by its own walk, in the plan's order, field by field.

    Raises ModelFileError with code `bind_mismatch` naming slot and field; expected is the host's, found is native's.
    """
    for mine, theirs in zip(plan.slots, native, strict=False):
        for field in fields(Slot):
            expected, found = getattr(mine, field.name), getattr(theirs, field.name)
            if expected != found:
                raise ModelFileError(
                    f"host and engine disagree on {field.name}",
                    code="bind_mismatch",
                    subject=shown(mine.name),
                    expected=expected,
                    found=found,
                )
    if len(plan.slots) != len(native):
        raise ModelFileError(
            "host and engine bound another number of tensors",
            code="bind_mismatch",
            subject="slots",
            expected=len(plan.slots),
            found=len(native),
        )
