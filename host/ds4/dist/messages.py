"""What coordinator and workers say to each other, as values. ds4.dist.frames writes and reads them.

Names, hosts, messages and everything sized are bytes, as they are on the wire. Counts are not fields: they follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum, IntFlag

MAX_NAME_BYTES = 127
MAX_HOST_BYTES = 1024
MAX_CHUNK_BYTES = 8 << 20
MAX_MESSAGE_BYTES = 65536


class Kind(IntEnum):
    """What a result carries."""

    ACK = 0
    HIDDEN = 1
    LOGITS = 2


class WorkFlags(IntFlag):
    """How a piece of work is to be done."""

    INPUT_ACTIVATION = 1
    WANT_LOGITS = 2
    RESET = 4
    ACK_ONLY = 8


WORK_FLAGS = 15


@dataclass(frozen=True, slots=True)
class Hello:
    """A worker to the coordinator: who it is, which layers it holds, where it listens. name: at most 127 bytes."""

    model_id: int
    quant_bits: int
    layer_start: int
    layer_end: int
    has_output: int
    has_hidden: int
    ctx: int
    layers: int
    port: int
    name: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """The connection ends, and why."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Hop:
    """A worker that the work goes on to."""

    host: bytes
    port: int
    layer_start: int
    layer_end: int
    flags: int


@dataclass(frozen=True, slots=True)
class Return:
    """Where the result goes. kind 1: back the way the work came, with no host."""

    kind: int
    host: bytes
    port: int


@dataclass(frozen=True, slots=True)
class Work:
    """Tokens to evaluate in some layers. prefix_hash: the chain over the tokens before pos0; result_hash: after these.

    activation_bits: 8, 16, 32, or 0 for 32. activations: in that width. back: there exactly if there are hops.
    """

    model_id: int
    session: int
    request: int
    prefix_hash: int
    result_hash: int
    pos0: int
    layer_start: int
    layer_end: int
    flags: int
    activation_bits: int
    route_index: int
    tokens: Sequence[int]
    activations: bytes = b""
    hops: tuple[Hop, ...] = ()
    back: Return | None = None


@dataclass(frozen=True, slots=True)
class Telemetry:
    """How a worker spent its time on a piece of work, in microseconds, and the bytes that came and went."""

    layer_start: int
    layer_end: int
    route_index: int
    pos0: int
    n_tokens: int
    eval_us: int
    wait_us: int
    send_us: int
    input_bytes: int
    output_bytes: int


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a piece of work. status: 0, or the payload is a message. payload_bits: as activation_bits."""

    request: int
    result_hash: int
    status: int
    kind: int
    payload_bits: int
    telemetry: tuple[Telemetry, ...] = ()
    payload: bytes = b""


@dataclass(frozen=True, slots=True)
class SnapshotSave:
    """Asks a worker for its shard of a session's state."""

    model_id: int
    session: int
    request: int
    token_hash: int
    token_count: int
    layer_start: int
    layer_end: int


@dataclass(frozen=True, slots=True)
class SnapshotBegin:
    """The answer: payload_bytes follow in chunks; or status is not 0 and the message says why not."""

    model_id: int
    session: int
    request: int
    token_hash: int
    layer_start: int
    layer_end: int
    payload_bytes: int
    status: int
    tokens: Sequence[int] = ()
    message: bytes = b""


@dataclass(frozen=True, slots=True)
class SnapshotChunk:
    """A piece of a shard, at most 8 MiB."""

    request: int
    chunk: bytes


@dataclass(frozen=True, slots=True)
class SnapshotDone:
    """The end of a shard."""

    request: int
    status: int
    message: bytes = b""


@dataclass(frozen=True, slots=True)
class SnapshotLoad:
    """Gives a worker its shard of a session's state: payload_bytes follow in chunks."""

    model_id: int
    session: int
    request: int
    token_hash: int
    layer_start: int
    layer_end: int
    payload_bytes: int
    status: int
    tokens: Sequence[int] = ()


Message = Hello | Failure | Work | Result | SnapshotSave | SnapshotBegin | SnapshotChunk | SnapshotDone | SnapshotLoad

_WIDE = frozenset(("session", "request", "prefix_hash", "result_hash", "token_hash", "payload_bytes"))


def numbers(message: type) -> dict[str, int]:
    """The numeric fields of a message, hop, return address or telemetry, in order, each with the most it holds."""
    fields: dict[str, str] = message.__annotations__
    return {name: 2**64 - 1 if name in _WIDE else 2**32 - 1 for name, kind in fields.items() if kind == "int"}
