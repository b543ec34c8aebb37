"""An oracle that is answered by its replacement, for tests of the classes that keep a tape and ask an oracle.

They must do what the class they stand for does whoever answers; that oracle and replacement answer alike is the parity
system's to show.
"""

from __future__ import annotations

from collections.abc import Callable


class StandIn:
    """Has ds4.sys.oracles.Oracle's run."""

    def __init__(self, run: Callable[[bytes], bytes]) -> None:
        self._run = run

    def run(self, tape: bytes | bytearray) -> bytes:
        return self._run(bytes(tape))


def standing_in(run: Callable[[bytes], bytes]) -> Callable[[str], StandIn]:
    """A stand-in for ds4.sys.oracles.oracle."""
    return lambda name: StandIn(run)
