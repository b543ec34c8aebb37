"""A request's account: what was decided about it and how long each part took, written where it is decided.

The counters, /v1/stats and the log's line of a request are made from it. No text of anybody's is in it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from ds4.server.schedule.route import NEED_NAMES, Route, Surface
from ds4.server.schedule.route import SURFACES as GENERATING

Outcome = Literal["ok", "refused", "shed", "cancelled", "failed"]
OUTCOMES: tuple[Outcome, ...] = ("ok", "refused", "shed", "cancelled", "failed")

Place = Surface | Literal["tokens", "models", "ops", "other"]
SURFACES: tuple[Place, ...] = (*GENERATING, "tokens", "models", "ops", "other")

_PREFIXES: tuple[tuple[str, Place], ...] = (
    ("/v1/chat/completions", "chat"),
    ("/v1/completions", "completions"),
    ("/v1/messages", "messages"),
    ("/v1/responses", "responses"),
    ("/v1/embeddings", "embeddings"),
    ("/v1/models", "models"),
    ("/tokenize", "tokens"),
    ("/detokenize", "tokens"),
    ("/apply-template", "tokens"),
    ("/health", "ops"),
    ("/ready", "ops"),
    ("/metrics", "ops"),
    ("/v1/stats", "ops"),
)


def surface_of(path: str) -> Place:
    """The surface of a path: one of SURFACES, whatever a client makes up."""
    for prefix, surface in _PREFIXES:
        if path == prefix or path.startswith(prefix + "/"):
            return surface
    return "other"


def generating(place: Place) -> Surface | None:
    """The surface whose requests go to the engine, or None."""
    return next((surface for surface in GENERATING if surface == place), None)


@dataclass(slots=True)
class Account:
    """Times are seconds of the engine loop's clock; 0: it has not come to that. A request of several choices: the first
    one's placement and first token, and the tokens of all.

    lane, route, needs: who computes it, why that one, and what that one has to do for it. continuation: whether it
    continues a turn that a bank is kept for. reuse, miss, bank: what its first prompt found in which bank, and why
    nothing.
    """

    id: str
    surface: str
    arrived: float = 0.0
    lane: str | None = None
    route: str | None = None
    needs: tuple[str, ...] = ()
    continuation: str | None = None
    reuse: str | None = None
    miss: str | None = None
    bank: int | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    choices: int = 0  # that have been admitted
    admitted: float = 0.0
    first_token: float = 0.0
    last_token: float = 0.0
    finish: str | None = None
    error: str | None = field(default=None)

    def routed(self, route: Route, continuation: str) -> None:
        """It was given to a lane. continuation: what the registry of tool turns knew of it."""
        self.lane, self.route, self.continuation = route.lane, route.reason, continuation
        self.needs = tuple([name for bit, name in enumerate(NEED_NAMES) if route.needs >> bit & 1])

    def place(self, reuse: str, miss: str | None, bank: int, prompt: int, cached: int, now: float) -> None:
        """A choice got its bank."""
        if not self.choices:
            self.reuse, self.miss, self.bank, self.admitted = reuse, miss, bank, now
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
            "needs": "+".join(self.needs) or None,
            "continuation": self.continuation,
            "reuse": self.reuse,
            "miss": self.miss,
            "bank": self.bank,
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
