"""`bind`: the inventory of a model to its bind plan, or to why it cannot be served."""

from __future__ import annotations

import random
from collections.abc import Callable

from ds4.core.bind import make
from ds4.core.tapes.bind import by_tape, read_input

from parity import inventories
from parity.component import Component, Generated, Speed, plain
from parity.inventories import Shape, draft


def soak(rng: random.Random) -> bytes:
    if rng.random() < 0.5:
        return inventories.tape(rng.randbytes(64))
    heads, head = rng.choice((1, 2, 8, 9)), rng.choice((32, 64))
    shape = Shape(
        layers=rng.randrange(1, 200),
        width=heads * head,
        heads=heads,
        kv_heads=1,
        head=head,
        hidden=rng.choice((32, 96, 1536)),
        vocab=rng.randrange(1, 200_000),
        types=rng.choice(((0,), (8, 3), (2, 6, 7, 1))),
        shards=rng.randrange(1, 20),
        head_tensor=rng.random() < 0.5,
        freqs=rng.random() < 0.5,
    )
    made = draft(shape)
    if rng.random() < 0.3:
        del made.tensors[rng.randrange(len(made.tensors))]
    return made.tape()


def _published() -> tuple[Callable[[], object], bytes]:
    """A model of 30 layers. It is planned once, before any request: a few milliseconds are what nobody waits for."""
    tape = draft(
        Shape(layers=30, width=576, heads=9, kv_heads=3, head=64, hidden=1536, vocab=49_152, types=(3,))
    ).tape()
    ready = read_input(tape)
    return lambda: make(ready), tape


COMPONENT = Component(
    name="bind",
    about="metadata and tensor inventory to the engine's parameters and slots, or to why a model cannot be served",
    axes=("numerical", "performance"),
    replacement=plain(by_tape),
    inputs=Generated(inventories.tape, least=40, most=40),
    soak=soak,
    speed=Speed(_published, micros=2500.0),
    sources=(
        "host/ds4/core/bind.py",
        "host/ds4/core/families/*.py",
        "host/ds4/core/metadata.py",
        "host/ds4/core/tapes/bind.py",
        "host/ds4/core/tapes/gguf.py",
        "host/ds4/core/tapes/verdict.py",
        "oracles/bind/*",
        "parity/components/bind.py",
        "parity/inventories.py",
        "parity/choices.py",
    ),
)
