"""Writes an ordinary wheel: python build_wheel.py PLAN OUT, where PLAN is the JSON that tools/bazel/wheel.bzl makes.

The same inputs give the same bytes: members stand in order of their names, with one fixed time and mode. Format: PyPA's
binary distribution format 1.0 (a zip whose *.dist-info/RECORD lists each member with its SHA-256 and size).
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest that a zip can say
STORED = {".gguf"}  # quantised weights do not compress


@dataclass
class WheelWriter:
    """Members of one wheel and their RECORD lines."""

    archive: zipfile.ZipFile
    record: list[str] = field(default_factory=list)

    def _info(self, name: str, mode: int) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name, EPOCH)
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_STORED if Path(name).suffix in STORED else zipfile.ZIP_DEFLATED
        return info

    def text(self, name: str, text: str) -> None:
        data = text.encode()
        self.archive.writestr(self._info(name, 0o644), data)
        self._note(name, hashlib.sha256(data).digest(), len(data))

    def file(self, name: str, source: Path) -> None:
        digest = hashlib.sha256()
        info = self._info(name, 0o755 if ".so" in Path(name).suffixes else 0o644)
        info.file_size = source.stat().st_size
        with source.open("rb") as src:
            while piece := src.read(1 << 20):
                digest.update(piece)
            src.seek(0)
            with self.archive.open(info, "w") as dst:
                shutil.copyfileobj(src, dst, 1 << 20)
        self._note(name, digest.digest(), info.file_size)

    def _note(self, name: str, digest: bytes, size: int) -> None:
        text = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={text},{size}\n")

    def close(self, name: str) -> None:
        self.archive.writestr(self._info(name, 0o644), "".join([*self.record, f"{name},,\n"]))


def metadata(plan: dict[str, Any]) -> str:
    lines = Path(plan["requirements"]).read_text(encoding="utf-8").splitlines()
    requirements = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return (
        f"Metadata-Version: 2.4\nName: {plan['name']}\nVersion: {plan['version']}\nSummary: {plan['summary']}\n"
        f"License-Expression: {plan['license']}\n"
        + "".join(f"License-File: {Path(name).name}\n" for name in sorted(plan["licenses"]))
        + f"Requires-Python: {plan['requires_python']}\n"
        + "".join(f"Requires-Dist: {requirement}\n" for requirement in requirements)
    )


def main(plan_path: str, out: str) -> None:
    plan: dict[str, Any] = json.loads(Path(plan_path).read_text(encoding="utf-8"))
    version = plan["version"]
    package = Path(plan["files"][f"{plan['name']}/__init__.py"]).read_text(encoding="utf-8")
    if f'__version__ = "{version}"' not in package:
        sys.exit(f"the package's __version__ is not the wheel's {version}")
    info = f"{plan['name']}-{version}.dist-info"
    with zipfile.ZipFile(out, "w") as archive:
        wheel = WheelWriter(archive)
        for name, source in sorted(plan["files"].items()):
            wheel.file(name, Path(source))
        for name, source in sorted(plan["licenses"].items()):
            wheel.file(f"{info}/licenses/{name}", Path(source))
        wheel.text(f"{info}/METADATA", metadata(plan))
        tag = f"Wheel-Version: 1.0\nGenerator: ds4-build-wheel\nRoot-Is-Purelib: false\nTag: {plan['tag']}\n"
        wheel.text(f"{info}/WHEEL", tag)
        scripts = "".join(f"{name} = {target}\n" for name, target in sorted(plan["scripts"].items()))
        wheel.text(f"{info}/entry_points.txt", f"[console_scripts]\n{scripts}")
        wheel.close(f"{info}/RECORD")


if __name__ == "__main__":
    main(*sys.argv[1:])
