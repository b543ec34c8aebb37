"""Writes logits.npz: transformers' fp32 logits of SmolLM2-135M-Instruct (Q4_1, dequantised) on the texts here.

    pip install torch==2.13.0 transformers==5.24.0 gguf==0.19.0 tokenizers
    PYTHONPATH=. python goldens/logits_smollm2/generate.py SmolLM2-135M-Instruct.Q4_1.gguf

For every position of every text it keeps the 64 largest logits with their ids, the log-sum-exp, and the logits of 128
fixed columns. `--full DIR` also writes whole logits, one .npy a text, for a comparison outside CI.
"""

from __future__ import annotations

import argparse
import hashlib
import pathlib

import gguf
import numpy as np
import tokenizers
import torch
import transformers

from parity.reference import divergence

HERE = pathlib.Path(__file__).parent
TEXTS = ("prose", "code", "data", "languages", "chat", "long")


def tokenizer(path: pathlib.Path) -> tokenizers.Tokenizer:
    """The published layout: BPE over bytes, digits one by one. Built from the file's own vocabulary."""
    reader = gguf.GGUFReader(path)
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(m.split(" ", 1)) for m in reader.fields["tokenizer.ggml.merges"].contents()]
    types = reader.fields["tokenizer.ggml.token_type"].contents()
    bpe = tokenizers.models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges)
    out = tokenizers.Tokenizer(bpe)
    out.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(
        [
            tokenizers.pre_tokenizers.Digits(individual_digits=True),
            tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ]
    )
    out.add_special_tokens([t for t, kind in zip(tokens, types, strict=True) if kind == 3])
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--full", type=pathlib.Path, metavar="DIR")
    args = parser.parse_args()

    torch.set_num_threads(2)
    tok = tokenizer(args.model)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        args.model.parent, gguf_file=args.model.name, dtype=torch.float32
    ).eval()
    texts = {n: (HERE / "texts" / f"{n}.txt").read_text(encoding="utf-8") for n in TEXTS if n != "long"}
    texts["long"] = "".join(texts.values())

    columns = divergence.columns(model.config.vocab_size)
    out: dict[str, np.ndarray] = {"columns": columns}
    for name, text in texts.items():
        ids = tok.encode(text, add_special_tokens=False).ids
        if name == "long":
            ids = ids[:2100]
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0].numpy()
        if args.full:
            args.full.mkdir(parents=True, exist_ok=True)
            np.save(args.full / f"{name}.npy", logits)
        keep = np.arange(len(ids)) if name != "long" else np.arange(0, len(ids), 8)
        out |= divergence.freeze(name, ids, keep, logits[keep], columns)
        print(f"{name}: {len(ids)} tokens, {len(keep)} positions kept")
    np.savez_compressed(HERE / "logits.npz", **out)
    digest = hashlib.sha256((HERE / "logits.npz").read_bytes()).hexdigest()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}, logits.npz sha256 {digest}")


if __name__ == "__main__":
    main()
