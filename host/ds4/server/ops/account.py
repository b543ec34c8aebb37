"""A request's account: what was decided about it and how long each part took, written where it is decided.

The counters, /v1/stats and the log's line of a request are made from it. No text of anybody's is in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Outcome = Literal["ok", "refused", "shed", "cancelled", "failed"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "refused", "shed", "cancelled", "failed")

SURFACES = ("chat", "completions", "messages", "responses", "tokens", "models", "ops", "other")

_PREFIXES = (
    ("/v1/chat/completions", "chat"),
    ("/v1/completions", "completions"),
    ("/v1/messages", "messages"),
    ("/v1/responses", "responses"),
    ("/v1/models", "models"),
    ("/tokenize", "tokens"),
    ("/detokenize", "tokens"),
    ("/apply-template", "tokens"),
    ("/health", "ops"),
    ("/ready", "ops"),
    ("/metrics", "ops"),
    ("/v1/stats", "ops"),
)


def surface_of(path: str) -> str:
    """The surface of a path: one of SURFACES, whatever a client makes up."""
    for prefix, surface in _PREFIXES:
        if path == prefix or path.startswith(prefix + "/"):
            return surface
    return "other"


@dataclass(slots=True)
class Account:
    """Times are seconds of the engine loop's clock; 0: it has not come to that. A request of several choices: the first
    one's placement and first token, and the tokens of all.

    lane, route: who computes it, and why that one. reuse, miss: what its first prompt found in a bank, and why nothing.
    """

    id: str
    surface: str
    arrived: float = 0.0
    lane: str = "continuous"
    route: str | None = None
    reuse: str | None = None
    miss: str | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    choices: int = 0  # that have been admitted
    admitted: float = 0.0
    first_token: float = 0.0
    last_token: float = 0.0
    finish: str | None = None
    error: str | None = field(default=None)

    def place(self, reuse: str, miss: str | None, prompt: int, cached: int, now: float) -> None:
        """A choice got its bank."""
        if not self.choices:
            self.reuse, self.miss, self.admitted = reuse, miss, now
        self.choices += 1
        self.prompt_tokens += prompt
        self.cached_tokens += cached

    @property
    def computed_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens

    def facts(self) -> dict[str, Any]:
        """All of it for /v1/stats and the log: milliseconds and tokens a second, None for what did not happen."""
        decoding = self.last_token - self.first_token
        computing = self.first_token - self.admitted
        decoded = self.completion_tokens - self.choices
        return {
            "id": self.id,
            "surface": self.surface,
            "lane": self.lane,
            "route": self.route,
            "reuse": self.reuse,
            "miss": self.miss,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "computed_tokens": self.computed_tokens,
            "completion_tokens": self.completion_tokens,
            "queue_ms": _milliseconds(self.arrived, self.admitted),
            "ttft_ms": _milliseconds(self.arrived, self.first_token),
            "prefill_tok_s": _rate(self.computed_tokens, computing) if self.first_token else None,
            "decode_tok_s": _rate(decoded, decoding) if decoded > 0 else None,
            "finish": self.finish,
            "error": self.error,
        }


def _milliseconds(start: float, end: float) -> float | None:
    return round(1e3 * (end - start), 3) if end else None


def _rate(count: int, seconds: float) -> float | None:
    return round(count / seconds, 2) if seconds > 0 else None
