"""Work that took too long, remembered for a while: whoever asks for it again need not be risked again."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

SECONDS: Final = 600.0
MOST: Final = 1024
"""Entries kept, of some hundred bytes each; the oldest goes first."""


def name_of(asked: object) -> bytes:
    """A short name of what is JSON."""
    return hashlib.blake2b(json.dumps(asked).encode(), digest_size=16).digest()


class Slow:
    """For any thread."""

    def __init__(self, seconds: float = SECONDS, most: int = MOST, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds, self._most, self._clock = seconds, most, clock
        self._until: OrderedDict[bytes, float] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, name: bytes) -> None:
        with self._lock:
            self._until.pop(name, None)
            self._until[name] = self._clock() + self._seconds
            while len(self._until) > self._most:
                self._until.popitem(last=False)

    def __contains__(self, name: bytes) -> bool:
        with self._lock:
            until = self._until.get(name)
            if until is not None and until <= self._clock():
                del self._until[name]
                return False
            return until is not None
