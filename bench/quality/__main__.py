"""What rounding costs deepseek4 models: each point of the shipping arithmetic alone, all of it, and types of weights.

    PYTHONPATH=host python -m bench.quality [--hf DIR] [--prompts 120] [--docs FILE ...]

Two tables. The first is of random models: the distance of each way of running one from float, mean KL divergence in
nats and the share of positions with the same likeliest token, on a tiny model of every kind of layer and on one of 64
heads x 512. Random weights tell near from far, not good from bad.

The second is of ds4-mini: that distance, perplexity on conversations it was not trained on (assistant: what the
assistant says; chat: everything) and on text files, and of how many tool prompts the greedy answer has exactly the
calls that are wanted. With the checkpoint that ds4-mini was converted from it starts from its BF16 weights and adds
rows for other types.

chats.jsonl and tools.jsonl were drawn (seed 20261130, the split that training never saw) by the program that made the
miniature's training data, with its four stand-in words for the word lists of its documents.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
import tempfile
import time

import numpy as np
from ds4.core import catalog, inventory
from ds4.core.tokenizer import Tokenizer
from ds4.perf.synth import random_model, shapes
from ds4.perf.synth.convert import convert
from ds4.perf.synth.mixes import Mix

from bench.quality.evaluate import (
    FLOAT,
    WAYS,
    Array,
    Text,
    Way,
    chats,
    distance,
    exact_calls,
    log_softmax,
    logits,
    opened,
    perplexities,
)

WIDE = (
    "attention.head_count=64",
    "attention.key_length=512",
    "attention.value_length=512",
    "attention.output_group_count=8",
)
SHAPES = {"tiny": (), "64 heads x 512": (*WIDE, "attention.compress_ratios=0,4,128")}
MIXES = ("q8_0", "q4_k", "q2")
DOCS_TOKENS = 512  # of a text file at a time


def random_models(folder: pathlib.Path) -> None:
    print(f"{'random model':<16} {'way':<22} {'KL to float':>12} {'top-1':>7}")
    for name, changes in SHAPES.items():
        path = folder / "random.gguf"
        random_model.write(path, shapes.shape("deepseek4-tiny", None, changes), Mix.of("q8_0", ()), seed=1)
        ids = [int(i) for i in np.random.default_rng(1).integers(0, 512, 400)]
        want: Array | None = None
        for way in WAYS:
            with opened(path, way, len(ids)) as session:
                found = log_softmax(logits(session, ids))
            want = found if want is None else want
            away = distance(want, found)
            print(f"{name:<16} {way.name:<22} {away.kl:>12.2e} {away.same:>7.1%}", flush=True)


def rows(args: argparse.Namespace, folder: pathlib.Path) -> list[tuple[str, pathlib.Path, Way]]:
    """Weights, file and way of each row; the first is what the others are compared with."""
    if args.hf is None:
        path = catalog.embedded_path("ds4-mini")
        return [("ds4-mini", path, way) for way in WAYS]
    made = {}
    for mix in ("bf16", *MIXES):
        made[mix] = folder / f"{mix}.gguf"
        convert(args.hf, made[mix], Mix.of(mix, ()), name=mix)
    plain = [("bf16", made["bf16"], way) for way in WAYS if way.name not in ("int8 activations", "shipping")]
    shipped = [
        (mix, made[mix], way) for mix in MIXES for way in WAYS if way.name in ("float", "int8 activations", "shipping")
    ]
    return [*plain, *shipped]


def mini(args: argparse.Namespace, folder: pathlib.Path) -> None:
    table = rows(args, folder)
    tokenizer = Tokenizer.from_metadata(inventory.load(table[0][1]).metadata)
    texts = chats(tokenizer)
    for file in args.docs:
        ids = tokenizer.encode(file.read_text(encoding="utf-8"))
        texts += [
            Text("docs", [0, *ids[at : at + DOCS_TOKENS]], [True] * (len(ids[at : at + DOCS_TOKENS]) + 1))
            for at in range(0, len(ids), DOCS_TOKENS)
        ]
    kinds = sorted({text.kind for text in texts})
    heads = "".join(f"{kind:>11}" for kind in kinds)
    print(f"\n{'weights':<9} {'way':<22} {'KL':>10} {'top-1':>7}{heads}  tool calls   seconds")
    want: list[Array] = []
    for weights, path, way in table:
        start = time.monotonic()
        found: dict[tuple[int, ...], Array] = {}
        with opened(path, way, 1024) as session:
            for text in texts:
                if tuple(text.ids) not in found:
                    found[tuple(text.ids)] = log_softmax(logits(session, text.ids))
        predicted = list(found.values())
        want = want or predicted
        away = distance(np.concatenate(want), np.concatenate(predicted))
        perplexity = perplexities(texts, [found[tuple(text.ids)] for text in texts])
        right, count = exact_calls(path, way, tokenizer, args.prompts)
        numbers = "".join(f"{perplexity[kind]:>11.4f}" for kind in kinds)
        done = f"{right:>4} of {count:<4} {time.monotonic() - start:>8.0f}"
        print(f"{weights:<9} {way.name:<22} {away.kl:>10.2e} {away.same:>7.2%}{numbers}  {done}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hf", type=pathlib.Path, metavar="DIR", help="the checkpoint of ds4-mini")
    parser.add_argument("--prompts", type=int, default=120, help="tool prompts, of 120")
    parser.add_argument("--docs", type=pathlib.Path, nargs="*", default=[], help="text files for perplexity")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        random_models(pathlib.Path(folder))
        mini(args, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    assert WAYS[0] is FLOAT
    sys.exit(main())
