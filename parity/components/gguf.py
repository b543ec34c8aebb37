"""`gguf`: files to the inventory of a model, or to what is wrong with them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ds4.core import catalog
from ds4.core.tapes.gguf import Question, answer, by_tape, read_input
from ds4.sys.tape import escape

from parity import model_files
from parity.component import Component, Generated, Speed, plain
from parity.model_files import F32, I32, STRING, U32, Draft
from parity.vocabularies import fetched


def large(seed: int, tokens: int, layers: int, damage: int = 0) -> bytes:
    """A model of a real one's shape: a vocabulary with its merges, and the tensors of its layers.

    damage: how many bytes of its metadata are overwritten.
    """
    rng = random.Random(seed)
    words = [rng.randbytes(6).hex()[: 1 + i % 11].encode() for i in range(tokens)]
    draft = Draft().text(b"general.architecture", b"llama").scalar(b"llama.block_count", U32, layers)
    draft.many(b"tokenizer.ggml.tokens", STRING, words).many(b"tokenizer.ggml.token_type", I32, [1] * tokens)
    draft.many(b"tokenizer.ggml.scores", F32, [0.0] * tokens)
    draft.many(b"tokenizer.ggml.merges", STRING, [b"%s %s" % (a, b) for a, b in zip(words, words[1:], strict=False)])
    for layer in range(layers):
        for name in (b"attn_q", b"attn_k", b"attn_v", b"attn_output", b"ffn_gate", b"ffn_up", b"ffn_down"):
            draft.tensor(b"blk.%d.%s.weight" % (layer, name), (64, 32), 8)
        draft.tensor(b"blk.%d.attn_norm.weight" % layer, (64,))
    data, draft.data = draft.data, 0
    raw = bytearray(draft.build()[0])
    for _ in range(damage):
        raw[rng.randrange(24, len(raw))] = rng.randrange(256)
    return b"check 1\nfile m.gguf %d %d\n" % (len(raw) + data, len(raw)) + bytes(raw)


def soak(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return large(rng.randrange(2**32), rng.randrange(20_000), rng.randrange(200), rng.choice((0, 0, 1, 3)))
    return model_files.tape(rng.randbytes(96))


def _published() -> tuple[Callable[[], object], bytes]:
    """A model of 30 layers with a vocabulary of 49,152."""
    tape = large(7, 49_152, 30)
    question = read_input(tape)
    plain_question = Question(False, question.files)
    return lambda: answer(plain_question), tape


def real(case: Mapping[str, Any]) -> bytes:
    """The tape of a golden case about a real file: {"model": "smollm2"} or {"vocab": a file's name}, and of how many
    bytes of it are on the tape ("head")."""
    path = _path(case)
    with path.open("rb") as file:
        head = file.read(int(case["head"]))
        size = os.fstat(file.fileno()).st_size
    return b"check 1\nfile %s %d %d\n" % (escape(path.name), size, len(head)) + head


def _path(case: Mapping[str, Any]) -> Path:
    if case.get("model") == "smollm2":
        return catalog.embedded_path()
    return fetched("DS4_VOCABS", "the folder of the vocabulary-only GGUF files") / str(case["vocab"])


COMPONENT = Component(
    name="gguf",
    about="GGUF files, or a set of shards, to metadata and tensor inventory, or to the first fault",
    axes=("wire", "numerical", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(model_files.tape, least=48, most=48),
    soak=soak,
    speed=Speed(_published),
    sources=(
        "host/ds4/core/cursor.py",
        "host/ds4/core/metadata.py",
        "host/ds4/core/gguf.py",
        "host/ds4/core/ggml_types.py",
        "host/ds4/core/inventory.py",
        "host/ds4/core/tapes/gguf.py",
        "host/ds4/core/tapes/verdict.py",
        "oracles/gguf/*",
        "parity/components/gguf.py",
        "parity/model_files.py",
        "parity/choices.py",
    ),
    resolve=real,
)
