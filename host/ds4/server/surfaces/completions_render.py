"""Answers of completions, whole or in chunks."""

from __future__ import annotations

from typing import Any

from ds4.server.events import CallDelta, Delta, Finished, TokenLogprob
from ds4.server.surfaces.rendering import (
    DONE,
    Answer,
    AnswerFacts,
    Renderer,
    TokenBytes,
    dump,
    quote,
    sse,
    timings,
    usage,
)

CHUNK = "text_completion"


class CompletionRenderer(Renderer):
    """Chunks are made of prepared bytes; a delta without log-probabilities costs one JSON string."""

    def __init__(self, facts: AnswerFacts, token_bytes: TokenBytes) -> None:
        self._facts, self._token_bytes = facts, token_bytes
        self._head = facts.head(CHUNK)
        self._tail: dict[str, Any] = {"usage": None} if facts.usage else {}
        self._offsets = [0] * facts.choices  # characters of text sent so far, for text_offset
        halves = [sse(self._chunk(0, None, index)).split(b'"text":0') for index in range(facts.choices)]
        self._before = [before + b'"text":' for before, _ in halves]
        self._after = [after for _, after in halves]

    def _chunk(self, shown: Any, reason: str | None, index: int, logprobs: Any = None) -> dict[str, Any]:
        choice = {"index": index, "text": shown, "logprobs": logprobs, "finish_reason": reason}
        return {**self._head, "choices": [choice], **self._tail}

    def opening(self) -> bytes:
        return b": stream\n\n"  # sends the headers: the first token may take a while

    def delta(self, event: Delta) -> bytes:
        if event.logprobs is None:
            return b"%b%b%b" % (self._before[event.choice], quote(event.text), self._after[event.choice])
        logprobs = self._logprobs(event.logprobs, self._offsets[event.choice])
        self._offsets[event.choice] += len(event.text)
        return sse(self._chunk(event.text, None, event.choice, logprobs))

    def call(self, event: CallDelta) -> bytes:
        raise AssertionError("a completion is plain text")

    def finished(self, event: Finished) -> bytes:
        return sse(self._chunk("", event.reason, event.choice))

    def closing(self, ends: list[Finished]) -> bytes:
        if not self._facts.usage:
            return DONE
        n = self._facts.n
        return sse({**self._head, "choices": [], "usage": usage(ends, n), "timings": timings(ends, n)}) + DONE

    def buffered(self, answers: list[Answer]) -> bytes:
        choices, ends = [], []
        for index, answer in enumerate(answers):
            assert answer.finished is not None
            ends.append(answer.finished)
            logprobs = self._logprobs(answer.logprobs, 0) if self._facts.logprobs else None
            choices.append(
                {
                    "index": index,
                    "text": "".join(answer.text),
                    "logprobs": logprobs,
                    "finish_reason": answer.finished.reason,
                }
            )
        n = self._facts.n
        return dump({**self._head, "choices": choices, "usage": usage(ends, n), "timings": timings(ends, n)})

    def _logprobs(self, entries: list[TokenLogprob], offset: int) -> dict[str, Any]:
        """The legacy shape: parallel arrays, alternatives by their text."""
        tokens, values, tops, offsets = [], [], [], []
        for entry in entries:
            shown = self._text(entry.token)
            tokens.append(shown)
            values.append(entry.logprob)
            tops.append({self._text(token): value for token, value in reversed(entry.top)})
            offsets.append(offset)
            offset += len(shown)
        return {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}

    def _text(self, token: int) -> str:
        """A token's text; one that is no UTF-8 by itself shows its bytes."""
        data = self._token_bytes(token)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
