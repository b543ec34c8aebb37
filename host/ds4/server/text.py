"""From drawn tokens to text that may be shown: UTF-8 held back until whole, stop strings held back until ruled out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ds4.core import components
from ds4.core.output.stops import StopMatcher
from ds4.core.tapes.stops import OracleStopMatcher
from ds4.server.events import TokenLogprob


class Decoder(Protocol):
    """ds4.core.tokenizer.StreamDecoder."""

    def push(self, token: int, /) -> str: ...
    def flush(self) -> str: ...


class ChoiceText:
    """The text of one choice as it grows. logprobs collects the tokens whose text has not been shown yet."""

    __slots__ = ("_decoder", "_matcher", "logprobs", "stopped")

    def __init__(self, decoder: Decoder, stops: Sequence[str], logprobs: bool) -> None:
        self._decoder = decoder
        matcher = components.pick("stops", python=StopMatcher, oracle=OracleStopMatcher)
        self._matcher = matcher(stops) if stops else None
        self.logprobs: list[TokenLogprob] | None = [] if logprobs else None
        self.stopped = False

    def push(self, token: int) -> str:
        """Text that is safe to show now; `stopped` turns true when a stop string is complete."""
        text = self._decoder.push(token)
        if self._matcher is None or not text:
            return text
        text, self.stopped = self._matcher.push(text)
        return text

    def flush(self) -> str:
        """What was held back, now that no token follows."""
        text = self._decoder.flush()
        if self._matcher is None or self.stopped:
            return "" if self.stopped else text
        shown, self.stopped = self._matcher.push(text) if text else ("", False)
        return shown if self.stopped else shown + self._matcher.flush()

    @property
    def stop(self) -> str | None:
        """The stop string that was met."""
        return None if self._matcher is None else self._matcher.matched

    def take_logprobs(self) -> list[TokenLogprob] | None:
        """Log-probabilities to go with the text that is shown now."""
        if self.logprobs is None:
            return None
        taken, self.logprobs = self.logprobs, []
        return taken
