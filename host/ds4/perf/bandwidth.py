"""How fast this machine reads memory: the yardstick for decode, which reads every active weight once a token.

The C library's memchr, behind `bytearray.find`, scans a buffer far larger than the caches for a byte that is not there.
It is vectorised on every platform we run on and does less for a byte than any kernel could, so memory bounds it; and it
is not our code, so our kernels are held to something that they do not define. It holds the GIL, hence a process for
each thread.
"""

from __future__ import annotations

import os
import struct
import time

from ds4.sys.memory import available_bytes

_LARGEST = 512 << 20
_ROUNDS = 5


def read_bandwidth(threads: int, nbytes: int | None = None) -> float:
    """Bytes a second that `threads` processes read together, the best of a few rounds. Call it before the engine has
    threads of its own: it forks."""
    nbytes = nbytes or min(_LARGEST, available_bytes() // 4)
    # Written, not just allocated: untouched pages all map one page of zeros, which the cache would hold.
    buffer = bytearray(b"\x55") * nbytes
    share = nbytes // threads
    if share == 0:
        raise ValueError(f"{nbytes} bytes for {threads} threads")
    workers = [_Worker(buffer, n * share, share) for n in range(1, threads)]
    try:
        best = 0.0
        for _ in range(_ROUNDS):
            start = time.perf_counter()
            for worker in workers:
                worker.start()
            _scan(buffer, 0, share)
            for worker in workers:
                worker.wait()
            best = max(best, threads * share / (time.perf_counter() - start))
        return best
    finally:
        for worker in workers:
            worker.close()


def _scan(buffer: bytearray, start: int, length: int) -> None:
    if buffer.find(b"\xaa", start, start + length) != -1:
        raise AssertionError("the buffer holds a byte that was never written")


class _Worker:
    """A forked process that scans its part of the buffer each time it is told to."""

    def __init__(self, buffer: bytearray, start: int, length: int) -> None:
        go_read, self._go = os.pipe()
        self._done, done_write = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            # In the child nothing but the scan may run: no exit handlers, no buffered output of the parent's.
            try:
                os.close(self._go)
                while os.read(go_read, 1):
                    _scan(buffer, start, length)
                    os.write(done_write, struct.pack("B", 1))
            finally:
                os._exit(0)
        os.close(go_read)
        os.close(done_write)

    def start(self) -> None:
        os.write(self._go, b"g")

    def wait(self) -> None:
        if not os.read(self._done, 1):
            raise OSError("a measuring process ended early")

    def close(self) -> None:
        os.close(self._go)
        os.close(self._done)
        os.waitpid(self._pid, 0)
