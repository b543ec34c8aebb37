"""The page at /: a chat and the state of the banks, in files of this package alone.

Its content policy allows what comes from this server and nothing else, no inline script and no form that leaves the
page, so that a model's text could not run or load anything even if the page's own code let it in.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

import falcon
import falcon.asgi

from ds4.server.errors import ApiError

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-cache",
}
INDEX = "index.html"
_TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css"}


class PageFile:
    """GET / and /ui/NAME. Files are read once, when the server is made: a name that is not among them is a 404."""

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, bytes]] = {}
        for file in resources.files("ds4.server").joinpath("ui").iterdir():
            kind = _TYPES.get(file.name.rpartition(".")[2])
            if kind is not None:
                self.files[file.name] = (f"{kind}; charset=utf-8", file.read_bytes())

    async def on_get(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str = INDEX) -> None:
        found = self.files.get(name)
        if found is None:
            raise ApiError(404, f"There is no {req.path} here.", code="not_found")
        resp.content_type, resp.data = found
        for header, value in HEADERS.items():
            resp.set_header(header, value)

    async def on_head(self, req: falcon.asgi.Request, resp: falcon.asgi.Response, name: str = INDEX) -> None:
        await self.on_get(req, resp, name)


def add_routes(app: falcon.asgi.App[Any, Any]) -> None:
    page = PageFile()
    app.add_route("/", page)
    app.add_route("/ui/{name}", page)
