"""The diagnostics over files of the deepseek4 family, one of them with its drafting block in a file of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import run
from support.gguf_writer import I32, STRING, GgufWriter
from support.tiny_deepseek4 import ARCH, drafting_tensors, tiny_deepseek4

CLI = "ds4.cli"


@pytest.fixture(autouse=True)
def files(tmp_path: Path) -> None:
    writer = tiny_deepseek4()
    letters = [chr(ord("a") + index) for index in range(24)]
    writer.string("tokenizer.ggml.model", "gpt2").string("tokenizer.ggml.pre", "joyai-llm")
    writer.array("tokenizer.ggml.tokens", STRING, letters).array("tokenizer.ggml.token_type", I32, [1] * 24)
    writer.array("tokenizer.ggml.merges", STRING, []).write(tmp_path / "x.gguf")
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
