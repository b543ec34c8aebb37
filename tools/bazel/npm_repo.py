"""Lays out the packages of a package-lock.json, each tarball checked against the lock's own hash.

    python npm_repo.py package-lock.json TARGET

The lock's keys are the very paths that npm would install to, so nothing has to be resolved and npm is not needed: no
configuration of npm's is read but the registry's address (npm_config_registry), no script of a package runs, and no
byte is kept that the lock does not vouch for. Optional packages, those for other machines, and what only compilers and
debuggers read (type declarations, source maps) are left out.
"""

from __future__ import annotations

import base64
import concurrent.futures
import hashlib
import io
import json
import os
import platform
import sys
import tarfile
import time
import urllib.error
import urllib.request
from pathlib import Path, PurePosixPath
from typing import Any

_REGISTRY = "https://registry.npmjs.org/"
_CPU = {"x86_64": "x64", "aarch64": "arm64"}
_TRIES = 4
_UNREAD = (".map", ".d.ts", ".d.mts", ".d.cts")


def wanted(package: dict[str, Any]) -> bool:
    cpu = _CPU.get(platform.machine(), platform.machine())
    here = (("os", sys.platform), ("cpu", cpu), ("libc", "glibc"))
    return not package.get("optional") and all(value in package.get(key, [value]) for key, value in here)


def address(path: str, version: str) -> str:
    name = path.rpartition("node_modules/")[2]
    registry = os.environ.get("npm_config_registry") or os.environ.get("NPM_CONFIG_REGISTRY") or _REGISTRY
    return f"{registry.rstrip('/')}/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"


def fetch(url: str) -> bytes:
    for left in reversed(range(_TRIES)):
        try:
            with urllib.request.urlopen(url, timeout=120) as answer:
                return bytes(answer.read())
        except OSError as error:
            refused = isinstance(error, urllib.error.HTTPError) and error.code < 500 and error.code != 429
            if refused or not left:
                raise SystemExit(f"{url}: {error}") from None
            time.sleep(2.0 * (_TRIES - left))
    raise AssertionError


def check(data: bytes, integrity: str, path: str) -> None:
    found = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    if found != integrity:
        raise SystemExit(f"{path}: integrity expected {integrity or 'sha512'}, found {found}")


def unpack(data: bytes, folder: Path) -> None:
    """Plain files only, below `folder`; the archive's top folder, whatever its name, is `folder`."""
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            parts = PurePosixPath(member.name).parts[1:]
            if not member.isfile() or not parts or member.name.endswith(_UNREAD):
                continue
            if ".." in parts:
                raise SystemExit(f"{folder}: the archive reaches out of itself with {member.name}")
            held = tar.extractfile(member)
            assert held is not None
            out = folder.joinpath(*parts)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(held.read())
            out.chmod(0o755 if member.mode & 0o100 else 0o644)


def install(path: str, package: dict[str, Any], target: Path) -> None:
    data = fetch(address(path, package["version"]))
    check(data, package["integrity"], path)
    unpack(data, target / path)


def main() -> None:
    lock, target = Path(sys.argv[1]), Path(sys.argv[2])
    packages = json.loads(lock.read_text())["packages"]
    chosen = {path: package for path, package in packages.items() if path and wanted(package)}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        jobs = [pool.submit(install, path, package, target) for path, package in chosen.items()]
        for job in concurrent.futures.as_completed(jobs):
            job.result()


if __name__ == "__main__":
    main()
