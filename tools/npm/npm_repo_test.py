"""npm_repo.py against a registry on this machine."""

import base64
import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import npm_repo
import pytest

Tarballs = dict[str, bytes]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tarballs]:
    """What is served, by path."""
    tarballs: Tarballs = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = tarballs.get(self.path)
            self.send_response(404 if body is None else 200)
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        monkeypatch.setenv("npm_config_registry", f"http://127.0.0.1:{server.server_port}/mirror/")
        yield tarballs
        server.shutdown()


def tarball(**files: str) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text), 0o755 if text.startswith("#!") else 0o600
            tar.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


def entry(data: bytes, **more: Any) -> dict[str, Any]:
    digest = base64.b64encode(hashlib.sha512(data).digest()).decode()
    return {"version": "1.2.3", "integrity": "sha512-" + digest, **more}


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, **packages: dict[str, Any]) -> None:
    lock = folder / "package-lock.json"
    lock.write_text(json.dumps({"lockfileVersion": 3, "packages": {"": {}, **packages}}))
    monkeypatch.setattr("sys.argv", ["npm_repo.py", str(lock), str(folder)])
    npm_repo.main()


def test_packages_lie_where_the_lock_says(registry: Tarballs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = tarball(**{"package/a.js": "one", "package/bin/run": "#!/bin/sh", "package/a.d.ts": "type"})
    scoped = tarball(**{"odd-top/b.js": "two"})
    registry["/mirror/plain/-/plain-1.2.3.tgz"] = plain
    registry["/mirror/@scope/inner/-/inner-1.2.3.tgz"] = scoped
    nested = "node_modules/plain/node_modules/@scope/inner"
    install(tmp_path, monkeypatch, **{"node_modules/plain": entry(plain), nested: entry(scoped)})
    assert (tmp_path / "node_modules/plain/a.js").read_text() == "one"
    assert (tmp_path / nested / "b.js").read_text() == "two"
    assert (tmp_path / "node_modules/plain/bin/run").stat().st_mode & 0o777 == 0o755
    assert not (tmp_path / "node_modules/plain/a.d.ts").exists()


def test_a_tarball_that_is_not_the_locks_is_refused(
    registry: Tarballs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry["/mirror/plain/-/plain-1.2.3.tgz"] = tarball(**{"package/a.js": "evil"})
    with pytest.raises(SystemExit, match="node_modules/plain: integrity expected sha512-.*, found sha512-"):
        install(tmp_path, monkeypatch, **{"node_modules/plain": entry(tarball(**{"package/a.js": "good"}))})
    assert not (tmp_path / "node_modules").exists()


@pytest.mark.parametrize("integrity", ["sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=", "", "md5-x"])
def test_a_weak_hash_is_refused(integrity: str) -> None:
    with pytest.raises(SystemExit, match="integrity expected"):
        npm_repo.check(b"", integrity, "node_modules/x")


def test_nothing_is_written_outside(registry: Tarballs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tarball(**{"package/../../out.js": "x"})
    registry["/mirror/plain/-/plain-1.2.3.tgz"] = data
    with pytest.raises(SystemExit, match="reaches out of itself"):
        install(tmp_path, monkeypatch, **{"node_modules/plain": entry(data)})


def test_optional_packages_and_those_for_other_machines_are_not_asked_for(
    registry: Tarballs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [{"optional": True}, {"os": ["win32"]}, {"cpu": ["s390x"]}, {"libc": ["musl"]}]
    install(tmp_path, monkeypatch, **{f"node_modules/p{i}": entry(b"", **other) for i, other in enumerate(others)})
    assert not (tmp_path / "node_modules").exists()


def test_a_package_that_the_registry_lacks_is_named(
    registry: Tarballs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit, match=r"/mirror/gone/-/gone-1\.2\.3\.tgz: .*404"):
        install(tmp_path, monkeypatch, **{"node_modules/gone": entry(b"")})
