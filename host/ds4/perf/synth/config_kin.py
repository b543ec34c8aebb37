"""config.json of llama and its kin as the keys of a file. What the family's forward does not do is refused by name."""

from __future__ import annotations

import math
from typing import Any

from ds4.core.cursor import shown
from ds4.core.families import gemma3, smollm3
from ds4.errors import UnsupportedModelError
from ds4.perf.synth.checkpoint import Reader
from ds4.perf.synth.shapes import Shape

ARCHITECTURES = {
    "llama": "llama",
    "mistral": "llama",
    "smollm3": "smollm3",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "gemma3_text": "gemma3",
}
"""model_type of a config to general.architecture of a file."""

_TIED = {"gemma3"}  # where the config does not say

# Entries that ask for what no forward here does, with the values that mean "not used".
_NEUTRAL: dict[str, tuple[object, ...]] = {
    "attention_bias": (None, False),
    "mlp_bias": (None, False),
    "use_bidirectional_attention": (None, False),
    "attn_logit_softcapping": (None,),
    "final_logit_softcapping": (None,),
    "use_sliding_window": (None, False),
    "hidden_act": (None, "silu"),
    "hidden_activation": (None, "gelu_pytorch_tanh"),
    "norm_topk_prob": (None, True),
    "mlp_only_layers": (None, []),
    "decoder_sparse_step": (None, 1),
    "partial_rotary_factor": (None, 1.0),
}


def tied(config: dict[str, Any]) -> bool:
    return bool(config.get("tie_word_embeddings", ARCHITECTURES[config["model_type"]] in _TIED))


def shape_of(config: dict[str, Any]) -> Shape:
    """The keys of a config. Raises ModelFileError, code `checkpoint_config`, for one that is missing or of a wrong
    type, UnsupportedModelError for what cannot be written."""
    architecture = ARCHITECTURES[config["model_type"]]
    for key, values in _NEUTRAL.items():
        if config.get(key) not in values:
            _refuse(key, " or ".join(str(value) for value in values if value is not None) or "none", config[key])
    if architecture == "qwen3moe" and config.get("norm_topk_prob") is not True:
        _refuse("norm_topk_prob", "True", config.get("norm_topk_prob"))
    read = Reader(config)
    heads, width = read.integer("num_attention_heads"), read.integer("hidden_size")
    stated = config.get("head_dim")
    head = width // max(heads, 1) if stated is None else read.integer("head_dim")
    shape: Shape = {
        "architecture": architecture,
        "block_count": read.integer("num_hidden_layers"),
        "context_length": read.integer("max_position_embeddings"),
        "embedding_length": width,
        "feed_forward_length": read.integer("intermediate_size"),
        "vocab_size": read.integer("vocab_size"),
        "attention.head_count": heads,
        "attention.head_count_kv": read.integer("num_key_value_heads", heads),
        "attention.key_length": head,
        "attention.value_length": head,
        "attention.layer_norm_rms_epsilon": read.number("rms_norm_eps"),
        "rope.dimension_count": head,
        **_rope(_ropes(config, "full_attention"), read),
    }
    match architecture:
        case "llama":
            if config.get("sliding_window") is not None:
                shape["attention.sliding_window"] = read.integer("sliding_window")
        case "smollm3":
            _smollm3(config, read)
        case "qwen3moe":
            count = "num_experts" if "num_experts" in config else "num_local_experts"
            shape["expert_count"] = read.integer(count)
            shape["expert_used_count"] = read.integer("num_experts_per_tok")
            shape["expert_feed_forward_length"] = read.integer("moe_intermediate_size")
        case "gemma3":
            shape |= _gemma3(config, read, head)
    return shape


def divisors(config: dict[str, Any]) -> list[float] | None:
    """Of the rope's frequencies, one for each pair, if the config's rope is `llama3`: pairs that turn more than
    high_freq_factor times in the original context keep theirs, those that turn less than low_freq_factor times are
    slowed by `factor`, and a linear ramp joins them."""
    rope = _ropes(config, "full_attention")
    if rope.get("rope_type") != "llama3":
        return None
    read = Reader(rope, "rope_parameters.")
    factor, low, high = (read.number(key) for key in ("factor", "low_freq_factor", "high_freq_factor"))
    context, base = read.integer("original_max_position_embeddings"), read.number("rope_theta")
    dim = int(shape_of(config)["rope.dimension_count"])  # type: ignore[arg-type]
    out = []
    for pair in range(dim // 2):
        turns = context * base ** (-2.0 * pair / dim) / (2.0 * math.pi)
        keep = min(1.0, max(0.0, (turns - low) / (high - low)))
        out.append(1.0 / ((1.0 - keep) / factor + keep))
    return out


def _ropes(config: dict[str, Any], which: str) -> dict[str, Any]:
    """The rope of a kind of layer: of rope_parameters, which have one for all or one for each kind, or of the older
    rope_theta and rope_scaling."""
    found = config.get("rope_parameters")
    if not isinstance(found, dict):
        old = config.get("rope_scaling")
        theta = config.get("rope_local_base_freq" if which == "sliding_attention" else "rope_theta")
        found = (old if isinstance(old, dict) and which == "full_attention" else {}) | {"rope_theta": theta}
        found = {"rope_type": found.get("type", "default")} | found
    inner = found.get(which, found)
    return inner if isinstance(inner, dict) else {}


def _rope(rope: dict[str, Any], config: Reader) -> Shape:
    read = Reader(rope, "rope_parameters.")
    out: Shape = {"rope.freq_base": read.number("rope_theta")}
    kind = rope.get("rope_type", "default")
    if kind == "linear":
        out |= {"rope.scaling.type": "linear", "rope.scaling.factor": read.number("factor")}
    elif kind == "yarn":
        factor = read.number("factor")
        out |= {
            "rope.scaling.type": "yarn",
            "rope.scaling.factor": factor,
            "rope.scaling.original_context_length": read.integer(
                "original_max_position_embeddings", config.integer("max_position_embeddings")
            ),
            "rope.scaling.yarn_beta_fast": read.number("beta_fast", 32.0),
            "rope.scaling.yarn_beta_slow": read.number("beta_slow", 1.0),
        }
        if rope.get("attention_factor") is not None:
            out["rope.scaling.attn_factor"] = read.number("attention_factor") / (0.1 * math.log(factor) + 1.0)
        for key in ("mscale", "mscale_all_dim"):
            if rope.get(key) is not None:
                _refuse(f"rope_parameters.{key}", "none", rope[key])
    elif kind not in ("default", "llama3"):
        _refuse("rope_parameters.rope_type", "default, linear, yarn or llama3", kind)
    return out


def _smollm3(config: dict[str, Any], read: Reader) -> None:
    layers = read.integer("num_hidden_layers")
    rule = [int(layer % smollm3.INTERVAL != smollm3.INTERVAL - 1) for layer in range(layers)]
    if config.get("no_rope_layers", rule) != rule:
        _refuse("no_rope_layers", f"all but every {smollm3.INTERVAL}th layer", config["no_rope_layers"])


def _gemma3(config: dict[str, Any], read: Reader, head: int) -> Shape:
    layers = read.integer("num_hidden_layers")
    out: Shape = {"attention.sliding_window": read.integer("sliding_window")}
    rule = [layer % gemma3.PERIOD != gemma3.PERIOD - 1 for layer in range(layers)]
    types = config.get("layer_types")
    if isinstance(types, list):
        local = [kind == "sliding_attention" for kind in types]
        if len(local) != layers or not set(types) <= {"sliding_attention", "full_attention"}:
            read.fail("layer_types", f"{layers} of sliding_attention, full_attention", types)
        if local != rule:
            out["attention.sliding_window_pattern"] = local
    base = Reader(_ropes(config, "sliding_attention"), "rope_parameters.sliding_attention.").number("rope_theta")
    if base != gemma3.LOCAL_BASE:
        out["rope.freq_base_swa"] = base
    scalar = read.number("query_pre_attn_scalar")
    if scalar != head:
        out["attention.scale"] = 1.0 / math.sqrt(scalar)
    return out


def _refuse(key: str, expected: str, found: object) -> None:
    raise UnsupportedModelError(
        "the config asks for something that cannot be written",
        code="unsupported_shape",
        subject=shown(key),
        expected=expected,
        found=shown(str(found)),
    )
