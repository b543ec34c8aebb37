"""The wheel installs into an empty environment, and its commands run there."""

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

WHEEL = next(Path("host").glob("ds4-*.whl"))
SITE = Path(os.path.abspath("../pypi/site"))


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """bin/ of an environment that the wheel was installed into."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, symlinks=True)
    # The machine's own pip, since the interpreter of tests has none.
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    pip = [str(base), "-I", "-m", "pip", "--python", str(home / "bin" / "python"), "install", "--quiet"]
    subprocess.run([*pip, "--no-deps", "--no-index", "--disable-pip-version-check", str(WHEEL.resolve())], check=True)
    return home / "bin"


def run(command: Path, *arguments: str) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith("DS4_")}
    env["PYTHONPATH"] = str(SITE)
    done = subprocess.run([command, *arguments], capture_output=True, text=True, env=env, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_its_command_tells_its_version(programs: Path) -> None:
    assert WHEEL.name.split("-")[1] in run(programs / "ds4", "--version")


def test_it_identifies_the_model_inside(programs: Path) -> None:
    assert "llama" in run(programs / "ds4", "--identify")


def test_it_brings_the_small_deepseek_model(programs: Path) -> None:
    assert "deepseek4" in run(programs / "ds4", "-m", "ds4-mini", "--identify")


def test_its_engine_loads_from_inside_the_package(programs: Path) -> None:
    code = "import json; from ds4.sys import bridge; print(json.dumps(str(bridge.load().path)))"
    assert json.loads(run(programs / "python", "-c", code)).startswith(str(programs.parent / "lib"))


@pytest.mark.parametrize("command", ["ds4-server", "ds4-bench", "ds4-synth"])
def test_its_other_commands_explain_themselves(programs: Path, command: str) -> None:
    assert "usage" in run(programs / command, "--help").lower()


def test_every_member_is_recorded(programs: Path) -> None:
    with zipfile.ZipFile(WHEEL) as wheel:
        record = next(name for name in wheel.namelist() if name.endswith("RECORD"))
        recorded = [line.split(",")[0] for line in wheel.read(record).decode().splitlines()]
        assert recorded == wheel.namelist()
