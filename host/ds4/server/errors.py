"""Errors at the edge: one type with an HTTP status, rendered in OpenAI's shape on every path.

{"error": {"message": "...", "type": "invalid_request_error", "param": "n", "code": "invalid_value"}}
"""

from __future__ import annotations

import json
from typing import Literal

from ds4.errors import (
    Cancelled,
    ChatError,
    ConstraintError,
    ContextLengthError,
    Ds4Error,
    EncoderError,
    EngineError,
    SamplingError,
    TemplateError,
    TokenizerError,
)
from ds4.server.schedule.admission import ANSWERS, REASONS, Shed

CLIENT_GONE = 499
"""nginx's number for "the client closed the connection"; it reaches metrics and logs, never a client."""


class ApiError(Exception):
    """An answer that is an error. retry_after: seconds, for answers that say "later"."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        type: str | None = None,
        retry_after: int | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.param = param
        self.type = type or _type(status)
        self.retry_after = retry_after
        self.headers = headers if retry_after is None else (*headers, ("retry-after", str(retry_after)))

    def body(self) -> bytes:
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return json.dumps({"error": error}).encode()


class ClientGone(Exception):
    """The client hung up: there is nobody to answer."""


def _type(status: int) -> str:
    if status == 429:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"


def invalid(message: str, param: str | None = None, code: str = "invalid_value") -> ApiError:
    """A 400 about one field of the request."""
    return ApiError(400, message, code=code, param=param)


def context_length(context: int, prompt: int, param: str) -> ApiError:
    """The prompt does not fit: OpenAI's code, both numbers in the message."""
    return ApiError(
        400,
        f"This model's maximum context length is {context} tokens. However, your prompt has {prompt} tokens, which "
        "leaves no room for an answer. Please shorten it.",
        code="context_length_exceeded",
        param=param,
    )


TurnedAway = Shed | Literal["grammar_busy"]
"""Why a request is turned away, also where nothing of it was queued; the label of the sheds metric."""
TURNED_AWAY: tuple[TurnedAway, ...] = (*REASONS, "grammar_busy")

_GRAMMAR_BUSY = (503, 5)  # as ANSWERS has it for the others
_SHEDS: dict[TurnedAway, str] = {
    "queue_depth": "The queue is full. Please retry later.",
    "queue_bytes": "The queue holds too many bytes of requests. Please retry later.",
    "client_share": "Too many of your requests wait already, and others wait too. Please retry later.",
    "queue_age": "The request waited in the queue for too long.",
    "kv_budget": "The request could never fit into the memory of this server; ask for fewer or shorter answers.",
    "clients": "Too many clients are connected. Please retry later.",
    "slow_reader": "The client reads its answer too slowly.",
    "stopping": "The server is shutting down.",
    "loading": "The model is still loading.",
    "grammar_busy": "Grammars of other requests keep the server busy. Please retry later.",
}


SHEDS = frozenset(_SHEDS)


def shed(reason: TurnedAway) -> ApiError:
    """The answer to a request that is turned away."""
    status, retry_after = _GRAMMAR_BUSY if reason == "grammar_busy" else ANSWERS[reason]
    return ApiError(status, _SHEDS[reason], code=reason, retry_after=retry_after or None)


def from_error(error: Exception) -> ApiError:
    """What a client is told about an exception."""
    match error:
        case ApiError():
            return error
        case ContextLengthError():
            return invalid(str(error), "messages", "context_length_exceeded")
        case ConstraintError(code="broken"):
            return ApiError(500, f"The answer left its grammar: {error}", code="constraint")
        case ConstraintError(code="busy"):
            return shed("grammar_busy")
        case ConstraintError():
            return invalid(str(error), None, f"invalid_{error.code}")
        case SamplingError():
            return invalid(str(error), error.subject)
        case TemplateError():
            return invalid(f"The chat template refuses this conversation: {error}", "messages", error.code)
        case ChatError():
            asks = error.code == "chat_last_message"
            return invalid(str(error), error.subject, "invalid_value" if asks else "unsupported_parameter")
        case EncoderError():
            return invalid(str(error), error.subject or "messages", error.code)
        case TokenizerError():
            return invalid(str(error), None, error.code)
        case Cancelled():
            return shed("stopping")
        case EngineError():
            return ApiError(500, f"The engine failed: {error}", code=error.code)
        case Ds4Error():
            return ApiError(500, str(error), code=error.code)
        case _:
            return ApiError(500, "The server failed to answer; its log says why.", code="internal_error")
