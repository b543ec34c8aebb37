"""Where the chat's messages come from: a terminal with line editing, or plain lines."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from ds4.cli import history

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

PROMPT = "ds4> "
COMMANDS = ("/help", "/system", "/ctx", "/clear", "/quit", "/exit")


class Reader(Protocol):
    interactive: bool  # somebody is at the other end, so Ctrl-C at the prompt does not leave

    def read(self) -> str:
        """The next message. Raises EOFError at the end and KeyboardInterrupt on Ctrl-C."""
        ...


class PlainReader:
    """One line is one message; a backslash at its end joins the next. out: where prompts go, if somebody looks."""

    def __init__(self, source: TextIO, out: TextIO | None = None) -> None:
        self._source, self._out = source, out
        self.interactive = out is not None

    def read(self) -> str:
        lines: list[str] = []
        while True:
            if self._out is not None:
                self._out.write("...  " if lines else PROMPT)
                self._out.flush()
            line = self._source.readline()
            if not line and not lines:
                raise EOFError
            text = line.removesuffix("\n")
            if line and text.endswith("\\"):
                lines.append(text[:-1])
                continue
            return "\n".join([*lines, text])


class TerminalReader:
    """Line editing with history, several lines a message, and completion of commands."""

    interactive = True

    def __init__(self, history_path: Path) -> None:
        self._session = _prompt_session(history_path)

    def read(self) -> str:
        return self._session.prompt()


def _prompt_session(history_path: Path) -> PromptSession[str]:
    # Here and not above: prompt_toolkit takes a tenth of a second to import, which no other mode should pay.
    from prompt_toolkit import PromptSession
    from prompt_toolkit.completion import NestedCompleter, PathCompleter
    from prompt_toolkit.history import History

    class FileHistory(History):
        def load_history_strings(self) -> Iterable[str]:
            return reversed(history.load(history_path))

        def store_string(self, string: str) -> None:
            history.add(history_path, string)

    completer = NestedCompleter({**dict.fromkeys(COMMANDS), "/read": PathCompleter(expanduser=True)})
    return PromptSession(
        PROMPT,
        history=FileHistory(),
        multiline=True,  # so that pasted lines stay lines; Enter is bound to send
        prompt_continuation="...  ",
        key_bindings=_bindings(),
        completer=completer,
        complete_while_typing=False,
    )


def _bindings() -> KeyBindings:
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    @bindings.add("enter")
    def send(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.document.char_before_cursor == "\\" and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter")
    def newline(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    return bindings
