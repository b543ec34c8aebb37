"""The diagnostics over files of the deepseek4 family, one of them with its drafting block in a file of its own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from ds4.core.exits import EPILOG, Exit
from support import embedded
from support.commands import run
from support.gguf_writer import ARRAY, F32, I32, STRING, TYPE_I32, U32, GgufWriter, array, scalar, string
from support.tiny_deepseek4 import ARCH, drafting_tensors, tiny_deepseek4

CLI = "ds4.cli"


def whole() -> GgufWriter:
    """The tiny model with a vocabulary."""
    writer = tiny_deepseek4()
    letters = [chr(ord("a") + index) for index in range(24)]
    writer.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "joyai-llm")
    writer.array("tokenizer.ggml.tokens", STRING, letters).array("tokenizer.ggml.token_type", I32, [1] * 24)
    return writer.array("tokenizer.ggml.merges", STRING, [])


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    whole().write(tmp_path / "x.gguf")
    drafting = GgufWriter().string("general.architecture", ARCH)
    drafting.tensors += drafting_tensors()
    drafting.write(tmp_path / "x-mtp.gguf")


def test_every_diagnostic_speaks_of_the_family(tmp_path: Path) -> None:
    argv = ("-m", "x.gguf", "--identify", "--validate", "--layout", "--bind-plan", "--json")
    done = run(CLI, *argv, home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["identity"]["family"], told["identity"]["supported"]) == ("deepseek4", True)
    assert told["validate"]["valid"] and told["validate"]["slots"] == len(told["bind_plan"]["slots"])
    assert told["layout"]["hparams"]["ratios"] == [0, 0, 4, 128, 4]
    assert told["bind_plan"]["hparams"]["n_expert"] == 6
    accepted = {slot["name"]: slot["accepted"] for slot in told["layout"]["slots"]}
    assert "IQ2_XXS" in accepted["blk.0.ffn_gate_exps.weight"] and accepted["blk.0.ffn_gate_tid2eid.weight"] == ["I32"]


def test_the_layout_names_lists_in_short(tmp_path: Path) -> None:
    done = run(CLI, "-m", "x.gguf", "--layout", home=tmp_path)
    assert "ratios              0 0 4 128 4\n" in done.stdout
    assert "clamp_experts       10 in each of 5\n" in done.stdout


def test_a_drafting_block_in_a_file_of_its_own_is_bound_with_the_model(tmp_path: Path) -> None:
    done = run(CLI, "-m", "x.gguf", "--mtp", "x-mtp.gguf", "--bind-plan", "--json", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    plan = json.loads(done.stdout)
    assert [Path(shard["path"]).name for shard in plan["shards"]] == ["x.gguf", "x-mtp.gguf"]
    assert {slot["shard"] for slot in plan["slots"] if slot["layer"] == 5} == {1}


def test_a_file_without_one_is_refused_as_such(tmp_path: Path) -> None:
    done = run(CLI, "-m", "x.gguf", "--mtp", "x.gguf", "--bind-plan", home=tmp_path)
    assert done.returncode == 3
    assert "x.gguf: no drafting block in x.gguf (expected mtp.0.* or blk.L.nextn.*, found neither)" in done.stderr


def _put(key: str, kind: int, payload: bytes) -> Callable[[GgufWriter], object]:
    return lambda w: w.without(key).raw(key, kind, payload)


TABLE = "blk.1.ffn_gate_tid2eid.weight"
MALFORMED: dict[str, tuple[Callable[[GgufWriter], object], Exit, str]] = {
    "a key is missing": (
        lambda w: w.without(f"{ARCH}.expert_count"),
        Exit.MODEL_FILE,
        "deepseek4.expert_count: the key is missing, in x.gguf (expected u32, found nothing)",
    ),
    "a key is of another type": (
        _put(f"{ARCH}.expert_count", F32, scalar(F32, 6.0)),
        Exit.MODEL_FILE,
        "deepseek4.expert_count: wrong type, in x.gguf (expected u32, found f32)",
    ),
    "a key is out of range": (
        _put(f"{ARCH}.hyper_connection.count", U32, scalar(U32, 17)),
        Exit.MODEL_FILE,
        "deepseek4.hyper_connection.count: out of range (expected 1..16, found 17)",
    ),
    "a shape that is not served": (
        _put(f"{ARCH}.attention.head_count_kv", U32, scalar(U32, 2)),
        Exit.UNSUPPORTED,
        "deepseek4.attention.head_count_kv: heads share one latent row (expected 1, found 2)",
    ),
    "a tensor is missing": (
        lambda w: w.drop("output.weight"),
        Exit.MODEL_FILE,
        "output.weight: a required tensor is missing",
    ),
    "a tensor is of another type": (
        lambda w: w.change("output_norm.weight", type=TYPE_I32),
        Exit.UNSUPPORTED,
        "output_norm.weight: a tensor type that this slot does not take (expected F32, found I32)",
    ),
    "a table routes to no expert": (
        lambda w: w.change(TABLE, data=bytes(4 * 47) + b"\xff\xff\xff\xff"),
        Exit.MODEL_FILE,
        f"{TABLE}: token 23 is routed to no expert (expected 0..5, found -1)",
    ),
    "a merge joins to no token": (
        _put("tokenizer.ggml.merges", ARRAY, array(STRING, ["a b"])),
        Exit.MODEL_FILE,
        "tokenizer.ggml.merges[0]: the merges do not fit the vocabulary",
    ),
    "a pre-tokenizer that is not known": (
        _put("tokenizer.ggml.pre", STRING, string("none-such")),
        Exit.MODEL_FILE,
        "tokenizer.ggml.pre: unknown pre-tokenizer",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_validate_says_what_is_wrong_in_one_line_and_ends_with_the_documented_code(name: str, tmp_path: Path) -> None:
    change, code, line = MALFORMED[name]
    writer = whole()
    change(writer)
    writer.write(tmp_path / "x.gguf")
    done = run(CLI, "-m", "x.gguf", "--validate", home=tmp_path)
    assert (done.returncode, done.stdout) == (code, "")
    assert line in done.stderr and done.stderr.count("\n") == 1
    assert f"\n  {int(code)} " in EPILOG


@pytest.mark.parametrize("content", [b"", b"GGUF", b"\x89PNG\r\n\x1a\n" * 9, b"GGUF" + b"\xff" * 64])
def test_a_drafting_file_that_is_none_is_refused_with_its_own_line(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "x-mtp.gguf").write_bytes(content)
    done = run(CLI, "-m", "x.gguf", "--mtp", "x-mtp.gguf", "--validate", home=tmp_path)
    assert (done.returncode, done.stdout) == (Exit.MODEL_FILE, "")
    assert "x-mtp.gguf" in done.stderr and done.stderr.count("\n") == 1


@embedded.needs_mini
def test_a_family_with_an_encoding_of_its_own_has_no_dialect_to_choose(tmp_path: Path) -> None:
    model = str(embedded.mini())
    done = run("ds4.cli", "-p", "hi", "--dump-tokens", "-m", model, "--tool-dialect", "hermes", home=tmp_path)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert "--tool-dialect: cannot be chosen for this model" in done.stderr
