"""Starts a shell, or the command given, with what Bazel built at hand.

python, ruff, mypy, pytest    the locked ones, over every locked package
PYTHONPATH                    ds4, parity and the packages
DS4_LIBRARY                   the built libds4.so
DS4_EMBEDDED_MODEL            the embedded model's file
"""

import os
import sys
from pathlib import Path

RUNFILES = Path(__file__).absolute().parents[3]


def environment() -> dict[str, str]:
    workspace = RUNFILES / "ds4"
    site = RUNFILES / "pypi" / "site"
    programs = Path(os.environ["DS4_DEV_BIN"]) if "DS4_DEV_BIN" in os.environ else site / "bin"
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, [workspace / "host", workspace, site])),
        "DS4_LIBRARY": str(workspace / "native" / "libds4.so"),
        "DS4_EMBEDDED_MODEL": str(RUNFILES / "smollm2" / "SmolLM2-135M-Instruct.Q4_1.gguf"),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), str(programs), os.environ.get("PATH", os.defpath)]),
    }


def main() -> None:
    env = environment()
    command = sys.argv[1:] or [os.environ.get("SHELL", "/bin/bash")]
    try:
        os.execvpe(command[0], command, env)
    except FileNotFoundError:
        sys.exit(f"no such command: {command[0]}")


if __name__ == "__main__":
    main()
