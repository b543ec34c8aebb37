"""What a model file is, in one look at its metadata: enough to list it, and to say whether it can be served."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ds4.core import bind
from ds4.core.ggml_types import file_type_name, type_name
from ds4.core.inventory import Inventory, load
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.descriptors import Family


@dataclass(frozen=True, slots=True)
class QuantShare:
    """How much of a model one tensor type makes up."""

    type: str
    tensors: int
    elements: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Identity:
    """A model at a glance. None where the file does not say.

    n_shards: files of the set; bytes: their size together; weight_bytes: the tensors' data alone.
    n_params: elements of all tensors, shared ones counted once. quant: by falling size.
    family: None and supported False, with the reason, if it cannot be served; missing: what stands in the way, where
    that can be told tensor by tensor and key by key.
    """

    path: Path
    n_shards: int
    architecture: str | None
    family: Family | None
    name: str | None
    size_label: str | None
    file_type: str | None
    quant: tuple[QuantShare, ...]
    n_params: int
    bytes: int
    weight_bytes: int
    context_train: int | None
    n_vocab: int | None
    chat_template: bool
    supported: bool
    reason: str | None
    missing: tuple[str, ...] = ()

    @property
    def bits_per_weight(self) -> float:
        return 8 * self.weight_bytes / self.n_params if self.n_params else 0.0

    @property
    def quant_summary(self) -> str:
        """ "Q4_1 67%, Q8_0 31%, F32 0.1%" - shares of the weights' bytes."""
        total = sum(share.nbytes for share in self.quant)
        return ", ".join(f"{share.type} {_percent(share.nbytes, total)}" for share in self.quant)


def identify(path: str | os.PathLike[str]) -> Identity:
    """The identity of the model at `path` (its only file or its first shard).

    A well-formed file that cannot be served is no error: supported is False and reason says why. Raises ModelFileError
    for a file or set of shards that is malformed.
    """
    return identify_inventory(load(path))


def identify_inventory(inventory: Inventory) -> Identity:
    """The same for an inventory that is already loaded."""
    metadata = inventory.metadata
    architecture = metadata.string("general.architecture", None)
    family: Family | None = None
    reason: str | None = None
    missing: tuple[str, ...] = ()
    try:
        family = bind.plan(inventory).hparams.family
    except ModelFileError as e:
        reason = str(e)
        missing = e.notes if isinstance(e, UnsupportedModelError) else ()

    shares: dict[int, QuantShare] = {}
    seen: set[tuple[int, int]] = set()
    for info in inventory.tensors.values():
        if (info.shard, info.offset) in seen:
            continue
        seen.add((info.shard, info.offset))
        before = shares.get(info.type, QuantShare(type_name(info.type), 0, 0, 0))
        shares[info.type] = QuantShare(
            before.type, before.tensors + 1, before.elements + info.n_elements, before.nbytes + info.nbytes
        )
    quant = tuple(sorted(shares.values(), key=lambda share: (-share.nbytes, share.type)))
    n_params = sum(share.elements for share in quant)
    file_type = metadata.u32("general.file_type", None)
    return Identity(
        path=inventory.path,
        n_shards=len(inventory.shards),
        architecture=architecture,
        family=family,
        name=metadata.string("general.name", None),
        size_label=metadata.string("general.size_label", None) or (size_label(n_params) if n_params else None),
        file_type=None if file_type is None else file_type_name(file_type),
        quant=quant,
        n_params=n_params,
        bytes=inventory.file_bytes,
        weight_bytes=sum(share.nbytes for share in quant),
        context_train=None if architecture is None else metadata.u32(f"{architecture}.context_length", None),
        n_vocab=metadata.count("tokenizer.ggml.tokens"),
        chat_template="tokenizer.chat_template" in metadata,
        supported=family is not None,
        reason=reason,
        missing=missing,
    )


def size_label(n_params: int) -> str:
    """ "135M", "1.5B", "671B": two significant digits at least, as model names have it."""
    for unit, suffix in ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K")):
        if n_params >= unit * 0.9995:
            value = n_params / unit
            return f"{value:.0f}{suffix}" if value >= 9.95 else f"{value:.1f}{suffix}"
    return str(n_params)


def _percent(part: int, total: int) -> str:
    share = 100 * part / total
    return f"{share:.0f}%" if share >= 1 else f"{share:.1g}%"
