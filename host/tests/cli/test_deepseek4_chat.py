"""`ds4` over ds4-mini and over a small model that drafts."""

from __future__ import annotations

import os
from pathlib import Path

import numpy
import pytest
from ds4.core import catalog
from ds4.errors import SettingsError
from support.commands import run

pytestmark = pytest.mark.skipif("DS4_LIBRARY" not in os.environ, reason="DS4_LIBRARY is not set")
CLI = "ds4.cli"


@pytest.fixture(scope="module")
def mini() -> str:
    try:
        return str(catalog.embedded_path("ds4-mini"))
    except SettingsError as error:
        pytest.skip(str(error))


def ds4(mini: str, *argv: str, home: Path, input: str = "") -> tuple[str, str]:
    done = run(CLI, "-m", "ds4-mini", "-t", "2", *argv, home=home, input=input, DS4_MINI_MODEL=mini)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_it_answers_and_what_it_thinks_goes_elsewhere(mini: str, tmp_path: Path) -> None:
    out, err = ds4(mini, "-p", "What is 12 + 30?", "--temp", "0", "--numeric", "float", home=tmp_path)
    assert out == "The result is 42.\n"
    assert err.startswith("I compute 12 + 30 digit by digit.\n") and "Result: 42\nprefill" in err
    out, err = ds4(mini, "-p", "Hello!", "--temp", "0", "--effort", "none", home=tmp_path)
    assert out == "Hello! How can I help you?\n" and err.startswith("prefill")
    out, err = ds4(mini, "-p", "What is 12 + 30?", "--temp", "0", "-q", home=tmp_path)
    assert out.startswith("The result is") and err == ""


def test_a_chat_goes_on_and_can_be_told_how_much_to_think(mini: str, tmp_path: Path) -> None:
    talk = "Hello!\n/think none\nWho are you?\n/think much\n"
    out, err = ds4(mini, "-i", "--temp", "0", input=talk, home=tmp_path)
    first, second = out.splitlines()
    assert first.startswith("Hello!") and "Mini" in second
    assert err.count("cached") == 1 and "thinking: none" in err and "/think needs one of" in err


def test_models_that_do_not_think_say_so(tmp_path: Path) -> None:
    from support.fake_chat import write_model

    model = write_model(tmp_path / "x.gguf")
    done = run(CLI, "-m", str(model), "-p", "a", "--effort", "high", "--dump-tokens", home=tmp_path)
    assert done.returncode != 0 and "does not think" in done.stderr


def test_a_user_cannot_type_markup(mini: str, tmp_path: Path) -> None:
    out, _ = ds4(mini, "-p", "<think>", "--dump-tokens", home=tmp_path)
    assert [line.split("\t")[0] for line in out.splitlines()].count("5") == 1


def test_residuals_are_dumped_for_every_position_and_layer(mini: str, tmp_path: Path) -> None:
    argv = ("--token-ids", "0,3,3010,9,4,6", "--numeric", "float")
    ds4(mini, *argv, "--dump-hidden", "h.npz", "-b", "4", home=tmp_path)
    ds4(mini, *argv, "--dump-hidden", "whole.npz", home=tmp_path)
    found, whole = numpy.load(tmp_path / "h.npz"), numpy.load(tmp_path / "whole.npz")
    assert sorted(found) == [f"h{i}" for i in range(7)]
    for name in found:
        assert found[name].shape == (6, 4, 256) and found[name].dtype == numpy.float32
        assert found[name].tobytes() == whole[name].tobytes()
    assert all((found["h0"][:, stream] == found["h0"][:, 0]).all() for stream in range(4))
    assert not (found["h1"] == found["h0"]).all()
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix != "") == ["h.npz", "whole.npz"]


def test_a_model_that_drafts_answers_as_it_does_without(tmp_path: Path) -> None:
    from ds4.perf.synth import random_model, shapes
    from ds4.perf.synth.mixes import Mix

    shape = shapes.shape("deepseek4-tiny", None, ())
    random_model.write(tmp_path / "x.gguf", shape, Mix.of("f32", ()), seed=4, drafting=True)
    argv = ("-m", "x.gguf", "-p", "abc", "--raw", "-n", "20", "--numeric", "float", "--seed", "1", "--temp", "1")
    plain, drafted = (run(CLI, *argv, *more, home=tmp_path) for more in ((), ("--draft",)))
    assert (plain.returncode, drafted.returncode) == (0, 0), drafted.stderr
    assert plain.stdout == drafted.stdout


def test_drafting_without_a_block_is_refused(mini: str, tmp_path: Path) -> None:
    done = run(CLI, "-m", "ds4-mini", "-p", "a", "--draft", home=tmp_path, DS4_MINI_MODEL=mini)
    assert done.returncode != 0 and "no drafting block" in done.stderr
