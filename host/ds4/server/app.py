"""The ASGI application: routes, and one error shape for every path."""

from __future__ import annotations

import logging
from typing import Any, cast

import falcon
import falcon.asgi

from ds4.errors import Ds4Error
from ds4.server.disconnect import REQUEST_ID_KEY, Door
from ds4.server.disconnect import App as ASGIApp
from ds4.server.doorkeeper import Doorkeeper
from ds4.server.envelopes import error_body
from ds4.server.errors import CLIENT_GONE, ApiError, ClientGone, from_error
from ds4.server.openapi.document import Document, document
from ds4.server.ops.keys import Keyring
from ds4.server.ops.pages import add_routes as add_operations
from ds4.server.page import add_routes as add_page
from ds4.server.service import Service
from ds4.server.surfaces.chat import ChatCompletions
from ds4.server.surfaces.completions import Completions
from ds4.server.surfaces.embeddings import Embeddings
from ds4.server.surfaces.messages import CountTokens, Messages
from ds4.server.surfaces.models import LoadModel, Models, OneModel
from ds4.server.surfaces.responses import add_routes as add_responses
from ds4.server.surfaces.tokens import ApplyTemplate, Detokenize, Tokenize

log = logging.getLogger("ds4.server")


class RouteLabel:
    """Middleware: leaves the route's template for the metrics, so that paths made up by clients make no new series."""

    async def process_resource(
        self, req: falcon.asgi.Request, resp: falcon.asgi.Response, resource: object, params: dict[str, Any]
    ) -> None:
        req.scope["ds4.route"] = req.uri_template or "other"


def create_app(service: Service, keeper: Doorkeeper, keys: Keyring | None = None) -> Door:
    """The application of a service, behind the layer that watches for hang-ups. keys: None asks for none."""
    app = falcon.asgi.App(media_type="application/json", middleware=[RouteLabel()])
    app.req_options.strip_url_path_trailing_slash = True
    add_operations(app, service)
    app.add_route("/v1/models", Models(service))
    app.add_route("/v1/models/load", LoadModel(service))
    app.add_route("/v1/models/unload", LoadModel(service, unloads=True))
    app.add_route("/v1/models/{name:path}", OneModel(service))
    app.add_route("/v1/chat/completions", ChatCompletions(service))
    app.add_route("/v1/completions", Completions(service))
    app.add_route("/v1/embeddings", Embeddings(service))
    app.add_route("/v1/messages", Messages(service))
    app.add_route("/v1/messages/count_tokens", CountTokens(service))
    add_responses(app, service)
    app.add_route("/openapi.json", Document())
    add_page(app)
    app.add_route("/tokenize", Tokenize(service))
    app.add_route("/detokenize", Detokenize(service))
    app.add_route("/apply-template", ApplyTemplate(service))
    app.set_error_serializer(_serialize)
    app.add_error_handler(Exception, _unexpected)
    app.add_error_handler(ApiError, _known)
    app.add_error_handler(Ds4Error, _known)
    app.add_error_handler(ClientGone, _gone)
    return Door(cast(ASGIApp, app), service.limits, keeper, service.metrics, keys or Keyring())


def _put(req: Any, resp: Any, error: ApiError) -> None:
    resp.status = error.status
    resp.content_type = "application/json"
    resp.stream = None
    resp.data = error_body(error, req.path, req.scope[REQUEST_ID_KEY])
    for name, value in error.headers:
        resp.set_header(name, value)


async def _known(req: Any, resp: Any, error: Exception, params: Any) -> None:
    if isinstance(error, Ds4Error) and from_error(error).status >= 500:
        log.error("%s: %s", req.path, error)
    _put(req, resp, from_error(error))


async def _unexpected(req: Any, resp: Any, error: Exception, params: Any) -> None:
    if isinstance(error, falcon.HTTPError):
        resp.status = error.status
        for name, value in dict(error.headers or {}).items():
            resp.set_header(name, value)
        _serialize(req, resp, error)
        return
    log.error("%s %s failed", req.method, req.path, exc_info=error)
    _put(req, resp, from_error(error))


async def _gone(req: Any, resp: Any, error: Exception, params: Any) -> None:
    resp.status = CLIENT_GONE
    resp.data = b""


def _elsewhere(path: str) -> str:
    """What to say to a client whose base URL has /v1 where it adds that by itself, or lacks it where it does not."""
    if path.startswith("/v1/v1/") and path.removeprefix("/v1") in document()["paths"]:
        return f", but {path.removeprefix('/v1')}: this client takes its base URL without /v1"
    if f"/v1{path}" in document()["paths"]:
        return f", but /v1{path}: this client takes its base URL with /v1 at the end"
    return ""


def _serialize(req: Any, resp: Any, error: falcon.HTTPError) -> None:
    """The framework's own refusals (404, 405, …) in the surface's shape."""
    status = error.status_code
    message = {
        404: f"There is no {req.path} here{_elsewhere(req.path)}.",
        405: f"{req.path} does not take {req.method}.",
    }.get(status, error.description or error.title or "The request was refused.")
    code = {404: "not_found", 405: "method_not_allowed"}.get(status, "invalid_request")
    resp.content_type = "application/json"
    resp.data = error_body(ApiError(status, message, code=code), req.path, req.scope[REQUEST_ID_KEY])
