"""Completion scripts that shells accept and that offer what the declarations say."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from ds4.cli.arguments import MODELS_PROGRAM, PROGRAM
from ds4.cli.complete import script
from ds4.errors import SettingsError
from ds4.perf import bench

PROGRAMS = {"ds4": PROGRAM, "ds4 models": MODELS_PROGRAM, "ds4-bench": bench.PROGRAM, "ds4 bench": bench.PROGRAM}


def bash(*words: str, tmp_path: Path) -> list[str]:
    """What bash offers for the last word."""
    file = tmp_path / "ds4.bash"
    file.write_text(script("bash", PROGRAMS))
    quoted = " ".join(f"'{word}'" for word in words)
    commands = (
        f'source {file}; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _ds4; printf "%s\\n" "${{COMPREPLY[@]}}"'
    )
    done = subprocess.run(["bash", "-c", commands], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["ds4", "--to"], ["--tokens", "--tool-dialect", "--top-p", "--top-k", "--token-ids", "--tokenize"]),
        (["ds4", "--kv", ""], ["f32", "f16", "q8_0"]),
        (["ds4", "--numeric", "f"], ["float"]),
        (["ds4", "mo"], ["models"]),
        (["ds4", "completion", ""], ["bash", "zsh", "fish"]),
        (["ds4", "models", "--model"], ["--model-dir"]),
        (["ds4", "models", "ver"], ["verify"]),
        (["ds4", "bench", "--ctx-s"], ["--ctx-start"]),
        (["/usr/bin/ds4-bench", "--step"], ["--step-incr", "--step-mul"]),
        (["ds4", "-p", ""], []),
    ],
)
def test_bash_offers_flags_values_and_verbs(words: list[str], offered: list[str], tmp_path: Path) -> None:
    assert sorted(bash(*words, tmp_path=tmp_path)) == sorted(offered)


def test_bash_completes_files_where_a_file_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "prompt.txt").touch()
    assert bash("ds4", "--prompt-file", "pro", tmp_path=tmp_path) == ["prompt.txt"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_parse_their_script(shell: str, tmp_path: Path) -> None:
    text = script(shell, PROGRAMS)
    assert "--kv" in text or "-l kv" in text
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    file = tmp_path / "script"
    file.write_text(text)
    subprocess.run([shell, "-n", str(file)], check=True)


def test_an_unknown_shell_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="expected bash, zsh, fish, found 'tcsh'"):
        script("tcsh", PROGRAMS)
