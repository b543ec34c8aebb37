"""An HTTP server on this machine that serves bytes with the faults that a test asks for."""

from __future__ import annotations

import re
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


@dataclass
class Served:
    """One path. etag: "" for none. ranges: whether they are honoured. cuts: for each request in turn the number of
    bytes after which the connection drops; past the list it does not. statuses: answered in turn before anything else.
    length: what Content-Length claims beyond the truth; None: the header is left out and the body chunked.
    """

    body: bytes = b""
    etag: str = '"one"'
    ranges: bool = True
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    length: int | None = 0
    redirect: str = ""
    content_range: str = ""
    kind: str = "application/octet-stream"


@dataclass
class Server:
    """base: its URL. paths: what it serves. asked: the path and headers of every request so far."""

    base: str
    paths: dict[str, Served] = field(default_factory=dict)
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    @property
    def host(self) -> str:
        return urlsplit(self.base).netloc

    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for _, headers in self.asked]


class _Calm(ThreadingHTTPServer):
    daemon_threads = True  # of a connection on which nothing comes

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away, or trusts nobody, is what is tested."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[Server]:
    """A server at 127.0.0.1. tls: the certificate that it shows."""
    server = _Calm(("127.0.0.1", 0), BaseHTTPRequestHandler)
    told = Server(f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}")
    if tls is not None:  # hands are shaken by the thread that answers, as somebody may never do it
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.RequestHandlerClass = _handler(told)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.close_connection = True
            server.asked.append((self.path, dict(self.headers.items())))
            path = self.path.partition("?")[0]
            served = server.paths.get(path)
            if served is None:
                self._answer(404)
            elif served.statuses:
                self._answer(served.statuses.pop(0), served.headers)
            elif served.redirect:
                self._answer(302, {"Location": served.redirect})
            else:
                self._serve(served)

        def _serve(self, served: Served) -> None:
            start, status = 0, 200
            headers = {"Content-Type": served.kind, **served.headers}
            asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
            same = self.headers.get("If-Range", served.etag) == served.etag
            if asked and served.ranges and same:
                start, status = int(asked[1]), 206
                if start >= len(served.body):
                    self._answer(416, {"Content-Range": f"bytes */{len(served.body)}"})
                    return
                whole = f"bytes {start}-{len(served.body) - 1}/{len(served.body)}"
                headers["Content-Range"] = served.content_range or whole
            body = served.body[start:]
            if served.etag:
                headers["ETag"] = served.etag
            if served.length is None:
                headers["Transfer-Encoding"] = "chunked"
            else:
                headers["Content-Length"] = str(len(body) + served.length)
            self._head(status, headers)
            cut = served.cuts.pop(0) if served.cuts else None
            sent = body if cut is None else body[:cut]
            if served.length is None:
                sent = b"%x\r\n%b\r\n" % (len(sent), sent) + (b"0\r\n\r\n" if cut is None else b"") if sent else b""
            self.wfile.write(sent)

        def _answer(self, status: int, headers: dict[str, str] | None = None) -> None:
            self._head(status, {"Content-Length": "0", **(headers or {})})

        def _head(self, status: int, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler


Sleeper = Callable[[float], None]
