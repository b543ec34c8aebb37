"""A random model with a block that drafts, its tensors laid out as either publisher does, in one file or beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from ds4.core import bind, inventory
from ds4.core.families import deepseek4
from ds4.perf.synth import gguf_file, shapes
from ds4.perf.synth.convert import general
from ds4.perf.synth.gguf_file import Tensor
from ds4.perf.synth.mixes import Mix

LAYOUTS = ("mtp", "mtp beside", "nextn", "nextn beside")
_NEXTN = {
    "enorm.weight": "nextn.enorm.weight",
    "hnorm.weight": "nextn.hnorm.weight",
    "norm.weight": "nextn.shared_head_norm.weight",
}
_HEAD = {f"hc_head_{part}.weight": f"output_hc_{part}.weight" for part in ("fn", "base", "scale")}


def laid_out(path: Path, changes: tuple[str, ...], layout: str) -> bind.BindPlan:
    """The plan of the F32 file `path`, whose block is named mtp.0.*, once it is laid out anew. Of "nextn" the block
    has no head of its own, so the model's serves."""
    if layout == "mtp":
        return bind.plan(inventory.load(path))
    found = inventory.load(path)
    raw = path.read_bytes()
    stored = {name: (t.dims, raw[t.offset : t.offset + t.nbytes], t.type) for name, t in found.tensors.items()}
    mine = {name: tensor for name, tensor in stored.items() if not name.startswith("mtp.")}
    block = {name.removeprefix("mtp.0."): tensor for name, tensor in stored.items() if name.startswith("mtp.")}
    model, sibling = path.with_name("model.gguf"), path.with_name("model-MTP.gguf")
    shape = shapes.shape("deepseek4-tiny", None, changes)
    if layout == "mtp beside":
        block = {f"mtp.0.{name}": tensor for name, tensor in block.items()}
    else:
        block = _nextn(block, int(shape["block_count"]), head="beside" in layout)  # type: ignore[call-overload]
    keys = general(shape, Mix.of("f32", ()), "model") | shapes.keys(shape)
    if layout == "nextn":
        gguf_file.write(model, keys, list(_tensors(mine | block)))
        return bind.plan(inventory.load(model))
    gguf_file.write(model, keys, list(_tensors(mine)))
    gguf_file.write(sibling, {"general.architecture": keys["general.architecture"]}, list(_tensors(block)))
    return bind.plan(deepseek4.attach(inventory.load(model), inventory.load(sibling)))


Stored = tuple[tuple[int, ...], bytes, int]


def _nextn(block: dict[str, Stored], layer: int, *, head: bool) -> dict[str, Stored]:
    out: dict[str, Stored] = {}
    for name, tensor in block.items():
        if name in _HEAD:
            if head:
                out[_HEAD[name]] = tensor
        elif name not in ("e_proj.weight", "h_proj.weight"):
            out[f"blk.{layer}.{_NEXTN.get(name, name)}"] = tensor
    width = block["e_proj.weight"][0][0]
    halves = [
        np.frombuffer(block[name][1], np.float32).reshape(width, width) for name in ("e_proj.weight", "h_proj.weight")
    ]
    both = np.concatenate(halves, axis=1).tobytes()
    out[f"blk.{layer}.nextn.eh_proj.weight"] = ((2 * width, width), both, 0)
    if not head:
        del out[f"blk.{layer}.nextn.shared_head_norm.weight"]
    return out


def _tensors(stored: dict[str, Stored]) -> Iterator[Tensor]:
    for name, (dims, data, kind) in stored.items():
        yield Tensor(name, dims, kind, lambda data=data: iter((data,)))  # type: ignore[misc]
