"""The state of a bank, taken out of the engine."""

from __future__ import annotations

import os
from typing import Any

from ds4.sys.bridge import Bridge
from ds4.sys.convert import closed


class NativeSnapshot:
    """The state of one bank as bytes. Views stay valid after close(): the memory goes with the last of them."""

    def __init__(self, bridge: Bridge, pointer: Any) -> None:
        size = bridge.ffi.new("uint64_t *")
        data = bridge.lib.ds4_snapshot_data(pointer, size)
        self.length: int = bridge.lib.ds4_snapshot_length(pointer)  # positions
        self.nbytes: int = size[0]
        pid, free = os.getpid(), bridge.lib.ds4_snapshot_free
        owner = bridge.ffi.gc(data, lambda _data: free(pointer) if os.getpid() == pid else None)
        self._pointer: Any = pointer
        self._view: memoryview | None = memoryview(bridge.ffi.buffer(owner, self.nbytes)).toreadonly()

    @property
    def pointer(self) -> Any:
        if self._view is None:
            raise closed("snapshot")
        return self._pointer

    def view(self) -> memoryview:
        """The bytes, without a copy."""
        if self._view is None:
            raise closed("snapshot")
        return self._view

    def __bytes__(self) -> bytes:
        return bytes(self.view())

    def __len__(self) -> int:
        return self.nbytes

    def close(self) -> None:
        self._view = None
