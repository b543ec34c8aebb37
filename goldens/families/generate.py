"""Writes logits.npz: transformers' logits of the models of cases.json, which ds4-synth draws from a seed.

    PYTHONPATH=host python goldens/families/generate.py

Only the file is ds4's: its tensors are read with the gguf package, mapped by the table below, which shares nothing with
ds4.perf.synth, and run in fp32. Needs torch and transformers.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
from typing import Any

import gguf
import numpy as np
import torch
import transformers
from ds4.perf.synth import random_model, shapes
from ds4.perf.synth.mixes import Mix

HERE = pathlib.Path(__file__).parent
VOCAB, LENGTH, EVERY, SEED = 96, 100, 4, 11

CONFIGS = {
    "llama": transformers.MistralConfig,  # llama's, and a window
    "smollm3": transformers.SmolLM3Config,
    "qwen2": transformers.Qwen2Config,
    "qwen3": transformers.Qwen3Config,
    "qwen3moe": transformers.Qwen3MoeConfig,
    "gemma3": transformers.Gemma3TextConfig,
}
NAMES = {
    "attn_norm.weight": "input_layernorm.weight",
    "attn_q.weight": "self_attn.q_proj.weight",
    "attn_k.weight": "self_attn.k_proj.weight",
    "attn_v.weight": "self_attn.v_proj.weight",
    "attn_q.bias": "self_attn.q_proj.bias",
    "attn_k.bias": "self_attn.k_proj.bias",
    "attn_v.bias": "self_attn.v_proj.bias",
    "attn_q_norm.weight": "self_attn.q_norm.weight",
    "attn_k_norm.weight": "self_attn.k_norm.weight",
    "attn_output.weight": "self_attn.o_proj.weight",
    "ffn_norm.weight": "post_attention_layernorm.weight",
    "ffn_gate.weight": "mlp.gate_proj.weight",
    "ffn_up.weight": "mlp.up_proj.weight",
    "ffn_down.weight": "mlp.down_proj.weight",
    "ffn_gate_inp.weight": "mlp.gate.weight",
    "ffn_down_exps.weight": "mlp.experts.down_proj",
}
GEMMA3 = {
    "post_attention_norm.weight": "post_attention_layernorm.weight",
    "ffn_norm.weight": "pre_feedforward_layernorm.weight",
    "post_ffw_norm.weight": "post_feedforward_layernorm.weight",
}
TOP = {"token_embd.weight": "embed_tokens.weight", "output_norm.weight": "norm.weight"}


def config_of(shape: dict[str, Any], tied: bool) -> Any:
    kind = shape["architecture"]
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": shape["rope.freq_base"]}
    if shape.get("rope.scaling.type", "none") != "none":
        rope |= {"rope_type": shape["rope.scaling.type"], "factor": shape["rope.scaling.factor"]}
    if rope["rope_type"] == "yarn":
        rope["original_max_position_embeddings"] = shape["rope.scaling.original_context_length"]
    if kind == "gemma3":
        local = {"rope_type": "default", "rope_theta": shape["rope.freq_base_swa"]}
        rope = {"full_attention": rope, "sliding_attention": local}
    entries: dict[str, Any] = {
        "vocab_size": VOCAB,
        "hidden_size": shape["embedding_length"],
        "intermediate_size": shape["feed_forward_length"],
        "num_hidden_layers": shape["block_count"],
        "num_attention_heads": shape["attention.head_count"],
        "num_key_value_heads": shape["attention.head_count_kv"],
        "head_dim": shape["attention.key_length"],
        "max_position_embeddings": shape["context_length"],
        "rms_norm_eps": shape["attention.layer_norm_rms_epsilon"],
        "rope_parameters": rope,
        "tie_word_embeddings": tied,
        "pad_token_id": 0,
    }
    if kind == "llama":
        entries["sliding_window"] = shape.get("attention.sliding_window") or None
    if kind == "qwen3moe":
        entries |= {"num_experts": shape["expert_count"], "num_experts_per_tok": shape["expert_used_count"]}
        entries |= {"moe_intermediate_size": shape["expert_feed_forward_length"], "norm_topk_prob": True}
    if kind == "gemma3":
        entries |= {"query_pre_attn_scalar": shape["attention.key_length"], "attn_logit_softcapping": None}
        window = shape["attention.sliding_window"]
        entries |= {"sliding_window": window or 4096, "final_logit_softcapping": None}
        if not window:
            entries["layer_types"] = ["full_attention"] * shape["block_count"]
    return CONFIGS[kind](**entries)


def fill(model: Any, path: pathlib.Path, kind: str, length: int) -> None:
    """Every tensor of the file into the model; no parameter may be left as it was."""
    tensors = {t.name: torch.from_numpy(np.array(t.data, np.float32)) for t in gguf.GGUFReader(path).tensors}
    state: dict[str, Any] = {}
    for name, value in tensors.items():
        if name == "rope_freqs.weight":
            rotary = model.model.rotary_emb
            rotary.inv_freq.copy_(rotary.inv_freq / value)
            continue
        if kind == "gemma3" and name.endswith("norm.weight"):
            value = value - 1.0
        if kind in ("llama", "smollm3") and name.endswith(("attn_q.weight", "attn_k.weight")):
            heads = value.reshape(-1, length // 2, 2, value.shape[-1])
            value = torch.cat((heads[:, :, 0], heads[:, :, 1]), dim=1).reshape(value.shape)
        if name == "output.weight":
            state["lm_head.weight"] = value
        elif name in TOP:
            state["model." + TOP[name]] = value
        elif name.endswith("ffn_up_exps.weight"):
            continue  # with the gate
        else:
            _, layer, rest = name.split(".", 2)
            at = f"model.layers.{layer}."
            if rest == "ffn_gate_exps.weight":
                up = tensors[name.replace("ffn_gate", "ffn_up")]
                state[at + "mlp.experts.gate_up_proj"] = torch.cat((value, up), dim=1)
            else:
                state[at + ((GEMMA3.get(rest) if kind == "gemma3" else None) or NAMES[rest])] = value
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected, unexpected
    assert set(missing) <= {"lm_head.weight"} and bool(missing) == model.config.tie_word_embeddings, missing


def main() -> int:
    tokens = np.random.default_rng(SEED).integers(0, VOCAB, LENGTH).astype(np.int32)
    out = {"tokens": tokens}
    with tempfile.TemporaryDirectory() as folder:
        for case in json.loads((HERE / "cases.json").read_text()):
            path = pathlib.Path(folder) / "x.gguf"
            shape: Any = shapes.shape(case["shape"], None, [*case["set"], f"vocab_size={VOCAB}"])
            random_model.write(path, shape, Mix.of("f32"), seed=SEED, without=case["without"])
            config = config_of(shape, "output.weight" in case["without"])
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
            with torch.no_grad():
                fill(model, path, shape["architecture"], shape["attention.key_length"])
                logits = model(torch.tensor(tokens[None].astype(np.int64))).logits[0].numpy()
            out[case["name"]] = logits[EVERY - 1 :: EVERY]
            print(f"{case['name']}: deviation {logits.std():.2f}")
    np.savez_compressed(HERE / "logits.npz", **out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
