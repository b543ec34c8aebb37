"""Host and engine read the same files by two readers that share no code, and must come to the same slots."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ds4.core import bind, inventory
from ds4.errors import EngineError
from ds4.sys.descriptors import Status
from ds4.sys.native import NativeModel
from support.gguf_faults import FAULTS
from support.gguf_writer import TYPE_F16, TYPE_Q4_0, GgufWriter, tiny_llama, tiny_shards

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")


def _open(plan: bind.BindPlan) -> None:
    model = NativeModel.open(plan.desc())
    try:
        bind.match(plan, model.slots())
    finally:
        model.close()


ACCEPTED: dict[str, Callable[[GgufWriter], object]] = {
    "the tiny model": lambda w: w,
    "a head of its own": lambda w: w.tensor("output.weight", (32, 16), TYPE_F16),
    "a head that shares the embedding's bytes": lambda w: w.tensor("output.weight", (32, 16), 8, offset=0),
    "rope divisors": lambda w: w.tensor("rope_freqs.weight", (4,), data=b"\0\0\x80\x3f" * 4),
    "an ignored tensor": lambda w: w.tensor("blk.0.attn_rot_embd.weight", (4,)),
    "mixed types": lambda w: w.change("blk.0.ffn_up.weight", type=TYPE_Q4_0),
    "version 2": lambda w: setattr(w, "version", 2),
    "another alignment": lambda w: setattr(w.u32("general.alignment", 256), "alignment", 256),
    "a partial rope": lambda w: w.u32("llama.rope.dimension_count", 2),
    "linear scaling": lambda w: w.f32("llama.rope.scaling.factor", 4.0),
    "yarn": lambda w: w.string("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4.0),
    "a window": lambda w: w.u32("llama.attention.sliding_window", 16),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_the_engine_binds_what_the_host_planned(name: str, tmp_path: Path) -> None:
    writer = tiny_llama()
    ACCEPTED[name](writer)
    _open(bind.plan(inventory.load(writer.write(tmp_path / "x.gguf"))))


def test_the_engine_binds_shards_where_the_host_found_them(tmp_path: Path) -> None:
    _open(bind.plan(inventory.load(tiny_shards().write(tmp_path))))


@pytest.mark.parametrize("name", FAULTS)
def test_the_engine_refuses_the_files_that_the_host_refuses(name: str, tmp_path: Path) -> None:
    """The file is swapped for a malformed one after the plan was made, which only the engine's own walk can see."""
    path = tiny_llama().write(tmp_path / "x.gguf")
    plan = bind.plan(inventory.load(path))
    made = FAULTS[name][0]
    path.unlink()
    path.write_bytes(made if isinstance(made, bytes) else made.build())
    with pytest.raises(EngineError) as caught:
        NativeModel.open(plan.desc())
    assert caught.value.status in (Status.IO, Status.FORMAT, Status.MISMATCH, Status.UNSUPPORTED)
