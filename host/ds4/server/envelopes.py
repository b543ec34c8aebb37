"""Errors in the shape of the surface that they answer on, wherever they come from: door, framework, handler, stream.

OpenAI's is ApiError's own. Anthropic's: {"type": "error", "error": {"type": ..., "message": ..., "details": ...},
"request_id": "req_..."}, where details has our code for what its types do not tell apart.
"""

from __future__ import annotations

import json
from typing import Any

from ds4.server.errors import ApiError

_MESSAGES = "/v1/messages"

_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def _is_anthropics(path: str) -> bool:
    return path == _MESSAGES or path.startswith(_MESSAGES + "/")


def id_header(path: str) -> bytes:
    """The header in which clients of the path's surface look for the request's id."""
    return b"request-id" if _is_anthropics(path) else b"x-request-id"


def error_body(error: ApiError, path: str, request_id: str) -> bytes:
    """The body of an answer that is an error."""
    return anthropic_error(error, request_id) if _is_anthropics(path) else error.body()


def anthropic_error(error: ApiError, request_id: str) -> bytes:
    kind = _TYPES.get(error.status) or ("api_error" if error.status >= 500 else "invalid_request_error")
    told: dict[str, Any] = {"type": kind, "message": error.message}
    if error.code is not None:
        told["details"] = {"error_code": error.code}
    return json.dumps({"type": "error", "error": told, "request_id": request_id}).encode()
