"""The wire form of `admission`, as oracles/admission/README.md states it, and the room answered by the oracle."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from ds4.core import components
from ds4.errors import Ds4Error
from ds4.server.schedule.admission import ANSWERS, REASONS, Shed
from ds4.server.schedule.route import LANES
from ds4.server.schedule.waiting import Arrival, Released, Room, RoomLimits, Standing
from ds4.sys.oracles import oracle
from ds4.sys.tape import TapeError, escape, integer, integers, lines, unescape

INT = (1 << 31) - 1
TIME = 1 << 62
_HEAD = ((1, 1024), (1, INT), (1, 1 << 53), (0, INT), (0, 1 << 60), (0, INT), (0, TIME), (0, INT))
_ARRIVE = ((1, 65536), (0, INT), (0, INT), (0, 1 << 40), (0, TIME), (0, TIME))
_KEY = (-(1 << 63), (1 << 63) - 1)
_OPS: dict[str, tuple[tuple[int, int], ...]] = {
    "release": ((0, TIME),),
    "leave": (_KEY, (0, INT)),
    "cancel": (_KEY,),
    "connect": ((0, INT),),
    "clients": (),
    "stop": (),
}


@dataclass(frozen=True, slots=True)
class Op:
    """One line behind the head. given: of an arrival, whose time is the only number."""

    verb: str
    numbers: tuple[int, ...] = ()
    given: Arrival | None = None


@dataclass(frozen=True, slots=True)
class AdmissionInput:
    limits: RoomLimits
    ops: tuple[Op, ...] = ()


Said = tuple[str | int | bytes, ...]


def write_head(limits: RoomLimits) -> bytes:
    return b"admission %d %d %d %d %d %d %d %d\n" % limits


def write_op(op: Op) -> bytes:
    if op.given is not None:
        client, lane, *numbers = op.given
        words = [b"arrive", escape(client), lane.encode(), *(b"%d" % n for n in (*numbers, *op.numbers))]
    else:
        words = [op.verb.encode(), *(b"%d" % n for n in op.numbers)]
    return b" ".join(words) + b"\n"


def write_input(given: AdmissionInput) -> bytes:
    return write_head(given.limits) + b"".join(map(write_op, given.ops))


def read_input(tape: bytes) -> AdmissionInput:
    """TapeError for what is no tape of admission."""
    rows = lines(tape)
    head = next(rows, [])
    if head[:1] != [b"admission"]:
        raise TapeError("the first line gives the limits")
    return AdmissionInput(RoomLimits(*_numbers(head[1:], _HEAD)), tuple([_op(words) for words in rows]))


def _op(words: list[bytes]) -> Op:
    verb = words[0].decode("latin-1") if words else ""
    if verb == "arrive" and len(words) == 9:
        lane = words[2].decode("latin-1")
        if lane not in LANES:
            raise TapeError("no lane")
        *numbers, now = _numbers(words[3:], _ARRIVE)
        return Op("arrive", (now,), Arrival(unescape(words[1]), lane, *numbers))
    if verb in _OPS:
        return Op(verb, tuple(_numbers(words[1:], _OPS[verb])))
    raise TapeError(f"no line of an admission: {verb[:60]!r}")


def _numbers(words: list[bytes], ranges: Sequence[tuple[int, int]]) -> list[int]:
    values = integers(words) if words else []
    if len(values) != len(ranges) or any(not a <= value <= b for value, (a, b) in zip(values, ranges, strict=True)):
        raise TapeError(f"expected {len(ranges)} numbers in their ranges, found {b' '.join(words)[:80]!r}")
    return values


def play(room: Room, op: Op) -> list[Said]:
    """What one line says."""
    said: list[Said]
    if op.verb == "connect":
        reason = room.connect(*op.numbers)
        return [("open",) if reason is None else ("shed", reason, *ANSWERS[reason])]
    try:
        said = _do(room, op)
    except Ds4Error as error:
        said = [("error", error.code)]
    return [*said, ("state", *room.standing)]


def _do(room: Room, op: Op) -> list[Said]:
    match op.verb:
        case "arrive":
            assert op.given is not None
            key, reason = room.arrive(op.given, *op.numbers)
            return [("queued", key) if reason is None else ("shed", reason, *ANSWERS[reason])]
        case "release":
            done = room.release(*op.numbers)
            late: list[Said] = [("expired", key, *ANSWERS["queue_age"]) for key in done.expired]
            return late + [("release", key) for key in done.released]
        case "leave":
            return [("left", room.leave(*op.numbers))]
        case "cancel":
            room.cancel(*op.numbers)
            return [("cancelled",)]
        case "clients":
            return [("client", *client) for client in room.clients()]
        case _:
            room.stop()
            return []


def run(given: AdmissionInput) -> list[Said]:
    room = Room(given.limits)
    return [said for op in given.ops for said in play(room, op)]


def write_output(said: Sequence[Said]) -> bytes:
    return b"".join(
        [
            b" ".join([escape(w) if isinstance(w, bytes) else str(w).encode("ascii") for w in one]) + b"\n"
            for one in said
        ]
    )


def read_output(tape: bytes) -> list[Said]:
    """TapeError for what is no output of admission."""
    return [_said(words) for words in lines(tape)]


def _said(words: list[bytes]) -> Said:
    verb = words[0].decode("latin-1") if words else ""
    if verb == "client" and len(words) == 5:
        return (verb, unescape(words[1]), *integers(words[2:]))
    if verb == "shed" and len(words) == 4:
        return (verb, words[1].decode("latin-1"), *integers(words[2:]))
    if verb == "error" and len(words) == 2:
        return (verb, words[1].decode("latin-1"))
    if not verb.isalpha():
        raise TapeError("no line of admission's output")
    return (verb, *[integer(word) for word in words[1:]])


def by_tape(tape: bytes) -> bytes:
    """The replacement as the component that it is."""
    return write_output(run(read_input(tape)))


class OracleRoom(Room):
    """Room, answered by the oracle: the tape so far is played again for every call, and begun anew whenever nobody
    waits or runs. Keys go on where the tape before ended."""

    def __init__(self, limits: RoomLimits) -> None:
        super().__init__(limits)
        self._head = self._tape = write_head(limits)
        self._lines = 0  # that the tape so far has written
        self._base = 0  # keys that the tapes before this one gave out
        self._given: dict[int, None] = {}  # those that wait
        self._last = Standing()

    @property
    def standing(self) -> Standing:
        return self._last

    def waits(self, key: int) -> bool:
        return key in self._given

    def keys(self) -> list[int]:
        return list(self._given)

    def clients(self) -> list[tuple[bytes, int, int, int]]:
        return [cast("tuple[bytes, int, int, int]", one[1:]) for one in self._play(Op("clients"), keep=False)]

    def connect(self, connected: int) -> Shed | None:
        return self._shed(self._play(Op("connect", (connected,)), keep=False)[0])

    def stop(self) -> None:
        self.stopped = True
        self._play(Op("stop"))
        self._head += write_op(Op("stop"))

    def arrive(self, given: Arrival, now: int) -> tuple[int, Shed | None]:
        self._keys += 1
        reason = self._shed(self._play(Op("arrive", (now,), given))[0])
        if reason is None:
            self._given[self._keys] = None
        return self._keys, reason

    def release(self, now: int) -> Released:
        if not self._given:
            return Released([], [])
        done = Released([], [])
        for verb, key, *_ in self._play(Op("release", (now,))):
            assert isinstance(key, int)
            (done.expired if verb == "expired" else done.released).append(key + self._base)
            del self._given[key + self._base]
        self._rest()
        return done

    def leave(self, key: int, used: int) -> int:
        left = self._play(Op("leave", (key - self._base, used)))[0][1]
        self._rest()
        assert isinstance(left, int)
        return left

    def cancel(self, key: int) -> None:
        self._play(Op("cancel", (key - self._base,)))
        del self._given[key]
        self._rest()

    def _play(self, op: Op, *, keep: bool = True) -> list[Said]:
        """What one more line says, without its state."""
        tape = self._tape + write_op(op)
        written = oracle("admission").run(tape)
        said = read_output(b"".join(written.splitlines(keepends=True)[self._lines :]))
        if keep:
            self._tape, self._lines = tape, self._lines + len(said)
        if said and said[-1][0] == "state":
            self._last = Standing(*cast("tuple[int, ...]", said.pop()[1:]))
        if said and said[0][0] == "error":
            raise Ds4Error("refused by the oracle", code=str(said[0][1]))
        return said

    def _rest(self) -> None:
        """Begins the tape anew where nothing of it matters any more."""
        if not self._last.clients:
            self._tape, self._lines, self._base = self._head, int(self.stopped), self._keys

    @staticmethod
    def _shed(said: Said) -> Shed | None:
        return next(reason for reason in REASONS if reason == said[1]) if said[0] == "shed" else None


def room(limits: RoomLimits) -> Room:
    """The one that the ledger names."""
    return components.pick("admission", python=Room, oracle=OracleRoom)(limits)
