"""The contracts of llama's kin, over generated files: what each needs, takes and refuses, by name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ds4.core import bind, families, gguf, inventory
from ds4.core.families import decoder, gap
from ds4.core.families.keys import Keys
from ds4.core.identify import identify_inventory
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.descriptors import Activation, Family, LayerFlags, Role, RopeKind
from support.gguf_writer import BOOL, I32, TYPE_F16, TYPE_F32, TYPE_Q8_0, U32, GgufWriter, Tensor

WIDTH, HEADS, KV, HEAD, HIDDEN, VOCAB, EXPERTS, USED, EXPERT = 32, 4, 2, 16, 64, 16, 4, 2, 32
KIN = ("smollm3", "qwen2", "qwen3", "qwen3moe", "gemma3")
LAYERS = {"smollm3": 5, "gemma3": 7}  # others 2

NUMBERS = {
    "context_length": 128,
    "embedding_length": WIDTH,
    "feed_forward_length": HIDDEN,
    "attention.head_count": HEADS,
    "attention.head_count_kv": KV,
    "attention.key_length": HEAD,
    "attention.value_length": HEAD,
}
OWN: dict[str, dict[str, int]] = {
    "qwen3moe": {"expert_count": EXPERTS, "expert_used_count": USED, "expert_feed_forward_length": EXPERT},
    "gemma3": {"attention.sliding_window": 8},
}


def tensors(name: str) -> Iterator[Tensor]:
    """Written down again, not taken from the contract."""
    yield Tensor("token_embd.weight", (WIDTH, VOCAB), TYPE_Q8_0)
    for layer in range(LAYERS.get(name, 2)):
        at = f"blk.{layer}."
        vectors = {"attn_norm.weight": WIDTH, "ffn_norm.weight": WIDTH}
        if name == "qwen2":
            vectors |= {"attn_q.bias": HEADS * HEAD, "attn_k.bias": KV * HEAD, "attn_v.bias": KV * HEAD}
        if name in ("qwen3", "qwen3moe", "gemma3"):
            vectors |= {"attn_q_norm.weight": HEAD, "attn_k_norm.weight": HEAD}
        if name == "gemma3":
            vectors |= {"post_attention_norm.weight": WIDTH, "post_ffw_norm.weight": WIDTH}
        for vector, length in vectors.items():
            yield Tensor(at + vector, (length,), TYPE_F32)
        matrices: dict[str, tuple[int, ...]] = {
            "attn_q": (WIDTH, HEADS * HEAD),
            "attn_k": (WIDTH, KV * HEAD),
            "attn_v": (WIDTH, KV * HEAD),
            "attn_output": (HEADS * HEAD, WIDTH),
        }
        if name == "qwen3moe":
            matrices |= {"ffn_gate_inp": (WIDTH, EXPERTS), "ffn_gate_exps": (WIDTH, EXPERT, EXPERTS)}
            matrices |= {"ffn_up_exps": (WIDTH, EXPERT, EXPERTS), "ffn_down_exps": (EXPERT, WIDTH, EXPERTS)}
        else:
            matrices |= {"ffn_gate": (WIDTH, HIDDEN), "ffn_up": (WIDTH, HIDDEN), "ffn_down": (HIDDEN, WIDTH)}
        for matrix, dims in matrices.items():
            yield Tensor(f"{at}{matrix}.weight", dims, TYPE_Q8_0)
    yield Tensor("output_norm.weight", (WIDTH,), TYPE_F32)


def writer(name: str, **changes: Any) -> GgufWriter:
    """changes: keys without prefix, `__` for the dot; None takes one away."""
    w = GgufWriter()
    w.string("general.architecture", name)
    numbers: dict[str, Any] = {"block_count": LAYERS.get(name, 2)} | NUMBERS | OWN.get(name, {})
    numbers |= {"attention.layer_norm_rms_epsilon": 1e-6}
    numbers |= {key.replace("__", "."): value for key, value in changes.items()}
    for key, value in numbers.items():
        if isinstance(value, bool):
            w.number(f"{name}.{key}", BOOL, value)
        elif isinstance(value, float):
            w.f32(f"{name}.{key}", value)
        elif isinstance(value, str):
            w.string(f"{name}.{key}", value)
        elif value is not None:
            w.u32(f"{name}.{key}", value)
    w.tensors += tensors(name)
    return w


def held(w: GgufWriter) -> inventory.Inventory:
    return inventory.merge((gguf.parse(w.build(), Path("x.gguf")),))


def plan(w: GgufWriter) -> bind.BindPlan:
    return bind.plan(held(w))


def refused(w: GgufWriter) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        plan(w)
    return caught.value


@pytest.mark.parametrize("name", KIN)
def test_every_tensor_fills_the_slot_of_its_name(name: str) -> None:
    made = plan(writer(name))
    assert made.architecture == name and made.hparams.family is Family[name.upper()]
    assert [slot.name for slot in made.slots if slot.role is Role.OUTPUT_NORM] == ["output_norm.weight"]
    assert sorted(slot.name for slot in made.slots) == sorted(t.name for t in tensors(name))
    assert made.tied and made.unknown == () and made.ignored == ()
    assert made.hparams.rope_kind is (RopeKind.NORM if name == "smollm3" else RopeKind.NEOX)
    assert identify_inventory(held(writer(name))).supported


CASES = [(name, tensor.name) for name in KIN for tensor in tensors(name) if not tensor.name.startswith("blk.1")]


@pytest.mark.parametrize(("name", "tensor"), CASES)
def test_a_tensor_that_is_missing_wider_or_of_another_type_is_named(name: str, tensor: str) -> None:
    error = refused(writer(name).drop(tensor))
    assert (error.code, error.subject) == ("tensor_missing", tensor)
    dims = next(t.dims for t in tensors(name) if t.name == tensor)
    if tensor != "token_embd.weight":  # which says itself how large the vocabulary is
        error = refused(writer(name).change(tensor, dims=(*dims[:-1], dims[-1] + 1), data=bytes(1 << 16)))
        assert (error.code, error.subject, error.expected) == ("tensor_dims", tensor, list(dims))
    wrong = TYPE_F16 if len(dims) == 1 else 24  # I8
    error = refused(writer(name).change(tensor, type=wrong, data=bytes(1 << 16)))
    assert (error.code, error.subject) == ("tensor_type", tensor)
    assert isinstance(error, UnsupportedModelError)


def test_a_wider_embedding_is_a_wider_vocabulary() -> None:
    w = writer("qwen3").change("token_embd.weight", dims=(WIDTH, VOCAB + 1), data=bytes(1 << 16))
    assert plan(w).hparams.n_vocab == VOCAB + 1


@pytest.mark.parametrize("name", KIN)
@pytest.mark.parametrize(
    "key", ["block_count", "context_length", "embedding_length", "attention.head_count", "feed_forward_length"]
)
def test_a_key_that_is_missing_or_nought_or_a_word_is_named(name: str, key: str) -> None:
    optional = name == "qwen3moe" and key == "feed_forward_length"
    gone = writer(name, **{key.replace(".", "__"): None})
    if optional:
        assert plan(gone).hparams.d_ff == EXPERT
    else:
        error = refused(gone)
        assert (error.code, error.subject) == ("metadata_missing", f"{name}.{key}")
    error = refused(writer(name, **{key.replace(".", "__"): 0}))
    assert (error.code, error.subject) == ("metadata_range", f"{name}.{key}")
    error = refused(writer(name, **{key.replace(".", "__"): "many"}))
    assert (error.code, error.subject) == ("metadata_type", f"{name}.{key}")


# name, key, value, code
FOREIGN = [
    *((name, "attention.causal", False, "unsupported_key") for name in KIN),
    *((name, "final_logit_softcapping", 30.0, "unsupported_key") for name in KIN),
    *((name, "attention.sliding_window", 8, "unsupported_key") for name in KIN if name != "gemma3"),
    *((name, "expert_count", 8, "unsupported_key") for name in KIN if name != "qwen3moe"),
    ("qwen3moe", "expert_weights_norm", False, "unsupported_key"),
    ("qwen3moe", "expert_gating_func", 2, "unsupported_key"),
    ("qwen3moe", "expert_shared_count", 1, "unsupported_key"),
    ("qwen3moe", "expert_count", 0, "metadata_range"),
    ("qwen3moe", "expert_used_count", 0, "metadata_range"),
    ("qwen3moe", "expert_used_count", EXPERTS + 1, "metadata_range"),
    ("qwen3moe", "expert_feed_forward_length", 0, "metadata_range"),
    ("qwen3moe", "expert_weights_scale", -1.0, "metadata_range"),
    ("gemma3", "rope.freq_base_swa", 0.0, "metadata_range"),
    ("gemma3", "rope.freq_base_swa", 7, "metadata_type"),
    ("gemma3", "attention.sliding_window_pattern", "all", "metadata_type"),
]


@pytest.mark.parametrize(("name", "key", "value", "code"), FOREIGN)
def test_a_key_that_asks_for_something_else_is_named(name: str, key: str, value: Any, code: str) -> None:
    error = refused(writer(name, **{key.replace(".", "__"): value}))
    assert (error.code, error.subject) == (code, f"{name}.{key}")


def test_every_fourth_layer_of_smollm3_does_not_rotate() -> None:
    found = plan(writer("smollm3")).hparams.decoder
    assert found is not None
    assert found.flags == (LayerFlags(0),) * 3 + (LayerFlags.NO_ROPE, LayerFlags(0))


def test_older_mixture_files_give_the_width_of_a_tokens_experts_together() -> None:
    made = plan(writer("qwen3moe", expert_feed_forward_length=None)).hparams.decoder
    assert made is not None and (made.n_expert, made.n_expert_used, made.d_expert) == (EXPERTS, USED, HIDDEN // USED)


def _local(w: GgufWriter) -> str:
    found = plan(w).hparams.decoder
    assert found is not None
    return "".join("l" if flag & LayerFlags.LOCAL else "g" for flag in found.flags)


def test_gemma3_supplies_what_its_files_leave_out() -> None:
    hparams = plan(writer("gemma3")).hparams
    found = hparams.decoder
    assert found is not None and found.activation is Activation.GELU
    assert _local(writer("gemma3")) == "lllllgl"
    assert (hparams.rope_base, found.rope_base_local, hparams.attn_scale) == (1e6, 1e4, 0.0)
    assert found.embd_scale == pytest.approx(math.sqrt(WIDTH), rel=1e-7)


def test_gemma3_takes_a_pattern_and_a_local_base_from_the_file() -> None:
    key = "gemma3.attention.sliding_window_pattern"
    assert _local(writer("gemma3", attention__sliding_window_pattern=2)) == "lglglgl"
    assert _local(writer("gemma3", attention__sliding_window_pattern=1)) == "ggggggg"
    flags = [1, 0, 0, 1, 1, 1, 0]
    assert _local(writer("gemma3").array(key, BOOL, flags)) == "lgglllg"
    assert _local(writer("gemma3").array(key, I32, flags)) == "lgglllg"
    error = refused(writer("gemma3").array(key, BOOL, flags[:-1]))
    assert (error.code, error.subject, error.expected) == ("metadata_range", key, "7 values")
    error = refused(writer("gemma3").array(key, U32, [2] * 7))
    assert (error.code, error.subject) == ("metadata_range", key + "[0]")
    found = plan(writer("gemma3", rope__freq_base_swa=5000.0)).hparams.decoder
    assert found is not None and found.rope_base_local == 5000.0


def test_gemma3_without_a_window_is_global_throughout() -> None:
    w = writer("gemma3", attention__sliding_window=0)
    found = plan(w).hparams.decoder
    assert _local(w) == "ggggggg" and found is not None and found.rope_base_local == 0.0


def test_the_gemma3_of_62_layers_scales_attention_by_the_width_of_a_heads_share() -> None:
    w = writer("gemma3", block_count=62)
    w.tensors += [Tensor(t.name.replace("blk.0", f"blk.{i}"), t.dims, t.type) for i in range(7, 62)
                  for t in tensors("gemma3") if t.name.startswith("blk.0.")]  # fmt: skip
    assert plan(w).hparams.attn_scale == pytest.approx((WIDTH / HEADS) ** -0.5)


# ---- what is said of files that are not supported


def test_an_architecture_that_is_not_supported_says_which_are_and_what_is_in_the_way() -> None:
    w = writer("qwen3").without("general.architecture")
    w.string("general.architecture", "qwen9").u32("qwen9.attention.q_lora_rank", 4)
    w.drop("blk.0.attn_q.weight").drop("blk.1.attn_q.weight")
    w.tensors += [Tensor(f"blk.{layer}.attn_q_a.weight", (WIDTH, 32), TYPE_Q8_0) for layer in range(2)]
    error = refused(w)
    assert isinstance(error, UnsupportedModelError) and error.code == "unsupported_architecture"
    assert all(known in str(error.expected) for known in (*KIN, "llama", "deepseek4"))
    assert error.notes == (
        "the nearest supported family is qwen3; beside it",
        "tensor blk.*.attn_q_a.weight has no place (2 of them)",
        "tensor blk.*.attn_q.weight is missing",
        "key qwen9.attention.q_lora_rank is not read",
    )
    assert identify_inventory(held(w)).missing == error.notes


def test_a_tensor_that_has_no_place_is_told_with_its_like() -> None:
    w = writer("qwen3")
    w.tensors += [Tensor(f"blk.{layer}.attn_q.bias", (HEADS * HEAD,), TYPE_F32) for layer in range(2)]
    error = refused(w)
    assert isinstance(error, UnsupportedModelError) and error.code == "tensor_unused"
    assert error.notes[1:] == ("tensor blk.*.attn_q.bias has no place (2 of them)",)


def test_many_differences_are_counted_and_a_file_of_no_model_says_nothing() -> None:
    w = writer("qwen3")
    w.tensors += [Tensor(f"extra.{index}", (32,), TYPE_F32) for index in range(40)]
    assert gap.gap(held(w))[-1] == "and 28 more like the last"
    assert gap.gap(held(GgufWriter().string("general.architecture", "clip"))) == ()


@pytest.mark.parametrize("name", KIN)
def test_the_keys_that_are_listed_as_read_are_those_that_validation_asks_for(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Keys] = []

    class Recorder(Keys):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(decoder, "Keys", Recorder)
    family = families.contract(name)
    assert isinstance(family, decoder.DecoderFamily)
    plan(writer(name))
    asked = {key.removeprefix(f"{name}.") for key in made[0]._read} - family.neutral.keys()
    informative = {"tensor_data_layout", "rope.scaling.finetuned"}
    assert asked == (decoder.READ | family.reads) - informative - family.neutral.keys()
