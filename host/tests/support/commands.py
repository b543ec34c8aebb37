"""Running a command of ours as a person would: a process of its own, with only the environment that the test gives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_KEPT = ("DS4_LIBRARY", "PATH", "LD_LIBRARY_PATH", "TMPDIR", "SYSTEMROOT")


def environment(home: Path, **more: str) -> dict[str, str]:
    """A clean environment whose home is `home`; sys.path goes along, as a test runner may have made it."""
    kept = {name: os.path.abspath(os.environ[name]) for name in ("DS4_LIBRARY",) if name in os.environ}
    kept |= {name: os.environ[name] for name in _KEPT if name in os.environ and name not in kept}
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
    return {**kept, "HOME": str(home), "PYTHONPATH": path, "COLUMNS": "100", "PYTHONDONTWRITEBYTECODE": "1", **more}


def run(module: str, *argv: str, home: Path, input: str | bytes = "", **env: str) -> subprocess.CompletedProcess[str]:
    """`python -m module argv...` in `home`, to its end."""
    data = input if isinstance(input, bytes) else input.encode()
    done = subprocess.run(
        [sys.executable, "-m", module, *argv],
        input=data,
        capture_output=True,
        cwd=home,
        env=environment(home, **env),
        timeout=120,
        check=False,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
