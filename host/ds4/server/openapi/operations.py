"""Operations: one method of one path, with the errors that it may end in."""

from __future__ import annotations

from typing import Any

from ds4.server.openapi.shapes import Schema, either, obj, only, ref, string

JSON = "application/json"
EVENTS = "text/event-stream"

_WHY = {
    400: "The request cannot be used: malformed, out of range, or asking for what this server does not do.",
    401: "Keys are asked for, and none or another was shown.",
    403: "The server does not answer to this Host.",
    404: "There is no such thing here.",
    405: "The path does not take this method.",
    408: "The body did not arrive in time.",
    409: "The model is in use.",
    413: "The body is larger than --max-body allows.",
    415: "The body is no plain application/json.",
    426: "Responses are not served over WebSockets.",
    429: "The queue is full; retry after the seconds that Retry-After says.",
    431: "The headers are larger than the server reads.",
    500: "The server failed; its log says why.",
    503: "Nothing can be taken now: loading, stopping, overloaded, or the request waited for too long. Retry-After "
    "says when to come again.",
}
_EVERYWHERE = (400, 401, 403, 405, 408, 413, 415, 431, 500, 503)
_ANSWERING = (404, 429)


def errors(envelope: str, *more: int) -> dict[str, Any]:
    """The responses for each status that an operation may refuse with."""
    statuses = sorted({*_EVERYWHERE, *more})
    return {str(status): {"$ref": f"#/components/responses/{envelope}{status}"} for status in statuses}


def refusals() -> dict[str, Any]:
    """The components that `errors` refers to."""
    openai = {f"Error{status}": _refusal(status, "Error") for status in _WHY}
    anthropic = {f"Anthropic{name}": _refusal(int(name[-3:]), "AnthropicError") for name in openai}
    del anthropic["AnthropicError426"]  # of Responses alone
    del anthropic["AnthropicError409"]  # of models alone
    return openai | anthropic


def _refusal(status: int, envelope: str) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if status in (429, 503):
        headers["Retry-After"] = {"description": "Seconds.", "schema": string(pattern="^[0-9]+$")}
    if status == 401:
        headers["WWW-Authenticate"] = {"description": "The kind of key.", "schema": string()}
    if status == 405:
        headers["Allow"] = {"description": "What the path takes.", "schema": string()}
    told: dict[str, Any] = {"description": _WHY[status], "content": {JSON: {"schema": ref(envelope)}}}
    return {**told, "headers": headers} if headers else told


def json_answer(about: str, schema: Schema) -> dict[str, Any]:
    return {"description": about, "content": {JSON: {"schema": schema}}}


def events(about: str, of: list[str], last: str | None = None) -> dict[str, Any]:
    """A stream. The schema is one event's, whose data is JSON of one of these components, `of`, or `last`."""
    data = string(contentMediaType=JSON, contentSchema=either(*map(ref, of)))
    if last is not None:
        data = either(only(last), data)
    return {"schema": obj({"event": string("Its name, where it has one."), "data": data}, ["data"], about)}


def post(
    name: str,
    summary: str,
    body: str,
    answer: Schema,
    *,
    tag: str,
    about: str = "",
    envelope: str = "Error",
    stream: dict[str, Any] | None = None,
    examples: dict[str, Any],
    more: tuple[int, ...] = (),
) -> dict[str, Any]:
    """An operation with a body. stream: of `events`, where it can be streamed. examples: bodies by name."""
    given = {label: {"value": value} for label, value in examples.items()}
    ok = json_answer("The answer, whole.", answer)
    if stream is not None:
        ok["description"] = "The answer: whole, or as it is made if `stream` is true."
        ok["content"][EVENTS] = stream
    return {
        "operationId": name,
        "summary": summary,
        **({"description": about} if about else {}),
        "tags": [tag],
        "requestBody": {"required": True, "content": {JSON: {"schema": ref(body), "examples": given}}},
        "responses": {"200": ok, **errors(envelope, *_ANSWERING, *more)},
    }


def get(
    name: str,
    summary: str,
    answer: dict[str, Any],
    *,
    tag: str,
    about: str = "",
    envelope: str = "Error",
    parameters: tuple[dict[str, Any], ...] = (),
    open_to_all: bool = False,
    more: tuple[int, ...] = (),
    other: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """An operation without a body, whatever its method. answer: the response for 200; other: more responses by status.
    open_to_all: it asks for no key."""
    return {
        "operationId": name,
        "summary": summary,
        **({"description": about} if about else {}),
        "tags": [tag],
        **({"parameters": list(parameters)} if parameters else {}),
        **({"security": []} if open_to_all else {}),
        "responses": {"200": answer, **errors(envelope, *more), **(other or {})},
    }


def in_path(name: str, about: str, example: str) -> dict[str, Any]:
    return {
        "name": name,
        "in": "path",
        "required": True,
        "description": about,
        "schema": string(minLength=1),
        "example": example,
    }


def in_query(name: str, schema: Schema, about: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": about, "schema": schema}
