"""Exit codes of the commands, and the one place that turns an error into a line on stderr and a code."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Callable
from enum import IntEnum

from ds4.errors import (
    Cancelled,
    ContextLengthError,
    Ds4Error,
    EngineError,
    ModelFileError,
    SamplingError,
    SettingsError,
    TokenizerError,
    UnsupportedModelError,
)
from ds4.sys.descriptors import Status


class Exit(IntEnum):
    OK = 0
    FAILURE = 1  # something went wrong while it ran
    USAGE = 2  # a flag, variable, configuration file or sampling value
    MODEL_FILE = 3  # a file that is no GGUF, or a damaged one
    UNSUPPORTED = 4  # a well-formed model that this build cannot serve
    CONTEXT = 5  # the prompt does not fit the context
    INTERRUPTED = 130  # Ctrl-C, as shells report SIGINT
    BROKEN_PIPE = 141  # the reader went away, as shells report SIGPIPE


EPILOG = """\
Exit codes:
  0    done
  1    failed while running
  2    a flag, variable or configuration file that cannot be used
  3    a model file that is none, or damaged
  4    a model that this build does not support
  5    a prompt longer than the context
  130  interrupted (Ctrl-C)
  141  the reader of the output went away
"""

_ENGINE = {
    Status.FORMAT: Exit.MODEL_FILE,
    Status.MISMATCH: Exit.MODEL_FILE,
    Status.UNSUPPORTED: Exit.UNSUPPORTED,
    Status.CONTEXT: Exit.CONTEXT,
}


def exit_code(error: BaseException) -> Exit:
    """The code that an error ends a command with."""
    match error:
        case SettingsError() | SamplingError():
            return Exit.USAGE
        case UnsupportedModelError():
            return Exit.UNSUPPORTED
        case ModelFileError() | TokenizerError():
            return Exit.MODEL_FILE
        case ContextLengthError():
            return Exit.CONTEXT
        case KeyboardInterrupt() | Cancelled():
            return Exit.INTERRUPTED
        case BrokenPipeError():
            return Exit.BROKEN_PIPE
        case EngineError():
            return next((code for status, code in _ENGINE.items() if status == error.status), Exit.FAILURE)
        case _:
            return Exit.FAILURE


def guarded(name: str, run: Callable[[], int]) -> int:
    """Runs a command's body. Errors that are somebody's mistake or misfortune become one line and a code, with a line
    more for each thing that a model would need; a bug of ours keeps its traceback."""
    _standard_streams()
    try:
        code = run()
        sys.stdout.flush()
        return code
    except BrokenPipeError as error:
        # What is still buffered has no reader; the interpreter would complain about it on the way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return exit_code(error)
    except KeyboardInterrupt as error:
        sys.stderr.write("\n")
        return exit_code(error)
    except OSError as error:
        told = error.strerror or error
        sys.stderr.write(f"{name}: {told if error.filename is None else f'{error.filename}: {told}'}\n")
        return exit_code(error)
    except Ds4Error as error:
        notes = error.notes if isinstance(error, UnsupportedModelError) else ()
        sys.stderr.write("".join(f"{line}\n" for line in (f"{name}: {error}", *(f"  {note}" for note in notes))))
        return exit_code(error)


def _standard_streams() -> None:
    """Makes the three streams usable however the command was started.

    Python has None for one that the caller closed; and its descriptor would go to the next file that is opened, a model
    say, for stray output to land in. ASCII is what Python makes of a locale that says nothing: UTF-8 is meant, as of
    arguments. Characters that another encoding lacks are shown as escapes.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        known = codecs.lookup(sys.stdout.encoding).name
        sys.stdout.reconfigure(encoding="utf-8" if known == "ascii" else known, errors="backslashreplace")
