"""Writes logits.npz: transformers' fp32 logits of Gemma 3 270M (Q4_K_M, dequantised) on the texts of logits_smollm2.

    pip install torch==2.13.0 transformers==5.24.0 gguf==0.19.0 tokenizers sentencepiece
    PYTHONPATH=. python goldens/logits_gemma3/generate.py gemma-3-270m-q4_k_m.gguf

Each text begins with <bos>. Every other position is kept; of "long", which is all texts one after the other and leaves
the window of the local layers (512), every 16th of the first 512 and every 4th after them.
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
    path = pathlib.Path(sys.argv[1])
    torch.set_num_threads(2)
    where = {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    tokenizer = transformers.AutoTokenizer.from_pretrained(**where)
    model = transformers.AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32).eval()
    folder = HERE.parent / "logits_smollm2" / "texts"
    texts = {name: (folder / f"{name}.txt").read_text(encoding="utf-8") for name in TEXTS}
    texts["long"] = "".join(texts.values())

    columns = divergence.columns(model.config.vocab_size)
    out: dict[str, np.ndarray] = {"columns": columns}
    for name, text in texts.items():
        ids = [BOS, *tokenizer(text, add_special_tokens=False)["input_ids"]]
        keep = np.arange(0, len(ids), 2)
        if name == "long":
            ids = ids[:LONG]
            keep = np.array([*range(0, 512, 16), *range(512, len(ids), 4)])
        with torch.no_grad():
            hidden = model.model(torch.tensor([ids])).last_hidden_state[0, keep]
            logits = torch.cat([model.lm_head(rows) for rows in hidden.split(ROWS)]).numpy()
        out |= divergence.freeze(name, ids, keep, logits, columns)
        print(f"{name}: {len(ids)} tokens, {len(keep)} positions kept", flush=True)
    np.savez_compressed(HERE / "logits.npz", **out)
    digest = hashlib.sha256((HERE / "logits.npz").read_bytes()).hexdigest()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, logits.npz sha256 {digest}")


if __name__ == "__main__":
    main()
