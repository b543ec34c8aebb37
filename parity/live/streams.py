"""One streamed answer on each of the four surfaces, read as its protocol says: what a whole stream must hold."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import httpx

from parity.live.process import Failure

Body = dict[str, Any]
Event = dict[str, Any]


@dataclass
class Heard:
    """What was read of one stream. times: when each event came, in seconds of time.perf_counter."""

    events: list[Event] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    done: bool = False

    @property
    def gaps(self) -> list[float]:
        return [b - a for a, b in zip(self.times, self.times[1:], strict=False)]


async def listen(
    client: httpx.AsyncClient, path: str, body: Body, *, on_event: Callable[[int], object] | None = None
) -> Heard:
    """Reads a stream to its end. on_event(n) is called, and awaited if it can be, after event n; raising HangUp leaves
    the stream there. Raises Failure for anything but a stream."""
    heard = Heard()
    async with client.stream("POST", path, json={**body, "stream": True}) as response:
        if response.status_code != 200:
            text = (await response.aread()).decode(errors="replace")
            raise Failure(f"{path}: expected 200, found {response.status_code}: {text[:200]}")
        async for line in response.aiter_lines():
            if not line.startswith("data: "):
                continue
            heard.times.append(time.perf_counter())
            if line == "data: [DONE]":
                heard.done = True
                continue
            heard.events.append(json.loads(line.removeprefix("data: ")))
            if on_event is not None:
                waiting = on_event(len(heard.times))
                if waiting is not None:
                    await waiting  # type: ignore[misc]
    return heard


class HangUp(Exception):
    """The client leaves."""


def _openai(events: list[Event]) -> tuple[bool, int]:
    finished = any(choice.get("finish_reason") for e in events for choice in e["choices"])
    return finished, next((e["usage"]["completion_tokens"] for e in reversed(events) if e.get("usage")), 0)


def _messages(events: list[Event]) -> tuple[bool, int]:
    tokens = next((e["usage"]["output_tokens"] for e in events if e["type"] == "message_delta"), 0)
    return events[-1]["type"] == "message_stop", tokens


def _responses(events: list[Event]) -> tuple[bool, int]:
    if [e["sequence_number"] for e in events] != list(range(len(events))):
        raise Failure("sequence numbers with a gap")
    last = events[-1]
    usage = last.get("response", {}).get("usage") or {}
    return last["type"] in ("response.completed", "response.incomplete"), usage.get("output_tokens", 0)


@dataclass(frozen=True)
class Surface:
    """body: of a request for `tokens` tokens about `text`; end: (whether it ended well, tokens by its usage)."""

    path: str
    body: Callable[[str, int], Body]
    end: Callable[[list[Event]], tuple[bool, int]]
    marker: bool = False

    def check(self, heard: Heard) -> int:
        """The tokens of a whole stream. Raises Failure for one that did not end as it must."""
        if not heard.events:
            raise Failure(f"{self.path}: a stream without an event")
        errors: Iterable[Event] = (e for e in heard.events if e.get("error") or e.get("type") == "error")
        if (error := next(iter(errors), None)) is not None:
            raise Failure(f"{self.path}: {str(error)[:200]}")
        ended, tokens = self.end(heard.events)
        if not ended or heard.done != self.marker or tokens < 1:
            raise Failure(f"{self.path}: ended with {str(heard.events[-1])[:200]}, {tokens} tokens, done {heard.done}")
        return tokens


def _said(text: str) -> list[Body]:
    return [{"role": "user", "content": text}]


SURFACES: dict[str, Surface] = {
    "chat": Surface(
        "/v1/chat/completions",
        lambda t, n: {
            "model": "any",
            "messages": _said(t),
            "max_tokens": n,
            "stream_options": {"include_usage": True},
        },
        _openai,
        marker=True,
    ),
    "completions": Surface(
        "/v1/completions",
        lambda t, n: {"model": "any", "prompt": t, "max_tokens": n, "stream_options": {"include_usage": True}},
        _openai,
        marker=True,
    ),
    "messages": Surface(
        "/v1/messages",
        lambda t, n: {"model": "any", "messages": _said(t), "max_tokens": n},
        _messages,
    ),
    "responses": Surface(
        "/v1/responses",
        lambda t, n: {"model": "any", "input": t, "max_output_tokens": n, "store": False},
        _responses,
    ),
}
