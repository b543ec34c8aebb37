"""The one reader of `receive()`: it takes a request's body whole, then watches for the client to hang up.

Buffered and streaming handlers alike learn of a hang-up through `Connection.on_hang_up`, milliseconds after the socket
closes. ASGI offers the news only to whoever waits in receive(), and a handler that computes does not; hence this layer,
below the framework, which is also where hosts, origins and sizes are checked: before anything else is read.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from typing import Any

from ds4.server.doorkeeper import Doorkeeper
from ds4.server.envelopes import error_body, id_header
from ds4.server.errors import CLIENT_GONE, SHEDS, ApiError, ClientGone, shed
from ds4.server.limits import Limits
from ds4.server.metrics import Metrics
from ds4.server.ops.account import Account, Outcome, Place, generating, surface_of
from ds4.server.ops.keys import ANYBODY, Asker, Keyring
from ds4.server.ops.logs import request_ended
from ds4.server.request import GenerationRequest, new_id
from ds4.server.schedule.waiting import connects
from ds4.server.tracing import Recording

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

SCOPE_KEY = "ds4.connection"
TRANSPORT_KEY = "ds4.transport"
PUSH_KEY = "ds4.push"
REQUEST_ID_KEY = "ds4.request_id"
_LINGER_SECONDS = 2.0


class Connection:
    """One request's client, as handlers see it: its body, and whether it is still there."""

    def __init__(
        self,
        body: bytes,
        transport: asyncio.Transport | None = None,
        push: Callable[[bytes], bool] | None = None,
        request_id: str = "",
        surface: Place = "other",
        asker: Asker = ANYBODY,
        address: str = "",
        answering: set[object] | None = None,
    ) -> None:
        self.body, self.nbytes = body, len(body)
        self.push = push  # writes to a streamed answer at once if it can; see ds4.server.protocol
        self.gone = False
        self.request_id = request_id  # as the answer's head has it
        self.trace: Recording | None = None
        self.surface, self.asker = surface, asker
        self.client = asker.name or address  # whose requests share one place in the line
        self._answering = set() if answering is None else answering
        self.account: Account | None = None  # of what it asked the engine for
        self._transport = transport
        self._callbacks: list[Callable[[], None]] = []
        self._at_end: list[Callable[[], None]] = []

    @property
    def owner(self) -> str:
        """Whose the responses are that it keeps; see ds4.server.response_store."""
        return self.asker.name

    def sign(self, request: GenerationRequest, nbytes: int | None = None) -> None:
        """Puts on a request whose it is, and lets its body go: the parsed request is all that waits in the queue.
        nbytes: its part of the body, where the client's request is more than one; they have one account."""
        self.body = b""
        request.nbytes = self.nbytes if nbytes is None else nbytes
        request.scope, request.client = self.asker.scope, self.client
        request.surface = generating(self.surface) or request.surface
        self._answering.add(self)
        self.account = request.account = self.account or Account(request.id, request.surface)

    def on_hang_up(self, callback: Callable[[], None]) -> None:
        """Calls back on the event loop when the client hangs up; at once if it has."""
        if self.gone:
            callback()
        else:
            self._callbacks.append(callback)

    def on_end(self, callback: Callable[[], None]) -> None:
        """Calls back when the request is over, whichever way: its answer is out, or nobody waits for it any more."""
        self._at_end.append(callback)

    def end(self) -> None:
        callbacks, self._at_end = self._at_end, []
        for callback in callbacks:
            callback()

    def record(self, trace: Recording) -> None:
        """From now on what goes to the client is recorded."""
        self.trace = trace
        if self.push is not None:
            self.push = trace.pushing(self.push)

    def hang_up(self) -> None:
        self.gone = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def abort(self) -> None:
        """Drops the client without sending what it has not read."""
        if self._transport is not None:
            self._transport.abort()
        self.hang_up()


@dataclass(slots=True)
class _Heard:
    """What a client was told: the status, 0 if nothing. gone: it did not wait for its body to be read."""

    status: int = 0
    gone: bool = False


class Door:
    """ASGI middleware around the framework's app."""

    def __init__(self, app: App, limits: Limits, keeper: Doorkeeper, metrics: Metrics, keys: Keyring) -> None:
        self.app, self.limits, self.keeper, self.metrics, self.keys = app, limits, keeper, metrics, keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        began, surface = time.monotonic(), surface_of(scope["path"])
        connection: Connection | None = None
        heard = _Heard()
        send = self.keeper.with_cors(scope, self._counting(scope, _named(scope, send), heard))
        self.metrics.clients += 1
        try:
            self.keeper.check(scope)
            if self.keeper.is_preflight(scope):
                return await _answer(send, 204, b"", ())
            asker = self.keys.check(scope)
            others = self.metrics.clients - 1
            if scope["method"] == "POST" and (reason := connects(others, self.limits.clients)):
                self.metrics.shed(reason)
                raise shed(reason)
            body = await self._read(scope, receive)
        except ApiError as error:
            await _refuse(send, receive, error_body(error, scope["path"], scope[REQUEST_ID_KEY]), error)
        except ClientGone:
            heard.gone = True
        else:
            connection = Connection(
                body,
                scope.get(TRANSPORT_KEY),
                scope.get(PUSH_KEY),
                scope[REQUEST_ID_KEY],
                surface,
                asker,
                _address(scope),
                self.metrics.answering,
            )
            await self._serve(scope, receive, send, connection)
        finally:
            self.metrics.clients -= 1
            self.metrics.answering.discard(connection)
            outcome = _outcome(heard, connection)
            self.metrics.request(surface, outcome)
            account = connection.account if connection is not None else None
            request_ended(scope, scope[REQUEST_ID_KEY], heard.status, outcome, time.monotonic() - began, account)

    async def _read(self, scope: Scope, receive: Receive) -> bytes:
        limit = self.limits.body
        for name, value in scope["headers"]:
            if name == b"content-length" and int(value) > limit:
                raise _too_large(limit)
            if name == b"content-encoding" and value.lower() not in (b"", b"identity"):
                raise ApiError(415, "Compressed bodies are not read; send it plain.", code="unsupported_encoding")
        pieces, size = [], 0
        while True:
            try:
                async with asyncio.timeout(self.limits.body_timeout):
                    message = await receive()
            except TimeoutError:
                raise ApiError(408, "The body did not arrive in time.", code="timeout") from None
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece = message.get("body", b"")
            size += len(piece)
            if size > limit:
                raise _too_large(limit)
            pieces.append(piece)
            if not message.get("more_body", False):
                return b"".join(pieces)

    async def _serve(self, scope: Scope, receive: Receive, send: Send, connection: Connection) -> None:
        scope[SCOPE_KEY] = connection
        delivered = False
        over = asyncio.Event()

        async def replay() -> Message:
            nonlocal delivered
            if not delivered:
                delivered = True
                return {"type": "http.request", "body": b"", "more_body": False}
            await over.wait()
            return {"type": "http.disconnect"}

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            over.set()
            connection.hang_up()

        async def recorded(message: Message) -> None:
            if connection.trace is not None:
                connection.trace.sent(message)
            await send(message)

        watcher = asyncio.get_running_loop().create_task(watch())
        try:
            await self.app(scope, replay, recorded)
        finally:
            watcher.cancel()
            connection.end()
            if connection.trace is not None:
                connection.trace.close(gone=connection.gone)

    def _counting(self, scope: Scope, send: Send, heard: _Heard) -> Send:
        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                heard.status = message["status"]
                self.metrics.response(scope.get("ds4.route", "other"), message["status"])
            await send(message)

        return counted


def _outcome(heard: _Heard, connection: Connection | None) -> Outcome:
    account = connection.account if connection is not None else None
    if heard.gone or heard.status in (0, CLIENT_GONE):
        return "cancelled"
    if account is not None and account.error is not None:
        return "shed" if account.error in SHEDS else "failed"
    if account is not None and account.finish == "cancelled":
        return "cancelled"
    if heard.status in (429, 503):
        return "shed"
    return "failed" if heard.status >= 500 else "refused" if heard.status >= 400 else "ok"


def _named(scope: Scope, send: Send) -> Send:
    """Gives the request an id, and the answer the header that clients of the surface read it from."""
    scope[REQUEST_ID_KEY] = name = new_id("req", "_")
    header = id_header(scope["path"])

    async def with_name(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), (header, name.encode())]}
        await send(message)

    return with_name


def _address(scope: Scope) -> str:
    """The client's address without its port; empty on a Unix socket."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _too_large(limit: int) -> ApiError:
    return ApiError(413, f"The body is larger than {limit} bytes.", code="request_too_large")


async def _answer(send: Send, status: int, body: bytes, headers: tuple[tuple[bytes, bytes], ...]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


async def _refuse(send: Send, receive: Receive, body: bytes, error: ApiError) -> None:
    """Answers before the body was read. What the client still sends is swallowed for a while: closing at once would
    reset the connection and it might never see the answer."""
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    headers += [(b"connection", b"close")]
    headers += [(name.encode(), value.encode()) for name, value in error.headers]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": True})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            while (message := await receive())["type"] == "http.request" and message.get("more_body", False):
                pass
    await send({"type": "http.response.body", "body": b"", "more_body": False})
