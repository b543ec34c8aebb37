"""A look at a file says what it is and whether it can be served, without an engine and without raising."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from ds4.core import bind, inventory, render
from ds4.core.identify import identify, size_label
from ds4.errors import ModelFileError
from ds4.sys.descriptors import Family
from support.gguf_writer import STRING, TYPE_F16, GgufWriter, tiny_llama
from syrupy.assertion import SnapshotAssertion


def test_a_model_that_can_be_served_says_so(tmp_path: Path) -> None:
    seen = identify(tiny_llama().write(tmp_path / "tiny.gguf"))
    assert (seen.supported, seen.reason, seen.family) == (True, None, Family.LLAMA)
    assert (seen.architecture, seen.name, seen.file_type) == ("llama", "Tiny", "Q8_0")
    assert (seen.context_train, seen.n_vocab, seen.chat_template) == (128, 16, False)
    assert seen.bytes == (tmp_path / "tiny.gguf").stat().st_size
    assert sum(share.elements for share in seen.quant) == seen.n_params == 19104
    assert seen.size_label == "19K"


# change, part of the reason
FOREIGN: dict[str, tuple[Callable[[GgufWriter], object], str]] = {
    "another architecture": (
        lambda w: w.without("general.architecture").string("general.architecture", "mamba"),
        "found mamba",
    ),
    "no architecture": (lambda w: w.without("general.architecture"), "general.architecture: the key is missing"),
    "an adapter": (lambda w: w.string("general.type", "adapter"), "found adapter"),
    "no tensors": (lambda w: setattr(w, "tensors", []), "token_embd.weight: a required tensor is missing"),
    "experts": (lambda w: w.u32("llama.expert_count", 8), "llama.expert_count"),
    "a bias": (lambda w: w.tensor("blk.0.attn_q.bias", (32,)), "blk.0.attn_q.bias"),
    "a type that the engine lacks": (
        lambda w: w.change("blk.0.attn_q.weight", type=20, data=bytes(32 * 18)),
        "IQ4_NL",
    ),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_well_formed_file_that_cannot_be_served_says_why_and_does_not_raise(name: str, tmp_path: Path) -> None:
    change, reason = FOREIGN[name]
    writer = tiny_llama()
    change(writer)
    seen = identify(writer.write(tmp_path / "x.gguf"))
    assert (seen.supported, seen.family) == (False, None)
    assert seen.reason is not None and reason in seen.reason
    assert render.render_identity(seen).splitlines()[-1].split(maxsplit=1) == ["supported", f"no: {seen.reason}"]


def test_a_malformed_file_raises(tmp_path: Path) -> None:
    writer = tiny_llama()
    writer.cut = 1
    with pytest.raises(ModelFileError):
        identify(writer.write(tmp_path / "x.gguf"))


def test_shared_weights_are_counted_once(tmp_path: Path) -> None:
    plain = identify(tiny_llama().write(tmp_path / "a.gguf"))
    shared = identify(tiny_llama().tensor("output.weight", (32, 16), 8, offset=0).write(tmp_path / "b.gguf"))
    assert shared.n_params == plain.n_params
    assert shared.supported


@pytest.mark.parametrize(
    ("count", "label"),
    [
        (134_515_008, "135M"),
        (1_235_814_400, "1.2B"),
        (7_241_732_096, "7.2B"),
        (9_960_000_000, "10B"),
        (671_026_419_200, "671B"),
        (999_600_000, "1.0B"),
        (15_000, "15K"),
        (12, "12"),
    ],
)
def test_parameters_are_said_as_model_names_say_them(count: int, label: str) -> None:
    assert size_label(count) == label


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (98_362_432, "98.4 MB"), (4_660_000_000, "4.7 GB")]
)
def test_sizes_are_said_in_decimal_units(count: int, text: str) -> None:
    assert render.byte_size(count) == text


# ---- what people see


def _sample(tmp_path: Path) -> Path:
    writer = tiny_llama().array("tokenizer.ggml.merges", STRING, ["a b"]).f32("llama.rope.freq_base", 5e5)
    writer.u32("llama.brand_new", 1).tensor("blk.0.attn_rot_embd.weight", (4,))
    writer.tensor("output.weight", (32, 16), 8, offset=0)
    return writer.write(tmp_path / "sample.gguf")


def test_tables_look_as_they_were_accepted(tmp_path: Path, snapshot: SnapshotAssertion) -> None:
    path = _sample(tmp_path)
    found = inventory.load(path)
    seen = replace(identify(path), path=Path("sample.gguf"))
    assert render.render_identity(seen) == snapshot(name="identity")
    assert render.render_inventory(found) == snapshot(name="inventory")
    assert render.render_layout(bind.layout(found)) == snapshot(name="layout")
    assert render.render_plan(bind.plan(found)) == snapshot(name="plan")


def test_dicts_are_json_and_carry_the_tables_numbers(tmp_path: Path) -> None:
    path = _sample(tmp_path)
    found = inventory.load(path)
    plan = bind.plan(found)
    dicts = [
        render.identity_dict(identify(path)),
        render.inventory_dict(found),
        render.layout_dict(bind.layout(found)),
        render.plan_dict(plan),
    ]
    identity, tensors, layout, bound = json.loads(json.dumps(dicts))
    assert (identity["supported"], identity["family"], identity["bytes"]) == (True, "llama", path.stat().st_size)
    assert len(tensors["tensors"]) == len(found.tensors)
    assert tensors["aliased"][0]["names"] == ["token_embd.weight", "output.weight"]
    assert tensors["metadata"]["tokenizer.ggml.tokens"] == "array of 16 string"
    assert [slot["name"] for slot in layout["slots"]][-1] == "rope_freqs.weight"
    assert bound["slots"][0] == {
        "role": "token_embd",
        "layer": -1,
        "name": "token_embd.weight",
        "type": "Q8_0",
        "dims": [32, 16],
        "shard": 0,
        "offset": plan.slots[0].offset,
        "bytes": 544,
    }
    assert bound["hparams"]["rope_scaling"] == "none"
    assert bound["ignored"] == ["blk.0.attn_rot_embd.weight"]


def test_no_name_in_a_file_can_send_a_control_character_to_the_terminal(tmp_path: Path) -> None:
    writer = tiny_llama().string("general.size_label", "\x1b[2J").string("tokenizer.chat_template", "a\x07b\nc")
    writer.without("general.name").string("general.name", "\x1b]0;owned\x07")
    path = writer.write(tmp_path / "x.gguf")
    text = render.render_identity(identify(path)) + render.render_inventory(inventory.load(path))
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "\\x1b]0;owned\\x07" in text


def test_an_identity_of_another_type_mix_sums_to_the_whole(tmp_path: Path) -> None:
    writer = tiny_llama().change("blk.0.attn_q.weight", type=TYPE_F16)
    seen = identify(writer.write(tmp_path / "x.gguf"))
    assert {share.type for share in seen.quant} == {"Q8_0", "F16", "F32"}
    assert sum(share.nbytes for share in seen.quant) == seen.weight_bytes
    assert seen.quant_summary.startswith("Q8_0 8")
