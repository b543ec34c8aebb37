"""The command line over the real engine and the embedded model."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy
import pytest
from support.commands import run

MODEL = os.path.abspath(os.environ.get("DS4_EMBEDDED_MODEL", "."))
CLI = "ds4.cli"

pytestmark = pytest.mark.skipif(
    not (os.environ.get("DS4_LIBRARY") and os.path.isfile(MODEL)), reason="needs the engine and the embedded model"
)


def ds4(*argv: str, home: Path, input: str = "") -> tuple[str, str]:
    done = run(CLI, *argv, home=home, input=input, DS4_EMBEDDED_MODEL=MODEL)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_the_embedded_model_answers_a_question(tmp_path: Path) -> None:
    out, err = ds4("-p", "What is the capital of France?", "--temp", "0", "--numeric", "float", home=tmp_path)
    assert "Paris" in out
    assert re.fullmatch(r"prefill \d+ tok [\d.]+ tok/s, generated \d+ tok [\d.]+ tok/s\n", err)


def test_equal_seeds_give_equal_answers_and_others_do_not(tmp_path: Path) -> None:
    argv = ("-p", "Tell me a story.", "-n", "24", "--temp", "1", "-q")
    first, again, other = (ds4(*argv, "--seed", seed, home=tmp_path)[0] for seed in ("1", "1", "2"))
    assert first == again != other


def test_predict_continues_with_the_argmax_of_the_dumped_logits(tmp_path: Path) -> None:
    ids = [504, 3575, 282, 4649, 314]
    argv = ("--numeric", "float", "--kv", "f32")
    out, _ = ds4("--token-ids", ",".join(map(str, ids)), "--predict", "4", *argv, home=tmp_path)
    drawn = [int(token) for token in out.split(",")]
    assert len(drawn) == 4
    longer = ",".join(map(str, ids + drawn))
    ds4("--token-ids", longer, "--dump-logits", "x.npy", *argv, home=tmp_path)
    logits = numpy.load(tmp_path / "x.npy")
    assert logits.dtype == numpy.float32
    assert logits.shape == (9, 49152)
    assert logits.argmax(axis=1)[4:8].tolist() == drawn


def test_float_logits_do_not_depend_on_the_width_of_a_step_or_on_threads(tmp_path: Path) -> None:
    ids = ",".join(str(7 * n % 1000) for n in range(1, 40))
    found = []
    for name, argv in {"a": ("-t", "1"), "b": ("--batch", "1"), "c": ("--batch", "7", "-t", "2")}.items():
        ds4("--token-ids", ids, "--dump-logits", f"{name}.npy", "--numeric", "float", *argv, home=tmp_path)
        found.append(numpy.load(tmp_path / f"{name}.npy").tobytes())
    assert len(set(found)) == 1


def test_dumped_log_probabilities_are_sorted_and_hold_the_drawn_token(tmp_path: Path) -> None:
    ds4("-p", "Hello", "--dump-logprobs", "x.json", "--logprobs-top-k", "5", "-n", "6", home=tmp_path)
    value = json.loads((tmp_path / "x.json").read_text())
    assert 1 <= len(value["steps"]) <= 6
    assert value["steps"][0]["position"] == len(value["prompt_tokens"])
    for step in value["steps"]:
        alternatives = [entry["logprob"] for entry in step["top"]]
        assert len(alternatives) == 5
        assert alternatives == sorted(alternatives, reverse=True)
        assert all(logprob <= 0 for logprob in alternatives)
        assert (step["token"], step["logprob"]) == (step["top"][0]["token"], step["top"][0]["logprob"])


@pytest.mark.parametrize("ways", [("-p", "x"), ("-i",), ("-p", "x", "--dump-tokens")])
def test_an_effort_that_the_model_cannot_make_is_told_of_the_flag(ways: tuple[str, ...], tmp_path: Path) -> None:
    done = run(CLI, *ways, "--effort", "high", home=tmp_path, DS4_EMBEDDED_MODEL=MODEL)
    said = "ds4: --effort high: this model does not think before it answers\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)


def test_a_file_that_is_no_trace_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello", encoding="utf-8")
    done = run(CLI, "--replay", "notes.txt", home=tmp_path, DS4_EMBEDDED_MODEL=MODEL)
    assert done.returncode == 1
    assert "/notes.txt: no trace that can be replayed: cut short: its last line has no end" in done.stderr


def test_ids_outside_the_vocabulary_are_refused(tmp_path: Path) -> None:
    done = run(CLI, "--token-ids", "1,49152", "--predict", "1", home=tmp_path, DS4_EMBEDDED_MODEL=MODEL)
    assert done.returncode == 2
    assert "expected ids in 0..49151, at least one, found 49152" in done.stderr


def test_the_second_turn_of_a_chat_computes_only_what_is_new(tmp_path: Path) -> None:
    question = "My name is Ann. Say hello."
    _, err = ds4("-i", "--temp", "0", "-n", "12", home=tmp_path, input=f"{question}\nWhat is my name?\n")
    first, second = re.findall(r"prefill (\d+) tok", err)
    assert int(second) < int(first)
    assert re.search(r"\(\d+ cached\)", err)
