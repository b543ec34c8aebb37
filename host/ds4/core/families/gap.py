"""What stands between a file and the family that is nearest to it: for people who ask why it cannot be served.

Tensors are compared by name, the layer's number left out; keys by what follows the architecture.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterator

from ds4.core.cursor import shown
from ds4.core.families import ALL
from ds4.core.families.decoder import READ, DecoderFamily
from ds4.core.inventory import Inventory

_LAYER = re.compile(r"^blk\.\d+\.", re.ASCII)
_LISTED = 12  # lines of each kind


def gap(inventory: Inventory) -> tuple[str, ...]:
    """Lines: the nearest family of llama's kin, each kind of tensor that it has no place for, each that it lacks, each
    key that it does not read. The architecture need not be known; () if the file has none of a model's tensors."""
    found = Counter(_LAYER.sub("blk.*.", name) for name in inventory.tensors)
    family, names, required = min(_kin(), key=lambda kin: len(found.keys() ^ kin[1]))
    if not found.keys() & required:
        return ()
    lines = [f"the nearest supported family is {family.ARCHITECTURE}; beside it"]
    extra = [name for name in found if name not in names and not family.ignorable(name.replace("*", "0"))]
    lines += _listed(f"tensor {shown(name)} has no place ({found[name]} of them)" for name in extra)
    lines += _listed(f"tensor {name} is missing" for name in sorted(required - found.keys()))
    lines += _listed(f"key {shown(key)} is not read" for key in _keys(inventory, family))
    return tuple(lines) if len(lines) > 1 else ()


@functools.cache
def _kin() -> tuple[tuple[DecoderFamily, frozenset[str], frozenset[str]], ...]:
    """Each with the names of its tensors, and of those that it must have."""
    kin = (family for family in ALL if isinstance(family, DecoderFamily))
    return tuple((family, family.names(), family.names(required=True)) for family in kin)


def _keys(inventory: Inventory, family: DecoderFamily) -> Iterator[str]:
    """Those behind the file's own architecture that the family has no reading of."""
    prefix = inventory.metadata.string("general.architecture", "") + "."
    known = READ | family.reads | family.neutral.keys()
    yield from (key for key in inventory.metadata if key.startswith(prefix) and key[len(prefix) :] not in known)


def _listed(lines: Iterator[str]) -> list[str]:
    every = list(lines)
    more = [f"and {len(every) - _LISTED} more like the last"] if len(every) > _LISTED else []
    return every[:_LISTED] + more
