"""ruff and mypy --strict over the Python rooms, as a test, so that a change that breaks them does not land."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOMS = ["host/ds4", "parity", "goldens/review"]
LINTED = ["host", "parity", "tools", "goldens", "native", "bench", "oracles"]
SITE = Path(os.path.abspath("../pypi/site"))


def run(command: list[str], **env: str) -> None:
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def folders(names: list[str]) -> list[str]:
    return [name for name in names if Path(name).is_dir()]


def test_ruff_finds_nothing() -> None:
    options = ["--no-cache", "--output-format=concise", "--config=pyproject.toml"]
    run([str(SITE / "bin" / "ruff"), "check", *options, *folders(LINTED)])


def test_mypy_strict_finds_nothing(tmp_path: Path) -> None:
    # mypy takes installed packages from an interpreter's own site-packages: one that points at the locked ones.
    venv.create(tmp_path / "venv", symlinks=True)
    packages = sysconfig.get_path("purelib", "posix_prefix", vars={"base": str(tmp_path / "venv")})
    Path(packages, "locked.pth").write_text(str(SITE.resolve()) + "\n", encoding="utf-8")
    python = str(tmp_path / "venv" / "bin" / "python3")
    cache = str(tmp_path / "cache")
    options = ["--config-file=pyproject.toml", f"--python-executable={python}", f"--cache-dir={cache}"]
    run([sys.executable, "-m", "mypy", *options, *folders(ROOMS)], MYPYPATH="host")
