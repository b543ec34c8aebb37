"""One answer, and what all surfaces say alike."""

from __future__ import annotations

import json
from typing import Any

from answers.stories import TOKENS, Event
from answers.tape import Entries, event_line, words


def dump(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("\x85", "\\u0085").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def timings(ends: list[dict[str, Any]], n: int) -> dict[str, Any]:
    start, first = min(e["times"][0] for e in ends), min(e["times"][1] for e in ends)
    last = max(e["times"][2] for e in ends)
    computed = sum(e["prompt"] - e["cached"] for e in ends[::n])
    return {
        "ttft_ms": float(f"{1000.0 * (first - start):.3f}"),
        "prefill_tokens": computed,
        "prefill_cached_tokens": sum(e["cached"] for e in ends[::n]),
        "prefill_tok_s": float(f"{computed / (first - start):.2f}") if first > start else None,
        "decode_tok_s": float(f"{sum(e['completion'] - 1 for e in ends) / (last - first):.2f}")
        if last > first
        else None,
    }


class Said:
    """One answer: facts, and the events so far."""

    surface = ""

    def __init__(self, streamed: bool, **facts: Any) -> None:
        self.streamed, self.facts = streamed, facts
        self.events: list[tuple[Event, Entries | None]] = []

    def head(self) -> bytes:
        raise NotImplementedError

    def say(self, event: Event, logprobs: Any) -> str:
        raise NotImplementedError

    def play(self, given: list[Event], logprobs: Any = None) -> tuple[bytes, bytes]:
        tape, out = words(b"wire", self.surface.encode(), int(self.streamed)) + self.head(), b""
        for number, event in enumerate(given):
            entries = logprobs(number, event) if logprobs and event[0] in ("delta", "reasoning", "call") else None
            tape += event_line(event, entries)
            self.events.append((event, entries))
            said = self.say(event, entries)
            verb = b"body" if event[0] == "whole" else b"sent"
            out += words(verb, said)
        return tape, out

    def error(self, event: Event) -> str:
        _, _, type, code, param, message = event
        return json.dumps({"error": {"message": message, "type": type, "param": param, "code": code}})

    @property
    def failed(self) -> bool:
        return any(event[0] == "fail" for event, _ in self.events)

    def of(self, choice: int, *verbs: str) -> list[Event]:
        return [event for event, _ in self.events if event[0] in verbs and event[1] == choice]

    def logprobs_of(self, choice: int) -> Entries:
        return [e for event, entries in self.events if entries and event[1] == choice for e in entries]


def entry(token: int, value: float) -> dict[str, Any]:
    return {"token": TOKENS[token].decode("utf-8", "replace"), "logprob": value, "bytes": list(TOKENS[token])}


def entries_of(entries: Entries) -> list[dict[str, Any]]:
    return [{**entry(*pairs[0]), "top_logprobs": [entry(*pair) for pair in pairs[1:]]} for pairs in entries]
