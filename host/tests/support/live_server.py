"""A whole server on a free port in a thread of this process, over the fake engine and a tokenizer of bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, cast

import uvicorn
from ds4.core.chat import Dialect
from ds4.core.chat_template import TemplateChat
from ds4.core.sampling import Sampling
from ds4.core.tokenizer import Segment
from ds4.server.app import create_app
from ds4.server.constraints import Constraints
from ds4.server.doorkeeper import Doorkeeper
from ds4.server.engine_loop import EngineLoop
from ds4.server.grammar_pool import GrammarPool
from ds4.server.limits import Limits
from ds4.server.ops.keys import Keyring
from ds4.server.prompts import Prompts
from ds4.server.protocol import Protocol
from ds4.server.response_store import ResponseStore
from ds4.server.schedule.oracle import UNBOUNDED, scheduler
from ds4.server.service import Served, Service
from ds4.sys.descriptors import SessionDesc
from support.fake_native import TINY, FakeModel, FakeSession, Rule

EOS = 0
ALPHABET = b"abcdefghijklmnopqrstuvwxyz"


def letters(tokens: Sequence[int]) -> int:
    """The alphabet round and round, by position: what a bank draws for ever."""
    return ALPHABET[len(tokens) % 26]


class ByteTokenizer:
    """Ids are bytes; 0 ends an answer."""

    n_vocab = 256
    bos_id, eos_id = None, EOS
    stop_ids = frozenset({EOS})
    special_tokens: dict[str, int] = {}

    def encode(self, text: str, *, special: bool = False) -> list[int]:
        return list(text.encode())

    def encode_segments(self, segments: Sequence[tuple[str, bool]]) -> list[int]:
        return [byte for text, _ in segments for byte in text.encode()]

    def continuation(self, text: str) -> list[int]:
        return self.encode(text)

    def ids_of(self, tokens: Collection[str]) -> frozenset[int]:
        return frozenset()

    def with_bos(self, ids: list[int]) -> list[int]:
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def token_bytes(self, token: int) -> bytes:
        return bytes([token])

    def stream(self, visible: frozenset[str] = frozenset()) -> ByteDecoder:
        return ByteDecoder()


class ByteDecoder:
    def __init__(self) -> None:
        self._bytes = b""

    def push(self, token: int) -> str:
        self._bytes += bytes([token])
        try:
            text = self._bytes.decode()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data":
                return ""
            text = self._bytes.decode("utf-8", "replace")
        self._bytes = b""
        return text

    def flush(self) -> str:
        text, self._bytes = self._bytes.decode("utf-8", "replace"), b""
        return text


class RoleTemplate:
    """role, colon, content, newline."""

    source = ""

    def render(
        self, messages: list[dict[str, Any]], *, add_generation_prompt: bool = True, tools: object = None
    ) -> list[Segment]:
        return [Segment(self.render_text(messages, add_generation_prompt=add_generation_prompt), False)]

    def render_text(self, messages: list[dict[str, Any]], *, add_generation_prompt: bool = True) -> str:
        text = "".join(f"{message['role']}: {message['content']}\n" for message in messages)
        return text + ("assistant: " if add_generation_prompt else "")


class Gate:
    """Holds steps back until they are let through; a cancelled session opens it."""

    def __init__(self) -> None:
        self.open = True
        self._steps = 0
        self._condition = threading.Condition()

    def __call__(self, session: FakeSession) -> None:
        cancels = session.cancels
        with self._condition:
            while not self.open and not self._steps and session.cancels == cancels:
                self._condition.wait(0.005)
            if not self.open and self._steps:
                self._steps -= 1

    def close(self) -> None:
        self.open = False

    def let(self, steps: int) -> None:
        with self._condition:
            self._steps += steps
            self._condition.notify_all()

    def release(self) -> None:
        with self._condition:
            self.open = True
            self._condition.notify_all()


@dataclass
class LiveServer:
    """Use as a context manager. `session`, `engine` and `service` are the server's own, for looking inside."""

    banks: int = 2
    context: int = 4096
    rows: int = 256
    rule: Rule = letters
    limits: Limits = field(default_factory=Limits)
    allow_hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    load: bool = True
    store: ResponseStore | None = None  # of responses; None: one in memory
    keeps: int | None = None  # how far banks can go back; None: anywhere
    keys: Keyring | None = None  # None: everything is open
    dialect: Dialect | None = None  # of chats; None: roles and contents as they are
    pool: GrammarPool | None = None  # that compiles grammars; None: a usual one

    def __enter__(self) -> LiveServer:
        self.service = Service(self.limits, responses=self.store)
        self.gate = Gate()
        self.session = FakeSession(
            FakeModel(TINY, self.rule), SessionDesc(self.banks, self.context, self.rows, max(self.banks, 8), 1)
        )
        self.session.on_wait = self.gate
        self.session.keeps = self.keeps
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.socket.getsockname()[1]
        keeper = Doorkeeper("127.0.0.1", allow_hosts=self.allow_hosts, origins=self.origins)
        config = uvicorn.Config(
            create_app(self.service, keeper, self.keys),
            http=Protocol,
            loop="uvloop",
            ws="none",
            lifespan="off",
            log_config=None,
        )
        self.server = uvicorn.Server(config)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        self.wait_for(lambda: self.server.started)
        if self.load:
            self.load_model()
        return self

    def _run(self) -> None:
        async def main() -> None:
            self.loop = asyncio.get_running_loop()
            await self.server.serve([self.socket])

        with asyncio.Runner(loop_factory=self.server.config.get_loop_factory()) as runner:
            runner.run(main())

    def load_model(self) -> None:
        tokenizer = ByteTokenizer()
        self.engine = EngineLoop(
            self.session,
            scheduler(self.banks, self.rows, UNBOUNDED),
            tokenizer.stream,
            stop_ids=tokenizer.stop_ids,
            context=self.context,
            rolling=self.keeps is not None,
            loop=self.loop,
            metrics=self.service.metrics,
            limits=self.limits,
        )
        served = Served(
            model_id="fake",
            tokenizer=cast(Any, tokenizer),
            prompts=Prompts(
                cast(Any, tokenizer), self.dialect or TemplateChat(cast(Any, RoleTemplate())), self.context
            ),
            constraints=Constraints(cast(Any, tokenizer), frozenset(), self.service.metrics.shed, self.pool),
            engine=self.engine,
            context=self.context,
            fingerprint="ds4-test",
            defaults=Sampling(temperature=0.0),
        )
        self.engine_thread = threading.Thread(target=self.engine.run, daemon=True)
        self.engine_thread.start()
        self.loop.call_soon_threadsafe(self.service.serve, served)
        self.wait_for(lambda: self.service.state == "ready")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.gate.release()
        if hasattr(self, "engine"):
            self.engine.stop(now=True)
            self.engine_thread.join(5)
            assert not self.engine_thread.is_alive(), "the engine thread did not end"
        self.server.should_exit = self.server.force_exit = True
        self.thread.join(5)
        self.socket.close()
        self.service.close()

    # ---- talking to it ---------------------------------------------------------------------------------------------

    def wait_for(self, condition: Callable[[], bool], seconds: float = 5.0) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError("it did not happen in time")
            time.sleep(0.002)

    def connect(self, receive_buffer: int | None = None) -> socket.socket:
        sock = socket.socket()
        if receive_buffer is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        sock.settimeout(10)
        sock.connect(("127.0.0.1", self.port))
        return sock

    def request_bytes(self, path: str, body: object, method: str = "POST", headers: str = "") -> bytes:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n{headers}"
        return head.encode() + f"Content-Length: {len(raw)}\r\n\r\n".encode() + raw

    def open(self, path: str, body: object) -> socket.socket:
        """A connection on which a request has been sent."""
        sock = self.connect()
        sock.sendall(self.request_bytes(path, body))
        return sock

    def send(
        self, path: str, body: object = b"", method: str = "POST", headers: str = ""
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of one request on a connection of its own."""
        with contextlib.closing(self.connect()) as sock:
            sock.sendall(self.request_bytes(path, body, method, headers + "Connection: close\r\n"))
            return read_answer(sock, method)

    def post(self, path: str, body: object) -> tuple[int, dict[str, Any]]:
        status, _, raw = self.send(path, body)
        return status, json.loads(raw)

    def get(self, path: str) -> tuple[int, bytes]:
        status, _, raw = self.send(path, b"", "GET")
        return status, raw

    def events(self, path: str, body: dict[str, Any]) -> list[Any]:
        """The data of a stream's messages, the last one "[DONE]" as text."""
        status, headers, raw = self.send(path, {**body, "stream": True})
        assert status == 200, raw
        assert headers["content-type"].startswith("text/event-stream")
        return list(sse_data(raw))

    def metric(self, name: str) -> float:
        _, raw = self.get("/metrics")
        return sum(float(line.rsplit(" ", 1)[1]) for line in raw.decode().splitlines() if line.startswith(name))

    @property
    def idle(self) -> bool:
        """Nothing runs, waits or is in flight, and every bank is free."""
        scheduler = self.engine.scheduler
        return (
            self.engine.idle
            and not scheduler.queue
            and not scheduler.active
            and not scheduler.open
            and all(bank.free for bank in scheduler.banks)
            and not self.engine.jobs
        )


def sse_data(raw: bytes) -> Iterator[Any]:
    for message in raw.decode().split("\n\n"):
        if message.startswith("data: "):
            data = message[6:]
            yield data if data == "[DONE]" else json.loads(data)


def more(sock: socket.socket, so_far: bytes) -> bytes:
    """What comes next on a connection, which must not have been closed. so_far: what came before, to be shown then."""
    piece = sock.recv(65536)
    assert piece, f"the connection was closed behind {so_far[-200:]!r}"
    return piece


def read_answer(sock: socket.socket, method: str = "POST") -> tuple[int, dict[str, str], bytes]:
    raw = b""
    while b"\r\n\r\n" not in raw:
        raw += more(sock, raw)
    head, _, body = raw.partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    status = int(lines[0].split()[1])
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    if method == "HEAD" or status == 204:
        return status, headers, b""
    if "content-length" in headers:
        while len(body) < int(headers["content-length"]):
            body += more(sock, body)
    else:
        while not body.endswith(b"0\r\n\r\n"):
            body += more(sock, body)
        body = b"".join(chunks(body))
    return status, headers, body


def chunks(raw: bytes) -> Iterator[bytes]:
    """The chunks of a chunked body."""
    while raw:
        size, _, rest = raw.partition(b"\r\n")
        length = int(size, 16)
        yield rest[:length]
        raw = rest[length + 2 :]


def text_of(events: list[Any], choice: int = 0) -> str:
    """The text that a stream of chat or completion chunks built up for a choice."""
    parts = []
    for event in events:
        for c in event["choices"] if isinstance(event, dict) else ():
            if c["index"] == choice:
                parts.append(c["text"] if "text" in c else c["delta"].get("content", ""))
    return "".join(parts)
