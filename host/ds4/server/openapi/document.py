"""The whole document, put together of the surfaces' parts, and the endpoint that gives it."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import falcon.asgi

from ds4 import __version__
from ds4.server.openapi import about, chat, common, completions, embeddings, messages, responses, tokens
from ds4.server.openapi.operations import refusals

_PARTS = (chat, completions, messages, responses, embeddings, tokens, about)
_TAGS = {
    "chat": "OpenAI's Chat Completions",
    "completions": "OpenAI's legacy Completions",
    "messages": "Anthropic's Messages",
    "responses": "OpenAI's Responses",
    "embeddings": "Embeddings",
    "tokens": "What the server makes of a prompt, without generating",
    "models": "Models",
    "server": "The server itself",
}
_ABOUT = """\
A local inference server with the APIs that coding agents and SDKs speak.

Fields that are not named here are ignored in requests, and null means that a field is not given. Answers may have more
fields than are named. Keys are asked for only where the server was started with any. What answers about the server
takes HEAD beside GET, and every path OPTIONS, whose answer has Allow. Each answer has the id of its request, as the log
names it, in the header x-request-id; that of Messages, as Anthropic's does, in request-id."""


@cache
def document() -> dict[str, Any]:
    """The document; nobody may change it."""
    paths: dict[str, Any] = {}
    schemas = dict(common.SCHEMAS)
    for part in _PARTS:
        assert not paths.keys() & part.PATHS.keys() and not schemas.keys() & part.SCHEMAS.keys(), part.__name__
        paths |= part.PATHS
        schemas |= part.SCHEMAS
    return {
        "openapi": "3.1.0",
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "info": {
            "title": "ds4",
            "version": __version__,
            "summary": "A local inference server",
            "description": _ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "tags": [{"name": name, "description": text} for name, text in _TAGS.items()],
        "security": [{"bearer": []}, {"key": []}, {}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": refusals(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer", "description": "A key, as OpenAI's clients send it."},
                "key": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-Api-Key",
                    "description": "A key, as Anthropic's clients send it.",
                },
            },
        },
    }


class Document:
    """GET /openapi.json."""

    def __init__(self) -> None:
        self._raw = json.dumps(document(), ensure_ascii=False, separators=(",", ":")).encode()

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        resp.content_type = "application/json"
        resp.data = self._raw

    async def on_head(self, req: falcon.asgi.Request, resp: falcon.asgi.Response) -> None:
        await self.on_get(req, resp)
