"""The server as a process: TLS, a unix socket, keys that are read again, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import ssl
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID
from ds4.errors import SettingsError
from ds4.server.ops.listen import UnixSocket, permissions
from ds4.server.ops.tls import Tls
from support import commands, embedded
from support.live_server import read_answer
from support.server_process import Process, started

NULL = ("--backend", "null", "-c", "4096", "--max-seqs", "2")


def ask(
    sock: socket.socket, path: str, body: object = None, headers: str = "", host: str = "localhost"
) -> tuple[int, dict[str, str], bytes]:
    method, raw = ("GET", b"") if body is None else ("POST", json.dumps(body).encode())
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{headers}"
    sock.sendall(f"{head}Content-Length: {len(raw)}\r\n\r\n".encode() + raw)
    return read_answer(sock, method)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=20)


# ---- TLS ------------------------------------------------------------------------------------------------------------


def pair(folder: Path, name: str, password: str | None = None) -> tuple[Path, Path]:
    """A certificate for localhost that signs itself, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    secret = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder(called, called, secret.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(secret, hashes.SHA256())
    )
    lock = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    cert.write_bytes(signed.public_bytes(Encoding.PEM))
    key.write_bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, lock))
    key.chmod(0o600)
    return cert, key


def served_name(port: int, trusted: Path) -> str:
    """The name in the certificate of a server whose health is asked for over TLS."""
    context = ssl.create_default_context(cafile=os.fspath(trusted))
    with context.wrap_socket(connect(port), server_hostname="localhost") as sock:
        assert ask(sock, "/health")[0] == 200
        certificate = sock.getpeercert()
        assert certificate is not None
        return dict(field[0] for field in certificate["subject"])["commonName"]  # type: ignore[arg-type,misc]


@embedded.needs_model
@embedded.needs_engine
def test_tls_serves_streams_and_takes_a_new_certificate_without_a_restart(tmp_path: Path) -> None:
    first, second = pair(tmp_path, "first"), pair(tmp_path, "second")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    shutil.copy(first[0], cert)
    shutil.copy(first[1], key)
    with started(tmp_path, *NULL, "--tls-cert", os.fspath(cert), "--tls-key", os.fspath(key)) as server:
        assert f"https://127.0.0.1:{server.port}" in server.said
        assert served_name(server.port, first[0]) == "first"
        context = ssl.create_default_context(cafile=os.fspath(first[0]))
        with context.wrap_socket(connect(server.port), server_hostname="localhost") as sock:
            body = {"prompt": "abc", "max_tokens": 40, "ignore_eos": True, "stream": True}
            status, _, raw = ask(sock, "/v1/completions", body)
            assert status == 200 and raw.endswith(b"data: [DONE]\n\n")
        with connect(server.port) as plain, contextlib.suppress(ConnectionError):
            plain.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200" not in plain.recv(4096)
        shutil.copy(second[0], cert)
        shutil.copy(second[1], key)
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            with contextlib.suppress(ssl.SSLError):
                assert served_name(server.port, second[0]) == "second"
                break
            time.sleep(0.05)
        else:
            raise AssertionError("the new certificate was not taken")
        assert server.end() == 0


def test_wrong_files_of_tls_are_named(tmp_path: Path) -> None:
    cert, key = pair(tmp_path, "one")
    other_cert, other_key = pair(tmp_path, "two", "opensesame")
    nothing, text, word = tmp_path / "none.pem", tmp_path / "text.pem", tmp_path / "word"
    text.write_text("hello")
    word.write_text("opensesame\n")
    Tls(cert, key).context()
    Tls(other_cert, other_key, word).context()
    wrong = tmp_path / "wrong"
    wrong.write_text("sesame\n")
    empty = tmp_path / "empty"
    empty.write_text("\n")
    for tls, said in (
        (Tls(nothing, key), "none.pem"),
        (Tls(text, key), "text.pem.*PEM"),
        (Tls(cert, text), "text.pem.*PEM"),
        (Tls(other_cert, key), "one.key.*not the key of that certificate"),
        (Tls(key, key), "cannot load"),
        (Tls(other_cert, other_key), "two.key.*--tls-key-password-file"),
        (Tls(other_cert, other_key, wrong), "two.key.*does not open it"),
        (Tls(other_cert, other_key, empty), "empty.*password"),
    ):
        with pytest.raises(SettingsError, match=said) as caught:
            tls.context()
        assert "sesame" not in str(caught.value)


def test_half_of_tls_is_refused(tmp_path: Path) -> None:
    assert Tls.of(None, None, None) is None
    with pytest.raises(SettingsError, match="--tls-key"):
        Tls.of(tmp_path, None, None)
    with pytest.raises(SettingsError, match="--tls-cert"):
        Tls.of(None, tmp_path, None)
    with pytest.raises(SettingsError, match="--tls-cert"):
        Tls.of(None, None, tmp_path)


# ---- unix socket ----------------------------------------------------------------------------------------------------


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a short name: a socket's path has about a hundred bytes."""
    folder = Path(f"/tmp/ds4-{os.getpid()}-{time.monotonic_ns()}")
    folder.mkdir(mode=0o700)
    yield folder
    shutil.rmtree(folder)


@embedded.needs_model
@embedded.needs_engine
def test_a_unix_socket_serves_whatever_the_host_and_is_removed_at_the_end(tmp_path: Path, short: Path) -> None:
    path = short / "ds4.sock"
    with started(tmp_path, *NULL, "--unix", os.fspath(path), "--unix-mode", "660") as server:
        assert stat.S_IMODE(path.stat().st_mode) == 0o660
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(20)
            sock.connect(os.fspath(path))
            assert ask(sock, "/ready", host="proxy.example")[0] == 200
            assert ask(sock, "/v1/completions", {"prompt": "abc", "max_tokens": 3})[0] == 200
            sock.sendall(b"GET /ready HTTP/1.1\r\n\r\n")
            assert read_answer(sock, "GET")[0] == 400, "one Host header is HTTP's own rule"
        assert server.end() == 0
    assert not path.exists()


def test_a_stale_socket_is_replaced_and_a_live_one_is_not(short: Path) -> None:
    path = short / "s"
    left = UnixSocket(path, 0o600)
    left.sock.close()  # as a killed server leaves it
    again = UnixSocket(path, 0o600)
    left.remove()
    assert path.exists(), "only its own socket is removed"
    with pytest.raises(SettingsError, match="listens there already"):
        UnixSocket(path, 0o600)
    again.sock.close()
    again.remove()
    assert not path.exists()


def test_what_is_no_socket_is_left_alone(short: Path) -> None:
    path = short / "s"
    path.write_text("precious")
    with pytest.raises(SettingsError, match="no socket"):
        UnixSocket(path, 0o600)
    path.unlink()
    path.symlink_to(short / "elsewhere")
    with pytest.raises(SettingsError, match="no socket"):
        UnixSocket(path, 0o600)


def test_a_path_that_cannot_be_is_said(short: Path) -> None:
    with pytest.raises(SettingsError, match="too long"):
        UnixSocket(short / ("x" * 200), 0o600)
    with pytest.raises(SettingsError, match="No such file"):
        UnixSocket(short / "no" / "s", 0o600)
    assert permissions("0660") == 0o660
    for text in ("", "8", "1777", "rw", "-600", "00600"):
        with pytest.raises(SettingsError, match="unix-mode"):
            permissions(text)


# ---- keys and log of a process --------------------------------------------------------------------------------------


@embedded.needs_model
@embedded.needs_engine
def test_keys_are_read_again_at_a_hangup_and_are_nowhere_to_be_seen(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("file-secret-1\n")
    keys.chmod(0o600)
    argv = (*NULL, "--api-key-file", os.fspath(keys), "--log-format", "json", "--log-level", "debug", "--print-plan")
    server = Process(tmp_path, *argv, environment={"DS4_API_KEY": "variable-secret"})
    try:

        def status(key: str) -> int:
            with connect(server.port) as sock:
                return ask(sock, "/v1/models", headers=f"Authorization: Bearer {key}\r\n")[0]

        assert [status(key) for key in ("file-secret-1", "variable-secret", "file-secret-2")] == [200, 200, 401]
        keys.write_text("file-secret-2\n")
        server.process.send_signal(signal.SIGHUP)
        deadline = time.monotonic() + 10
        while status("file-secret-2") != 200:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert status("file-secret-1") == 401 and status("variable-secret") == 200
        server.process.send_signal(signal.SIGTERM)
        said = server.said + server.rest()
        assert server.process.wait(20) == 0
        assert server.process.stdout is not None
        said += server.process.stdout.read()
    finally:
        server.process.kill()
    assert "secret" not in said and '"(hidden)"' in said
    lines = [json.loads(line) for line in said[: said.index('{\n  "version"')].splitlines()]  # the plan was on stdout
    assert any(line.get("message", "").startswith("ready in") for line in lines)
    assert {line["status"] for line in lines if line.get("event") == "request"} == {200, 401}


# ---- the end --------------------------------------------------------------------------------------------------------


@embedded.needs_model
@embedded.needs_engine
def test_the_first_signal_finishes_what_runs_and_tells_the_rest_to_go_elsewhere(tmp_path: Path) -> None:
    server = Process(tmp_path, "-c", "4096", "-t", "1")
    try:
        running = server.open({"prompt": "abc", "max_tokens": 150, "stream": True, "ignore_eos": True})
        raw = running.recv(4096)
        server.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + 5
        while True:
            with connect(server.port) as probe:
                if ask(probe, "/ready")[0] == 503:
                    break
            assert time.monotonic() < deadline
        with connect(server.port) as other:
            assert json.loads(ask(other, "/health")[2]) == {"status": "stopping"}
            status, headers, refusal = ask(other, "/v1/completions", {"prompt": "late"})
            assert (status, headers["retry-after"]) == (503, "10")
            assert json.loads(refusal)["error"]["code"] == "stopping"
        with connect(server.port) as other:
            status, headers, refusal = ask(other, "/v1/messages", {"messages": [], "max_tokens": 5})
            assert (status, headers["retry-after"]) == (503, "10")
            assert json.loads(refusal)["error"]["type"] == "overloaded_error"
        while piece := running.recv(65536):
            raw += piece
        assert raw.count(b'"text"') > 100 and b"[DONE]" in raw
        assert server.process.wait(20) == 0
    finally:
        server.process.kill()


@embedded.needs_model
@embedded.needs_engine
def test_a_reader_that_is_stuck_does_not_hold_the_end_up_beyond_the_time_for_it(tmp_path: Path) -> None:
    server = Process(tmp_path, *NULL, "-c", "65536", "--drain", "1.5", "--max-backlog", "64M")
    try:
        body = {"prompt": "abc", "max_tokens": 60000, "stream": True, "ignore_eos": True}
        stuck = server.open(body)  # sent off, never read: its answer is far larger than what sockets hold
        time.sleep(1.0)
        began = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(20) == 0
        assert 1.0 < time.monotonic() - began < 15
        stuck.close()
    finally:
        server.process.kill()


@embedded.needs_model
@embedded.needs_engine
def test_an_idle_server_ends_at_once_and_well(tmp_path: Path) -> None:
    server = Process(tmp_path, *NULL)
    try:
        with connect(server.port) as idle:
            assert ask(idle, "/ready")[0] == 200
            began = time.monotonic()
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(10) == 0
            assert time.monotonic() - began < 5
    finally:
        server.process.kill()


@embedded.needs_model
def test_a_check_of_the_configuration_reads_keys_and_certificates(tmp_path: Path) -> None:
    model = os.path.abspath(embedded.path())
    missing = os.fspath(tmp_path / "missing")
    for argv in (("--api-key-file", missing), ("--tls-cert", missing, "--tls-key", missing), ("--api-key", "a b")):
        done = commands.run("ds4.server", "--check-config", "-m", model, *argv, home=tmp_path)
        assert done.returncode == 2 and ("missing" in done.stderr or "--api-key" in done.stderr)
        assert "a b" not in done.stderr


@embedded.needs_model
@embedded.needs_engine
def test_an_open_server_on_the_network_is_warned_of(tmp_path: Path) -> None:
    with started(tmp_path, *NULL, "--host", "0.0.0.0") as server:
        assert "there are no keys" in server.said
    with started(tmp_path, *NULL, "--host", "0.0.0.0", "--api-key", "k") as server:
        assert "there are no keys" not in server.said


def test_a_plan_with_keys_does_not_show_them(tmp_path: Path) -> None:
    done = commands.run("ds4.server", "--show-config", "--api-key", "flag-secret", home=tmp_path)
    assert done.returncode == 0 and "flag-secret" not in done.stdout and "(hidden)" in done.stdout
