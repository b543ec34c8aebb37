"""uvicorn's HTTP/1.1 protocol with the bounds and the error shape that it leaves to us.

uvicorn's parser collects headers without a limit and answers malformed requests in plain text; an ASGI app has no way
to drop a client who does not read; and each of its messages costs a task's wake-up, for a token half of the price.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ds4.server.disconnect import PUSH_KEY, TRANSPORT_KEY
from ds4.server.errors import ApiError

MAX_HEAD = 128 << 10
"""Bytes of request line and headers before the connection is cut; smaller excesses get a 431 from the door."""

HEAD_SECONDS = 30.0


class Protocol(HttpToolsProtocol):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head_bytes: int | None = 0  # None while a body is being read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.loop.call_later(HEAD_SECONDS, self._close_silent)

    def _close_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        if self._head_bytes is not None:
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
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._reject(ApiError(400, "The request is not well-formed HTTP/1.1.", code="invalid_http"))

    def _reject(self, error: ApiError) -> None:
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:  # else an answer is on its way and may not be mixed up
            body = error.body()
            self.transport.write(
                b"HTTP/1.1 %d Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
                b"connection: close\r\n\r\n%b" % (error.status, len(body), body)
            )
        self.transport.close()
