"""Every exchange of a server with its clients, as the server saw it: one JSON line for each, when it ends.

An empty line stands for each that begins, so a reader knows whether some are still to come.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from ds4.server.disconnect import PUSH_KEY, App, Message, Receive, Scope, Send


@dataclass
class Exchange:
    """status: 0 if no answer was begun. whole: the answer was sent to its end."""

    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: str = ""
    status: int = 0
    kind: str = ""
    answer: str = ""
    whole: bool = False
    parts: list[bytes] = field(default_factory=list, repr=False)

    @property
    def asked(self) -> Any:
        return json.loads(self.body)

    @property
    def streamed(self) -> bool:
        return self.kind.startswith("text/event-stream")

    def line(self) -> str:
        self.answer = b"".join(self.parts).decode()
        return json.dumps({name: value for name, value in asdict(self).items() if name != "parts"})


def read(path: Path, seconds: float) -> list[Exchange]:
    """Those that have ended, in that order, once none is open or the time is over: a client may have the end of its
    answer before the server's side of the exchange has ended."""
    until = time.monotonic() + seconds
    while True:
        lines = path.read_text().split("\n")[:-1]  # what follows the last end of line is half written
        ended = [line for line in lines if line]
        if 2 * len(ended) == len(lines) or time.monotonic() > until:
            return [Exchange(**json.loads(line)) for line in ended]
        time.sleep(0.02)


class Recorder:
    """ASGI middleware that changes nothing: it notes what passes, also what takes the short way to the socket."""

    def __init__(self, app: App, out: TextIO) -> None:
        self._app, self._out, self._lock = app, out, threading.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        headers = {name.decode().lower(): value.decode("latin-1") for name, value in scope["headers"]}
        seen = Exchange(scope["method"], scope["path"], scope["query_string"].decode(), headers)
        asked: list[bytes] = []
        self._say("")

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.request":
                asked.append(message.get("body", b""))
            return message

        async def told(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen.status = message["status"]
                seen.kind = dict(message.get("headers", ())).get(b"content-type", b"").decode()
            elif message["type"] == "http.response.body":
                seen.parts.append(message.get("body", b""))
            await send(message)
            seen.whole |= message["type"] == "http.response.body" and not message.get("more_body", False)

        if PUSH_KEY in scope:
            push = scope[PUSH_KEY]

            def pushed(data: bytes) -> bool:
                sent = bool(push(data))
                if sent:
                    seen.parts.append(data)
                return sent

            scope[PUSH_KEY] = pushed
        try:
            await self._app(scope, heard, told)
        finally:
            seen.body = b"".join(asked).decode("utf-8", "replace")
            self._say(seen.line())

    def _say(self, line: str) -> None:
        with self._lock:
            self._out.write(line + "\n")
            self._out.flush()
