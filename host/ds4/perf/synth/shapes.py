"""Shapes of models by name, as the keys of their files: what `ds4-synth random --shape` starts from and --set changes.

Numbers of `flash` and `pro` are those of DeepSeek's published configurations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from ds4.core.kinds import did_you_mean
from ds4.core.metadata import ValueType
from ds4.errors import SettingsError
from ds4.perf.synth import gguf_file
from ds4.perf.synth.gguf_file import Key, Keys

Value: TypeAlias = "bool | int | float | str | list[int] | list[float] | list[bool]"
Shape: TypeAlias = "dict[str, Value]"
"""Keys without their architecture's prefix; `architecture` is the exception."""

RATIOS, CLAMPS = "attention.compress_ratios", ("swiglu_clamp_exp", "swiglu_clamp_shexp")


def _deepseek4(layers: int, first: int, **numbers: Value) -> Shape:
    ratios = [first, first, *(4 if index % 2 == 0 else 128 for index in range(2, layers))][:layers]
    base: Shape = {
        "architecture": "deepseek4",
        "block_count": layers,
        "context_length": 1048576,
        "embedding_length": 0,
        "vocab_size": 129280,
        "attention.head_count": 0,
        "attention.head_count_kv": 1,
        "attention.key_length": 512,
        "attention.value_length": 512,
        "rope.dimension_count": 64,
        "attention.q_lora_rank": 1024,
        "attention.output_lora_rank": 1024,
        "attention.output_group_count": 8,
        "expert_count": 256,
        "expert_used_count": 6,
        "expert_feed_forward_length": 2048,
        "expert_shared_count": 1,
        "expert_gating_func": 4,
        "expert_weights_scale": 1.5,
        "expert_weights_norm": True,
        "hash_layer_count": 3,
        "swiglu_clamp_exp": [10.0] * layers,
        "swiglu_clamp_shexp": [10.0] * layers,
        "attention.sliding_window": 128,
        RATIOS: [*ratios, 0],
        "attention.indexer.head_count": 64,
        "attention.indexer.key_length": 128,
        "attention.indexer.top_k": 512,
        "hyper_connection.count": 4,
        "hyper_connection.sinkhorn_iterations": 20,
        "hyper_connection.epsilon": 1e-6,
        "attention.layer_norm_rms_epsilon": 1e-6,
        "rope.freq_base": 10000.0,
        "attention.compress_rope_freq_base": 160000.0,
        "rope.scaling.type": "yarn",
        "rope.scaling.factor": 16.0,
        "rope.scaling.original_context_length": 65536,
        "rope.scaling.yarn_beta_fast": 32.0,
        "rope.scaling.yarn_beta_slow": 1.0,
    }
    dotted = {name.replace("__", "."): value for name, value in numbers.items()}
    assert not dotted.keys() - base.keys()
    return base | dotted


def _llama(layers: int, width: int, heads: int, kv_heads: int, hidden: int, vocab: int, context: int) -> Shape:
    return {
        "architecture": "llama",
        "block_count": layers,
        "context_length": context,
        "embedding_length": width,
        "feed_forward_length": hidden,
        "vocab_size": vocab,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": width // heads,
        "attention.value_length": width // heads,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.dimension_count": width // heads,
        "rope.freq_base": 10000.0,
    }


def _kin(architecture: str, layers: int, **numbers: Value) -> Shape:
    """A small one of llama's kin."""
    shape = _llama(layers, 64, 4, 2, 96, 512, 2048) | {"architecture": architecture, "rope.scaling.type": "none"}
    shape |= {"rope.scaling.factor": 1.0, "rope.scaling.original_context_length": 2048}
    return shape | {name.replace("__", "."): value for name, value in numbers.items()}


SHAPES: dict[str, Shape] = {
    "flash": _deepseek4(43, 0, embedding_length=4096, attention__head_count=64),
    "pro": _deepseek4(
        61,
        128,
        embedding_length=7168,
        attention__head_count=128,
        attention__q_lora_rank=1536,
        attention__output_group_count=16,
        expert_count=384,
        expert_feed_forward_length=3072,
        expert_weights_scale=2.5,
        attention__indexer__top_k=1024,
    ),
    # Small, and still of every kind of layer, with head, window and ranks apart from one another.
    "deepseek4-tiny": _deepseek4(
        6,
        0,
        context_length=65536,
        embedding_length=256,
        vocab_size=512,
        attention__head_count=4,
        attention__key_length=128,
        attention__value_length=128,
        attention__q_lora_rank=128,
        attention__output_lora_rank=64,
        attention__output_group_count=2,
        expert_count=8,
        expert_used_count=3,
        expert_feed_forward_length=256,
        attention__indexer__head_count=16,
        attention__indexer__top_k=8,
    ),
    "llama-tiny": _llama(2, 256, 4, 2, 512, 512, 2048),
    "mistral-tiny": _kin("llama", 3, attention__sliding_window=24),
    "smollm3-tiny": _kin("smollm3", 5, rope__freq_base=2000000.0),
    "qwen2-tiny": _kin("qwen2", 3),
    "qwen3-tiny": _kin("qwen3", 3, attention__key_length=32, attention__value_length=32, rope__dimension_count=32),
    "qwen3moe-tiny": _kin(
        "qwen3moe", 3, expert_count=8, expert_used_count=3, expert_feed_forward_length=32, expert_weights_scale=1.0
    ),
    "gemma3-tiny": _kin(
        "gemma3", 7, attention__sliding_window=24, rope__freq_base=1000000.0, rope__freq_base_swa=10000.0
    ),
    "llama-135m": _llama(30, 576, 9, 3, 1536, 49152, 8192),
    "llama-8b": _llama(32, 4096, 32, 8, 14336, 128256, 8192),
}


def shape(name: str, layers: int | None, changes: Sequence[str]) -> Shape:
    """A shape by name; its first `layers` layers, then each "KEY=VALUE" of `changes`. Raises SettingsError."""
    if name not in SHAPES:
        raise SettingsError("no such shape" + did_you_mean(name, SHAPES), expected=", ".join(SHAPES), found=name)
    made = dict(SHAPES[name])
    for change in changes:
        key, _, value = change.partition("=")
        if key not in made or key == "architecture":
            known = ", ".join(key for key in made if key != "architecture")
            raise SettingsError("no such key" + did_you_mean(key, made), subject=change, expected=known, found=key)
        made[key] = _read(change, made[key], value)
        if key == RATIOS and layers is None:
            layers = len(made[RATIOS])  # type: ignore[arg-type]
    if layers is not None:
        _shorten(made, layers, ratios_given=any(change.startswith(RATIOS + "=") for change in changes))
    return made


def _shorten(made: Shape, layers: int, *, ratios_given: bool) -> None:
    made["block_count"] = layers
    for key in CLAMPS:
        if isinstance(values := made.get(key), list):
            made[key] = [*values, *[values[-1]] * layers][:layers]
    if isinstance(ratios := made.get(RATIOS), list):
        if not ratios_given:
            tail = [4 if index % 2 == 0 else 128 for index in range(len(ratios) - 1, layers)]
            ratios = [*ratios[:-1], *tail][:layers]
        made[RATIOS] = [*ratios[:layers], 0]
        made["hash_layer_count"] = min(int(made["hash_layer_count"]), layers)  # type: ignore[arg-type]


def _read(change: str, before: Value, value: str) -> Value:
    """The text as a value of the type that the key has."""
    try:
        match before:
            case bool():
                return {"true": True, "false": False}[value]
            case int():
                return int(value)
            case float():
                return float(value)
            case list():
                kind = type(before[0])
                return [kind(item) for item in value.split(",")]
    except (ValueError, KeyError):
        wanted = "a list" if isinstance(before, list) else type(before).__name__
        raise SettingsError("cannot use this value", subject=change, expected=wanted, found=value) from None
    return value


def keys(made: Mapping[str, Value]) -> Keys:
    """The shape as a file's keys."""
    architecture = str(made["architecture"])
    out: Keys = {"general.architecture": gguf_file.text(architecture)}
    for name, value in made.items():
        if name != "architecture":
            out[f"{architecture}.{name}"] = key_of(value)
    return out


def key_of(value: Value) -> Key:
    """A value with the type that files have it in: u32, f32, bool, string, arrays of i32 or f32."""
    match value:
        case bool():
            return gguf_file.boolean(value)
        case int():
            return gguf_file.u32(value)
        case float():
            return gguf_file.f32(value)
        case str():
            return gguf_file.text(value)
    if all(isinstance(item, bool) for item in value):
        return gguf_file.array(ValueType.BOOL, value)
    floats = any(isinstance(item, float) for item in value)
    return gguf_file.array(ValueType.F32 if floats else ValueType.I32, value)
