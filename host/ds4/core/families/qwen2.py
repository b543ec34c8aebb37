"""The `qwen2` family (Qwen 1.5, 2 and 2.5): llama with biases of q, k and v, and split rotated pairs.

Sources: transformers' modelling file of qwen2; the key and tensor names of the `gguf` package.
"""

from __future__ import annotations

from ds4.core.families.decoder import DecoderFamily, neutral
from ds4.sys.descriptors import Family, RopeKind

CONTRACT = DecoderFamily(
    Family.QWEN2,
    "qwen2",
    RopeKind.NEOX,
    neutral=neutral(more={"attention.sliding_window": (0,)}),
    biases=True,
)
