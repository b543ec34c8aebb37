"""The `smollm3` family: llama, but every fourth layer does not rotate (NoPE). No key says so: it is a rule.

Sources: transformers' configuration of smollm3 (no_rope_layer_interval); names are those of the `gguf` package.
"""

from __future__ import annotations

from dataclasses import replace

from ds4.core.families.decoder import Config, DecoderFamily, neutral
from ds4.core.families.keys import Keys
from ds4.sys.descriptors import Decoder, Family, LayerFlags, RopeKind

INTERVAL = 4


def _finish(keys: Keys, config: Config) -> Config:
    still = (layer % INTERVAL == INTERVAL - 1 for layer in range(config.n_layer))
    flags = tuple(LayerFlags.NO_ROPE if no_rope else LayerFlags(0) for no_rope in still)
    return replace(config, decoder=Decoder(flags=flags))


CONTRACT = DecoderFamily(
    Family.SMOLLM3,
    "smollm3",
    RopeKind.NORM,
    neutral=neutral(more={"attention.sliding_window": (0,)}),
    rope_freqs=True,
    finish=_finish,
)
