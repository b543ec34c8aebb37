"""The commands as processes: exit codes, where text goes, and that looking at a file needs no engine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from support.commands import environment, run

CLI = "ds4.cli"
MODEL = os.environ.get("DS4_EMBEDDED_MODEL", "")
needs_model = pytest.mark.skipif(not MODEL, reason="DS4_EMBEDDED_MODEL names no model")


def string(text: str) -> bytes:
    return len(text).to_bytes(8, "little") + text.encode()


def gguf(architecture: str) -> bytes:
    """A well-formed file of no tensors."""
    key = string("general.architecture") + (8).to_bytes(4, "little") + string(architecture)
    return b"GGUF" + (3).to_bytes(4, "little") + bytes(8) + (1).to_bytes(8, "little") + key + bytes(64)


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    file = tmp_path / "foreign.gguf"
    file.write_bytes(gguf("mamba"))
    return file


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["--bogus"], 2, "ds4: --bogus: unknown option"),
        (["--temp", "hot"], 2, "ds4: --temp: cannot use this value (expected a number in 0..100, found 'hot')"),
        (["-n", "1,2,3", "-p", "x"], 2, "one number; a list of ids goes to --token-ids"),
        (["-p", "x", "--prompt-file", "y"], 2, "ds4: --prompt and --prompt-file: only one prompt can be given"),
        (["-m", "no-such-model", "-p", "x"], 2, "ds4: no-such-model: no such model or file"),
        (["--identify", "-m", "broken.gguf"], 3, "ds4: magic: not a GGUF file"),
        (["--validate", "-m", "foreign.gguf"], 4, "not supported (expected llama or smollm3 or "),
        (["-p", "x", "-m", "foreign.gguf"], 4, "this architecture is not supported"),
        (["-p", "x", "-m", "broken.gguf"], 3, "ds4: magic: not a GGUF file"),
        (["completion", "tcsh"], 2, "expected bash, zsh, fish, found 'tcsh'"),
        (["models", "--model-dir", "gone"], 2, "no such folder"),
        (["--config", "/dev/zero", "-p", "x"], 2, "/dev/zero: larger than 1048576 bytes, so no configuration file"),
        (
            ["--prompt-file", "/dev/zero"],
            2,
            "/dev/zero: the text is too large (expected at most 67108864 bytes, found more)",
        ),
        (["--prompt-file", "gone"], 2, "/gone: cannot read it: No such file or directory"),
        (
            ["-p", "x", "--stop", ""],
            2,
            "ds4: --stop: cannot use this value (expected text that is not empty, found '')",
        ),
        (["-p", "x", "--model-dir", "gone"], 2, "/gone: no such folder"),
        (["sevre"], 2, "ds4: sevre: no such command; did you mean serve?"),
        (["Hello there"], 2, "ds4: Hello there: no such command; a prompt is given with -p, a model with -m"),
        (["serve", "model.gguf"], 2, "unexpected argument; a model is named with -m, and --help lists what is taken"),
        (["-m", "/dev/zero", "-p", "x"], 2, "/dev/zero: neither a model's name nor a regular file"),
        (["-m", "~nobody-has-this-name/x.gguf", "-p", "x"], 2, "there is no such home"),
        (["--token-ids", "1,2"], 2, "--token-ids: needs --predict, --dump-logits, --dump-hidden or --dump-logprobs"),
        (["--token-ids", "1_0", "--predict", "1"], 2, "expected integers >= 0 separated by commas, found '1_0'"),
        (["-p", "caf\udce9"], 2, "ds4: -p: cannot use this value (expected text in UTF-8"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_its_code(
    argv: list[str], code: int, said: str, tmp_path: Path, foreign: Path
) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"not a model at all")
    done = run(CLI, *argv, home=tmp_path)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_an_unsupported_model_is_still_identified(tmp_path: Path, foreign: Path) -> None:
    done = run(CLI, "--identify", "--json", "-m", str(foreign), home=tmp_path)
    assert done.returncode == 0
    value = json.loads(done.stdout)
    assert (value["architecture"], value["supported"]) == ("mamba", False)


def test_models_lists_what_is_supported_and_why_something_is_not(tmp_path: Path, foreign: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"junk")
    done = run(CLI, "models", "--model-dir", ".", home=tmp_path)
    assert done.returncode == 0
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert "no: general.architecture: this architecture is not supported" in rows["foreign"]
    assert "no: " in rows["broken"]
    listed = json.loads(run(CLI, "models", "--model-dir", ".", "--json", home=tmp_path).stdout)
    assert [row["id"] for row in listed if row["origin"] != "embedded"] == ["broken", "foreign"]
    names = run(CLI, "models", "--model-dir", ".", "--names", home=tmp_path).stdout
    assert names.endswith("broken\nforeign\n")


def test_models_marks_the_embedded_one(tmp_path: Path, foreign: Path) -> None:
    done = run(CLI, "models", "--json", home=tmp_path, DS4_EMBEDDED_MODEL=str(foreign))
    row = json.loads(done.stdout)[0]
    assert (row["id"], row["origin"]) == ("smollm2-135m-instruct", "embedded")


def test_an_empty_pipe_is_not_a_prompt(tmp_path: Path, foreign: Path) -> None:
    done = run(CLI, "-m", str(foreign), home=tmp_path)
    assert done.returncode == 2
    assert "no prompt: standard input is empty" in done.stderr


def test_a_prompt_that_is_not_utf_8_is_refused(tmp_path: Path, foreign: Path) -> None:
    done = run(CLI, "-m", str(foreign), home=tmp_path, input=b"caf\xe9")
    assert done.returncode == 2
    assert "standard input: the text is not UTF-8" in done.stderr


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_standard_stream_is_no_traceback_and_no_place_for_other_files(closed: int, tmp_path: Path) -> None:
    words = f"exec {closed}>&-; exec {shlex.quote(sys.executable)} -m {CLI} "
    for argv, code in (("--version", 0), ("--no-such-option", 2), ("", 2)):
        done = subprocess.run(
            ["sh", "-c", words + argv], capture_output=True, env=environment(tmp_path), cwd=tmp_path, timeout=60,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr


@needs_model
def test_what_a_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    env = {"DS4_EMBEDDED_MODEL": os.path.abspath(MODEL), "PYTHONIOENCODING": "latin-1"}
    done = run(CLI, "--tokenize", "a →", home=tmp_path, **env)
    assert done.returncode == 0, done.stderr
    assert "\\u2192" in done.stdout


@needs_model
def test_arguments_are_utf_8_whatever_the_locale(tmp_path: Path) -> None:
    model = {"DS4_EMBEDDED_MODEL": os.path.abspath(MODEL)}
    locale = {**model, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    plain, odd = (run(CLI, "--tokenize", "é 你", "--json", home=tmp_path, **env) for env in (model, locale))
    assert plain.returncode == odd.returncode == 0
    assert json.loads(plain.stdout) == json.loads(odd.stdout)


def test_a_home_that_is_no_folder_has_no_configuration(tmp_path: Path, foreign: Path) -> None:
    done = run(CLI, "--identify", "-m", str(foreign), home=tmp_path, HOME="/dev/null")
    assert done.returncode == 0, done.stderr


def test_version_and_help_succeed_on_stdout(tmp_path: Path) -> None:
    done = run(CLI, "--version", home=tmp_path)
    assert (done.returncode, done.stdout) == (0, "ds4 0.1.0\n")
    for argv in (["--help"], ["-h"], ["help"], ["models", "--help"]):
        done = run(CLI, *argv, home=tmp_path)
        assert done.returncode == 0
        assert "Usage:" in done.stdout
        assert done.stderr == ""


def test_a_reader_that_goes_away_is_no_traceback(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", CLI, "--help"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(tmp_path, PYTHONUNBUFFERED="1"),
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait() == 141


_WITHOUT_ENGINE = """
import sys
from ds4.cli.main import main
code = main(sys.argv[1:])
without = {"ds4.sys.descriptors", "ds4.sys.oracles", "ds4.sys.tape"}
engine = [name for name in sys.modules if name.startswith("ds4.sys.") and name not in without]
assert not engine, engine
sys.exit(code)
"""


@needs_model
@pytest.mark.parametrize(
    "argv",
    [
        ["--identify"],
        ["--inventory"],
        ["--validate"],
        ["--layout"],
        ["--bind-plan"],
        ["--tokenize", "Hello, world"],
        ["--dump-tokens", "-p", "Hello"],
        ["models"],
        ["--identify", "--inventory", "--validate", "--layout", "--bind-plan", "--tokenize", "x", "--json"],
    ],
    ids=lambda argv: argv[0] + ("-and-more" if len(argv) > 3 else ""),
)
def test_looking_at_a_file_never_loads_the_engine(argv: list[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_ENGINE, *argv],
        capture_output=True,
        text=True,
        env=environment(tmp_path, DS4_EMBEDDED_MODEL=os.path.abspath(MODEL)),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout


@needs_model
def test_tokenize_tells_special_tokens_only_when_asked(tmp_path: Path) -> None:
    model = os.path.abspath(MODEL)
    plain = run(CLI, "--tokenize", "<|im_end|>", "--json", home=tmp_path, DS4_EMBEDDED_MODEL=model)
    special = run(
        CLI, "--tokenize", "-", "--special", "--json", home=tmp_path, input="<|im_end|>", DS4_EMBEDDED_MODEL=model
    )
    assert json.loads(special.stdout) == {"count": 1, "tokens": [2], "pieces": ["<|im_end|>"]}
    value = json.loads(plain.stdout)
    assert 2 not in value["tokens"]
    assert "".join(value["pieces"]) == "<|im_end|>"


@needs_model
def test_dump_tokens_goes_through_the_chat_template_unless_raw(tmp_path: Path) -> None:
    model = os.path.abspath(MODEL)
    chat = run(CLI, "--dump-tokens", "-p", "Hi", home=tmp_path, DS4_EMBEDDED_MODEL=model).stdout
    raw = run(CLI, "--dump-tokens", "-p", "Hi", "--raw", home=tmp_path, DS4_EMBEDDED_MODEL=model).stdout
    assert "<|im_start|>" in chat
    assert [json.loads(line.split("\t")[1]) for line in raw.splitlines()] == ["Hi"]
