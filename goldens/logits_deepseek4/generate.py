"""Writes what transformers makes, in fp32, of deepseek4 files: mini.npz, greedy.json and random_*.npz.

    pip install torch==2.13.0 transformers==5.24.0 gguf==0.19.0 tokenizers
    PYTHONPATH=host:. python goldens/logits_deepseek4/generate.py

mini.npz: of models/ds4-mini (Q8_0, dequantised) on the prompts here, for chosen positions the 64 largest logits with
their ids, the log-sum-exp, and the logits of 128 fixed columns. greedy.json: its greedy answers to prompts.json, and
by how much the likeliest token leads at the closest step. random_*.npz: of models that `ds4-synth random` draws from a
seed (shape, changes and SHA-256 are in the file), whole logits and residuals at chosen positions of 600 tokens.

That the engine also reproduces the checkpoint that ds4-mini was converted from (BF16), and other checkpoints that come
with transformers' outputs, is shown by `python -m parity.reference.checkpoint DIR`.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import tempfile

import numpy as np
import torch
import transformers
import transformers_model
from ds4.perf.synth import random_model, shapes
from ds4.perf.synth.mixes import Mix

from parity.reference import divergence

HERE = pathlib.Path(__file__).parent
MINI = HERE.parents[1] / "models" / "ds4-mini" / "ds4-mini.gguf"

SMALL = (
    "embedding_length=128",
    "attention.key_length=64",
    "attention.value_length=64",
    "rope.dimension_count=32",
    "attention.q_lora_rank=64",
    "attention.output_lora_rank=32",
    "expert_feed_forward_length=64",
    "attention.indexer.key_length=64",
    "vocab_size=256",
)
RANDOM = {
    "flash": SMALL,
    "pro": (
        *SMALL,
        "attention.compress_ratios=128,128,4,128,4",
        "expert_weights_scale=2.5",
        "attention.head_count=6",
        "attention.output_group_count=3",
        "expert_count=12",
        "expert_used_count=4",
        "hash_layer_count=2",
        "attention.sliding_window=40",
        "hyper_connection.count=3",
        "attention.indexer.head_count=24",
        "attention.indexer.top_k=16",
    ),
}
SEED, TOKENS = 2026, 600


def positions(count: int) -> np.ndarray:
    """All of a short text; of a longer one every 16th and the last 128."""
    return np.arange(count) if count <= 300 else np.array(sorted({*range(0, count, 16), *range(count - 128, count)}))


def mini(prompts: dict[str, list[int]], model: object) -> None:
    columns = divergence.columns(4096, SEED)
    out: dict[str, np.ndarray] = {"columns": columns}
    for name, ids in prompts.items():
        keep = positions(len(ids))
        logits = transformers_model.logits(model, ids)[keep]
        out |= divergence.freeze(name, ids, keep, logits, columns)
        print(f"{name}: {len(ids)} tokens, {len(keep)} positions kept")
    np.savez_compressed(HERE / "mini.npz", **out)


def greedy(samples: list[dict[str, object]], model: object) -> None:
    """Each turn on its own prompt; ends with the EOS or after the turn's number of tokens."""
    answers = []
    for sample in samples:
        prompt, count = sample["prompt_ids"], sample["count"]
        with torch.no_grad():
            made = model.generate(
                torch.tensor([prompt]),
                max_new_tokens=count,
                do_sample=False,
                eos_token_id=1,
                pad_token_id=2,
                output_scores=True,
                return_dict_in_generate=True,
            )
        ids = made.sequences[0, len(prompt) :].tolist()
        gap = min(float(two[0] - two[1]) for two in (torch.topk(score[0], 2).values for score in made.scores))
        answers.append({"name": sample["name"], "prompt_ids": prompt, "greedy_ids": ids, "least_lead": round(gap, 6)})
        print(f"{sample['name']}: {len(ids)} tokens, least lead {gap:.5f}", flush=True)
    lines = ",\n".join(json.dumps(answer) for answer in answers)
    (HERE / "greedy.json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def random(name: str, changes: tuple[str, ...]) -> None:
    ids = np.random.default_rng(SEED).integers(0, 256, TOKENS).astype(np.int32)
    keep = np.array(sorted({*range(9), *range(124, 134), *range(0, TOKENS, 16), *range(TOKENS - 8, TOKENS)}), np.int32)
    hidden_at = np.array([0, 6, 17, 39, 64, 127, 128, 129], np.int32)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model.gguf")
        random_model.write(path, shapes.shape("deepseek4-tiny", None, changes), Mix.of("bf16", ()), seed=SEED)
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        model = transformers_model.load(path)
    with torch.no_grad():
        states = model(torch.tensor(ids[None, :130]), use_cache=False, output_hidden_states=True).hidden_states
    streams = [state[0].numpy() for state in states if state.ndim == 4]
    np.savez_compressed(
        HERE / f"random_{name}.npz",
        ids=ids,
        positions=keep,
        logits=transformers_model.logits(model, ids.tolist())[keep],
        hidden_positions=hidden_at,
        hidden=np.stack([state[hidden_at].reshape(len(hidden_at), -1) for state in streams]),
        changes=np.array(changes),
        seed=np.array(SEED),
        sha256=np.array(digest),
    )
    print(f"{name}: {len(keep)} positions, {len(streams)} residuals, model {digest[:16]}")


def main() -> None:
    torch.set_num_threads(1)
    for name, changes in RANDOM.items():
        random(name, changes)
    prompts = json.loads((HERE / "prompts.json").read_text(encoding="utf-8"))
    model = transformers_model.load(MINI)
    mini(prompts["texts"], model)
    greedy(prompts["greedy"], model)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    for file in sorted(HERE.glob("*.npz")) + sorted(HERE.glob("*.json")):
        print(f'"{file.name}" = "{hashlib.sha256(file.read_bytes()).hexdigest()}"')


if __name__ == "__main__":
    main()
