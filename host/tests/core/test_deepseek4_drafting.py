"""The deepseek4 contract's drafting block: where it may lie, and what is refused."""

from __future__ import annotations

import pytest
from ds4.core import bind
from ds4.core.families import deepseek4
from ds4.errors import ModelFileError, UnsupportedModelError
from ds4.sys.descriptors import Role
from support.changed_deepseek4 import (
    Change,
    inventory_of,
    number,
    plan_of,
    with_drafting,
)
from support.gguf_writer import (
    TYPE_F16,
    U32,
    GgufWriter,
)
from support.tiny_deepseek4 import (
    ARCH,
    LAYERS,
    VOCAB,
    WIDTH,
    drafting_tensors,
    layer_tensors,
    nextn_tensors,
    tiny_deepseek4,
    tiny_tensors,
)


def test_a_drafting_block_under_its_own_name_is_the_layer_after_the_last() -> None:
    plan = plan_of(with_drafting)
    d = plan.hparams.dsv4
    assert d is not None and (d.n_mtp, plan.hparams.n_layer, plan.hparams.n_blocks) == (1, LAYERS, LAYERS + 1)
    assert d.clamp_experts == (10.0,) * (LAYERS + 1) and len(d.ratios) == LAYERS
    mine = {slot.role: slot.name for slot in plan.slots if slot.layer == LAYERS}
    assert mine[Role.MTP_E_PROJ] == "mtp.0.e_proj.weight" and mine[Role.ATTN_KV] == "mtp.0.attn_kv.weight"
    assert mine[Role.MTP_HC_FN] == "mtp.0.hc_head_fn.weight"
    assert Role.MTP_EH_PROJ not in mine and Role.COMPRESS_KV not in mine and Role.ROUTER_HASH not in mine
    assert {s.name for s in plan.slots} == {t.name for t in (*tiny_tensors(), *drafting_tensors())}


@pytest.mark.parametrize("counted", [False, True])
def test_a_drafting_block_in_the_layers_rows_is_found_whether_block_count_counts_it_or_not(counted: bool) -> None:
    def change(w: GgufWriter) -> None:
        w.tensors += nextn_tensors()
        number("block_count", U32, LAYERS + counted)(w)
        w.u32("deepseek4.nextn_predict_layers", 1)

    plan = plan_of(change)
    d = plan.hparams.dsv4
    assert d is not None and (d.n_mtp, plan.hparams.n_layer) == (1, LAYERS)
    mine = {slot.role: slot.name for slot in plan.slots if slot.layer == LAYERS}
    assert mine[Role.MTP_EH_PROJ] == f"blk.{LAYERS}.nextn.eh_proj.weight"
    assert mine[Role.MTP_NORM] == f"blk.{LAYERS}.nextn.shared_head_norm.weight"
    assert Role.MTP_E_PROJ not in mine and Role.MTP_HC_FN not in mine


def test_tables_of_the_drafting_block_are_bound_where_it_has_its_own() -> None:
    def change(w: GgufWriter) -> None:
        w.tensors += nextn_tensors()
        w.tensor(f"blk.{LAYERS}.nextn.embed_tokens.weight", (WIDTH, VOCAB), TYPE_F16)
        w.tensor(f"blk.{LAYERS}.nextn.shared_head_head.weight", (WIDTH, VOCAB), TYPE_F16)

    roles = {slot.role for slot in plan_of(change).slots}
    assert {Role.MTP_TOKEN_EMBD, Role.MTP_OUTPUT} <= roles


def test_a_drafting_block_that_is_named_but_missing_is_noted() -> None:
    plan = plan_of(lambda w: w.u32("deepseek4.nextn_predict_layers", 1))
    assert plan.hparams.dsv4 is not None and plan.hparams.dsv4.n_mtp == 0
    assert plan.notes == ("the file names a drafting block but does not hold it",)


def test_a_sibling_file_with_the_drafting_block_joins_as_another_shard() -> None:
    sibling = GgufWriter().string("general.architecture", ARCH)
    sibling.tensors += drafting_tensors()
    plan = bind.plan(deepseek4.attach(inventory_of(tiny_deepseek4()), inventory_of(sibling, "x-MTP.gguf")))
    assert [shard.path.name for shard in plan.shards] == ["x.gguf", "x-MTP.gguf"]
    assert {slot.shard for slot in plan.slots if slot.layer == LAYERS} == {1}
    assert {slot.shard for slot in plan.slots if slot.layer < LAYERS} == {0}


def test_a_sibling_file_of_llama_cpp_brings_its_own_head_and_repeats_what_is_not_taken() -> None:
    sibling = GgufWriter().string("general.architecture", ARCH)
    sibling.tensors += nextn_tensors()
    sibling.tensors += [t for t in tiny_tensors() if not str(t.name).startswith("blk.")]
    joined = deepseek4.attach(inventory_of(tiny_deepseek4()), inventory_of(sibling, "mtp-x.gguf"))
    plan = bind.plan(joined)
    heads = {slot.role: (slot.name, slot.shard) for slot in plan.slots if "output_hc_fn" in slot.name}
    assert heads == {
        Role.OUTPUT_HC_FN: ("output_hc_fn.weight", 0),
        Role.MTP_HC_FN: ("output_hc_fn.weight", 1),
    }
    assert next(s for s in plan.slots if s.role is Role.TOKEN_EMBD).shard == 0
    assert plan.ignored == ()


def test_each_layout_of_a_drafting_block_is_told() -> None:
    assert deepseek4.catalog(inventory_of(tiny_deepseek4())) is None
    own, rows = tiny_deepseek4(), tiny_deepseek4()
    own.tensors += drafting_tensors()
    rows.tensors += nextn_tensors()
    assert (deepseek4.catalog(inventory_of(own)), deepseek4.catalog(inventory_of(rows))) == ("mtp", "nextn")


UNJOINED: dict[str, tuple[Change, Change, str, str]] = {
    "no block": (lambda m: None, lambda s: s.tensors.clear(), "mtp_missing", "y.gguf"),
    "two blocks": (with_drafting, lambda s: None, "mtp_duplicate", "y.gguf"),
    "a layer beside it": (
        lambda m: None,
        lambda s: s.tensor("blk.0.attn_kv.weight", (32, 16)),
        "mtp_tensor",
        "blk.0.attn_kv.weight",
    ),
    "a name the model has": (
        lambda m: m.tensor("blk.5.attn_kv.weight", (32, 16)),
        lambda s: (s.tensors.clear(), s.tensors.extend(nextn_tensors())),
        "mtp_duplicate",
        "blk.5.attn_kv.weight",
    ),
}


@pytest.mark.parametrize("name", UNJOINED)
def test_a_sibling_that_does_not_fit_is_refused_by_name(name: str) -> None:
    change_model, change_sibling, code, subject = UNJOINED[name]
    model, sibling = tiny_deepseek4(), GgufWriter()
    sibling.tensors += drafting_tensors()
    change_model(model)
    change_sibling(sibling)
    with pytest.raises(ModelFileError) as caught:
        deepseek4.attach(inventory_of(model), inventory_of(sibling, "y.gguf"))
    assert (caught.value.code, caught.value.subject) == (code, subject)


def test_two_drafting_blocks_in_one_file_are_refused() -> None:
    def change(w: GgufWriter) -> None:
        w.tensors += drafting_tensors()
        w.tensors += layer_tensors("mtp.1.", 0, hashed=False)

    with pytest.raises(UnsupportedModelError) as caught:
        plan_of(change)
    assert (caught.value.code, caught.value.found) == ("unsupported_shape", "mtp.0, mtp.1")
