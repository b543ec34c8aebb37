"""Answers of chat completions, whole or in chunks."""

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

CHUNK = "chat.completion.chunk"


class ChatRenderer(Renderer):
    """Chunks are made of prepared bytes; a delta without log-probabilities costs one JSON string."""

    def __init__(self, facts: AnswerFacts, token_bytes: TokenBytes) -> None:
        self._facts, self._token_bytes = facts, token_bytes
        self._head = facts.head(CHUNK)
        self._tail: dict[str, Any] = {"usage": None} if facts.usage else {}
        self._content = self._halves("content")
        self._reasoning = self._halves("reasoning_content") if facts.reads else []

    def _halves(self, key: str) -> list[tuple[bytes, bytes]]:
        """What stands before and after the text of a delta, for each choice: found with a 0 in the text's place."""
        halves = []
        for index in range(self._facts.choices):
            before, after = sse(self._chunk({key: 0}, None, index)).split(b'{"%b":0}' % key.encode())
            halves.append((b'%b{"%b":' % (before, key.encode()), b"}" + after))
        return halves

    def _chunk(self, delta: dict[str, Any], reason: str | None, index: int, logprobs: Any = None) -> dict[str, Any]:
        choice = {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return {**self._head, "choices": [choice], **self._tail}

    def opening(self) -> bytes:
        delta = {"role": "assistant", "content": ""}
        return b"".join(sse(self._chunk(delta, None, index)) for index in range(self._facts.choices))

    def delta(self, event: Delta) -> bytes:
        if event.logprobs is None:
            before, after = (self._reasoning if event.reasoning else self._content)[event.choice]
            return b"%b%b%b" % (before, quote(event.text), after)
        key = "reasoning_content" if event.reasoning else "content"
        return self._delta({key: event.text}, event)

    def call(self, event: CallDelta) -> bytes:
        function = {"arguments": event.arguments}
        call: dict[str, Any] = {"index": event.index, "function": function}
        if event.id:
            call |= {"id": event.id, "type": "function", "function": {"name": event.name, **function}}
        return self._delta({"tool_calls": [call]}, event)

    def _delta(self, delta: dict[str, Any], event: Delta | CallDelta) -> bytes:
        logprobs = None
        if event.logprobs is not None:
            logprobs = {"content": self._logprobs(event.logprobs), "refusal": None}
        return sse(self._chunk(delta, None, event.choice, logprobs))

    def finished(self, event: Finished) -> bytes:
        return sse(self._chunk({}, event.reason, event.choice))

    def closing(self, ends: list[Finished]) -> bytes:
        if not self._facts.usage:
            return DONE
        n = self._facts.n
        return sse({**self._head, "choices": [], "usage": self._usage(ends), "timings": timings(ends, n)}) + DONE

    def buffered(self, answers: list[Answer]) -> bytes:
        choices, ends = [], []
        for index, answer in enumerate(answers):
            assert answer.finished is not None
            ends.append(answer.finished)
            logprobs = None
            if self._facts.logprobs:
                logprobs = {"content": self._logprobs(answer.logprobs), "refusal": None}
            choices.append(
                {
                    "index": index,
                    "message": _message(answer),
                    "logprobs": logprobs,
                    "finish_reason": answer.finished.reason,
                }
            )
        n = self._facts.n
        whole = {**self._head, "object": "chat.completion", "choices": choices}
        return dump({**whole, "usage": self._usage(ends), "timings": timings(ends, n)})

    def _usage(self, ends: list[Finished]) -> dict[str, Any]:
        figures = usage(ends, self._facts.n)
        if self._facts.reads:
            figures["completion_tokens_details"] = {"reasoning_tokens": sum(end.reasoning_tokens for end in ends)}
        return figures

    def _logprobs(self, entries: list[TokenLogprob]) -> list[dict[str, Any]]:
        return [
            {**self._entry(e.token, e.logprob), "top_logprobs": [self._entry(token, value) for token, value in e.top]}
            for e in entries
        ]

    def _entry(self, token: int, logprob: float) -> dict[str, Any]:
        data = self._token_bytes(token)
        return {"token": data.decode("utf-8", "replace"), "logprob": logprob, "bytes": list(data)}


def _message(answer: Answer) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": "".join(answer.text), "refusal": None}
    if answer.reasoning:
        message["reasoning_content"] = "".join(answer.reasoning)
    if answer.calls:
        message["content"] = message["content"] or None
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": "".join(call.arguments)}}
            for call in answer.calls.values()
        ]
    return message
