"""The wire form of `output`, as oracles/output/README.md states it, and the parser answered by the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

from ds4.core.output.dsml import DsmlParser
from ds4.core.output.events import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Event,
    Finish,
    Kind,
    Mode,
    ReasoningDelta,
    ReasoningEnd,
    ToolBlock,
    Void,
)
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, escape, lines, unescape, unsigned

_MODES = (b"reasoning", b"content", b"block", b"done")
_SWITCHES = {b"0": False, b"1": True}
_TEXTS: dict[bytes, Any] = {b"reasoning": ReasoningDelta, b"content": ContentDelta, b"void": Void, b"block": ToolBlock}
_VERBS = {kind: verb for verb, kind in _TEXTS.items()}


@dataclass(frozen=True, slots=True)
class OutputInput:
    """pieces: what is pushed, in order. finish: whether the answer ends there."""

    thinking: bool
    tools: bool
    pieces: tuple[str, ...]
    finish: bool


@dataclass(frozen=True, slots=True)
class OutputResult:
    """pushed: for each piece its events, and the mode behind it. end: events and outcome of the finish, if there was
    one."""

    pushed: tuple[tuple[list[Event], Mode], ...]
    end: tuple[list[Event], Finish] | None


def write_input(given: OutputInput) -> bytes:
    head = b"output %d %d\n" % (given.thinking, given.tools)
    return head + b"".join([b"push %b\n" % escape(piece) for piece in given.pieces]) + b"finish\n" * given.finish


def _text(word: bytes) -> str:
    try:
        return unescape(word).decode()
    except UnicodeDecodeError:
        raise TapeError(f"not text: {word[:60]!r}") from None


def read_input(tape: bytes) -> OutputInput:
    """TapeError for what is no tape of output."""
    rows = list(lines(tape))
    match rows[:1]:
        case [[b"output", thinking, tools]] if thinking in _SWITCHES and tools in _SWITCHES:
            pass
        case _:
            raise TapeError("the first line has the switches")
    finish = rows[-1] == [b"finish"]
    pieces = []
    for words in rows[1 : len(rows) - finish]:
        match words:
            case [b"push", word]:
                pieces.append(_text(word))
            case _:
                raise TapeError("neither a push nor a last finish")
    return OutputInput(_SWITCHES[thinking], _SWITCHES[tools], tuple(pieces), finish)


def run(given: OutputInput) -> OutputResult:
    """The replacement's answer."""
    parser = DsmlParser(thinking=given.thinking, tools=given.tools)
    pushed = tuple([(parser.push(piece), parser.mode) for piece in given.pieces])
    return OutputResult(pushed, parser.finish() if given.finish else None)


def _event(event: Event) -> bytes:
    if isinstance(event, ArgumentsDelta):
        return b"arguments %d %b\n" % (event.index, escape(event.text))
    if isinstance(event, CallStart):
        return b"call %d %b\n" % (event.index, escape(event.name))
    if isinstance(event, CallEnd):
        return b"end %d\n" % event.index
    if isinstance(event, ReasoningEnd):
        return b"reasoned\n"
    return b"%b %b\n" % (_VERBS[type(event)], escape(event.text))


def write_output(result: OutputResult) -> bytes:
    rows: list[bytes] = []
    for events, mode in result.pushed:
        rows += [_event(event) for event in events]
        rows.append(b"now %b\n" % mode.encode())
    if result.end is not None:
        events, finish = result.end
        rows += [_event(event) for event in events]
        rows.append(b"finish %b" % finish.kind.encode())
        if finish.kind == "unterminated":
            rows.append(b" %b %b" % (escape(finish.text), b"-" if finish.closers is None else escape(finish.closers)))
        rows.append(b"\n")
    return b"".join(rows)


def read_output(tape: bytes) -> OutputResult:
    """TapeError for what is no output of output."""
    pushed: list[tuple[list[Event], Mode]] = []
    events: list[Event] = []
    end: tuple[list[Event], Finish] | None = None
    for words in lines(tape):
        if end is not None:
            raise TapeError("a line behind the finish")
        match words:
            case [b"now", mode] if mode in _MODES:
                pushed.append((events, cast(Mode, mode.decode())))
                events = []
            case [b"finish", b"stop" | b"reasoning" | b"tool_calls" as kind]:
                end = events, Finish(cast(Kind, kind.decode()))
            case [b"finish", b"unterminated", word, closers]:
                end = events, Finish("unterminated", _text(word), None if closers == b"-" else _text(closers))
            case _:
                events.append(_read(words))
    if end is None and events:
        raise TapeError("events of no push")
    return OutputResult(tuple(pushed), end)


def _read(words: list[bytes]) -> Event:
    match words:
        case [b"reasoning" | b"content" | b"void" | b"block" as verb, word]:
            return cast(Event, _TEXTS[verb](_text(word)))
        case [b"reasoned"]:
            return ReasoningEnd()
        case [b"call", index, name]:
            return CallStart(unsigned(index), _text(name))
        case [b"arguments", index, word]:
            return ArgumentsDelta(unsigned(index), _text(word))
        case [b"end", index]:
            return CallEnd(unsigned(index))
    raise TapeError("not an event")


def by_tape(tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(tape)))


# ---- answered by the oracle ----


class OracleDsmlParser(DsmlParser):
    """DsmlParser, answered by the oracle: the tape so far is kept, each call plays it again and takes its last part."""

    __slots__ = ("_given", "_last", "_pieces", "_waiting")

    def __init__(self, *, thinking: bool, tools: bool) -> None:
        super().__init__(thinking=thinking, tools=tools)
        self._given = thinking, tools
        self._pieces: list[str] = []
        self._waiting = 0  # characters pushed and not yet shown, as far as events tell
        self._last: Mode = "reasoning" if thinking else "content"

    @property
    def mode(self) -> Mode:
        return self._last

    def _play(self, finish: bool) -> OutputResult:
        return read_output(oracle("output").run(write_input(OutputInput(*self._given, tuple(self._pieces), finish))))

    def push(self, text: str) -> list[Event]:
        self._pieces.append(text)
        events, self._last = self._play(False).pushed[-1]
        self._waiting += len(text)
        for event in events:
            if isinstance(event, ReasoningDelta | ContentDelta | Void):
                self._waiting -= len(event.text)
            elif isinstance(event, ReasoningEnd):
                self._waiting -= len("</think>")
        if not self._waiting and self._last in ("reasoning", "content"):  # nothing is held: as at the start
            self._given = self._last == "reasoning", self._given[1]
            self._pieces.clear()
        return events

    def finish(self) -> tuple[list[Event], Finish]:
        end = self._play(True).end
        assert end is not None
        return end
