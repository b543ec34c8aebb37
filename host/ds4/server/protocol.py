"""uvicorn's HTTP/1.1 protocol with the bounds and the error shape that it leaves to us.

uvicorn's parser collects headers without a limit and answers malformed requests in plain text; an ASGI app has no way
to drop a client who does not read; and each of its messages costs a task's wake-up, for a token half of the price.

While a pipelined request waits for the answer before it, uvicorn stops reading, and tells only the last request that
the connection is lost: who pipelined and hung up would keep a bank to the end of the answer. Here reading goes on, what
comes is kept as it came until its turn, and every request of a lost connection hears of it.

uvicorn cuts the connection at bytes that are no HTTP, even while a whole request is being answered: a client that
miscounts its body would never hear why. Here what is whole is answered, what is not is told so, and then it is cut.
"""

from __future__ import annotations

import asyncio
from collections import deque
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ds4.server.disconnect import PUSH_KEY, TRANSPORT_KEY
from ds4.server.errors import ApiError

MAX_HEAD = 128 << 10
"""Bytes of request line and headers before the connection is cut; smaller excesses get a 431 from the door."""

HEAD_SECONDS = 30.0
"""How long a connection may take to bring a request's head, from its first byte or the connection's start."""

MAX_AHEAD = 256 << 10
"""Bytes kept behind a request that waits for the answer before it. Beyond, reading pauses, hang-ups unseen."""


class Protocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes: int | None = 0  # None while a body is being read
        self._head_timer: asyncio.TimerHandle | None = None
        self._unanswered: deque[RequestResponseCycle] = deque()  # in order, the running one first
        self._ahead = bytearray()
        self._broken = False  # what comes further means nothing

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_arrived()
        self._ahead.clear()
        for cycle in self._unanswered:
            if not cycle.response_complete:
                cycle.disconnected = True
            cycle.message_event.set()
        super().connection_lost(exc)

    def _expect_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(HEAD_SECONDS, self._head_is_late)

    def _head_arrived(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.cycle is not None and not self.cycle.response_complete:
            self._expect_head()  # the rest may wait for the answer that is on its way
        elif not self.transport.is_closing():
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._broken:
            return
        if self.pipeline:
            self._ahead += data
            if len(self._ahead) > MAX_AHEAD:
                self.flow.pause_reading()
            return
        self._feed(data)
        if self.pipeline:
            self.flow.resume_reading()

    def on_response_complete(self) -> None:
        while self._unanswered and self._unanswered[0].response_complete:
            self._unanswered.popleft()
        super().on_response_complete()
        if self._ahead and not self.pipeline and not self.transport.is_closing():
            data, self._ahead = bytes(self._ahead), bytearray()
            self.data_received(data)

    def _feed(self, data: bytes) -> None:
        if self._head_bytes is not None:
            self._expect_head()
            self._head_bytes += len(data)
            before = self._head_bytes
            super().data_received(data)
            if self._head_bytes is not None and before > MAX_HEAD:
                self._reject(ApiError(431, f"The headers are larger than {MAX_HEAD} bytes.", code="headers_too_large"))
        else:
            super().data_received(data)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        scope = cast("dict[str, Any]", self.scope)
        scope[TRANSPORT_KEY], scope[PUSH_KEY] = self.transport, self.push

    def push(self, data: bytes) -> bool:
        """Writes a piece of the answer's body past ASGI: what `send` would write, without waking a task for it.

        False if that is not possible now: the answer has not begun or has ended, it is not chunked, or the client reads
        so slowly that whoever sends has to wait.
        """
        cycle = self.cycle
        if (
            cycle is None
            or not cycle.response_started
            or cycle.response_complete
            or cycle.disconnected
            or not cycle.chunked_encoding
            or self.flow.write_paused
        ):
            return False
        self.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        return True

    def on_headers_complete(self) -> None:
        self._head_bytes = None
        self._head_arrived()
        super().on_headers_complete()
        if self.cycle is not None:
            if self.scope["http_version"] == "1.0":
                self.cycle.__class__ = ToTheEnd  # before its task has begun
            self._unanswered.append(self.cycle)

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._reject(ApiError(400, "The request is not well-formed HTTP/1.1.", code="invalid_http"))

    def _reject(self, error: ApiError) -> None:
        if self.transport.is_closing():
            return
        self._broken = True
        whole = [one for one in self._unanswered if not (one.response_complete or one.more_body)]
        if whole:
            whole[-1].keep_alive = False  # the connection ends with its answer
            return
        if not any(one.response_started and not one.response_complete for one in self._unanswered):
            body = error.body()
            self.transport.write(
                b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%b"
                % (error.status, HTTPStatus(error.status).phrase.encode(), len(body), body)
            )
        self.transport.close()


class ToTheEnd(RequestResponseCycle):
    """An answer to HTTP/1.0, which knows no chunks: where its length is not said, it ends with the connection."""

    async def send(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            if not any(name.lower() == b"content-length" for name, _ in message.get("headers", ())):
                self.chunked_encoding = False
                self._measured = False
        elif not self._measured:
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)

    _measured = True
