"""Bounds on what a client may send, hold and leave unread."""

from __future__ import annotations

from dataclasses import dataclass, field

from ds4.server.schedule.admission import QueueLimits

UINT64 = (1 << 64) - 1
"""Largest seed; seeds count modulo one more."""

LARGEST_COUNT = 1 << 31
"""Of tokens, of what is kept, and the like: far more than there can be, and what larger ones count as."""

MAX_NESTING = 64
"""Depth of arrays and objects in a body."""

MAX_CHOICES = 8
"""Largest n."""

MAX_PROMPTS = 64
"""Prompts in one completions request."""

MAX_INPUTS = 2048
"""Inputs in one embeddings request."""

MAX_STOPS = 16
MAX_STOP_CHARS = 1024
MAX_BIASES = 1024
MAX_TOP_LOGPROBS = 20

MAX_HELD_TOOLS = 128
"""Tools of a request whose calls are held to a schema (`strict`) or a grammar."""
MAX_HELD_CHARS = 512 << 10
"""Characters of those schemas and grammars together."""

MAX_METADATA = 16
MAX_METADATA_KEY = 64
MAX_METADATA_VALUE = 512


@dataclass(frozen=True, slots=True)
class Limits:
    """body, header: bytes of one request; body_timeout: seconds between two pieces of a body; clients: requests being
    answered or read at once; backlog, backlog_total: bytes of answer that one slow reader, and all of them, may leave
    unread; keep_alive: seconds of silence before a comment goes out on a stream."""

    body: int = 64 << 20
    header: int = 64 << 10
    body_timeout: float = 30.0
    clients: int = 256
    backlog: int = 1 << 20
    backlog_total: int = 64 << 20
    keep_alive: float = 5.0
    queue: QueueLimits = field(default_factory=QueueLimits)
