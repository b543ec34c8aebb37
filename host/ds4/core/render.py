"""Identity, inventory, layout and bind plan as text for people and as dicts for JSON.

Names come from files that anybody may have written, so every string passes through `shown`, which leaves no control
character for the terminal. Dicts hold only what JSON has; numbers in them are bytes and counts, without units.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from enum import IntEnum
from typing import Any

from ds4.core.bind import BindPlan, Layout
from ds4.core.cursor import shown
from ds4.core.identify import Identity
from ds4.core.inventory import Inventory
from ds4.core.qualified import Standing
from ds4.sys.descriptors import HParams

__all__ = [
    "byte_size",
    "identity_dict",
    "inventory_dict",
    "layout_dict",
    "plan_dict",
    "render_identity",
    "render_inventory",
    "render_layout",
    "render_plan",
    "table",
]


def byte_size(count: int) -> str:
    """ "98.4 MB": decimal units, as disks and download pages have them."""
    for unit, suffix in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= unit:
            return f"{count / unit:.1f} {suffix}"
    return f"{count} B"


def table(header: Sequence[str], rows: Iterable[Sequence[object]], *, right: str = "") -> str:
    """Columns padded to their widest cell, two spaces apart. right: one letter for each column, "r" aligns right."""
    cells = [list(header), *([str(cell) for cell in row] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    sides = right.ljust(len(header), "l")
    lines = (
        "  ".join(
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        ).rstrip()
        for row in cells
    )
    return "\n".join(lines)


def _facts(pairs: Iterable[tuple[str, object]]) -> str:
    shown_pairs = [(name, str(value)) for name, value in pairs if value is not None]
    width = max(len(name) for name, _ in shown_pairs)
    return "\n".join(f"{name.ljust(width)}  {value}" for name, value in shown_pairs)


def _text(value: str | None) -> str | None:
    return None if value is None else shown(value)


def _dims(dims: Sequence[int]) -> str:
    return " x ".join(map(str, dims))


# ---- identity ------------------------------------------------------------------------------------------------------


def identity_dict(identity: Identity, qualified: Standing | None = None) -> dict[str, Any]:
    return {
        "path": str(identity.path),
        "shards": identity.n_shards,
        "architecture": _text(identity.architecture),
        "family": identity.family.name.lower() if identity.family is not None else None,
        "name": _text(identity.name),
        "size_label": _text(identity.size_label),
        "file_type": identity.file_type,
        "quant": [asdict(share) for share in identity.quant],
        "parameters": identity.n_params,
        "bytes": identity.bytes,
        "weight_bytes": identity.weight_bytes,
        "bits_per_weight": round(identity.bits_per_weight, 3),
        "context_train": identity.context_train,
        "vocabulary": identity.n_vocab,
        "chat_template": identity.chat_template,
        "supported": identity.supported,
        "reason": identity.reason,
        **({"missing": list(identity.missing)} if identity.missing else {}),
        **(
            {
                "qualified": {
                    "artifact": qualified.artifact,
                    "verified": qualified.axes("artifact"),
                    "verified_of_family": qualified.axes("family"),
                }
            }
            if qualified is not None and identity.supported
            else {}
        ),
    }


def render_identity(identity: Identity, qualified: Standing | None = None) -> str:
    parameters = f"{identity.n_params:,} ({shown(identity.size_label)})" if identity.size_label else identity.n_params
    weights = f"{byte_size(identity.weight_bytes)} ({identity.bits_per_weight:.2f} bits per weight)"
    return _facts(
        (
            ("file", shown(str(identity.path), 512)),
            ("shards", identity.n_shards if identity.n_shards > 1 else None),
            ("name", _text(identity.name)),
            ("architecture", _text(identity.architecture) or "not stated"),
            ("parameters", parameters),
            ("quantisation", identity.file_type),
            ("tensor types", identity.quant_summary or None),
            ("size", byte_size(identity.bytes)),
            ("weights", weights if identity.n_params else None),
            ("trained context", f"{identity.context_train:,}" if identity.context_train else None),
            ("vocabulary", f"{identity.n_vocab:,}" if identity.n_vocab else None),
            ("chat template", "yes" if identity.chat_template else "no"),
            *(("missing" if index == 0 else "", line) for index, line in enumerate(identity.missing)),
            ("supported", "yes" if identity.supported else f"no: {identity.reason}"),
            ("verified", qualified.line if qualified is not None and identity.supported else None),
        )
    )


# ---- inventory -----------------------------------------------------------------------------------------------------


def inventory_dict(inventory: Inventory) -> dict[str, Any]:
    return {
        "shards": [
            {
                "path": str(shard.path),
                "version": shard.version,
                "alignment": shard.alignment,
                "data_offset": shard.data_offset,
                "bytes": shard.file_bytes,
                "tensors": len(shard.tensors),
            }
            for shard in inventory.shards
        ],
        "metadata": {shown(key): inventory.metadata.type_of(key) for key in inventory.metadata},
        "tensors": [
            {
                "name": shown(info.name),
                "type": info.type_name,
                "dims": list(info.dims),
                "shard": info.shard,
                "offset": info.offset,
                "bytes": info.nbytes,
            }
            for info in inventory.tensors.values()
        ],
        "aliased": [
            {
                "shard": alias.shard,
                "names": [shown(name) for name in alias.names],
                "offset": alias.offset,
                "bytes": alias.nbytes,
            }
            for alias in inventory.aliased
        ],
    }


def render_inventory(inventory: Inventory) -> str:
    """Shards, then every key with its type and a short value, then every tensor, then those that share bytes."""
    shards = table(
        ("shard", "file", "version", "alignment", "data from", "bytes", "tensors"),
        (
            (i, shown(s.path.name), s.version, s.alignment, s.data_offset, s.file_bytes, len(s.tensors))
            for i, s in enumerate(inventory.shards)
        ),
        right="rlrrrrr",
    )
    keys = table(
        ("key", "type", "value"),
        ((shown(key), inventory.metadata.type_of(key), _value(inventory, key)) for key in inventory.metadata),
    )
    tensors = table(
        ("tensor", "type", "dims", "shard", "offset", "bytes"),
        ((shown(t.name), t.type_name, _dims(t.dims), t.shard, t.offset, t.nbytes) for t in inventory.tensors.values()),
        right="lllrrr",
    )
    parts = [shards, keys, tensors]
    if inventory.aliased:
        parts.append(
            table(
                ("shard", "offset", "bytes", "aliased tensors"),
                ((a.shard, a.offset, a.nbytes, ", ".join(map(shown, a.names))) for a in inventory.aliased),
                right="rrr",
            )
        )
    return "\n\n".join(parts)


def _value(inventory: Inventory, key: str) -> str:
    """A scalar's value. An array is told by its type alone: a vocabulary does not belong in a table."""
    if inventory.metadata.type_of(key).startswith("array"):
        return "..."
    value = inventory.metadata[key]
    return f"{value:g}" if isinstance(value, float) else shown(str(value), 64)


# ---- layout and plan -----------------------------------------------------------------------------------------------


def _hparams_dict(hparams: HParams) -> dict[str, Any]:
    """A family's own parameters stand beside the common ones."""
    values = asdict(hparams)
    own = (values.pop("dsv4") or {}) | (values.pop("decoder") or {})
    return {
        name: value.name.lower() if isinstance(value, IntEnum) else list(value) if isinstance(value, tuple) else value
        for name, value in {**values, **own}.items()
    }


def _render_hparams(hparams: HParams) -> str:
    values = _hparams_dict(hparams).items()
    return _facts((name, _parameter(value)) for name, value in values)


def _parameter(value: object) -> object:
    if isinstance(value, list):
        alike = len(value) > 1 and len(set(value)) == 1
        return f"{value[0]:g} in each of {len(value)}" if alike else " ".join(f"{item:g}" for item in value)
    return f"{value:g}" if isinstance(value, float) else value


def layout_dict(layout: Layout) -> dict[str, Any]:
    return {
        "architecture": layout.contract.ARCHITECTURE,
        "hparams": _hparams_dict(layout.hparams),
        "slots": [
            {
                "role": spec.role.name.lower(),
                "layer": spec.layer,
                "name": spec.name,
                "dims": list(spec.dims),
                "accepted": [kind.name for kind in sorted(spec.accepted)],
                "required": spec.required,
            }
            for spec in layout.specs
        ],
        "notes": list(layout.notes),
    }


def render_layout(layout: Layout) -> str:
    """The engine's parameters, then what every tensor must look like."""
    slots = table(
        ("tensor", "role", "layer", "dims", "required", "types"),
        (
            (
                spec.name,
                spec.role.name.lower(),
                _layer(spec.layer),
                _dims(spec.dims),
                "yes" if spec.required else "no",
                "any" if len(spec.accepted) > 1 else next(iter(spec.accepted)).name,
            )
            for spec in layout.specs
        ),
        right="llr",
    )
    return "\n\n".join([_render_hparams(layout.hparams), slots, *_notes(layout.notes)])


def plan_dict(plan: BindPlan) -> dict[str, Any]:
    return {
        "architecture": plan.architecture,
        "hparams": _hparams_dict(plan.hparams),
        "shards": [{**asdict(shard), "path": str(shard.path)} for shard in plan.shards],
        "slots": [
            {
                "role": slot.role.name.lower(),
                "layer": slot.layer,
                "name": slot.name,
                "type": slot.type.name,
                "dims": list(slot.dims),
                "shard": slot.shard,
                "offset": slot.offset,
                "bytes": slot.nbytes,
            }
            for slot in plan.slots
        ],
        "tied": plan.tied,
        "weight_bytes": plan.weight_bytes,
        "ignored": [shown(name) for name in plan.ignored],
        "notes": list(plan.notes),
    }


def render_plan(plan: BindPlan) -> str:
    """The engine's parameters, then every slot with the bytes that fill it."""
    slots = table(
        ("tensor", "role", "layer", "type", "dims", "shard", "offset", "bytes"),
        (
            (s.name, s.role.name.lower(), _layer(s.layer), s.type.name, _dims(s.dims), s.shard, s.offset, s.nbytes)
            for s in plan.slots
        ),
        right="llrllrrr",
    )
    shards = table(
        ("shard", "file", "data from", "bytes"),
        ((i, shown(s.path.name), s.data_offset, s.file_bytes) for i, s in enumerate(plan.shards)),
        right="rlrr",
    )
    head = "the token embedding (tied)" if plan.tied else "output.weight"
    total = f"{len(plan.slots)} slots, {plan.weight_bytes} bytes; the head is {head}"
    ignored = [f"not used, and changing nothing: {', '.join(map(shown, plan.ignored))}"] if plan.ignored else []
    return "\n\n".join([_render_hparams(plan.hparams), shards, slots, total, *ignored, *_notes(plan.notes)])


def _layer(layer: int) -> str:
    return "-" if layer < 0 else str(layer)


def _notes(notes: Sequence[str]) -> list[str]:
    return ["\n".join(f"note: {note}" for note in notes)] if notes else []
