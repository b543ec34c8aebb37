"""Who may talk to the server: the Host it is called by, the origins that browsers call from, the size of headers.

A page on the internet can make a browser send requests to a server on the same machine (DNS rebinding). Its Host header
gives it away, so names that are not this machine's are refused even on the loopback interface.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from ds4.server.errors import ApiError

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Send = Callable[[Message], Awaitable[None]]

_USUAL_HEADERS = (
    b"authorization, content-type, x-api-key, openai-organization, openai-project, anthropic-version, "
    b"anthropic-beta, anthropic-dangerous-direct-browser-access"
)
_HEADER_NAMES = re.compile(rb"[A-Za-z0-9_\-]+(\s*,\s*[A-Za-z0-9_\-]+)*")
_EXPOSED = (b"access-control-expose-headers", b"request-id, x-request-id, retry-after")
_ORIGIN = re.compile(r"[a-z][a-z0-9+.\-]*://[^\s/?#@]+/?|null")
_HOST = re.compile(r"[^\s/?#@]+")


class Doorkeeper:
    """host: the address that the server listens on, or None for a unix socket, to which no browser can be led, so that
    every name will do; allow_hosts: further names it answers to, "*" for any;
    origins: browser origins that may read answers, "*" for any; max_header: bytes of all headers of a request."""

    def __init__(
        self,
        host: str | None,
        *,
        allow_hosts: Iterable[str] = (),
        origins: Iterable[str] = (),
        max_header: int = 64 << 10,
    ) -> None:
        self._names = {_bare(name) for name in allow_hosts}
        self._any_name = "*" in self._names
        self._unix = host is None
        self._any_address = host is not None and not is_loopback(host)
        self._origins = {origin.rstrip("/").encode() for origin in origins}
        self._max_header = max_header
        if self._any_address and host is not None:
            self._names.add(_bare(host))

    def check(self, scope: Scope) -> None:
        """Raises ApiError: 403 for a foreign Host, 431 for headers that are too large."""
        hosts = []
        size = 0
        for name, value in scope["headers"]:
            size += len(name) + len(value) + 4
            if name == b"host":
                hosts.append(value)
        if size > self._max_header:
            raise ApiError(431, f"The headers are larger than {self._max_header} bytes.", code="headers_too_large")
        if self._any_name or (not hosts and scope.get("http_version") == "1.0"):
            return
        if len(hosts) != 1:
            raise ApiError(400, f"A request needs one Host header; this one has {len(hosts)}.", code="invalid_host")
        if self._unix:
            return
        name = _bare(hosts[0].decode("latin-1"))
        if not (name in self._names or name == "localhost" or self._is_own(name)):
            raise ApiError(
                403,
                f"This server does not answer to the host {name!r}. Start it with --allow-host {name} if it should.",
                code="host_not_allowed",
            )

    def _is_own(self, name: str) -> bool:
        # An address cannot be rebound: only names lead a browser astray. Bound to the loopback, only it makes sense.
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return self._any_address or address.is_loopback

    def allows_origin(self, scope: Scope) -> bytes | None:
        """The origin to name in the answer, or None: no browser page, or one that may not read it."""
        for name, value in scope["headers"]:
            if name == b"origin":
                return value if b"*" in self._origins or value in self._origins else None
        return None

    def is_preflight(self, scope: Scope) -> bool:
        return (
            scope["method"] == "OPTIONS"
            and any(name == b"access-control-request-method" for name, _ in scope["headers"])
            and self.allows_origin(scope) is not None
        )

    def with_cors(self, scope: Scope, send: Send) -> Send:
        """Adds the headers that let an allowed origin read the answer; credentials (cookies) are never allowed. Other
        origins get none, and caches are told that this depends on the origin."""
        if not self._origins:
            return send
        origin = self.allows_origin(scope)
        extra = [(b"vary", b"origin")]
        if origin is not None:
            extra += [(b"access-control-allow-origin", origin), _EXPOSED]
            if self.is_preflight(scope):
                extra += _preflight(scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *extra]}
            await send(message)

        return with_headers


def _preflight(scope: Scope) -> list[tuple[bytes, bytes]]:
    """What a page of an allowed origin may send: the headers that it asks for, which SDKs make up freely."""
    asked = dict(scope["headers"])
    names = asked.get(b"access-control-request-headers", b"")
    headers = [
        (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
        (b"access-control-allow-headers", names if _HEADER_NAMES.fullmatch(names) else _USUAL_HEADERS),
        (b"access-control-max-age", b"600"),
        (b"vary", b"access-control-request-method, access-control-request-headers"),
    ]
    if asked.get(b"access-control-request-private-network") == b"true":
        headers.append((b"access-control-allow-private-network", b"true"))
    return headers


def is_origin(text: str) -> bool:
    """Whether browsers can send this as an origin, but for a slash at its end. "null" is that of a page from a file."""
    return _ORIGIN.fullmatch(text) is not None


def is_host(text: str) -> bool:
    """Whether this can stand in a Host header."""
    return _HOST.fullmatch(text) is not None


def _bare(host: str) -> str:
    """A Host header's name, without port and brackets, in lower case."""
    host = host.strip().lower()
    if host.startswith("["):
        name, _, port = host[1:].partition("]")
        return name if not port or (port[0] == ":" and port[1:].isdigit()) else host
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() and ":" not in name else host).rstrip(".")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
