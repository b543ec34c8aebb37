"""The chat at the terminal: a loop of reading a message, obeying a command or printing an answer."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

from ds4.cli.chat import Chat
from ds4.cli.prompt import effort_as
from ds4.cli.reader import Reader
from ds4.cli.terminal import Printer, dim
from ds4.core.chat import EFFORTS
from ds4.core.exits import Exit
from ds4.core.kinds import expanded
from ds4.core.reading import read_text
from ds4.core.settings import caller_directory
from ds4.errors import Ds4Error, SettingsError

HELP = """\
/help          this
/read FILE     send a file's text as a message
/system [TEXT] show the system message, or set it and start anew
/think [EFFORT] how much to think, of models that can: none, minimal, low, medium, high, xhigh, max
/ctx [N]       show how much of the context is used, or change its size
/clear         forget the conversation
/quit, /exit   leave (Ctrl-D too)

Enter sends. Alt-Enter, or a backslash at the line's end, starts a new line; pasted text may hold several.
Ctrl-C stops an answer and keeps what there is of it. A message that begins with a slash: put a blank before it.
"""


class Quit(Exception):
    """Raised by /quit."""


class Repl:
    """reader: where messages come from; out: where answers go; notes: where everything else goes (stderr)."""

    def __init__(self, chat: Chat, reader: Reader, *, quiet: bool, out: TextIO, notes: TextIO) -> None:
        self._chat, self._reader, self._quiet, self._out, self._notes = chat, reader, quiet, out, notes
        self._commands: dict[str, Callable[[str], None]] = {
            "/help": self._help,
            "/read": self._read,
            "/system": self._system,
            "/think": self._think,
            "/ctx": self._ctx,
            "/clear": self._clear,
            "/quit": self._quit,
            "/exit": self._quit,
        }

    def run(self) -> None:
        """Until the end of input or /quit."""
        while True:
            try:
                self._take(self._reader.read())
            except (EOFError, Quit):
                return
            except KeyboardInterrupt:
                # Also one that comes a moment after an answer has ended: it must not cost the conversation.
                if not self._reader.interactive:
                    raise
                self._note("Ctrl-D or /quit leaves")
            except (Ds4Error, OSError) as error:
                self._note(str(error))

    def _take(self, text: str) -> None:
        if not text.strip():
            return
        if not text.startswith("/"):
            self._answer(text)
            return
        name, _, argument = text.strip().partition(" ")
        command = self._commands.get(name)
        if command is None:
            self._note(f"unknown command {name}; /help lists them (a blank before the slash sends it as a message)")
        else:
            command(argument.strip())

    def _answer(self, text: str) -> None:
        printer = Printer(self._out, None if self._quiet else self._notes)
        with interrupts(self._chat.stop):
            for piece in self._chat.ask(text):
                printer.put(piece)
        printer.end()
        if not self._quiet:
            self._note(self._chat.figures())

    def _note(self, text: str) -> None:
        self._notes.write(dim(text, self._notes) + "\n")
        self._notes.flush()

    def _help(self, argument: str) -> None:
        self._notes.write(HELP)

    def _read(self, argument: str) -> None:
        if not argument:
            self._note("/read needs a file")
            return
        try:
            path = caller_directory() / expanded(argument)
        except ValueError as error:
            raise SettingsError("cannot use this value", subject="/read", expected=error, found=argument) from None
        self._answer(read_text(path))

    def _system(self, argument: str) -> None:
        if argument:
            self._chat.set_system(argument)
            self._note("system message set; the conversation starts anew")
        else:
            self._note(self._chat.system or "no system message")

    def _think(self, argument: str) -> None:
        if argument and argument not in EFFORTS:
            self._note(f"/think needs one of {', '.join(EFFORTS)} (found {argument!r})")
            return
        if argument:
            with effort_as(f"/think {argument}"):
                self._chat.set_effort(argument)
        self._note(f"thinking: {self._chat.effort or 'as the model does by itself'}")

    def _ctx(self, argument: str) -> None:
        if argument:
            if not (argument.isascii() and argument.isdigit() and 0 < int(argument) < 1 << 31):
                self._note(f"/ctx needs a number of tokens (found {argument!r})")
                return
            self._chat.set_context(int(argument))
        self._note(f"context {self._chat.context}, used {self._chat.used}")

    def _clear(self, argument: str) -> None:
        self._chat.clear()
        self._note("conversation forgotten")

    def _quit(self, argument: str) -> None:
        raise Quit


@contextmanager
def interrupts(stop: Callable[[], None]) -> Iterator[None]:
    """While it lasts, Ctrl-C calls stop; the third one leaves the program, should stopping hang. The handler that
    was there before is put back."""
    presses = 0

    def handle(signum: int, frame: FrameType | None) -> None:
        nonlocal presses
        presses += 1
        if presses >= 3:
            raise SystemExit(Exit.INTERRUPTED)
        stop()

    before = signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def is_terminal() -> bool:
    """Whether line editing can work: both ends are terminals, and no dumb one."""
    return sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM") != "dumb"
