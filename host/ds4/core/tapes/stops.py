"""The wire form of `stops`, as oracles/stops/README.md states it, and the two stream classes answered by the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ds4.core.output.stops import StopMatcher
from ds4.core.output.utf8 import Utf8Stream
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, escape, line, lines, unescape


@dataclass(frozen=True, slots=True)
class StopsInput:
    """pieces: what is pushed, in order; None is a flush."""

    stops: tuple[str, ...]
    pieces: tuple[bytes | None, ...]


class Shown(NamedTuple):
    """No stop yet. pending: bytes of half a character; held: characters that may begin a stop."""

    text: str
    pending: int
    held: int


class Stopped(NamedTuple):
    """A stop string is complete, now or earlier."""

    text: str
    stop: str


StopsOutput = list[Shown | Stopped] | None
"""One for each piece; None: there is an empty stop string."""


def write_input(given: StopsInput) -> bytes:
    head = line("stops", *(stop.encode() for stop in given.stops))
    return head + b"".join([b"flush\n" if p is None else b"push %b\n" % escape(p) for p in given.pieces])


def read_input(tape: bytes) -> StopsInput:
    """TapeError for what is no tape of stops."""
    rows = lines(tape)
    head = next(rows, [])
    if head[:1] != [b"stops"]:
        raise TapeError("the first line gives the stop strings")
    try:
        stops = tuple([unescape(word).decode() for word in head[1:]])
    except UnicodeDecodeError:
        raise TapeError("a stop string is no UTF-8") from None
    return StopsInput(stops, tuple([_piece(words) for words in rows]))


def _piece(words: list[bytes]) -> bytes | None:
    if len(words) == 2 and words[0] == b"push":
        return unescape(words[1])
    if words == [b"flush"]:
        return None
    raise TapeError("neither a push nor a flush")


def run(given: StopsInput) -> StopsOutput:
    """Both layers, one behind the other, as an answer runs through them."""
    try:
        decoder, matcher = Utf8Stream(), StopMatcher(given.stops)
    except ValueError:  # an empty one
        return None
    out: list[Shown | Stopped] = []
    for piece in given.pieces:
        text, _ = matcher.push(decoder.flush() if piece is None else decoder.push(piece))
        if piece is None:
            text += matcher.flush()
        out.append(Stopped(text, matcher.matched) if matcher.matched else Shown(text, decoder.held, matcher.held))
    return out


def write_output(result: StopsOutput) -> bytes:
    if result is None:
        return b"error stop_empty stops\n"
    rows = []
    for one in result:
        text = escape(one.text)
        if isinstance(one, Shown):
            rows.append(b"shown %b %d %d\n" % (text, one.pending, one.held))
        else:
            rows.append(b"stop %b %b\n" % (text, escape(one.stop)))
    return b"".join(rows)


def read_output(tape: bytes) -> StopsOutput:
    """TapeError for what is no output of stops."""
    if tape == b"error stop_empty stops\n":
        return None
    return [_outcome(words) for words in lines(tape)]


def _outcome(words: list[bytes]) -> Shown | Stopped:
    verb, text, *rest = [*words, b"", b""][:4]
    if verb == b"shown" and len(words) == 4:
        return Shown(unescape(text).decode(), int(rest[0]), int(rest[1]))
    if verb == b"stop" and len(words) == 3:
        return Stopped(unescape(text).decode(), unescape(rest[0]).decode())
    raise TapeError("neither shown nor stop")


def by_tape(tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(tape)))


# ---- answered by the oracle ----


class _Replay:
    """A stream of which the tape so far is kept: each call plays it again, and takes its last outcome."""

    __slots__ = ("_head", "_tape", "last")

    def __init__(self, stops: Sequence[str]) -> None:
        self._head = self._tape = write_input(StopsInput(tuple(stops), ()))
        self.last: Shown | Stopped = Shown("", 0, 0)

    def push(self, piece: bytes | None) -> Shown | Stopped:
        tape = self._tape + (b"flush\n" if piece is None else line("push", piece))
        self.last = _outcome(oracle("stops").run(tape)[:-1].rpartition(b"\n")[2].split(b" "))
        # Where nothing is held back the machine is as at its start.
        fresh = isinstance(self.last, Shown) and not self.last.pending and not self.last.held
        self._tape = self._head if fresh else tape
        return self.last


class OracleStopMatcher(StopMatcher):
    """StopMatcher, answered by the oracle. Its pieces are whole characters, so the layer below lets them through."""

    __slots__ = ("_replay",)

    def __init__(self, stops: Sequence[str]) -> None:
        if oracle("stops").run(write_input(StopsInput(tuple(stops), ()))):
            raise ValueError("an empty stop string")
        self._replay = _Replay(stops)
        self.matched = None

    @property
    def held(self) -> int:
        last = self._replay.last
        return last.held if isinstance(last, Shown) else 0

    @property
    def holding(self) -> bool:
        return self.held > 0

    def push(self, text: str) -> tuple[str, bool]:
        return self._take(text.encode())

    def flush(self) -> str:
        return self._take(None)[0]

    def _take(self, piece: bytes | None) -> tuple[str, bool]:
        outcome = self._replay.push(piece)
        if isinstance(outcome, Stopped):
            self.matched = outcome.stop
        return outcome.text, self.matched is not None


class OracleUtf8Stream(Utf8Stream):
    """Utf8Stream, answered by the oracle: the stream of an answer without stop strings."""

    __slots__ = ("_replay",)

    def __init__(self) -> None:
        self._replay = _Replay(())

    @property
    def held(self) -> int:
        last = self._replay.last
        return last.pending if isinstance(last, Shown) else 0

    @property
    def pending(self) -> bool:
        return self.held > 0

    def push(self, data: bytes) -> str:
        return self._replay.push(data).text

    def flush(self) -> str:
        return self._replay.push(None).text
