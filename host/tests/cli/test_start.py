"""How programs start: what Ctrl-C does while they are still being imported, and what they do without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ds4.start import PROGRAMS
from support.commands import environment

# Interrupts the process when the first module of core is looked for: in the midst of importing a program.
_INTERRUPTED = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("ds4.core."):
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from ds4.start import start
start(sys.argv.pop(1))
"""


@pytest.mark.parametrize("program", PROGRAMS)
def test_an_interrupt_while_a_program_is_imported_ends_it_without_a_word(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED, program],
        capture_output=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.parametrize("ignored", [False, True])
def test_a_program_has_the_handler_of_interrupts_that_its_caller_left(ignored: bool, tmp_path: Path) -> None:
    code = (
        "import signal, sys, types\n"
        "sys.modules['ds4.cli.main'] = program = types.ModuleType('program')\n"
        "program.main = lambda: print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
        "from ds4.start import start\n"
        "main, program.main = program.main, lambda: main() or 7\n"
        "sys.exit(start('ds4'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        cwd=tmp_path,
        env=environment(tmp_path),
        timeout=60,
        preexec_fn=(lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)) if ignored else None,
    )
    assert (done.returncode, done.stdout) == (7, f"{not ignored}{os.linesep}".encode()), done.stderr


def test_a_command_without_a_grammar_does_not_load_their_compiler(tmp_path: Path) -> None:
    loaded = "import sys, ds4.cli.main, ds4.cli.chat; print('llguidance' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", loaded], capture_output=True, text=True, env=environment(tmp_path), cwd=tmp_path
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")
