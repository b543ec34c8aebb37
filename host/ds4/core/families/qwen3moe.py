"""The `qwen3moe` family: qwen3 with routed experts instead of the feed-forward.

    x += sum over the n_expert_used experts of the highest scores, of weight_e Wdown_e (silu(Wgate_e h) * (Wup_e h))

The weights are the softmax of the router's scores, over the chosen ones normalised to a sum of 1.

Sources: transformers' modelling file of qwen3_moe; the key and tensor names of the `gguf` package.
"""

from __future__ import annotations

from dataclasses import replace

from ds4.core.families.decoder import MAX_EXPERTS, MAX_WIDTH, Config, DecoderFamily, neutral, single
from ds4.core.families.keys import Keys
from ds4.sys.descriptors import Decoder, Family, LayerFlags, RopeKind

_SOFTMAX = 1  # of expert_gating_func


def _finish(keys: Keys, config: Config) -> Config:
    count = keys.integer("expert_count", 1, MAX_EXPERTS)
    used = keys.integer("expert_used_count", 1, count)
    # Older files give the width of all the experts of a token together.
    width = keys.uniform("expert_feed_forward_length", config.n_layer, MAX_WIDTH, default=config.d_ff // used)
    if width < 1 or width * used > MAX_WIDTH:
        keys.fail("expert_feed_forward_length", "experts are empty or too wide", f"1..{MAX_WIDTH // used}", width)
    scale = keys.number("expert_weights_scale", 0.0, 1e6, default=1.0) or 1.0  # 0 has always meant none
    decoder = Decoder(
        flags=(LayerFlags(0),) * config.n_layer,
        n_expert=count,
        n_expert_used=used,
        d_expert=width,
        expert_scale=single(scale),
    )
    return replace(config, d_ff=config.d_ff or width, decoder=decoder)


CONTRACT = DecoderFamily(
    Family.QWEN3MOE,
    "qwen3moe",
    RopeKind.NEOX,
    neutral=neutral(
        known=frozenset({"expert_count", "expert_used_count"}),
        more={
            "attention.sliding_window": (0,),
            "expert_gating_func": (0, _SOFTMAX),
            "expert_weights_norm": (True,),
            "expert_shared_count": (0,),
            "leading_dense_block_count": (0,),
            "moe_every_n_layers": (0, 1),
            "expert_group_count": (0, 1),
            "expert_group_used_count": (0, 1),
        },
    ),
    head_norms=True,
    experts=True,
    rope_base=1000000.0,
    finish=_finish,
    reads=frozenset({"expert_count", "expert_used_count", "expert_feed_forward_length", "expert_weights_scale"}),
)
