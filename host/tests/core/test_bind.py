"""The bind plan is made from metadata, holds together by itself, and is compared with what native bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ds4.core import bind, gguf, inventory
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.descriptors import GgmlType, Role, Slot
from support.gguf_writer import (
    STRING,
    TYPE_F16,
    TYPE_F32,
    TYPE_Q4_0,
    TYPE_Q8_0,
    GgufWriter,
    string,
    tiny_llama,
)


def _plan(writer: GgufWriter | None = None) -> bind.BindPlan:
    raw = (writer or tiny_llama()).build()
    return bind.plan(inventory.merge((gguf.parse(raw, Path("x.gguf")),)))


def test_slots_come_in_the_order_in_which_a_token_reads_them() -> None:
    plan = _plan()
    assert [slot.role for slot in plan.slots[:4]] == [Role.TOKEN_EMBD, Role.ATTN_NORM, Role.ATTN_Q, Role.ATTN_K]
    assert plan.slots[-1].role is Role.OUTPUT_NORM
    assert [slot.layer for slot in plan.slots] == [-1] + [0] * 9 + [1] * 9 + [-1]


def test_a_slot_carries_what_the_directory_says() -> None:
    writer = tiny_llama()
    file = gguf.parse(writer.build(), Path("x.gguf"))
    plan = bind.plan(inventory.merge((file,)))
    by_name = {t.name: t for t in file.tensors}
    for slot in plan.slots:
        info = by_name[slot.name]
        assert (slot.type, slot.dims, slot.offset, slot.nbytes) == (info.type, info.dims, info.offset, info.nbytes)
    desc = plan.desc()
    assert (desc.shards, desc.slots, desc.hparams) == (("x.gguf",), plan.slots, plan.hparams)
    assert plan.weight_bytes == sum(t.nbytes for t in file.tensors)


def test_a_head_of_its_own_and_rope_divisors_fill_their_slots() -> None:
    writer = tiny_llama().tensor("output.weight", (32, 16), TYPE_F16).tensor("rope_freqs.weight", (4,))
    plan = _plan(writer)
    assert _plan().tied and not plan.tied
    extra = {slot.role: slot for slot in plan.slots if slot.role in (Role.OUTPUT, Role.ROPE_FREQS)}
    assert extra[Role.OUTPUT].type is GgmlType.F16
    assert extra[Role.ROPE_FREQS].dims == (4,)


def test_a_head_that_shares_the_embeddings_bytes_is_bound() -> None:
    writer = tiny_llama().tensor("output.weight", (32, 16), TYPE_Q8_0, offset=0)
    found = inventory.merge((gguf.parse(writer.build(), Path("x.gguf")),))
    assert [alias.names for alias in found.aliased] == [("token_embd.weight", "output.weight")]
    slots = {slot.name: slot for slot in bind.plan(found).slots}
    assert slots["output.weight"].offset == slots["token_embd.weight"].offset


def test_matrices_may_be_of_any_type_that_the_engine_has() -> None:
    writer = tiny_llama().change("blk.0.attn_q.weight", type=TYPE_F32).change("blk.1.ffn_up.weight", type=TYPE_Q4_0)
    kinds = {slot.name: slot.type for slot in _plan(writer).slots}
    assert (kinds["blk.0.attn_q.weight"], kinds["blk.1.ffn_up.weight"]) == (GgmlType.F32, GgmlType.Q4_0)


def test_stored_rope_tables_of_old_converters_are_ignored_and_listed() -> None:
    plan = _plan(tiny_llama().tensor("blk.0.attn_rot_embd.weight", (4,)))
    assert plan.ignored == ("blk.0.attn_rot_embd.weight",)


# change, code, subject, expected, found
UNBOUND: dict[str, tuple[Callable[[GgufWriter], object], str, str, str, str]] = {
    "a missing matrix": (
        lambda w: w.drop("blk.1.attn_v.weight"),
        "tensor_missing",
        "blk.1.attn_v.weight",
        "[32, 16]",
        "nothing",
    ),
    "a missing norm": (
        lambda w: w.drop("output_norm.weight"),
        "tensor_missing",
        "output_norm.weight",
        "F32",
        "nothing",
    ),
    "a transposed matrix": (
        lambda w: w.change("blk.0.ffn_down.weight", dims=(32, 64)),
        "tensor_dims",
        "blk.0.ffn_down.weight",
        "[64, 32]",
        "[32, 64]",
    ),
    "a matrix with a third dimension": (
        lambda w: w.change("blk.0.ffn_up.weight", dims=(32, 64, 1)),
        "tensor_dims",
        "blk.0.ffn_up.weight",
        "[32, 64]",
        "[32, 64, 1]",
    ),
    "rope divisors of another length": (
        lambda w: w.tensor("rope_freqs.weight", (8,)),
        "tensor_dims",
        "rope_freqs.weight",
        "[4]",
        "[8]",
    ),
    "a head of another vocabulary": (
        lambda w: w.tensor("output.weight", (32, 17), TYPE_Q8_0),
        "tensor_dims",
        "output.weight",
        "[32, 16]",
        "[32, 17]",
    ),
    "a norm in half precision": (
        lambda w: w.change("blk.0.attn_norm.weight", type=TYPE_F16),
        "tensor_type",
        "blk.0.attn_norm.weight",
        "F32",
        "F16",
    ),
    "a matrix of a type that the engine lacks": (
        lambda w: w.change("blk.0.attn_q.weight", type=20, data=bytes(32 * 18)),
        "tensor_type",
        "blk.0.attn_q.weight",
        "F32 or F16 or Q4_0",
        "IQ4_NL",
    ),
    "a bias": (
        lambda w: w.tensor("blk.0.attn_q.bias", (32,)),
        "tensor_unused",
        "blk.0.attn_q.bias",
        "no tensor besides",
        "1 unused, blk.0.attn_q.bias",
    ),
    "a tensor of another family": (
        lambda w: w.tensor("blk.0.attn_q_norm.weight", (8,)).tensor("blk.1.attn_q_norm.weight", (8,)),
        "tensor_unused",
        "blk.0.attn_q_norm.weight",
        "no tensor besides",
        "2 unused",
    ),
    "another architecture": (
        lambda w: w.without("general.architecture").string("general.architecture", "mamba"),
        "unsupported_architecture",
        "general.architecture",
        "llama",
        "mamba",
    ),
    "no architecture": (
        lambda w: w.without("general.architecture"),
        "metadata_missing",
        "general.architecture",
        "string",
        "nothing",
    ),
    "an adapter": (
        lambda w: w.string("general.type", "adapter"),
        "unsupported_kind",
        "general.type",
        "model",
        "adapter",
    ),
}


@pytest.mark.parametrize("name", UNBOUND)
def test_a_model_that_does_not_fill_the_slots_is_refused_by_tensor(name: str) -> None:
    change, code, subject, expected, found = UNBOUND[name]
    writer = tiny_llama()
    change(writer)
    with pytest.raises(ModelFileError) as caught:
        _plan(writer)
    assert (caught.value.code, caught.value.subject) == (code, subject)
    assert expected in str(caught.value.expected)
    assert found in str(caught.value.found)
    unsupported = code.startswith("unsupported") or code in ("tensor_type", "tensor_unused")
    assert isinstance(caught.value, UnsupportedModelError) == unsupported


# ---- check


def _with_slot(plan: bind.BindPlan, index: int, **changes: object) -> bind.BindPlan:
    slots = list(plan.slots)
    slots[index] = replace(slots[index], **changes)  # type: ignore[arg-type]
    return replace(plan, slots=tuple(slots))


BAD_PLANS: dict[str, tuple[Callable[[bind.BindPlan], bind.BindPlan], str, str]] = {
    "a slot twice": (lambda p: replace(p, slots=(*p.slots, p.slots[3])), "blk.0.attn_k.weight", "another ATTN_K"),
    "a slot missing": (lambda p: replace(p, slots=p.slots[:-1]), "OUTPUT_NORM", "nothing"),
    "a layer missing": (lambda p: replace(p, slots=p.slots[:10] + p.slots[-1:]), "ATTN_NORM", "nothing"),
    "a layer past the last": (lambda p: _with_slot(p, 1, layer=2), "blk.0.attn_norm.weight", "2"),
    "a size that does not follow": (lambda p: _with_slot(p, 2, nbytes=1), "blk.0.attn_q.weight", "1"),
    "a shard past the last": (lambda p: _with_slot(p, 2, shard=1), "blk.0.attn_q.weight", "1"),
    "an offset in the metadata": (lambda p: _with_slot(p, 2, offset=32), "blk.0.attn_q.weight", "32..1120"),
    "an offset past the end": (lambda p: _with_slot(p, 2, offset=2**40), "blk.0.attn_q.weight", str(2**40)),
    "an offset that is not aligned": (
        lambda p: _with_slot(p, 2, offset=p.slots[2].offset + 8),
        "blk.0.attn_q.weight",
        "",
    ),
    "a dimension of nought": (lambda p: _with_slot(p, 2, dims=(32, 0)), "blk.0.attn_q.weight", "[32, 0]"),
    "a number past int32": (lambda p: replace(p, hparams=replace(p.hparams, d_ff=2**31)), "d_ff", str(2**31)),
}


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_plan_that_does_not_hold_together_is_refused(name: str) -> None:
    change, subject, found = BAD_PLANS[name]
    with pytest.raises(ModelFileError) as caught:
        bind.check(change(_plan()))
    assert (caught.value.code, caught.value.subject) == ("bind_plan", subject)
    assert found in str(caught.value.found)


# ---- match


def test_the_same_slots_match() -> None:
    plan = _plan()
    bind.match(plan, list(plan.slots))


DIFFERENCES: dict[str, object] = {
    "role": Role.ATTN_K,
    "layer": 1,
    "type": GgmlType.F16,
    "dims": (32, 33),
    "shard": 1,
    "offset": 0,
    "nbytes": 7,
    "name": "blk.0.attn_k.weight",
}


@pytest.mark.parametrize("field", DIFFERENCES)
def test_a_slot_that_native_sees_otherwise_names_the_field(field: str) -> None:
    plan = _plan()
    native = list(plan.slots)
    native[2] = replace(native[2], **{field: DIFFERENCES[field]})  # type: ignore[arg-type]
    with pytest.raises(ModelFileError) as caught:
        bind.match(plan, native)
    error = caught.value
    assert (error.code, error.subject) == ("bind_mismatch", "blk.0.attn_q.weight")
    assert error.message == f"host and engine disagree on {field}"
    assert (error.expected, error.found) == (getattr(plan.slots[2], field), DIFFERENCES[field])


def test_every_field_of_a_slot_is_compared() -> None:
    assert set(DIFFERENCES) == set(Slot.__dataclass_fields__)


@pytest.mark.parametrize("keep", [0, 19])
def test_fewer_slots_than_planned_do_not_match(keep: int) -> None:
    plan = _plan()
    with pytest.raises(ModelFileError) as caught:
        bind.match(plan, plan.slots[:keep])
    assert (caught.value.code, caught.value.expected, caught.value.found) == ("bind_mismatch", 20, keep)


def test_a_contract_that_is_insisted_on_must_be_the_files_own() -> None:
    found = inventory.merge((gguf.parse(tiny_llama().build(), Path("x.gguf")),))
    layout = bind.layout(found)
    assert bind.plan(found, layout.contract) == bind.plan(found)
    assert [spec.name for spec in layout.specs if not spec.required] == ["output.weight", "rope_freqs.weight"]


def test_a_file_without_a_vocabulary_can_be_bound() -> None:
    writer = tiny_llama().without("tokenizer.ggml.tokens").without("tokenizer.ggml.token_type")
    assert _plan(writer).hparams.n_vocab == 16
    assert string("a") + bytes([STRING]) == b"\x01" + bytes(7) + b"a\x08"
