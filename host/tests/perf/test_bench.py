"""ds4-bench as a process, over the real engine and the embedded model."""

from __future__ import annotations

import csv
import io
import json
import os
from pathlib import Path

import pytest
from ds4.core.settings import GENERAL, Program
from ds4.core.settings_help import render
from ds4.perf.bench import PROGRAM
from ds4.perf.sweep import COLUMNS
from support.commands import run
from syrupy.assertion import SnapshotAssertion

BENCH = "ds4.perf.bench"
MODEL = os.path.abspath(os.environ.get("DS4_EMBEDDED_MODEL", "."))
needs_engine = pytest.mark.skipif(
    not (os.environ.get("DS4_LIBRARY") and os.path.isfile(MODEL)), reason="needs the engine and the embedded model"
)


def bench(*argv: str, home: Path) -> str:
    done = run(BENCH, *argv, home=home, DS4_EMBEDDED_MODEL=MODEL)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_help(snapshot: SnapshotAssertion) -> None:
    program = Program(**{**PROGRAM.__dict__, "options": (*PROGRAM.options, *GENERAL)})
    assert render(program, 100) == snapshot


def test_the_two_modes_do_not_mix_and_nothing_to_measure_is_a_mistake(tmp_path: Path) -> None:
    for argv, said in (
        (("--pp", "8", "--ctx-max", "64"), "--ctx-max and --pp: the sweep and the quick measure do not go together"),
        (("--pp", "0", "--tg", "0"), "nothing to measure"),
    ):
        model = tmp_path / "any.gguf"
        model.write_bytes(b"")
        done = run(BENCH, *argv, home=tmp_path, DS4_EMBEDDED_MODEL=str(model))
        assert done.returncode == 2
        assert said in done.stderr


@needs_engine
def test_the_quick_measure_prints_a_row_for_each_test_and_depth(tmp_path: Path) -> None:
    out = bench("--pp", "8", "--tg", "3", "-d", "0,16", "-r", "2", home=tmp_path)
    names = [line.split("  ")[0] for line in out.splitlines()[4:]]
    assert names == ["pp8", "tg3", "pp8 @ d16", "tg3 @ d16"]


@needs_engine
def test_json_tells_what_was_measured_and_how(tmp_path: Path) -> None:
    rows = json.loads(bench("--pp", "0", "--tg", "3", "-r", "3", "-t", "1", "--bandwidth", "--json", home=tmp_path))
    (row,) = rows
    assert (row["test"], row["threads"], row["kv"], row["numeric"]) == ("tg3", 1, "f16", "ship")
    assert len(row["seconds"]) == 3
    rates = row["tokens_per_second"]
    assert 0 < rates["min"] <= rates["median"] <= rates["max"]
    assert 0 < row["bandwidth_fraction"] < 2
    assert row["active_bytes"] > 50e6


@needs_engine
def test_a_sweep_writes_a_row_for_each_frontier_and_its_logits(tmp_path: Path) -> None:
    argv = ("--ctx-start", "16", "--ctx-max", "40", "--step-incr", "16", "-n", "3", "--csv", "out.csv")
    assert bench(*argv, "--dump-frontier-logits-dir", "logits", home=tmp_path) == ""
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text())))
    assert tuple(rows[0]) == COLUMNS
    assert [(row["ctx_tokens"], row["prefill_tokens"], row["gen_tokens"]) for row in rows] == [
        ("16", "16", "3"),
        ("32", "16", "3"),
        ("40", "8", "3"),
    ]
    assert all(float(row["prefill_tps"]) > 0 and float(row["gen_tps_ss"]) > 0 for row in rows)
    assert [int(row["kvcache_bytes"]) for row in rows] == sorted(int(row["kvcache_bytes"]) for row in rows)
    assert len(list((tmp_path / "logits").iterdir())) == 3


@needs_engine
def test_a_frontier_reached_in_parts_has_the_logits_of_one_reached_at_once(tmp_path: Path) -> None:
    parts = ("--ctx-start", "16", "--ctx-max", "48", "--step-incr", "16", "-n", "4", "--numeric", "float")
    whole = ("--ctx-start", "48", "--ctx-max", "48", "-n", "0", "--numeric", "float")
    bench(*parts, "--dump-frontier-logits-dir", "parts", home=tmp_path)
    bench(*whole, "--dump-frontier-logits-dir", "whole", home=tmp_path)
    name = "frontier_000048.logits.json"
    a, b = (json.loads((tmp_path / folder / name).read_text()) for folder in ("parts", "whole"))
    assert a["logits"] == b["logits"]


@needs_engine
def test_a_text_that_is_too_short_says_so(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("A few words.")
    done = run(BENCH, "--prompt-file", "short.txt", "--ctx-max", "64", home=tmp_path, DS4_EMBEDDED_MODEL=MODEL)
    assert done.returncode == 2
    assert "the text is too short (expected 64 tokens" in done.stderr
