"""Keys that change a forward's arithmetic, and what each says where it is not used.

A family refuses those that its forward does not know (`keys.refuse_unsupported`) unless they say this. Whatever the
family, a key means the same: so the values are here, and a family names keys alone.
"""

from __future__ import annotations

from ds4.core.families.keys import Neutral

_VALUES: dict[str, Neutral] = {
    "attention.causal": (True,),
    "attention.clamp_kqv": (0.0,),
    "attention.key_length_mla": (0,),
    "attention.kv_lora_rank": (),
    "attention.max_alibi_bias": (0.0,),
    "attention.scale": (0.0,),
    "attention.shared_kv_layers": (0,),
    "attention.sliding_window_pattern": (),
    "attention.value_length_mla": (0,),
    "attn_logit_softcapping": (0.0,),
    "embedding_scale": (0.0, 1.0),
    "expert_count": (0,),
    "expert_group_count": (0, 1),
    "expert_group_used_count": (0, 1),
    "expert_used_count": (0,),
    "final_logit_softcapping": (0.0,),
    "leading_dense_block_count": (0,),
    "logit_scale": (0.0, 1.0),
    "moe_every_n_layers": (0, 1),
    "nextn_predict_layers": (0,),
    "residual_scale": (0.0, 1.0),
    "rope.dimension_sections": (),
    "rope.scale_linear": (0.0, 1.0),
    "rope.scaling.alpha": (0.0,),
    "rope.scaling.attn_factor": (1.0,),
    "rope.scaling.yarn_attn_factor": (1.0,),
    "rope.scaling.yarn_ext_factor": (1.0,),
    "rope.scaling.yarn_log_multiplier": (0.0,),
    "router_logit_softcapping": (0.0,),
    "use_parallel_residual": (False,),
}


def neutral_values(*keys: str) -> dict[str, Neutral]:
    """The keys and their values, in the order in which they are named, which is that of the checks."""
    return {key: _VALUES[key] for key in keys}
