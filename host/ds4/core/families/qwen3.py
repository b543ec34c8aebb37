"""The `qwen3` family: llama with an RMSNorm of each head of q and k before they rotate, and split rotated pairs.

Sources: transformers' modelling file of qwen3; the key and tensor names of the `gguf` package.
"""

from __future__ import annotations

from ds4.core.families.decoder import DecoderFamily, neutral
from ds4.sys.descriptors import Family, RopeKind

CONTRACT = DecoderFamily(
    Family.QWEN3,
    "qwen3",
    RopeKind.NEOX,
    neutral=neutral(more={"attention.sliding_window": (0,)}),
    head_norms=True,
    rope_base=1000000.0,
)
