"""Writes logits.npz: transformers' fp32 logits of Gemma 3 270M (Q4_K_M, dequantised) on the texts of logits_smollm2.

    pip install torch==2.13.0 transformers==5.24.0 gguf==0.19.0 tokenizers sentencepiece
    PYTHONPATH=. python goldens/logits_gemma3/generate.py gemma-3-270m-q4_k_m.gguf [ALL.npz]

Each text begins with <bos>. Every other position is kept; of "long", which is all texts one after the other and leaves
the window of the local layers (512), every 16th of the first 512 and every 4th after them. ALL.npz gets every position
of the others too; DS4_GEMMA3_GOLDEN=ALL.npz makes the test measure over those, which takes it twice as long.
"""

from __future__ import annotations

import hashlib
import pathlib
import sys

import numpy as np
import torch
import transformers

from parity.reference import divergence

HERE = pathlib.Path(__file__).parent
TEXTS = ("prose", "code", "data", "languages", "chat")
BOS = 2
LONG = 1200
ROWS = 128


def main() -> None:
    path, *every = map(pathlib.Path, sys.argv[1:])
    torch.set_num_threads(2)
    where = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
    folder = HERE.parent / "logits_smollm2" / "texts"
    texts = {name: (folder / f"{name}.txt").read_text(encoding="utf-8") for name in TEXTS}
    texts["long"] = "".join(texts.values())

    columns = divergence.columns(model.config.vocab_size)
    kept: dict[str, np.ndarray] = {"columns": columns}
    whole = kept.copy()
    for name, text in texts.items():
        ids = [BOS, *tokenizer(text, add_special_tokens=False)["input_ids"]]
        positions, step = np.arange(len(ids)), 2
        if name == "long":
            ids, step = ids[:LONG], 1
            positions = np.array([*range(0, 512, 16), *range(512, len(ids), 4)])
        with torch.no_grad():
            hidden = model.model(torch.tensor([ids])).last_hidden_state[0, positions]
            # All of them, whatever is kept: a product's last bits depend on how many rows it has.
            logits = torch.cat([model.lm_head(rows) for rows in hidden.split(ROWS)]).numpy()
        frozen = divergence.freeze(name, ids, positions, logits, columns)
        whole |= frozen
        kept |= {key: rows if key == f"{name}.ids" else rows[::step] for key, rows in frozen.items()}
        print(f"{name}: {len(ids)} tokens, {len(positions[::step])} of {len(positions)} positions kept", flush=True)
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    for file, arrays in [(HERE / "logits.npz", kept), *((file, whole) for file in every)]:
        np.savez_compressed(file, **arrays)
        print(f"{file.name} sha256 {hashlib.sha256(file.read_bytes()).hexdigest()}")


if __name__ == "__main__":
    main()
