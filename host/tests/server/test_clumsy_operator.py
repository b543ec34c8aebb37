"""What happens around a server rather than in it: its log's reader goes, a key file becomes a pipe, time runs out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from ds4.core import catalog
from ds4.errors import SettingsError
from ds4.server.ops.keys import Keyring
from ds4.server.ops.listen import UnixSocket
from ds4.server.ops.reload import Early, on_hangup
from support import commands, embedded
from support.server_process import Process

NULL = ("--backend", "null", "-c", "65536", "--max-seqs", "1")
LONG = {"prompt": "abc", "max_tokens": 60000, "stream": True, "ignore_eos": True}


def rest_of(sock: socket.socket) -> bytes:
    said = b""
    while piece := sock.recv(65536):
        said += piece
    return said


@embedded.needs_model
@embedded.needs_engine
def test_a_log_without_a_reader_does_not_keep_the_server_from_ending(tmp_path: Path) -> None:
    server = Process(tmp_path, *NULL)
    try:
        running = server.open({**LONG, "max_tokens": 2000})
        assert running.recv(4096)
        assert server.process.stderr is not None
        server.process.stderr.close()  # what it says of the request that it finishes meets a broken pipe
        server.process.send_signal(signal.SIGTERM)
        assert b"[DONE]" in rest_of(running)
        assert server.process.wait(20) == 0
    finally:
        server.process.kill()


@embedded.needs_model
@embedded.needs_engine
def test_a_log_on_a_full_disk_does_not_keep_the_server_from_starting(tmp_path: Path) -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "ds4.server", "--port", str(port), "-m", os.path.abspath(embedded.path()), *NULL]
    with (
        open("/dev/full", "w") as full,
        subprocess.Popen(command, stderr=full, env=commands.environment(tmp_path)) as process,
    ):
        try:
            deadline = time.monotonic() + 20
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port)).close()
                    break
                except ConnectionRefusedError:
                    assert process.poll() is None and time.monotonic() < deadline
                    time.sleep(0.05)
            time.sleep(0.5)
            assert process.poll() is None
        finally:
            process.kill()


@embedded.needs_model
@embedded.needs_engine
def test_what_is_left_when_the_time_to_finish_is_over_is_told_so(tmp_path: Path) -> None:
    server = Process(tmp_path, *NULL, "--drain", "0.3", "--max-backlog", "64M")
    try:
        running, waiting = server.open(LONG), server.open(LONG)
        assert running.recv(100)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        for sock in (running, waiting):
            said = rest_of(sock)
            assert b'"stopping"' in said and b"[DONE]" not in said
        said = server.rest()
        assert server.process.wait(20) == 0
        assert time.monotonic() - began < 5
        assert "Traceback" not in said
    finally:
        server.process.kill()


@embedded.needs_model
@embedded.needs_engine
def test_a_server_of_several_models_ends_without_complaint(tmp_path: Path) -> None:
    server = Process(tmp_path, *NULL, "--models-max", "2")
    try:
        server.process.send_signal(signal.SIGTERM)
        said = server.rest()
        assert server.process.wait(20) == 0 and "Traceback" not in said and "ERROR" not in said
    finally:
        server.process.kill()


def test_of_two_servers_that_start_at_one_stale_path_one_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second comes in the worst moment: the first has looked at what lies there, and not yet removed it."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))  # sockets' paths are short
    path = folder / "s"
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as left:
        left.bind(os.fspath(path))
    unlink, looked, others = os.unlink, threading.Event(), []

    def slowly(file: str | Path) -> None:
        looked.set()
        time.sleep(0.3)
        unlink(file)

    def second() -> None:
        looked.wait(5)
        try:
            others.append(UnixSocket(path, 0o600))
        except SettingsError as error:
            others.append(error)

    monkeypatch.setattr(os, "unlink", slowly)
    thread = threading.Thread(target=second)
    thread.start()
    first = UnixSocket(path, 0o600)
    thread.join()
    monkeypatch.undo()
    try:
        (other,) = others
        assert isinstance(other, SettingsError) and "listens there already" in str(other)
    finally:
        first.remove()
        shutil.rmtree(folder)


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_keys_are_not_read_again_from_what_would_stop_the_server(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "keys"
    file.write_text("a-key\n")
    file.chmod(0o600)
    ring = Keyring(file=file)
    file.unlink()
    os.mkfifo(file) if kind == "pipe" else file.mkdir()
    began = time.monotonic()
    assert not ring.reload() and len(ring) == 1
    assert time.monotonic() - began < 5


def test_a_hangup_before_there_is_a_loop_is_done_once_there_is_one() -> None:
    before = signal.getsignal(signal.SIGHUP)
    done: list[int] = []

    async def serve(early: Early) -> None:
        loop = asyncio.get_running_loop()
        on_hangup(loop, [lambda: not done.append(1)], early)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        loop.remove_signal_handler(signal.SIGHUP)

    try:
        asyncio.run(serve(Early()))
        assert done == []
        early = Early()
        os.kill(os.getpid(), signal.SIGHUP)
        asyncio.run(serve(early))
        assert done == [1]
    finally:
        signal.signal(signal.SIGHUP, before)


def check(home: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return commands.run("ds4.server", "--check-config", "-m", os.path.abspath(embedded.path()), *argv, home=home)


@embedded.needs_model
@pytest.mark.parametrize(
    ("given", "part"),
    [(("-c", "2000000000"), "do not fit"), (("--models-max", "2", "--model-dir", "no-folder"), "no-folder")],
)
def test_a_check_of_the_configuration_tells_all_that_is_wrong(tmp_path: Path, given: Sequence[str], part: str) -> None:
    done = check(tmp_path, "--api-key-file", "no-keys", "--tls-cert", "no-cert", "--unix-mode", "999", *given)
    assert done.returncode == 2
    told = [issue["message"] for issue in json.loads(done.stdout)["issues"]]
    for wrong in ("no-keys", "--tls-key", "--unix-mode", part):
        assert sum(wrong in one for one in told) == 1, (wrong, told)
    assert done.stderr.count("ds4-server: ") == len(told) == 4


@embedded.needs_model
def test_a_check_of_the_configuration_compares_the_plan_that_is_expected(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text(check(tmp_path, "-c", "1024").stdout)
    assert check(tmp_path, "-c", "1024", "--expect-plan", str(plan)).returncode == 0
    done = check(tmp_path, "-c", "512", "--expect-plan", str(plan))
    assert done.returncode == 2 and "effective.context: expected 1024, found 512" in done.stderr


def test_a_damaged_model_is_an_issue_of_the_check_too(tmp_path: Path) -> None:
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF" + b"\xff" * 100)
    done = commands.run("ds4.server", "--check-config", "-m", str(tmp_path / "damaged.gguf"), home=tmp_path)
    assert done.returncode == 3 and json.loads(done.stdout)["issues"][0]["level"] == "error"


def test_a_file_whose_name_is_no_utf_8_has_a_name_that_can_be_said(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/bad\xff.gguf"
    try:
        shutil.copy(catalog.embedded_path("ds4-mini"), os.fsdecode(path))
    except SettingsError as error:
        pytest.skip(str(error))
    (entry,) = catalog.in_folder(tmp_path)
    assert entry.name == "bad\ufffd" and os.fsencode(entry.path) == path
    done = commands.run("ds4.server", "--check-config", "-m", os.fsdecode(path), home=tmp_path)
    assert json.loads(done.stdout)["model"]["id"] == "bad\ufffd", done.stderr
