"""Pace: how many prompt tokens fit in a step without making those who decode wait too long."""

from __future__ import annotations

FIRST_CHUNK = 32
SMALLEST_CHUNK = 8
SMOOTHING = 0.3


class Pace:
    """Learns from measured steps what a decode step and a prompt token take.

    A prompt chunk that shares a step with decoding rows gets about as much time as those rows take alone, so the step
    lasts at most about twice as long. Without decoding rows the chunk is as wide as the engine allows.
    """

    def __init__(self) -> None:
        self.decode_ns: float | None = None  # a step of decoding rows only
        self.token_ns: float | None = None  # one more prompt token in a step

    def learn(self, decoding: int, prompt: int, elapsed_ns: int) -> None:
        """Takes in a step of `decoding` output rows and `prompt` prompt rows that ran for elapsed_ns."""
        if elapsed_ns <= 0:
            return
        if not prompt:
            self.decode_ns = _blend(self.decode_ns, elapsed_ns)
        elif not decoding:
            if prompt >= SMALLEST_CHUNK:  # the weights are read once a step: a few rows say nothing about the next one
                self.token_ns = _blend(self.token_ns, elapsed_ns / prompt)
        elif self.decode_ns is not None:
            # Never below an eighth of the mean: a lucky step must not open the door to a huge chunk.
            extra = max(elapsed_ns - self.decode_ns, elapsed_ns / 8)
            self.token_ns = _blend(self.token_ns, extra / prompt)
        elif self.token_ns is not None:
            self.decode_ns = max(elapsed_ns - self.token_ns * prompt, elapsed_ns / 4)

    def chunk(self, decoding: int, width: int) -> int:
        """Prompt rows that the next step may carry beside `decoding` rows; width: rows left in the step."""
        if not decoding:
            return width
        if self.decode_ns is None or self.token_ns is None:
            return min(width, FIRST_CHUNK)
        return min(width, max(SMALLEST_CHUNK, int(self.decode_ns / self.token_ns)))


def _blend(old: float | None, new: float) -> float:
    return new if old is None else old + SMOOTHING * (new - old)
