"""The engine, when the host's checks are bypassed: it refuses what the host refuses, and takes what the host takes."""

from __future__ import annotations

import os
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ds4.core import bind, gguf, inventory
from ds4.errors import Ds4Error, EngineError, ModelFileError
from ds4.sys.descriptors import HParams, ModelDesc, Role, RopeKind, Status
from ds4.sys.native import NativeModel
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gguf_writer import ARRAY, BOOL, F32, F64, I32, STRING, U32, U64, GgufWriter, array, scalar, string
from support.tiny_deepseek4 import ARCH, FLASH, PRO, Shape, drafting_tensors, keys_of, lists_of, tiny_deepseek4

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")

NAN = float("nan")
OWN: dict[str, tuple[Any, ...]] = {
    "lora_q": (0, -1, (1 << 24) + 1),
    "lora_o": (0, -1, 1 << 24),
    "groups_o": (0, -1, 3, 5),
    "n_expert": (0, -1, 65537),
    "n_expert_used": (0, -1, 7),
    "d_expert": (0, -1, 1 << 24),
    "n_hash_layer": (-1, 6),
    "index_heads": (0, -1, 65537),
    "index_dim": (0, -1, 4, 1025),
    "index_top_k": (0, -1, (1 << 20) + 1),
    "hc_count": (0, -1, 17),
    "hc_iterations": (0, -1, 1001),
    "n_mtp": (-1, 2),
    "expert_scale": (-1.0, NAN, float("inf")),
    "hc_eps": (-1.0, NAN, 2.0),
    "compress_rope_base": (0.5, NAN, float("inf"), 1.0),
    "ratios": ((0, 0, 4, 128), (0, 0, 4, 128, 8), (0, 0, -4, 128, 4), ()),
    "clamp_experts": ((10.0,) * 4, (10.0, 0.0, 10.0, 10.0, 10.0), (10.0, NAN, 10.0, 10.0, 10.0)),
    "clamp_shared": ((10.0,) * 4 + (-1.0,), (NAN,) * 5),
}
COMMON: dict[str, tuple[Any, ...]] = {
    "n_layer": (0, -1, 1025, 4),
    "d_model": (0, -1, (1 << 24) + 1),
    "n_head": (0, -1, 65537),
    "n_head_kv": (0, 2),
    "head_dim": (0, 24, 1025),
    "d_ff": (0, -1),
    "n_vocab": (0, -1),
    "rope_kind": (-1, RopeKind.NEOX),
    "rope_dim": (0, 7, 17),
    "sliding_window": (0, -1, (1 << 16) + 1),
    "rms_eps": (NAN, -1.0),
    "rope_base": (0.0, NAN),
    "rope_factor": (0.5, NAN),
    "rope_beta_fast": (0.5, NAN),
    "rope_ctx_original": (0, -1),
}


def _plan(writer: GgufWriter) -> bind.BindPlan:
    return bind.plan(inventory.merge((gguf.parse(writer.build(), Path("x.gguf")),)))


def _desc(hparams: HParams | None = None) -> ModelDesc:
    made = _plan(tiny_deepseek4()).desc()
    return made if hparams is None else replace(made, hparams=hparams)


def _refused(hparams: HParams, name: str) -> None:
    for call in (NativeModel.check, NativeModel.open):
        with pytest.raises(EngineError) as caught:
            call(_desc(hparams))
        error = caught.value
        assert error.status in (Status.ARG, Status.UNSUPPORTED, Status.MISMATCH)
        assert name in error.message and ("expected" in error.message or "needs" in error.message), error.message


@pytest.mark.parametrize("field", OWN)
def test_a_number_of_the_family_that_fits_no_model_is_refused_by_its_name(field: str) -> None:
    right = _desc().hparams
    assert right.dsv4 is not None
    said = {"ratios": "ratios", "clamp_experts": "clamp", "clamp_shared": "clamp"}.get(field, field)
    for value in OWN[field]:
        _refused(replace(right, dsv4=replace(right.dsv4, **{field: value})), said)


@pytest.mark.parametrize("field", COMMON)
def test_a_number_that_fits_no_model_is_refused_by_its_name(field: str) -> None:
    for value in COMMON[field]:
        said = "n_ratios" if (field, value) == ("n_layer", 4) else field
        _refused(replace(_desc().hparams, **{field: value}), said)


def test_parameters_without_the_familys_own_are_refused() -> None:
    with pytest.raises(EngineError, match=r"hparams\.dsv4 is missing"):
        NativeModel.check(_desc(replace(_desc().hparams, dsv4=None)))


def test_a_table_with_an_id_that_is_no_expert_is_not_opened(tmp_path: Path) -> None:
    for name, wrong in (("blk.0.ffn_gate_tid2eid.weight", 6), ("blk.1.ffn_gate_tid2eid.weight", -1)):
        ids = [0] * (FLASH.used * FLASH.vocab)
        ids[9] = wrong
        path = tiny_deepseek4().change(name, data=struct.pack(f"<{len(ids)}i", *ids)).write(tmp_path / "x.gguf")
        plan = bind.plan(inventory.load(path))
        with pytest.raises(
            EngineError, match=rf"{name}: token 4 is routed to expert {wrong}, expected 0\.\.5"
        ) as caught:
            NativeModel.open(plan.desc())
        assert caught.value.status == Status.FORMAT


def test_a_slot_that_is_missing_or_of_another_layer_is_refused() -> None:
    desc = _desc()
    for slot in (desc.slots[0], desc.slots[7], desc.slots[-1]):
        with pytest.raises(EngineError):
            NativeModel.check(replace(desc, slots=tuple(s for s in desc.slots if s is not slot)))
    moved = tuple(replace(s, layer=3) if s.role is Role.ROUTER_HASH and s.layer == 1 else s for s in desc.slots)
    with pytest.raises(EngineError, match="has no router_hash"):
        NativeModel.check(replace(desc, slots=moved))


# ---- whatever a file says, host and engine agree

NUMBERS = st.sampled_from(
    [0, 1, 2, 3, 4, 6, 7, 8, 16, 17, 24, 32, 64, 1 << 15, 1 << 16, 1 << 24, 1 << 31, (1 << 32) - 1]
)
FLOATS = st.sampled_from([NAN, float("inf"), -1.0, 0.0, 1e-45, 1e-7, 0.5, 1.0, 1.0000001, 2.5, 1e6, 1e12, 3e38])
VALUES = st.one_of(
    NUMBERS.map(lambda n: (U32, scalar(U32, n))),
    st.integers(0, 2**64 - 1).map(lambda n: (U64, scalar(U64, n))),
    FLOATS.map(lambda x: (F32, scalar(F32, x))),
    FLOATS.map(lambda x: (F64, scalar(F64, x))),
    st.booleans().map(lambda b: (BOOL, scalar(BOOL, b))),
    st.sampled_from(["none", "yarn", "", "é"]).map(lambda s: (STRING, string(s))),
    st.lists(st.sampled_from([0, 4, 128, 8, -1]), max_size=7).map(lambda v: (ARRAY, array(I32, v))),
    st.lists(FLOATS, max_size=7).map(lambda v: (ARRAY, array(F32, v))),
)
CHANGES = st.lists(
    st.tuples(st.sampled_from([key for key, *_ in (*keys_of(PRO), *lists_of(PRO))]), st.none() | VALUES), max_size=3
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([FLASH, PRO]), CHANGES, st.booleans())
def test_keys_that_the_host_takes_the_engine_takes(
    shape: Shape, changes: list[tuple[str, tuple[int, bytes] | None]], drafts: bool
) -> None:
    w = tiny_deepseek4(shape)
    if drafts:
        w.tensors += drafting_tensors(shape)
    for key, value in changes:
        w.keys = [entry for entry in w.keys if entry[0] != string(f"{ARCH}.{key}")]
        if value is not None:
            w.raw(f"{ARCH}.{key}", *value)
    try:
        plan = _plan(w)
    except ModelFileError as error:
        assert error.subject and error.expected is not None and error.found is not None
        return
    try:
        NativeModel.check(plan.desc())
    except Ds4Error as error:  # the host said yes
        pytest.fail(f"{changes}: {error}")
