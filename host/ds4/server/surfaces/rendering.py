"""What the surfaces' renderers share: an answer's parts, usage and timings, JSON and SSE as this server writes them.

Everything here, and in the renderers, is a function of its arguments: ids and times come from whoever calls.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from ds4.server.errors import ApiError
from ds4.server.events import CallDelta, CallsVoid, Delta, Finished, Progress, TokenLogprob

KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"
TokenBytes = Callable[[int], bytes]
"""A token's bytes, for log-probabilities."""


@dataclass(frozen=True, slots=True)
class AnswerFacts:
    """What an answer of chat or completions says about its request.

    n: choices of each prompt. usage: a stream ends with it. logprobs: they were asked for. reads: answers are read for
    reasoning and tool calls.
    """

    id: str
    created: int
    model: str
    fingerprint: str
    n: int = 1
    prompts: int = 1
    usage: bool = False
    logprobs: bool = False
    reads: bool = False

    @property
    def choices(self) -> int:
        return self.prompts * self.n

    def head(self, kind: str) -> dict[str, Any]:
        """The members that every chunk, and the body, begins with. kind: OpenAI's name of the object."""
        return {
            "id": self.id,
            "object": kind,
            "created": self.created,
            "model": self.model,
            "system_fingerprint": self.fingerprint,
        }


@dataclass(slots=True)
class Call:
    """A tool call of a buffered answer."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Answer:
    """One finished choice of a buffered answer. calls: by their index."""

    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    calls: dict[int, Call] = field(default_factory=dict)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    finished: Finished | None = None
    parts: list[Delta | CallDelta | CallsVoid] = field(default_factory=list)  # all of it, in order

    def add(self, event: Delta | CallDelta | CallsVoid) -> None:
        self.parts.append(event)
        match event:
            case Delta():
                (self.reasoning if event.reasoning else self.text).append(event.text)
            case CallDelta():
                if event.id:
                    self.calls[event.index] = Call(event.id, event.name)
                if call := self.calls.get(event.index):  # none: what goes on is void
                    call.arguments.append(event.arguments)
            case CallsVoid():
                self.calls = {index: call for index, call in self.calls.items() if index < event.first}
                return
        self.logprobs += event.logprobs or ()


class Renderer(Protocol):
    """Writes one request's answer in a protocol. The stream methods return whole SSE messages, or b"" for nothing.
    What has a body here is OpenAI's way."""

    def opening(self) -> bytes: ...
    def delta(self, event: Delta) -> bytes: ...
    def call(self, event: CallDelta) -> bytes: ...
    def finished(self, event: Finished) -> bytes: ...
    def closing(self, ends: list[Finished]) -> bytes: ...
    def buffered(self, answers: list[Answer]) -> bytes: ...

    def at_once(self, event: Delta) -> bytes | None:
        """What `delta` gives; None where that would move the renderer on, for it may be made in vain."""
        return None if event.logprobs is not None else self.delta(event)

    def heartbeat(self) -> bytes:
        """Said after a while of silence: what the clients of this protocol count as life."""
        return KEEP_ALIVE

    def error(self, error: ApiError) -> bytes:
        """An error as a body."""
        return error.body()

    def failed(self, error: ApiError) -> bytes:
        """An error after the stream's beginning; nothing follows."""
        return b"data: " + self.error(error) + b"\n\n"


def usage(ends: list[Finished], n: int) -> dict[str, Any]:
    """OpenAI's usage: a prompt counts once however many answers it has."""
    prompt = sum(end.prompt_tokens for end in ends[::n])
    cached = sum(end.cached_tokens for end in ends[::n])
    completion = sum(end.completion_tokens for end in ends)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def timings(ends: list[Finished], n: int) -> dict[str, Any]:
    """Where the time went: to the first token, and from there to the last. Prefill counts computed tokens only."""
    arrived, first = min(end.arrived for end in ends), min(end.first_token for end in ends)
    last = max(end.last_token for end in ends)
    prefill = sum(end.prompt_tokens - end.cached_tokens for end in ends[::n])
    decoded = sum(end.completion_tokens - 1 for end in ends)
    return {
        "ttft_ms": round(1e3 * (first - arrived), 3),
        "prefill_tokens": prefill,
        "prefill_cached_tokens": sum(end.cached_tokens for end in ends[::n]),
        "prefill_tok_s": round(prefill / (first - arrived), 2) if first > arrived else None,
        "decode_tok_s": round(decoded / (last - first), 2) if last > first else None,
    }


_LINE_ENDS = re.compile("[\x85\u2028\u2029]")
_quoted = json.encoder.encode_basestring


def one_line(text: str) -> bytes:
    """JSON without the characters that end a line for Unicode but not for SSE: many a client splits at those too."""
    if not text.isascii():
        text = _LINE_ENDS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
    return text.encode()


def quote(text: str) -> bytes:
    """A text as a JSON string."""
    return one_line(_quoted(text))


def dump(value: object) -> bytes:
    return one_line(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def sse(value: object) -> bytes:
    return b"data: " + dump(value) + b"\n\n"


def progress(head: dict[str, Any], event: Progress) -> bytes:
    """A chunk without choices, which clients that do not know of progress pass over."""
    told = {"prompt_tokens": event.prompt_tokens, "computed": event.computed, "cached": event.cached}
    return sse({**head, "choices": [], "progress": {"index": event.choice, **told}})
