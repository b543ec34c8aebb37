"""The `gemma3` family, text models: norms before and after both blocks, GeGLU, and mostly local layers.

    x = sqrt(d_model) token_embd[token]
    for each layer:   h = rms_norm(x) * attn_norm;  q, k = head norms of Wq h, Wk h;  v = Wv h;  rope(q), rope(k)
                      x += rms_norm(Wo attention(q, k, v)) * post_attention_norm
                      h = rms_norm(x) * ffn_norm
                      x += rms_norm(Wdown (gelu(Wgate h) * (Wup h))) * post_ffw_norm

Five layers of six are local: they see sliding_window positions and rotate by a base of their own, without the scaling
of the others. Converters store each norm's weight with the 1 added that the published checkpoints leave out.

What files do not say, or older ones do not, is the family's: the pattern, the local base, the embedding's scale, and
that the model of 62 layers scales attention by d_model / n_head instead of the head's length.

Sources: transformers' configuration and modelling files of gemma3, google's gemma_pytorch (the 27B's scale); the key
and tensor names of the `gguf` package.
"""

from __future__ import annotations

import math
from dataclasses import replace

from ds4.core.families.contract import PromptFacts
from ds4.core.families.decoder import Config, DecoderFamily, neutral, single
from ds4.core.families.keys import Keys
from ds4.sys.descriptors import Activation, Decoder, Family, LayerFlags, RopeKind

PERIOD = 6
LOCAL_BASE = 10000.0
_LAYERS_27B = 62


def _finish(keys: Keys, config: Config) -> Config:
    local = _local(keys, config)
    base = keys.number("rope.freq_base_swa", 1.0, 1e12, default=LOCAL_BASE)
    decoder = Decoder(
        flags=tuple(LayerFlags.LOCAL if flag else LayerFlags(0) for flag in local),
        activation=Activation.GELU,
        embd_scale=single(math.sqrt(config.d_model)),
        rope_base_local=single(base) if any(local) else 0.0,
    )
    scale = config.attn_scale
    if not scale and config.n_layer == _LAYERS_27B:
        scale = 1.0 / math.sqrt(config.d_model / config.n_head)
    return replace(config, attn_scale=scale, decoder=decoder)


def _local(keys: Keys, config: Config) -> list[bool]:
    """Which layers are local: none without a window; else the file's list, or all but the last of each period."""
    pattern = keys.pattern("attention.sliding_window_pattern", config.n_layer, default=PERIOD)
    if isinstance(pattern, int):
        pattern = [pattern == 0 or layer % pattern < pattern - 1 for layer in range(config.n_layer)]
    return [flag and config.sliding_window > 0 for flag in pattern]


CONTRACT = DecoderFamily(
    Family.GEMMA3,
    "gemma3",
    RopeKind.NEOX,
    neutral=neutral(known=frozenset({"attention.sliding_window_pattern"})),
    head_norms=True,
    post_norms=True,
    rope_base=1000000.0,
    finish=_finish,
    reads=frozenset({"attention.sliding_window_pattern", "rope.freq_base_swa"}),
    PROMPT=PromptFacts(stops=("<end_of_turn>",)),
)
