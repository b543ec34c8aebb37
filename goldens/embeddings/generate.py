"""Writes embeddings.npz: transformers' last_hidden_state of the models of goldens/families, mean over all tokens and of
the last one, neither normalised.

    PYTHONPATH=host:. python goldens/embeddings/generate.py

Needs torch and transformers.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
from typing import Any

import numpy as np
import torch
import transformers
from ds4.perf.synth import random_model, shapes
from ds4.perf.synth.mixes import Mix

from goldens.families import generate as families

HERE = pathlib.Path(__file__).parent


def main() -> int:
    tokens = np.random.default_rng(families.SEED).integers(0, families.VOCAB, families.LENGTH).astype(np.int32)
    out = {"tokens": tokens}
    with tempfile.TemporaryDirectory() as folder:
        for case in json.loads((families.HERE / "cases.json").read_text()):
            path = pathlib.Path(folder) / "x.gguf"
            shape: Any = shapes.shape(case["shape"], None, [*case["set"], f"vocab_size={families.VOCAB}"])
            random_model.write(path, shape, Mix.of("f32"), seed=families.SEED, without=case["without"])
            config = families.config_of(shape, "output.weight" in case["without"])
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
            with torch.no_grad():
                families.fill(model, path, shape["architecture"], shape["attention.key_length"])
                states = model.model(torch.tensor(tokens[None].astype(np.int64))).last_hidden_state[0].double().numpy()
            out[case["name"]] = np.stack((states.mean(0), states[-1])).astype(np.float32)
    np.savez_compressed(HERE / "embeddings.npz", **out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
