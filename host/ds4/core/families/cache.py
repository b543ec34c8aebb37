"""What rows of a KV cache take, for the families' own figures of a bank."""

from __future__ import annotations

from ds4.sys.descriptors import GgmlType

# (elements, bytes) of one block of the types that a cache can have.
_BLOCKS = {GgmlType.F32: (1, 4), GgmlType.F16: (1, 2), GgmlType.Q8_0: (32, 34)}

KV_TYPES: tuple[GgmlType, ...] = tuple(_BLOCKS)


def row_bytes(kv_type: GgmlType, width: int) -> int:
    """Bytes of a row of `width` elements; a block that is not full counts whole."""
    elements, size = _BLOCKS[kv_type]
    return -(-width // elements) * size
