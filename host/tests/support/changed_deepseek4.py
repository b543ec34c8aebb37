"""The tiny deepseek4 model with something changed, and what the contract makes of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from ds4.core import bind, gguf, inventory
from ds4.errors import ModelFileError
from ds4.sys.descriptors import HParams
from support.gguf_writer import ARRAY, GgufWriter, array, scalar, string
from support.tiny_deepseek4 import ARCH, drafting_tensors, tiny_deepseek4

Change = Callable[[GgufWriter], object]
OPTIONAL = {
    "vocab_size",
    "attention.head_count_kv",
    "attention.value_length",
    "expert_gating_func",
    "swiglu_clamp_shexp",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
}


def inventory_of(writer: GgufWriter, name: str = "x.gguf") -> inventory.Inventory:
    return inventory.merge((gguf.parse(writer.build(), Path(name)),))


def plan_of(*changes: Change) -> bind.BindPlan:
    writer = tiny_deepseek4()
    for change in changes:
        change(writer)
    return bind.plan(inventory_of(writer))


def put(key: str, kind: int, payload: bytes) -> Change:
    """Sets a key, replacing what the tiny model has."""

    def change(w: GgufWriter) -> None:
        w.keys = [entry for entry in w.keys if entry[0] != string(key)]
        w.raw(key, kind, payload)

    return change


def number(key: str, kind: int, value: float) -> Change:
    return put(f"{ARCH}.{key}", kind, scalar(kind, value))


def listed(key: str, kind: int, values: Sequence[float]) -> Change:
    return put(f"{ARCH}.{key}", ARRAY, array(kind, values))


def drop(key: str) -> Change:
    return lambda w: w.without(f"{ARCH}.{key}")


def hparams(*changes: Change) -> HParams:
    return plan_of(*changes).hparams


def with_drafting(w: GgufWriter) -> None:
    w.tensors += drafting_tensors()


def refusal(*changes: Change) -> ModelFileError:
    with pytest.raises(ModelFileError) as caught:
        plan_of(*changes)
    error = caught.value
    assert error.subject and error.expected is not None and error.found is not None
    return error
