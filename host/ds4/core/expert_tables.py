"""Tables of expert ids (hash routing): the one kind of tensor whose numbers are indices, so they are looked at.

A bind plan is made from metadata alone. Before a model is used its tables are read, a few megabytes of the published
models; the engine looks at them once more for itself when it opens the file.
"""

from __future__ import annotations

from array import array

from ds4.core.bind import BindPlan
from ds4.core.cursor import shown
from ds4.errors import ModelFileError
from ds4.sys.descriptors import Role, Slot


def check(plan: BindPlan) -> None:
    """Raises ModelFileError: code `tensor_range` for an id that is no expert, naming the tensor and the token;
    `file_io` or `gguf_tensor_past_end` where a file can no longer be read as the plan has it."""
    for slot in plan.slots:
        if slot.role is Role.ROUTER_HASH:
            assert plan.hparams.dsv4 is not None  # the role is of that family alone
            _check(plan, slot, plan.hparams.dsv4.n_expert)


def _check(plan: BindPlan, slot: Slot, count: int) -> None:
    ids = _read(plan, slot)
    if 0 <= min(ids) and max(ids) < count:
        return
    place = next(place for place, expert in enumerate(ids) if not 0 <= expert < count)
    raise ModelFileError(
        f"token {place // slot.dims[0]} is routed to no expert",
        code="tensor_range",
        subject=shown(slot.name),
        expected=f"0..{count - 1}",
        found=ids[place],
    )


def _read(plan: BindPlan, slot: Slot) -> array[int]:
    path = plan.shards[slot.shard].path
    try:
        with open(path, "rb") as file:
            file.seek(slot.offset)
            data = file.read(slot.nbytes)
    except OSError as error:
        raise ModelFileError(
            f"the file cannot be read: {error.strerror or error}", code="file_io", subject=shown(str(path), 512)
        ) from None
    if len(data) != slot.nbytes:
        raise ModelFileError(
            "the file has become shorter",
            code="gguf_tensor_past_end",
            subject=shown(slot.name),
            expected=f"{slot.nbytes} bytes at {slot.offset}",
            found=f"{len(data)} bytes",
        )
    return array("i", data)
