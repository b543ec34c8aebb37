"""The forwards of llama and its kin against transformers, on random checkpoints that `ds4-synth convert` has converted.

Only where torch and transformers are installed, which is a development environment; what is frozen of them for all
others is goldens/families.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ds4.core import bind, inventory
from ds4.perf.synth.convert import convert
from ds4.perf.synth.mixes import Mix
from ds4.sys.descriptors import GgmlType, Numeric, SessionDesc
from ds4.sys.native import NativeModel, NativeSession, Row

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

LENGTH = 150
TOLERANCE = 1e-4
BASE = {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}
BASE |= {"num_key_value_heads": 2, "num_hidden_layers": 3, "max_position_embeddings": 2048}
ENDS = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {
    "rope_type": "yarn",
    "rope_theta": 1000000.0,
    "factor": 4.0,
    "original_max_position_embeddings": 512,
}
MOE = {"num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 40, "norm_topk_prob": True, "head_dim": 16}

# name: config class, its entries
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", {"num_key_value_heads": 4}),
    "llama-tied-wide-heads": ("LlamaConfig", {"head_dim": 40, "tie_word_embeddings": True, "rope_theta": 5e5}),
    "llama3": ("LlamaConfig", {"rope_parameters": LLAMA3, "head_dim": 32}),
    "llama-linear": (
        "LlamaConfig",
        {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}, "num_attention_heads": 8},
    ),
    "mistral-window": ("MistralConfig", {"sliding_window": 24, "head_dim": 16}),
    "mistral": ("MistralConfig", {"sliding_window": None, "num_attention_heads": 6, "head_dim": 24}),
    "mistral-short-window": ("MistralConfig", {"sliding_window": 1, "num_key_value_heads": 1}),
    "smollm3": ("SmolLM3Config", {"num_hidden_layers": 5}),
    "smollm3-untied": ("SmolLM3Config", {"num_hidden_layers": 9, "tie_word_embeddings": False, "hidden_size": 96}),
    "smollm3-grouped": ("SmolLM3Config", {"num_hidden_layers": 4, "num_key_value_heads": 1, "intermediate_size": 72}),
    "qwen2": ("Qwen2Config", {}),
    "qwen2-tied": ("Qwen2Config", {"tie_word_embeddings": True, "num_key_value_heads": 1, "hidden_size": 56}),
    "qwen2-yarn": ("Qwen2Config", {"rope_parameters": YARN, "num_attention_heads": 8, "num_key_value_heads": 4}),
    "qwen3": ("Qwen3Config", {"head_dim": 32}),
    "qwen3-tied": ("Qwen3Config", {"head_dim": 16, "tie_word_embeddings": True, "num_hidden_layers": 4}),
    "qwen3-yarn": ("Qwen3Config", {"head_dim": 24, "rope_parameters": YARN, "num_attention_heads": 6}),
    "qwen3moe": ("Qwen3MoeConfig", MOE),
    "qwen3moe-one": ("Qwen3MoeConfig", MOE | {"num_experts_per_tok": 1, "moe_intermediate_size": 24}),
    "qwen3moe-many": (
        "Qwen3MoeConfig",
        MOE | {"num_experts": 30, "num_experts_per_tok": 8, "tie_word_embeddings": True, "head_dim": 32},
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {"num_hidden_layers": 7, "head_dim": 32, "sliding_window": 24, "query_pre_attn_scalar": 32},
    ),
    "gemma3-scaled": (
        "Gemma3TextConfig",
        {
            "num_hidden_layers": 12,
            "head_dim": 16,
            "sliding_window": 40,
            "query_pre_attn_scalar": 24,
            "rope_parameters": {
                "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
                "sliding_attention": {"rope_type": "default", "rope_theta": 5000.0},
            },
        },
    ),
    "gemma3-pattern": (
        "Gemma3TextConfig",
        {
            "num_hidden_layers": 4,
            "head_dim": 24,
            "sliding_window": 9,
            "query_pre_attn_scalar": 24,
            "num_key_value_heads": 1,
            "layer_types": ["full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        },
    ),
}
TOKENS = [int(token) for token in np.random.default_rng(3).integers(0, BASE["vocab_size"], LENGTH)]


def _randomise(model: Any) -> None:
    """Weights large enough that every part shows in the logits: transformers' own are so small that it would not."""
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            if name.endswith("bias"):
                parameter.copy_(0.5 * noise)
            elif parameter.dim() == 1:  # norms; gemma's are added to 1
                parameter.copy_((0.0 if type(model).__name__.startswith("Gemma3") else 1.0) + 0.2 * noise)
            elif "embed_tokens" in name:
                parameter.copy_(noise if not model.config.tie_word_embeddings else 0.25 * noise)
            else:
                parameter.copy_(noise / parameter.shape[-1] ** 0.5)


@pytest.fixture(scope="module", params=sorted(CASES))
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Any]]:
    kind, entries = CASES[request.param]
    config = getattr(transformers, kind)(**(BASE | ENDS | entries))
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    _randomise(model)
    folder = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(folder / "hf")
    convert(folder / "hf", folder / "x.gguf", Mix.of("f32"))
    yield folder / "x.gguf", model


def test_logits_are_those_of_transformers(case: tuple[Path, Any]) -> None:
    path, model = case
    with torch.no_grad():
        expected: npt.NDArray[np.float32] = model(torch.tensor([TOKENS])).logits[0].numpy()
    plan = bind.plan(inventory.load(path))
    assert plan.unknown == ()
    native = NativeModel.open(plan.desc())
    desc = SessionDesc(1, 256, 64, 64, 2, numeric=Numeric.FLOAT, kv_type=GgmlType.F32)
    session = NativeSession(native, desc)
    found = []
    for at in range(0, LENGTH, 50):
        result = session.wait(session.submit([Row(0, p, TOKENS[p], logits=True) for p in range(at, at + 50)]))
        found += [np.asarray(result.logits(i), np.float32) for i in range(50)]
    session.close()
    native.close()
    assert expected.std() > 0.3  # else the comparison says little
    print(f"max-abs {np.abs(np.stack(found) - expected).max():.2e}, std {expected.std():.2f}")
    np.testing.assert_allclose(np.stack(found), expected, rtol=0, atol=TOLERANCE)
