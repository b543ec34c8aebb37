"""The local page: reads what waits, and carries out what a person decides.

It answers on loopback only, to its own name only (a Host that is another is refused, so a foreign page cannot reach it
by a name that it points here), and takes a decision only with the token of this process and from its own origin.
"""

from __future__ import annotations

import hmac
import secrets
import socketserver
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

import falcon
from ds4.errors import Ds4Error

from goldens.review import pages
from goldens.review.pages import Context, Decision
from goldens.review.views import View, view
from parity import goldens
from parity.pending import Pending

POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
PORT = 8930
FORM = 64 << 10  # bytes of a decision
FIELDS = ("token", "name", "reason", "component")


class Refused(Ds4Error):
    """A request that is not from this page."""

    code = "refused"


class State:
    """What this process knows: the token, what was decided, and the views it has made already."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.token = secrets.token_urlsafe(32)
        self.decided: list[Decision] = []
        self.lock = threading.Lock()
        self._flash: Decision | None = None
        self._views: dict[tuple[str, str | None], View] = {}

    def context(self) -> Context:
        """What waits now, read anew: a test may have run since."""
        waiting, broken = goldens.open_pendings(self.root)
        views = []
        for one, where in waiting:
            key = (one.id, where.stale)
            made = self._views.get(key)
            if made is None or made.standing != where:
                made = self._views[key] = view(one, where)
            views.append(made)
        flash, self._flash = self._flash, None
        return Context(pages.order(views), broken, self.token, self.reviewer, self.decided, flash)

    @property
    def _name(self) -> Path:
        return self.root / ".dev" / "reviewer"

    @property
    def reviewer(self) -> str:
        """Who decided last."""
        return self._name.read_text(encoding="utf-8", errors="replace").strip() if self._name.is_file() else ""

    def decide(self, one: Pending, verdict: str, name: str, reason: str) -> None:
        files: tuple[str, ...] = ()
        if verdict == "accepted":
            files = goldens.accept(one, name, reason, self.root).files
            self._name.write_text(" ".join(name.split()) + "\n", encoding="utf-8")
        else:
            goldens.reject(one, name, reason, self.root)
        self._flash = Decision(one.title, one.golden, verdict, files)
        self.decided.append(self._flash)


class Guard:
    """Middleware: whom the page answers, and the headers of every answer."""

    def __init__(self, port: Callable[[], int]) -> None:
        self._port = port

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        names = [f"{host}:{self._port()}" for host in ("127.0.0.1", "localhost")]
        host = req.get_header("Host") or ""
        if host not in names:
            raise Refused("this page answers to its own name only", subject="Host", expected=names[0], found=repr(host))
        if req.method in ("GET", "HEAD"):
            return
        origin = req.get_header("Origin") or ""
        if origin not in [f"http://{name}" for name in names]:
            raise Refused("comes from another page", subject="Origin", expected=f"http://{host}", found=repr(origin))
        if (req.content_length or 0) > FORM:
            raise Refused("too long", subject="form", expected=f"at most {FORM} bytes", found=req.content_length)

    def process_response(self, req: falcon.Request, resp: falcon.Response, resource: object, ok: bool) -> None:
        for name, value in HEADERS.items():
            resp.set_header(name, value)


class Overview:
    def __init__(self, state: State) -> None:
        self._state = state

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        _html(resp, pages.overview(self._state.context(), req.get_param("component") or ""))


class Detail:
    def __init__(self, state: State) -> None:
        self._state = state

    def on_get(self, req: falcon.Request, resp: falcon.Response, identity: str) -> None:
        context = self._state.context()
        current = _find(context, identity)
        if current is None:
            return _gone(resp, context)
        _html(resp, pages.detail(context, current, req.get_param("component") or ""))

    def on_post_accept(self, req: falcon.Request, resp: falcon.Response, identity: str) -> None:
        self._decide(req, resp, identity, "accepted")

    def on_post_reject(self, req: falcon.Request, resp: falcon.Response, identity: str) -> None:
        self._decide(req, resp, identity, "rejected")

    def _decide(self, req: falcon.Request, resp: falcon.Response, identity: str, verdict: str) -> None:
        if (req.content_type or "").partition(";")[0].strip().lower() != falcon.MEDIA_URLENCODED:
            raise Refused("is no form", subject="body", expected=falcon.MEDIA_URLENCODED, found=repr(req.content_type))
        form: dict[str, Any] = req.get_media(default_when_empty={})
        given = {key: form[key] if isinstance(form.get(key), str) else "" for key in FIELDS}
        if not hmac.compare_digest(given["token"].encode("utf-8", "replace"), self._state.token.encode()):
            raise Refused("the page is of another run of the review: load it again", subject="token")
        with self._state.lock:
            context = self._state.context()
            current = _find(context, identity)
            if current is None:
                return _gone(resp, context)
            listed = context.among(given["component"])
            ids = [view.pending.id for view in listed]
            at = ids.index(identity) if identity in ids else 0
            try:
                self._state.decide(current.pending, verdict, given["name"], given["reason"])
            except Ds4Error as error:
                resp.status = falcon.HTTP_409 if error.code in ("stale", "manifest") else falcon.HTTP_422
                draft = {"verdict": verdict, **given}
                return _html(resp, pages.detail(context, current, given["component"], error, draft))
        rest = ids[:at] + ids[at + 1 :]
        target = f"/p/{rest[min(at, len(rest) - 1)]}" if rest else "/"
        query = f"?component={quote(given['component'])}" if given["component"] and rest else ""
        resp.status = falcon.HTTP_303
        resp.set_header("Location", target + query)


class Assets:
    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        found = pages.asset(name)
        if found is None:
            raise falcon.HTTPNotFound()
        resp.content_type, resp.text = found


def build(state: State, port: Callable[[], int]) -> falcon.App[falcon.Request, falcon.Response]:
    """The application. port: the one that the server listens on."""
    app = falcon.App(middleware=[Guard(port)])
    app.add_route("/", Overview(state))
    detail = Detail(state)
    app.add_route("/p/{identity}", detail)
    app.add_route("/p/{identity}/accept", detail, suffix="accept")
    app.add_route("/p/{identity}/reject", detail, suffix="reject")
    app.add_route("/{name}", Assets())

    def refuse(req: falcon.Request, resp: falcon.Response, error: Refused, params: dict[str, Any]) -> None:
        resp.status = falcon.HTTP_403
        resp.content_type = falcon.MEDIA_TEXT
        resp.text = f"{error.code}: {error}\n"

    def fail(req: falcon.Request, resp: falcon.Response, error: Exception, params: dict[str, Any]) -> None:
        resp.status = falcon.HTTP_500
        code = getattr(error, "code", type(error).__name__)
        empty = Context([], [], state.token, decided=state.decided)
        _html(resp, pages.message(empty, "This cannot be shown", f"{code}: {error}"))

    app.add_error_handler(Ds4Error, fail)
    app.add_error_handler(Refused, refuse)
    return app


def serve(root: Path, port: int | None, ready: Callable[[str], None]) -> None:
    """Serves until interrupted. port 0: a free one; None: PORT, or a free one. ready is told the address."""
    try:
        server = listen(root, PORT if port is None else port)
    except OSError:
        if port is not None:
            raise
        server = listen(root, 0)
    with server:
        ready(f"http://127.0.0.1:{server.server_port}/")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


def listen(root: Path, port: int) -> WSGIServer:
    """A server that is bound and not yet serving; OSError where the port is taken."""
    server: WSGIServer | None = None

    def bound() -> int:
        assert server is not None
        return server.server_port

    server = make_server("127.0.0.1", port, build(State(root), bound), server_class=_Server, handler_class=_Handler)
    return server


class _Server(socketserver.ThreadingMixIn, WSGIServer):
    daemon_threads = True  # browsers hold connections open before they have anything to ask


class _Handler(WSGIRequestHandler):
    timeout = 30

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def address_string(self) -> str:
        return str(self.client_address[0])


def _html(resp: falcon.Response, text: str) -> None:
    resp.content_type = falcon.MEDIA_HTML
    resp.text = text


def _find(context: Context, identity: str) -> View | None:
    identity = unquote(identity)
    return next((view for view in context.views if view.pending.id == identity), None)


def _gone(resp: falcon.Response, context: Context) -> None:
    resp.status = falcon.HTTP_404
    _html(resp, pages.message(context, "Nothing waits here", "It is decided, or a newer result took its place."))
