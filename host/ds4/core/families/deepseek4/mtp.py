"""The block that drafts a token ahead (MTP): where its tensors are, and joining a file that holds only them.

Two layouts are published, either in the model's own file or in a file of its own beside it:

    mtp.0.*            ds4: e_proj and h_proj apart, norm and hc_head_* of its own, always
    blk.L.* with       llama.cpp: eh_proj = [e_proj | h_proj], shared_head_norm perhaps; block_count is L + 1. In a file
    blk.L.nextn.*      of its own, output_hc_* is the block's, and token_embd, output_norm and output repeat the model's

A file of its own calls its architecture what the model does, or deepseek4_mtp_support (ds4).

`attach` makes one inventory of a model and such a file; from there on the block is bound like any layer, as layer L.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ds4.core.cursor import shown
from ds4.core.families.keys import Keys
from ds4.core.gguf import TensorInfo
from ds4.core.inventory import Inventory, aliases
from ds4.errors import ModelFileError, UnsupportedModelError

_OWN = "mtp.0."
_OTHER = re.compile(r"mtp\.(\d{1,5})\.", re.ASCII)
_NEXTN = re.compile(r"blk\.(\d{1,5})\.nextn\.", re.ASCII)
_HEAD = ("output_hc_fn.weight", "output_hc_base.weight", "output_hc_scale.weight")
_REPEATED = frozenset({"token_embd.weight", "output_norm.weight", "output.weight"})
_ARCHITECTURE = "deepseek4"
_OF_BLOCKS = (_ARCHITECTURE, _ARCHITECTURE + "_mtp_support")
# What a model and its drafting block must have in common; a block's file may leave any of them out.
_SHARED = (
    *("embedding_length", "vocab_size", "rope.dimension_count", "rope.freq_base"),
    *("attention.head_count", "attention.key_length", "attention.q_lora_rank", "attention.output_lora_rank"),
    *("attention.output_group_count", "attention.sliding_window", "attention.layer_norm_rms_epsilon"),
    *("expert_count", "expert_used_count", "expert_feed_forward_length", "expert_shared_count", "expert_weights_scale"),
    *("hyper_connection.count", "hyper_connection.sinkhorn_iterations", "hyper_connection.epsilon"),
)
_TOKENS = "tokenizer.ggml.tokens"
_JOINED = "mtp:"
"""Marks, in a joined inventory, a sibling's tensor whose name the model itself uses."""


@dataclass(frozen=True, slots=True)
class Names:
    """Names of what the block has beyond a layer; "" where the layout has no such tensor. whole_head: its norm and
    hyper-connection head must be there; else the model's own serve where they are missing."""

    e_norm: str
    h_norm: str
    norm: str
    hc_fn: str
    hc_base: str
    hc_scale: str
    whole_head: bool
    e_proj: str = ""
    h_proj: str = ""
    eh_proj: str = ""
    embedding: str = ""
    output: str = ""


@dataclass(frozen=True, slots=True)
class Drafting:
    """prefix: of the names of the layer's tensors. layer: the block's number, which is the number of layers."""

    layer: int
    prefix: str
    names: Names


def catalog(inventory: Inventory) -> str | None:
    """Which layout's drafting block a file holds: "mtp", "nextn" or None."""
    names = inventory.tensors
    if any(_OTHER.match(name) for name in names):
        return "mtp"
    return "nextn" if any(_NEXTN.match(name) for name in names) else None


def find(inventory: Inventory, keys: Keys, n_block: int) -> Drafting | None:
    """The drafting block of a model with `block_count` n_block. Raises UnsupportedModelError, code `unsupported_shape`,
    for more than one; ModelFileError, code `tensor_missing`, for half a head."""
    tensors = inventory.tensors
    own = {int(match[1]) for name in tensors if (match := _OTHER.match(name))}
    nextn = {int(match[1]) for name in tensors if (match := _NEXTN.match(name))}
    if len(own) + len(nextn) > 1:
        raise UnsupportedModelError(
            "more than one drafting block",
            code="unsupported_shape",
            subject=keys.name("nextn_predict_layers"),
            expected="one",
            found=", ".join([*(f"mtp.{i}" for i in sorted(own)), *(f"blk.{i}.nextn" for i in sorted(nextn))][:4]),
        )
    if own == {0}:
        return Drafting(n_block, _OWN, _own_names())
    if not nextn or nextn.isdisjoint({n_block - 1, n_block}) or (n_block == 1 and nextn == {0}):
        return None  # no block; tensors under other numbers are left over, and named as such
    layer = nextn.pop()
    names = _nextn_names(layer, tensors)
    _check_head(names, tensors)
    return Drafting(layer, f"blk.{layer}.", names)


def _check_head(names: Names, tensors: Container[str]) -> None:
    """A head of the block's own is whole, or there is none."""
    head = (names.hc_fn, names.hc_base, names.hc_scale)
    missing = [name for name in head if name not in tensors]
    if missing and len(missing) < len(head):
        raise ModelFileError(
            "the drafting block's head is not whole",
            code="tensor_missing",
            subject=missing[0],
            expected=f"all of {', '.join(head)}, or none",
            found="nothing",
        )


def _own_names() -> Names:
    at = _OWN
    return Names(
        e_norm=at + "enorm.weight",
        h_norm=at + "hnorm.weight",
        norm=at + "norm.weight",
        hc_fn=at + "hc_head_fn.weight",
        hc_base=at + "hc_head_base.weight",
        hc_scale=at + "hc_head_scale.weight",
        whole_head=True,
        e_proj=at + "e_proj.weight",
        h_proj=at + "h_proj.weight",
    )


def _nextn_names(layer: int, tensors: Iterable[str]) -> Names:
    at = f"blk.{layer}.nextn."
    joined = any(name.startswith(_JOINED) for name in tensors)
    head = [_JOINED + name if joined else at + name for name in _HEAD]
    return Names(
        e_norm=at + "enorm.weight",
        h_norm=at + "hnorm.weight",
        norm=at + "shared_head_norm.weight",
        hc_fn=head[0],
        hc_base=head[1],
        hc_scale=head[2],
        whole_head=False,
        eh_proj=at + "eh_proj.weight",
        embedding=at + "embed_tokens.weight",
        output=at + "shared_head_head.weight",
    )


def attach(model: Inventory, sibling: Inventory) -> Inventory:
    """One inventory of a model and a file with its drafting block: metadata is the model's, its shards come first.

    Raises ModelFileError: code `mtp_missing` for a sibling that holds no such block, `mtp_duplicate` for a model that
    has one already, `mtp_tensor` for a sibling that holds something else besides; `mtp_architecture`, `mtp_key` and
    `mtp_vocabulary` for a sibling of another kind of model, of another shape, or with other tokens.
    """
    layout = catalog(sibling)
    name = shown(sibling.path.name)
    _check_architecture(model, (_ARCHITECTURE,))
    _check_architecture(sibling, _OF_BLOCKS)
    if layout is None:
        raise ModelFileError(
            f"no drafting block in {name}",
            code="mtp_missing",
            subject=name,
            expected="mtp.0.* or blk.L.nextn.*",
            found="neither",
        )
    if (before := catalog(model)) is not None:
        raise ModelFileError(
            "the model has a drafting block already", code="mtp_duplicate", subject=name, expected="none", found=before
        )
    _check_shared(model, sibling)
    tensors = dict(model.tensors)
    for key, info in _block_of(sibling, layout).items():
        if key in tensors:
            raise ModelFileError(
                "the tensor is in the model and in its drafting block's file",
                code="mtp_duplicate",
                subject=shown(key),
                expected=f"only in {name}",
                found=f"in {shown(model.path.name)} too",
            )
        tensors[key] = replace(info, shard=info.shard + len(model.shards))
    return Inventory((*model.shards, *sibling.shards), model.metadata, tensors, aliases(tensors.values()))


def _check_architecture(inventory: Inventory, allowed: tuple[str, ...]) -> None:
    """A file that names none is judged by its tensors."""
    found = inventory.metadata.string("general.architecture", allowed[0])
    if found not in allowed:
        raise ModelFileError(
            f"the architecture has no drafting block of this kind, in {shown(inventory.path.name)}",
            code="mtp_architecture",
            subject="general.architecture",
            expected=" or ".join(allowed),
            found=shown(found),
        )


def _check_shared(model: Inventory, sibling: Inventory) -> None:
    """What both files say must be the same."""
    mine, theirs = model.metadata, sibling.metadata
    for key in _SHARED:
        name = f"{_ARCHITECTURE}.{key}"
        for other in (f"{prefix}.{key}" for prefix in _OF_BLOCKS):
            if name in mine and other in theirs and mine[name] != theirs[other]:
                raise ModelFileError(
                    "the drafting block is of a model of another shape",
                    code="mtp_key",
                    subject=shown(other),
                    expected=f"{shown(str(mine[name]))}, as the model has it",
                    found=f"{shown(str(theirs[other]))} in {shown(sibling.path.name)}",
                )
    ours, found = mine.strings(_TOKENS, None), theirs.strings(_TOKENS, None)
    if ours is None or found is None or ours == found:
        return
    at = next((i for i, (a, b) in enumerate(zip(ours, found, strict=False)) if a != b), None)
    raise ModelFileError(
        "the drafting block's vocabulary is not the model's",
        code="mtp_vocabulary",
        subject=_TOKENS if at is None else f"{_TOKENS}[{at}]",
        expected=f"{len(ours)} tokens" if at is None else repr(ours[at])[:60],
        found=f"{len(found)} in {shown(sibling.path.name)}" if at is None else repr(found[at])[:60],
    )


def _block_of(sibling: Inventory, layout: str) -> dict[str, TensorInfo]:
    """The sibling's tensors that are the block's, by the name that a joined inventory has them under."""
    found: dict[str, TensorInfo] = {}
    numbers = {match[1] for name in sibling.tensors if (match := _NEXTN.match(name))}
    for name, info in sibling.tensors.items():
        if name in _REPEATED:
            continue
        if layout == "nextn" and name in _HEAD:
            found[_JOINED + name] = info
        elif name.startswith("mtp.") if layout == "mtp" else name.startswith(tuple(f"blk.{n}." for n in numbers)):
            found[name] = info
        else:
            raise ModelFileError(
                "a tensor that is no part of a drafting block",
                code="mtp_tensor",
                subject=shown(name),
                expected=f"{layout}.* alone, in {shown(sibling.path.name)}",
                found=info.type_name,
            )
    return found


def siblings(path: Path) -> list[Path]:
    """Files beside a model that by their name hold a drafting block: `mtp-NAME.gguf`, `NAME-MTP-Q8_0.gguf`."""
    beside = (file for file in path.parent.glob("*.gguf") if file.name != path.name)
    return sorted(file for file in beside if re.search(r"(^|[-_.])mtp([-_.]|$)", file.name.lower()))
