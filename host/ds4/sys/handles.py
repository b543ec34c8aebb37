"""What owns a handle of the engine's, whichever it is."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from typing import Any


class Handle:
    """An owned pointer: freed once, when close() is called or the last object that needs it goes.

    weakref.finalize holds `keep` (the model's handle, for a session) until the pointer is freed, which fixes the
    order of the two frees even when the garbage collector finds both in one cycle. A forked child never frees: the
    pool's threads that a free would join exist only in the parent.
    """

    __slots__ = ("__weakref__", "_finalizer", "pointer")

    def __init__(self, pointer: Any, free: Callable[[Any], None], keep: object = None) -> None:
        self.pointer = pointer
        self._finalizer = weakref.finalize(self, _free, pointer, free, keep, os.getpid())

    def close(self) -> None:
        self.pointer = None
        self._finalizer()


def _free(pointer: Any, free: Callable[[Any], None], keep: object, pid: int) -> None:
    if os.getpid() == pid:
        free(pointer)
    del keep
