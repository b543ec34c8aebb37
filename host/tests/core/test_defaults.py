"""Sampling: asked for, recommended by the file, or the program's fallback, value by value."""

from __future__ import annotations

from pathlib import Path

import pytest
from ds4.core import gguf
from ds4.core.defaults import sampling
from ds4.core.metadata import Metadata
from ds4.core.options import SAMPLING_OPTIONS
from ds4.core.sampling import Sampling
from ds4.core.settings import Program, Settings, load
from ds4.errors import ModelFileError, SamplingError
from support.gguf_writer import F32, I32, U32, GgufWriter

PROGRAM = Program("x", "cli", "", (), SAMPLING_OPTIONS)
FALLBACK = Sampling(temperature=0.8, top_p=0.95, min_p=0.05)


def settings(*argv: str) -> Settings:
    return load(PROGRAM, argv, env={"XDG_CONFIG_HOME": "/nowhere"})


def metadata(path: Path, **keys: tuple[int, float]) -> Metadata:
    writer = GgufWriter()
    for name, (kind, value) in keys.items():
        writer.number(f"general.sampling.{name}", kind, value)
    return gguf.read(writer.write(path)).metadata


def test_without_advice_the_fallback_holds(tmp_path: Path) -> None:
    assert sampling(settings(), metadata(tmp_path / "m"), FALLBACK) == FALLBACK


def test_the_file_s_advice_beats_the_fallback_and_a_flag_beats_both(tmp_path: Path) -> None:
    advice = metadata(tmp_path / "m", temp=(F32, 0.5), top_k=(I32, 7), penalty_repeat=(F32, 1.25))
    found = sampling(settings("--top-k", "0"), advice, FALLBACK)
    assert (found.temperature, found.top_k, found.repetition_penalty, found.top_p) == (0.5, 0, 1.25, 0.95)


def test_bad_advice_is_refused_by_key(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"general\.sampling\.temp"):
        sampling(settings(), metadata(tmp_path / "m", temp=(U32, 1)), FALLBACK)
    with pytest.raises(SamplingError, match="temperature"):
        sampling(settings(), metadata(tmp_path / "m", temp=(F32, float("nan"))), FALLBACK)
