"""Answers of chat completions, whole or in chunks."""

from __future__ import annotations

from typing import Any

from ds4.server.events import CallDelta, Delta, Finished, TokenLogprob
from ds4.server.surfaces.chunk_render import ChunkRenderer
from ds4.server.surfaces.rendering import Answer, AnswerFacts, TokenBytes

CHUNK = "chat.completion.chunk"


class ChatRenderer(ChunkRenderer):
    def __init__(self, facts: AnswerFacts, token_bytes: TokenBytes) -> None:
        super().__init__(
            facts,
            token_bytes,
            chunk=CHUNK,
            whole="chat.completion",
            text=("delta", "content"),
            reasoning=("delta", "reasoning_content"),
        )

    def opening(self) -> bytes:
        delta = {"role": "assistant", "content": ""}
        return b"".join(self._chunk(index, {"delta": delta}) for index in range(self._facts.choices))

    def call(self, event: CallDelta) -> bytes:
        function = {"arguments": event.arguments}
        call: dict[str, Any] = {"index": event.index, "function": function}
        if event.id:
            call |= {"id": event.id, "type": "function", "function": {"name": event.name, **function}}
        logprobs = None if event.logprobs is None else self._logprobs(event.logprobs)
        return self._chunk(event.choice, {"delta": {"tool_calls": [call]}}, logprobs)

    def finished(self, event: Finished) -> bytes:
        return self._chunk(event.choice, {"delta": {}}, reason=event.reason)

    def _likely(self, event: Delta, entries: list[TokenLogprob]) -> bytes:
        key = "reasoning_content" if event.reasoning else "content"
        return self._chunk(event.choice, {"delta": {key: event.text}}, self._logprobs(entries))

    def _usage(self, ends: list[Finished]) -> dict[str, Any]:
        figures = super()._usage(ends)
        if self._facts.reads:
            figures["completion_tokens_details"] = {"reasoning_tokens": sum(end.reasoning_tokens for end in ends)}
        return figures

    def _logprobs(self, entries: list[TokenLogprob]) -> dict[str, Any]:
        content = [
            {**self._entry(e.token, e.logprob), "top_logprobs": [self._entry(token, value) for token, value in e.top]}
            for e in entries
        ]
        return {"content": content, "refusal": None}

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        data = self._token_bytes(token)
        return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}

    def _shown(self, answer: Answer) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.text), "refusal": None}
        if answer.reasoning:
            message["reasoning_content"] = "".join(answer.reasoning)
        if answer.calls:
            message["content"] = message["content"] or None
            message["tool_calls"] = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": call.name, "arguments": "".join(call.arguments)},
                }
                for call in answer.calls.values()
            ]
        return {"message": message}
