"""Answers of completions, whole or in chunks."""

from __future__ import annotations

from typing import Any

from ds4.server.events import CallDelta, Delta, Finished, TokenLogprob
from ds4.server.surfaces.chunk_render import ChunkRenderer
from ds4.server.surfaces.rendering import Answer, AnswerFacts, TokenBytes

CHUNK = "text_completion"


class CompletionRenderer(ChunkRenderer):
    def __init__(self, facts: AnswerFacts, token_bytes: TokenBytes) -> None:
        super().__init__(facts, token_bytes, chunk=CHUNK, whole=CHUNK, text=("text",))
        self._offsets = [0] * facts.choices  # characters of text sent so far, for text_offset

    def opening(self) -> bytes:
        return b": stream\n\n"  # sends the headers: the first token may take a while

    def call(self, event: CallDelta) -> bytes:
        raise AssertionError("a completion is plain text")

    def finished(self, event: Finished) -> bytes:
        return self._chunk(event.choice, {"text": ""}, reason=event.reason)

    def _likely(self, event: Delta, entries: list[TokenLogprob]) -> bytes:
        logprobs = self._logprobs(entries, self._offsets[event.choice])
        self._offsets[event.choice] += len(event.text)
        return self._chunk(event.choice, {"text": event.text}, logprobs)

    def _logprobs(self, entries: list[TokenLogprob], offset: int = 0) -> dict[str, Any]:
        """The legacy shape: parallel arrays, alternatives by their text. offset: of the first token's text."""
        tokens, values, tops, offsets = [], [], [], []
        for entry in entries:
            shown = self._spelt(entry.token)
            tokens.append(shown)
            values.append(entry.logprob)
            tops.append({self._spelt(token): value for token, value in reversed(entry.top)})
            offsets.append(offset)
            offset += len(shown)
        return {"tokens": tokens, "token_logprobs": values, "top_logprobs": tops, "text_offset": offsets}

    def _spelt(self, token: int) -> str:
        """A token's text; one that is no UTF-8 by itself shows its bytes."""
        data = self._token_bytes(token)
        try:
            return data.decode()
        except UnicodeDecodeError:
            return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)

    def _shown(self, answer: Answer) -> dict[str, Any]:
        return {"text": "".join(answer.text)}
