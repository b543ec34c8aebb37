"""A transformers checkpoint becomes a GGUF file whose every tensor is the right one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from ds4.core import bind, inventory
from ds4.core.tokenizer import Tokenizer
from ds4.errors import Ds4Error, ModelFileError, SettingsError, UnsupportedModelError
from ds4.perf.synth.convert import convert
from ds4.perf.synth.mixes import Mix
from ds4.sys.descriptors import GgmlType, Role
from support import checkpoints


def _convert(folder: Path, mix: Mix | None = None) -> Path:
    target = folder.parent / "out.gguf"
    convert(folder, target, mix or Mix.of("f32"))
    return target


def test_every_tensor_is_where_it_belongs_and_none_is_transposed(tmp_path: Path) -> None:
    source = checkpoints.tensors()
    path = _convert(checkpoints.write(tmp_path / "hf", source))
    found = {tensor.name: np.asarray(tensor.data) for tensor in gguf.GGUFReader(path).tensors}
    at = "model.layers.2."
    same = {
        "token_embd.weight": "model.embed_tokens.weight",
        "output.weight": "lm_head.weight",
        "output_hc_fn.weight": "model.hc_head.hc_fn",
        "blk.2.hc_attn_fn.weight": at + "attn_hc.fn",
        "blk.2.hc_ffn_base.weight": at + "ffn_hc.base",
        "blk.2.attn_norm.weight": at + "input_layernorm.weight",
        "blk.2.ffn_norm.weight": at + "post_attention_layernorm.weight",
        "blk.2.attn_q_b.weight": at + "self_attn.q_b_proj.weight",
        "blk.2.attn_sinks.weight": at + "self_attn.sinks",
        "blk.2.attn_output_a.weight": at + "self_attn.o_a_proj.weight",
        "blk.2.attn_compressor_ape.weight": at + "self_attn.compressor.position_bias",
        "blk.2.indexer.proj.weight": at + "self_attn.compressor.indexer.scorer.weights_proj.weight",
        "blk.2.indexer_compressor_kv.weight": at + "self_attn.compressor.indexer.kv_proj.weight",
        "blk.2.exp_probs_b.bias": at + "mlp.gate.e_score_correction_bias",
        "blk.0.ffn_gate_tid2eid.weight": "model.layers.0.mlp.gate.tid2eid",
        "blk.2.ffn_down_exps.weight": at + "mlp.experts.down_proj",
        "blk.2.ffn_down_shexp.weight": at + "mlp.shared_experts.down_proj.weight",
    }
    for mine, theirs in same.items():
        assert np.array_equal(found[mine].reshape(source[theirs].shape), source[theirs]), mine
    both = source[at + "mlp.experts.gate_up_proj"]
    assert np.array_equal(found["blk.2.ffn_gate_exps.weight"].reshape(4, 32, 32), both[:, :32])
    assert np.array_equal(found["blk.2.ffn_up_exps.weight"].reshape(4, 32, 32), both[:, 32:])
    split = sum(name.endswith("gate_up_proj") for name in source)
    assert len(found) == len(source) + split


def test_the_file_is_one_that_can_be_bound_and_its_keys_are_the_configs(tmp_path: Path) -> None:
    plan = bind.plan(inventory.load(_convert(checkpoints.write(tmp_path / "hf"))))
    h, d = plan.hparams, plan.hparams.dsv4
    assert d is not None and d.ratios == (0, 0, 4, 128)
    assert (h.n_layer, h.d_model, h.head_dim, h.rope_dim, h.n_vocab, h.sliding_window) == (4, 32, 32, 16, 300, 16)
    assert (h.rope_base, d.compress_rope_base, h.rope_factor, h.rope_ctx_original) == (10000.0, 160000.0, 16.0, 256)
    assert (d.n_expert, d.n_expert_used, d.n_hash_layer, d.hc_count, d.index_top_k) == (4, 2, 1, 2, 4)
    assert plan.unknown == ()


def test_the_same_checkpoint_gives_the_same_bytes(tmp_path: Path) -> None:
    folder = checkpoints.write(tmp_path / "hf")
    assert _convert(folder, Mix.of("q8_0")).read_bytes() == _convert(folder, Mix.of("q8_0")).read_bytes()


def test_a_type_is_for_all_matrices_and_tables_and_vectors_keep_theirs(tmp_path: Path) -> None:
    mix = Mix.of("q8_0", ["fine=bf16", "blk.1.attn_kv.weight=f32"])
    plan = bind.plan(inventory.load(_convert(checkpoints.write(tmp_path / "hf"), mix)))
    kinds = {slot.name: slot.type for slot in plan.slots}
    assert kinds["blk.0.attn_kv.weight"] is GgmlType.Q8_0 and kinds["blk.1.attn_kv.weight"] is GgmlType.F32
    assert kinds["blk.0.hc_attn_fn.weight"] is GgmlType.BF16
    assert {slot.type for slot in plan.slots if len(slot.dims) == 1} == {GgmlType.F32}
    assert next(slot.type for slot in plan.slots if slot.role is Role.ROUTER_HASH) is GgmlType.I32
    assert mix.smaller == {}


def test_rows_that_are_no_whole_blocks_are_stored_otherwise_and_told(tmp_path: Path) -> None:
    mix = Mix.of("q4_k")
    plan = bind.plan(inventory.load(_convert(checkpoints.write(tmp_path / "hf"), mix)))
    assert next(slot.type for slot in plan.slots if slot.name == "blk.0.attn_kv.weight") is GgmlType.Q8_0
    assert mix.smaller["blk.0.attn_kv.weight"] == GgmlType.Q8_0


def test_a_type_that_was_asked_for_by_name_is_not_quietly_another(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"blk\.0\.attn_kv\.weight=q4_k: rows are not whole blocks"):
        _convert(checkpoints.write(tmp_path / "hf"), Mix.of("f32", ["blk.0.attn_kv.*=q4_k"]))


@pytest.mark.parametrize("name", sorted(checkpoints.tensors()))
def test_a_tensor_that_is_missing_or_of_another_shape_is_named(name: str, tmp_path: Path) -> None:
    values = checkpoints.tensors()
    gone = {other: value for other, value in values.items() if other != name}
    optional = name.endswith("e_score_correction_bias")
    if not optional:
        with pytest.raises(ModelFileError) as caught:
            _convert(checkpoints.write(tmp_path / "a", gone))
        assert (caught.value.code, caught.value.subject) == ("tensor_missing", name)
    wider = values | {name: np.concatenate([values[name], values[name]])}
    with pytest.raises(ModelFileError) as caught:
        _convert(checkpoints.write(tmp_path / "b", wider))
    assert (caught.value.code, caught.value.subject) == ("tensor_dims", name)
    assert not (tmp_path / "out.gguf").exists()


def test_a_tensor_too_many_is_named(tmp_path: Path) -> None:
    values = checkpoints.tensors() | {"model.layers.0.self_attn.q_proj.bias": np.ones(3, np.float32)}
    with pytest.raises(ModelFileError) as caught:
        _convert(checkpoints.write(tmp_path / "hf", values))
    assert (caught.value.code, caught.value.subject) == ("tensor_unused", "model.layers.0.self_attn.q_proj.bias")


def test_a_weight_that_is_no_number_leaves_no_file_behind(tmp_path: Path) -> None:
    values = checkpoints.tensors()
    values["lm_head.weight"][7, 7] = np.nan
    with pytest.raises(ModelFileError) as caught:
        _convert(checkpoints.write(tmp_path / "hf", values))
    assert (caught.value.code, caught.value.subject) == ("tensor_values", "output.weight")
    assert [path.name for path in tmp_path.iterdir()] == ["hf"]


REQUIRED = sorted(
    set(checkpoints.CONFIG)
    - {"num_key_value_heads", "n_shared_experts", "norm_topk_prob", "scoring_func", "qk_rope_head_dim"}
    - {"layer_types", "mlp_layer_types", "rope_parameters", "model_type", "compress_rope_theta"}
)


@pytest.mark.parametrize("key", REQUIRED)
@pytest.mark.parametrize("value", [None, "many"])
def test_a_config_without_a_number_is_named(key: str, value: Any, tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        _convert(checkpoints.write(tmp_path / "hf", **{key: value}))
    assert (caught.value.code, caught.value.subject) == ("checkpoint_config", key)


CONFIGS: dict[str, tuple[dict[str, Any], str, str]] = {
    "another model": ({"model_type": "mamba"}, "unsupported_architecture", "model_type"),
    "too few layer types": ({"layer_types": ["sliding_attention"]}, "checkpoint_config", "layer_types"),
    "unknown layer types": ({"layer_types": ["linear_attention"] * 4}, "checkpoint_config", "layer_types"),
    "no layer types": ({"layer_types": None}, "checkpoint_config", "compress_ratios"),
    "hash layers in between": (
        {"mlp_layer_types": ["moe", "hash_moe", "moe", "moe"]},
        "checkpoint_config",
        "mlp_layer_types",
    ),
    "tied": ({"tie_word_embeddings": True}, "unsupported_shape", "config.json"),
    "another router": ({"scoring_func": "sigmoid"}, "unsupported_shape", "deepseek4.expert_gating_func"),
    "another rope": (
        {"rope_parameters": {"main": {"rope_theta": 1e4}, "compress": {"rope_type": "linear", "rope_theta": 1e4}}},
        "unsupported_shape",
        "rope_parameters.compress.rope_type",
    ),
    "a magnitude": (
        {"rope_parameters": {"main": {"rope_theta": 1e4}, "compress": {"rope_type": "yarn", "attention_factor": 1.3}}},
        "unsupported_shape",
        "rope_parameters.compress.attention_factor",
    ),
    "ratios of another kind": (
        {"compress_rates": {"compressed_sparse_attention": 8}},
        "unsupported_shape",
        "deepseek4.attention.compress_ratios[2]",
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_a_config_of_another_kind_is_named(name: str, tmp_path: Path) -> None:
    changes, code, subject = CONFIGS[name]
    with pytest.raises(ModelFileError) as caught:
        _convert(checkpoints.write(tmp_path / "hf", **changes))
    assert (caught.value.code, caught.value.subject) == (code, subject)
    assert isinstance(caught.value, UnsupportedModelError) == code.startswith("unsupported")


def test_ratios_and_hash_layers_may_be_stated_as_numbers(tmp_path: Path) -> None:
    changes = {"layer_types": None, "mlp_layer_types": None, "compress_ratios": [0, 0, 4, 128, 0], "num_hash_layers": 1}
    plan = bind.plan(inventory.load(_convert(checkpoints.write(tmp_path / "hf", **changes))))
    assert plan.hparams.dsv4 is not None and plan.hparams.dsv4.ratios == (0, 0, 4, 128)


# ---- the tokenizer

_SPLIT = {"type": "Digits", "individual_digits": True}
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}


def _tokenizer(folder: Path, **changes: Any) -> Path:
    alphabet = Tokenizer.from_metadata(inventory.load(_convert(folder)).metadata).vocabulary.tokens
    letters = [text for text in alphabet if len(text) == 1]
    vocab = {text: index for index, text in enumerate(["<s>", "</s>", *letters, "ab"])}
    data = {
        "added_tokens": [{"id": 0, "content": "<s>", "special": True}, {"id": 1, "content": "</s>", "special": True}],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [_SPLIT, _BYTES]},
        "model": {"type": "BPE", "vocab": vocab, "merges": [["a", "b"]], "ignore_merges": False},
    }
    for key, value in changes.items():
        (data["model"] if key in ("merges", "vocab") else data)[key] = value  # type: ignore[index]
    (folder / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"bos_token": "<s>", "eos_token": {"content": "</s>"}, "add_bos_token": False}), encoding="utf-8"
    )
    return folder


def test_a_checkpoints_tokenizer_goes_into_the_file(tmp_path: Path) -> None:
    path = _convert(_tokenizer(checkpoints.write(tmp_path / "hf")))
    tokenizer = Tokenizer.from_metadata(inventory.load(path).metadata)
    assert (tokenizer.n_vocab, tokenizer.bos_id, tokenizer.eos_id, tokenizer.add_bos) == (300, 0, 1, False)
    assert tokenizer.vocabulary.pre == "smollm" or tokenizer.vocabulary.pre == "starcoder"
    assert tokenizer.decode(tokenizer.encode("abba → 12")) == "abba → 12"
    assert len(tokenizer.encode("ab")) == 1


def test_a_checkpoint_without_a_tokenizer_gets_one_that_can_say_any_bytes(tmp_path: Path) -> None:
    tokenizer = Tokenizer.from_metadata(inventory.load(_convert(checkpoints.write(tmp_path / "hf"))).metadata)
    text = "naïve → 日本 \x00"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert "<｜User｜>" in tokenizer.special_tokens


TOKENIZERS: dict[str, tuple[dict[str, Any], str]] = {
    "another model": ({"model": {"type": "Unigram"}}, "model"),
    "an id past the embedding": ({"vocab": {"a": 300}}, "a"),
    "an id that is none": ({"vocab": {"a": "x"}}, "a"),
    "two tokens of one id": ({"vocab": {"a": 5, "b": 5}}, "id 5"),
    "a merge of three": ({"merges": ["a b c"]}, "model.merges[0]"),
    "merges that are none": ({"merges": 3}, "model.merges"),
    "another cut": ({"pre_tokenizer": {"type": "Whitespace"}}, "pre_tokenizer"),
    "added tokens that are none": ({"added_tokens": [3]}, "added_tokens"),
}


@pytest.mark.parametrize("name", TOKENIZERS)
def test_a_tokenizer_that_cannot_be_written_is_named(name: str, tmp_path: Path) -> None:
    changes, subject = TOKENIZERS[name]
    folder = _tokenizer(checkpoints.write(tmp_path / "hf"), **changes)
    with pytest.raises(Ds4Error) as caught:
        _convert(folder)
    assert (caught.value.code, caught.value.subject) == ("tokenizer_file", subject)
