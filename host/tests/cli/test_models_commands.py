"""The verbs of `ds4 models` as a person types them, against a server of this machine."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from ds4.cli.main import main
from support import commands
from support.faulty_server import Served, Server, serving
from support.gguf_writer import GgufWriter

CLI = "ds4.cli"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def model(tmp_path: Path) -> bytes:
    writer = GgufWriter()
    writer.string("general.architecture", "mamba").string("general.name", "A model")
    file = tmp_path / "made.bin"
    writer.write(file)
    data = file.read_bytes()
    file.unlink()
    return data


def run(tmp_path: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    """`ds4 models words...` typed in tmp_path, which is home too; in this process, as starting one takes longest."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        for name in [name for name in os.environ if name.startswith(("DS4_", "XDG_", "HF_", "PIP_", "BUILD_"))]:
            patch.delenv(name)
        for name, value in {"HOME": str(tmp_path), "DS4_CALLER_DIR": str(tmp_path), "no_proxy": "*", **env}.items():
            patch.setenv(name, value)
        patch.setattr("sys.stdin", io.StringIO(""))
        try:
            code = main(["models", *words])
        except SystemExit as end:
            code = int(end.code or 0)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def folder(tmp_path: Path) -> Path:
    return tmp_path / ".local" / "share" / "ds4" / "models"


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_the_command_by_itself_fetches_a_model(tmp_path: Path, server: Server, model: bytes) -> None:
    server.paths["/tiny.gguf"] = Served(model)
    done = commands.run(CLI, "models", "get", f"{server.base}/tiny.gguf", home=tmp_path, no_proxy="*")
    assert (done.returncode, done.stdout) == (0, f"{folder(tmp_path) / 'tiny.gguf'}\nsha256 {sha256(model)}\n")


def test_ctrl_c_ends_the_command_and_the_next_goes_on(tmp_path: Path, server: Server, model: bytes) -> None:
    body = model + bytes(40 << 20)
    server.paths["/tiny.gguf"] = Served(body, cuts=[1 << 20] + [0] * 20)
    argv = [sys.executable, "-m", CLI, "models", "get", f"{server.base}/tiny.gguf"]
    env = commands.environment(tmp_path, no_proxy="*")
    process = subprocess.Popen(argv, env=env, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    part = folder(tmp_path) / ".fetching" / "tiny.gguf.part"
    while not part.exists() or part.stat().st_size < 1 << 20:  # then it waits, to try again
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "what was fetched is kept" in err
    assert "Traceback" not in err
    server.paths["/tiny.gguf"].cuts = []
    assert run(tmp_path, "get", f"{server.base}/tiny.gguf").returncode == 0
    assert server.ranges()[-1] == f"bytes={1 << 20}-"
    assert (folder(tmp_path) / "tiny.gguf").stat().st_size == len(body)


def test_a_model_is_fetched_listed_verified_identified_and_removed(
    tmp_path: Path, server: Server, model: bytes
) -> None:
    server.paths["/a/Tiny%20One.gguf"] = Served(model)
    done = run(tmp_path, "get", f"{server.base}/a/Tiny%20One.gguf")
    target = folder(tmp_path) / "Tiny One.gguf"
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{target}\nsha256 {sha256(model)}\n"
    assert "100 %" in done.stderr
    assert "\r" not in done.stderr  # no terminal
    assert "Tiny One" in run(tmp_path, "list", "--names").stdout.splitlines()
    assert f"{target}: ok, sha256 {sha256(model)}" in run(tmp_path, "verify", "Tiny One").stdout
    assert json.loads(run(tmp_path, "identify", "Tiny One", "--json").stdout)["name"] == "A model"
    removed = run(tmp_path, "remove", "Tiny One", "--yes")
    assert removed.stdout.startswith("removed Tiny One (1 file, ")
    assert list(folder(tmp_path).iterdir()) == []


def test_verifying_names_the_file_and_both_hashes(tmp_path: Path, model: bytes) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(model)
    unrecorded = run(tmp_path, "verify", "m.gguf")
    assert (unrecorded.returncode, "no hash is recorded for it" in unrecorded.stdout) == (1, True)
    assert run(tmp_path, "verify", "m.gguf", "--sha256", sha256(model).upper()).returncode == 0
    Path(f"{file}.sha256").write_text(f"{'a' * 64}  m.gguf\n")
    done = run(tmp_path, "verify", "m.gguf", "-q")
    assert (done.returncode, done.stderr) == (3, "")
    assert f"{file}: its contents are not what was recorded" in done.stdout
    assert f"(expected sha256 {'a' * 64}, found {sha256(model)})" in done.stdout
    Path(f"{file}.sha256").write_text("none\n")
    assert "is no record of a hash" in run(tmp_path, "verify", "m.gguf").stderr


def test_all_models_of_a_folder_are_verified_when_none_is_named(tmp_path: Path, model: bytes) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.gguf").write_bytes(model)
        (tmp_path / f"{name}.gguf.sha256").write_text(f"{sha256(model)}  {name}.gguf\n")
    argv = ("verify", "--model-dir", ".", "--json")
    found = {Path(row["path"]).name: row["status"] for row in json.loads(run(tmp_path, *argv).stdout)}
    assert (found["a.gguf"], found["b.gguf"]) == ("ok", "ok")
    (tmp_path / "b.gguf").write_bytes(model + b"x")
    assert run(tmp_path, *argv).returncode == 3


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["get"], 2, "needs a model"),
        (["get", "a", "b"], 2, "one at a time"),
        (["get", "gemma3-270"], 2, "did you mean gemma3-270m?"),
        (["get", "ftp://x/y.gguf"], 2, "expected http or https, found ftp"),
        (["get", "BASE/page"], 2, "names no *.gguf file"),
        (["get", "BASE/page", "--as", "../x.gguf"], 2, "cannot be a model's name"),
        (["get", "BASE/page", "--as", ".x.gguf"], 2, "cannot be a model's name"),
        (["get", "BASE/page", "--as", "x.gguf"], 1, "wrong contents"),
        (["get", "BASE/gone.gguf"], 1, "the server answered 404"),
        (["get", "BASE/broken.gguf"], 3, "ds4: "),
        (["get", "BASE/m.gguf", "--sha256", "abc"], 2, "expected 64 hexadecimal digits"),
        (["get", "BASE/m.gguf", "--sha256", "0" * 64], 1, "SHA-256 differs"),
        (["get", "hf:owner"], 2, "expected hf:OWNER/REPOSITORY"),
        (["remove", "x"], 2, "no such model in"),
        (["remove", "../../made", "--yes"], 2, "no such model in"),
        (["verify", "x"], 2, "no such model or file"),
        (["vrify"], 2, "did you mean verify?"),
        (["get", "--bogus"], 2, "--bogus: unknown option"),
    ],
)
def test_a_mistake_is_one_line_and_names_nothing(
    tmp_path: Path, server: Server, model: bytes, argv: list[str], code: int, said: str
) -> None:
    server.paths["/page"] = Served(b"<html>no model</html>")
    server.paths["/broken.gguf"] = Served(model[:40])
    server.paths["/m.gguf"] = Served(model)
    done = run(tmp_path, *(word.replace("BASE", server.base) for word in argv), *(["-q"] if "get" in argv[:1] else []))
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(folder(tmp_path).glob("*.gguf*"))


def test_removing_asks_where_somebody_can_answer_and_refuses_where_nobody_can(tmp_path: Path, model: bytes) -> None:
    (tmp_path / "m.gguf").write_bytes(model)
    done = run(tmp_path, "remove", "m", "--model-dir", ".")
    assert (done.returncode, "pass --yes" in done.stderr) == (2, True)
    assert (tmp_path / "m.gguf").exists()


def test_all_shards_go_and_folders_that_are_empty_then(tmp_path: Path, model: bytes) -> None:
    for number in (1, 2, 3):
        file = tmp_path / "all" / "owner" / f"m-{number:05d}-of-00003.gguf"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(model)
        Path(f"{file}.sha256").write_text(f"{sha256(model)}  {file.name}\n")
    assert "3 files" in run(tmp_path, "remove", "m", "--yes", "--model-dir", "all").stdout
    assert list((tmp_path / "all").iterdir()) == []


def test_a_link_is_removed_and_not_what_it_points_to(tmp_path: Path, model: bytes) -> None:
    (tmp_path / "mine.gguf").write_bytes(model)
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "m.gguf").symlink_to(tmp_path / "mine.gguf")
    assert run(tmp_path, "remove", "m", "--yes", "--model-dir", "all").returncode == 0
    assert (tmp_path / "mine.gguf").read_bytes() == model
    assert list((tmp_path / "all").iterdir()) == []


def hub(server: Server, files: dict[str, bytes]) -> None:
    rows = [{"type": "directory", "path": "sub", "size": 0}]
    for path, data in files.items():
        rows.append({"type": "file", "path": path, "size": len(data), "lfs": {"oid": sha256(data)}})  # type: ignore[dict-item]
        server.paths[f"/o/r/resolve/main/{path}"] = Served(data)
    server.paths["/api/models/o/r/tree/main"] = Served(json.dumps(rows).encode(), kind="application/json")


def test_a_repository_of_a_hub_is_asked_with_its_token_and_all_shards_come(
    tmp_path: Path, server: Server, model: bytes
) -> None:
    hub(server, {"README.md": b"x", "q/m-00001-of-00002.gguf": model, "q/m-00002-of-00002.gguf": model})
    done = run(tmp_path, "get", "hf:o/r", HF_ENDPOINT=server.base, HF_TOKEN="t")
    assert done.returncode == 0, done.stderr
    assert {path.name for path in folder(tmp_path).glob("*.gguf")} == {f"m-0000{n}-of-00002.gguf" for n in (1, 2)}
    assert {headers.get("Authorization") for _, headers in server.asked} == {"Bearer t"}


def test_a_repository_of_several_models_says_which_there_are(tmp_path: Path, server: Server, model: bytes) -> None:
    hub(server, {"a.gguf": model, "b.gguf": model})
    done = run(tmp_path, "get", "hf:o/r", HF_ENDPOINT=server.base)
    assert (done.returncode, "name one as hf:o/r:FILE (a.gguf, b.gguf)" in done.stderr) == (1, True)
    assert run(tmp_path, "get", "hf:o/r:b.gguf", HF_ENDPOINT=server.base).returncode == 0
    assert (folder(tmp_path) / "b.gguf").exists()
    assert "did you mean b.gguf?" in run(tmp_path, "get", "hf:o/r:bb.gguf", HF_ENDPOINT=server.base).stderr


def test_a_hub_whose_hash_the_file_has_not_is_not_believed(tmp_path: Path, server: Server, model: bytes) -> None:
    hub(server, {"a.gguf": model})
    server.paths["/o/r/resolve/main/a.gguf"].body = model[:-1] + b"?"
    done = run(tmp_path, "get", "hf:o/r", HF_ENDPOINT=server.base)
    assert (done.returncode, "SHA-256 differs" in done.stderr) == (1, True)
    assert not list(folder(tmp_path).glob("*.gguf"))


@pytest.mark.parametrize("verb", ["identify", "verify", "get", "remove"])
def test_every_verb_has_help(tmp_path: Path, verb: str) -> None:
    done = run(tmp_path, verb, "--help")
    assert (done.returncode, f"ds4 models {verb}" in done.stdout) == (0, True)
