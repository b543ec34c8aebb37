"""A model's file that somebody writes to while it is loaded."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import httpx
import pytest
from ds4.core import catalog
from ds4.errors import ModelFileError, SettingsError
from ds4.server.weights_watch import WeightsWatch
from support import embedded
from support.mini_server import started


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"x" * 1000)
    return path


def test_a_file_that_is_cut_or_written_to_is_named(file: Path) -> None:
    watch = WeightsWatch([file])
    assert watch.change() is None
    os.utime(file, ns=(1, 1))
    assert "later time" in str(watch.change())
    os.truncate(file, 10)
    told = str(watch.change())
    assert str(file) in told and "found 10 bytes" in told
    watch.close()
    assert watch.change() is None


def test_a_file_that_is_replaced_or_deleted_is_still_what_was_loaded(file: Path) -> None:
    watch = WeightsWatch([file])
    other = file.with_suffix(".new")
    other.write_bytes(b"another")
    other.rename(file)
    assert watch.change() is None
    file.unlink()
    assert watch.change() is None
    watch.close()


def test_a_file_that_is_gone_before_it_is_loaded_leaves_nothing_open(file: Path) -> None:
    before = os.listdir("/proc/self/fd")
    with pytest.raises(ModelFileError, match="none.gguf"):
        WeightsWatch([file, file.with_name("none.gguf")])
    assert len(os.listdir("/proc/self/fd")) == len(before)


@pytest.fixture
def mini(tmp_path: Path) -> Path:
    try:
        return Path(shutil.copy(catalog.embedded_path("ds4-mini"), tmp_path / "mini.gguf"))
    except SettingsError as error:
        pytest.skip(str(error))


@embedded.needs_engine
def test_a_server_whose_model_was_cut_ends_with_the_reason_instead_of_a_fault(mini: Path) -> None:
    with started("ship", "-m", str(mini)) as (process, url):
        os.truncate(mini, 1000)
        try:
            answer = httpx.post(url + "/completions", json={"prompt": "hello", "max_tokens": 4}, timeout=30)
            assert answer.status_code == 503
        except httpx.TransportError:
            pass  # it has noticed by itself, and ended
        assert process.wait(20) == 3


@embedded.needs_engine
def test_of_several_models_one_that_was_cut_goes_and_the_server_stays(mini: Path) -> None:
    with started("ship", "--model-dir", str(mini.parent), "--models-max", "2", "-c", "1024") as (process, url):

        def say(model: str) -> httpx.Response:
            return httpx.post(url + "/completions", json={"model": model, "prompt": "a", "max_tokens": 2}, timeout=30)

        assert say("mini").status_code == 200
        os.truncate(mini, 1000)
        assert say("mini").status_code == 503
        assert say("ds4-mini").status_code == 200
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.1)
