"""Random models: reproducible, valid in every mix, and no larger than they need be."""

from __future__ import annotations

import os
from pathlib import Path

import gguf
import numpy as np
import pytest
from ds4.core import bind, inventory
from ds4.core.tokenizer import Tokenizer
from ds4.errors import ModelFileError, SettingsError
from ds4.perf.synth import gguf_file, random_model, shapes
from ds4.perf.synth.gguf_file import Tensor
from ds4.perf.synth.mixes import MIXES, Mix
from ds4.sys.descriptors import Family, GgmlType
from support.commands import run

# As small as K blocks allow.
SMALL = [
    "embedding_length=256",
    "vocab_size=280",
    "attention.q_lora_rank=256",
    "attention.output_lora_rank=128",
    "expert_count=2",
    "expert_used_count=1",
]


def _write(tmp_path: Path, mix: str = "q8_0", *, name: str = "x.gguf", layers: int = 4, **more: object) -> Path:
    shape = shapes.shape("deepseek4-tiny", layers, SMALL)
    random_model.write(tmp_path / name, shape, Mix.of(mix), **more)  # type: ignore[arg-type]
    return tmp_path / name


def test_the_same_arguments_give_the_same_bytes_and_another_seed_other_ones(tmp_path: Path) -> None:
    one, two = _write(tmp_path, name="1", seed=3), _write(tmp_path, name="2", seed=3)
    three = _write(tmp_path, name="3", seed=4)
    assert one.read_bytes() == two.read_bytes() != three.read_bytes()
    assert one.stat().st_size == three.stat().st_size


@pytest.mark.parametrize("fill", ["values", "blocks"])
@pytest.mark.parametrize("mix", sorted(set(MIXES) - {"q4_0", "q4_1", "q5_0", "q5_1", "q3_k", "f32"}))
def test_every_mix_can_be_bound(mix: str, fill: str, tmp_path: Path) -> None:
    plan = bind.plan(inventory.load(_write(tmp_path, mix, fill=fill, layers=3)))
    assert plan.hparams.family is Family.DEEPSEEK4
    kinds = {slot.name: slot.type.name.lower() for slot in plan.slots}
    assert kinds["blk.0.ffn_gate_exps.weight"] == MIXES[mix]["expert"]
    assert kinds["blk.2.ffn_down_exps.weight"] == MIXES[mix]["down"]
    assert kinds["blk.1.hc_attn_fn.weight"] == MIXES[mix]["fine"]


def test_the_same_seed_in_another_mix_is_the_same_model_rounded(tmp_path: Path) -> None:
    exact, rounded = (
        {t.name: t for t in gguf.GGUFReader(_write(tmp_path, mix, name=mix)).tensors} for mix in ("f32", "q8_0")
    )
    name = "blk.1.attn_kv.weight"
    x = np.asarray(exact[name].data)
    y = gguf.quants.dequantize(rounded[name].data, rounded[name].tensor_type)
    assert np.abs(x - y).max() < np.abs(x).max() / 200
    assert 0.9 < x.std() * np.sqrt(x.shape[-1]) < 1.1


def test_tokens_are_routed_to_different_experts_that_there_are(tmp_path: Path) -> None:
    shape = shapes.shape("deepseek4-tiny", 3, [*SMALL[:-2], "expert_count=9", "expert_used_count=4"])
    random_model.write(tmp_path / "x.gguf", shape, Mix.of("q8_0"), fill="blocks")
    (table,) = (t for t in gguf.GGUFReader(tmp_path / "x.gguf").tensors if t.name == "blk.1.ffn_gate_tid2eid.weight")
    experts = np.asarray(table.data).reshape(280, 4)
    assert experts.min() >= 0 and experts.max() == 8
    assert all(len(set(row)) == 4 for row in experts.tolist())
    assert len({tuple(row) for row in experts.tolist()}) > 30


def test_layers_that_share_bytes_take_the_space_of_one_of_each_kind(tmp_path: Path) -> None:
    shape = shapes.shape("deepseek4-tiny", 12, SMALL)
    plain = random_model.write(tmp_path / "plain.gguf", shape, Mix.of("q8_0"))
    shared = random_model.write(tmp_path / "shared.gguf", shape, Mix.of("q8_0"), alias=True)
    assert shared.weight_bytes == plain.weight_bytes
    assert shared.stored_bytes < plain.stored_bytes / 4
    found = inventory.load(tmp_path / "shared.gguf")
    plan = bind.plan(found)
    assert len(plan.slots) == plain.tensors and found.aliased
    offsets = {slot.name: slot.offset for slot in plan.slots}
    assert offsets["blk.3.ffn_up_exps.weight"] == offsets["blk.9.ffn_up_exps.weight"]
    assert offsets["blk.3.attn_norm.weight"] != offsets["blk.9.attn_norm.weight"]


def test_a_drafting_block_can_be_asked_for(tmp_path: Path) -> None:
    plan = bind.plan(inventory.load(_write(tmp_path, drafting=True)))
    assert plan.hparams.dsv4 is not None and plan.hparams.dsv4.n_mtp == 1
    assert any(slot.name == "mtp.0.e_proj.weight" for slot in plan.slots)


@pytest.mark.parametrize("mix", ["q4_k", "f16", "q4_0"])
def test_llama_models_can_be_written_too(mix: str, tmp_path: Path) -> None:
    random_model.write(tmp_path / "x.gguf", shapes.shape("llama-tiny", 1, []), Mix.of(mix))
    found = inventory.load(tmp_path / "x.gguf")
    plan = bind.plan(found)
    assert (plan.hparams.family, plan.hparams.n_layer, plan.hparams.n_vocab) == (Family.LLAMA, 1, 512)
    assert {slot.type for slot in plan.slots if len(slot.dims) > 1} == {GgmlType[mix.upper()]}
    assert Tokenizer.from_metadata(found.metadata).n_vocab == 512


def test_a_vocabulary_of_another_file_can_be_taken(tmp_path: Path) -> None:
    first = _write(tmp_path, name="1.gguf", layers=2)
    second = _write(tmp_path, name="2.gguf", layers=2, tokenizer=first)
    one, two = (inventory.load(path).metadata for path in (first, second))
    assert {k: one[k] for k in one if k.startswith("tokenizer.")} == {k: two[k] for k in two if k.startswith("tok")}


@pytest.mark.parametrize(
    ("layers", "changes", "ratios"),
    [
        (None, [], [0, 0, 4, 128, 4, 128, 0]),
        (3, [], [0, 0, 4, 0]),
        (8, [], [0, 0, 4, 128, 4, 128, 4, 128, 0]),
        (None, ["attention.compress_ratios=0,0,4,128"], [0, 0, 4, 128, 0]),
        (2, ["attention.compress_ratios=4,128"], [4, 128, 0]),
    ],
)
def test_layers_and_ratios_go_together(layers: int | None, changes: list[str], ratios: list[int]) -> None:
    made = shapes.shape("deepseek4-tiny", layers, changes)
    assert made["attention.compress_ratios"] == ratios
    assert made["block_count"] == len(ratios) - 1
    for key in ("swiglu_clamp_exp", "swiglu_clamp_shexp"):
        assert made[key] == [10.0] * (len(ratios) - 1)
    assert int(made["hash_layer_count"]) <= len(ratios) - 1  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(shapes.SHAPES))
def test_every_shape_is_one_that_its_family_takes(name: str) -> None:
    from ds4.core.families import contract
    from ds4.perf.synth.convert import layout

    shape = shapes.shape(name, None, [])
    specs = layout(contract(str(shape["architecture"])), shapes.keys(shape))
    assert len(specs) > 20
    if name == "flash":
        assert len(specs) == 1328


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: shapes.shape("flesh", None, []), "did you mean flash"),
        (lambda: shapes.shape("flash", None, ["block_cuont=3"]), "did you mean block_count"),
        (lambda: shapes.shape("flash", None, ["block_count=x"]), "block_count=x: cannot use this value"),
        (lambda: shapes.shape("flash", None, ["expert_weights_norm=1"]), "cannot use this value"),
        (lambda: Mix.of("q9"), "no such mix"),
        (lambda: Mix.of("q8_0", ["dense=q9"]), "no such type"),
        (lambda: Mix.of("q8_0", ["dense"]), "no such type"),
    ],
)
def test_what_is_not_known_is_named(make: object, match: str) -> None:
    with pytest.raises(SettingsError, match=match):
        make()  # type: ignore[operator]


# ---- the file's writer


def test_data_of_another_size_than_the_tensors_is_refused_and_nothing_stays(tmp_path: Path) -> None:
    for pieces in ([bytes(8)], [bytes(16), bytes(1)]):
        with pytest.raises(ModelFileError) as caught:
            gguf_file.write(tmp_path / "x.gguf", {}, [Tensor("t", (4,), 0, lambda pieces=pieces: iter(pieces))])  # type: ignore[misc]
        assert (caught.value.code, caught.value.subject) == ("tensor_data", "t")
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dims", [(), (0,), (1, 1, 1, 1, 1), (33,)])
def test_dims_that_cannot_be_stored_are_refused(dims: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        gguf_file.write(tmp_path / "x.gguf", {}, [Tensor("t", dims, 8, lambda: iter([b""]))])
    assert caught.value.code == "tensor_dims"


def test_a_folder_that_is_not_there_is_an_error_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError) as caught:
        gguf_file.write(tmp_path / "no" / "x.gguf", {}, [])
    assert caught.value.code == "file_io"


# ---- the command


def test_the_command_writes_what_it_says(tmp_path: Path) -> None:
    argv = ("random", "--layers", "3", "--type", "q2", "--fill", "blocks", "-o", "x.gguf")
    done = run("ds4.perf.synth", *argv, home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "x.gguf: 88 tensors" in done.stdout
    assert bind.plan(inventory.load(tmp_path / "x.gguf")).hparams.n_layer == 3


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        ((), 0, "ds4-synth random"),
        (("random", "--help"), 0, "--shape"),
        (("random",), 2, "needs -o FILE"),
        (("convert", "-o", "x"), 2, "needs --hf DIR"),
        (("convert", "-o", "x", "--hf", "nowhere"), 3, "config.json: the file cannot be read"),
        (("random", "-o", "x", "--set", "expert_used_count=99"), 3, "deepseek4.expert_used_count: out of range"),
        (("melt",), 2, "unexpected argument"),
    ],
)
def test_the_command_says_what_is_wrong(argv: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    done = run("ds4.perf.synth", *argv, home=tmp_path)
    assert done.returncode == code
    assert said in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_without_numpy_the_command_says_so(tmp_path: Path) -> None:
    (tmp_path / "numpy.py").write_text("raise ModuleNotFoundError(\"No module named 'numpy'\", name='numpy')")
    path = os.pathsep.join([str(tmp_path), *(entry for entry in os.sys.path if entry)])  # type: ignore[attr-defined]
    done = run("ds4.perf.synth", "random", "-o", "x.gguf", home=tmp_path, PYTHONPATH=path)
    assert done.returncode == 2
    assert "ds4-synth needs numpy" in done.stderr
