"""From settings to a serving process: plan, listen, load, serve, drain.

The port is open before the model is, so a client that comes early hears "loading" instead of nothing. The engine thread
opens the model and then runs the engine loop; the main thread runs HTTP; neither waits for the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn

from ds4.core import bind, components, expert_tables
from ds4.core.chat import Dialect
from ds4.core.dialects import Override, dialect
from ds4.core.families import State, contract_of
from ds4.core.options import WARM
from ds4.core.settings import Settings
from ds4.core.tokenizer import Tokenizer
from ds4.errors import Cancelled, Ds4Error
from ds4.server import arguments as args
from ds4.server import check_config
from ds4.server.app import create_app
from ds4.server.constraints import Constraints
from ds4.server.disconnect import Door
from ds4.server.doorkeeper import Doorkeeper, is_loopback
from ds4.server.engine_loop import EngineLoop
from ds4.server.limits import Limits
from ds4.server.many_models import many_models
from ds4.server.ops import logs
from ds4.server.ops.drain import Drain
from ds4.server.ops.listen import UnixSocket, listen, permissions
from ds4.server.ops.reload import Reload, on_hangup
from ds4.server.plan import ServingPlan
from ds4.server.prompts import Prompts
from ds4.server.protocol import Protocol
from ds4.server.response_store import ResponseStore, StoreLimits
from ds4.server.schedule import oracle as schedule
from ds4.server.schedule.admission import QueueLimits
from ds4.server.service import Served, Service
from ds4.server.switching import Owner, Runner
from ds4.server.tracing import TraceLimits, Tracer
from ds4.sys.native import NativeModel, NativeSession

log = logging.getLogger("ds4.server")

SWITCH_INTERVAL = 0.0005
"""Seconds that a Python thread may hold the others up. The default of 5 ms is half a token."""

IDLE_CONNECTION_SECONDS = 75

SHUTDOWN_SECONDS = 5
"""How long connections may take to end once everything that was to be finished is: to send off what is written."""


def limits_of(settings: Settings) -> Limits:
    return Limits(
        body=settings[args.MAX_BODY],
        clients=settings[args.MAX_CLIENTS],
        backlog=settings[args.MAX_BACKLOG],
        keep_alive=settings[args.KEEP_ALIVE],
        queue=QueueLimits(settings[args.MAX_QUEUE], settings[args.MAX_QUEUE_BYTES], settings[args.MAX_QUEUE_AGE]),
    )


class EngineThread(threading.Thread):
    """Opens the model, tells the service, and runs the engine loop until it is stopped."""

    def __init__(self, plan: ServingPlan, service: Service, owner: Owner, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(name="ds4-engine", daemon=True)
        self._plan, self._service, self._owner, self._loop = plan, service, owner, loop
        self.engine: EngineLoop | None = None
        self.error: Exception | None = None
        self.stopping = False

    def run(self) -> None:
        try:
            self._serve()
        except Cancelled:
            pass  # stopped while loading
        except Exception as error:
            self.error = error
            if self.engine is not None:
                self.engine.fail_all(error)
        self._call(self._owner.engine_ended)

    def _call(self, callback: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody is left to tell
            self._loop.call_soon_threadsafe(callback)

    def _serve(self) -> None:
        began = time.monotonic()
        plan = self._plan
        expert_tables.check(plan.bind)
        model = NativeModel.open(plan.bind.desc())
        try:
            bind.match(plan.bind, model.slots())
            if plan.settings[WARM]:
                model.warm(self._progress)
            tokenizer = Tokenizer.from_metadata(plan.inventory.metadata)
            chat = dialect(plan.inventory.metadata, tokenizer, Override.of(plan.settings))
            session = NativeSession(model, plan.session)
            try:
                self._run(session, tokenizer, chat, time.monotonic() - began)
            finally:
                session.close()
        finally:
            model.close()

    def _run(self, session: NativeSession, tokenizer: Tokenizer, chat: Dialect | None, seconds: float) -> None:
        plan, service = self._plan, self._service
        rolling = contract_of(plan.bind.hparams.family).STATE is State.ROLLING
        scheduler = schedule.scheduler(plan.session.n_banks, plan.session.max_rows, schedule.UNBOUNDED)
        self.engine = EngineLoop(
            session,
            scheduler,
            lambda visible: tokenizer.stream(special=False, visible=visible),
            stop_ids=tokenizer.stop_ids,
            context=plan.session.n_ctx,
            rolling=rolling,
            loop=self._loop,
            metrics=service.metrics,
            limits=service.limits,
        )
        served = Served(
            model_id=plan.model_id,
            tokenizer=tokenizer,
            prompts=Prompts(tokenizer, chat, plan.session.n_ctx),
            constraints=Constraints(tokenizer, frozenset() if chat is None else chat.visible, service.metrics.shed),
            engine=self.engine,
            context=plan.session.n_ctx,
            fingerprint=plan.fingerprint,
            defaults=plan.sampling,
            cache_prompt=plan.settings[args.PROMPT_CACHE],
            facts=plan.facts(),
        )
        if self.stopping:
            return
        # What loading left behind lives as long as the process: the collector need not look at it again and again.
        gc.collect()
        gc.freeze()
        self._call(lambda: self._owner.model_loaded(served, seconds))
        self.engine.run()

    def _progress(self, done: int, total: int) -> bool:
        part = done / total if total else 1.0
        self._owner.load_progress(part)
        if logs.on_terminal():
            logs.tell(f"\r\033[Kloading {100 * part:.0f} %")
        return self.stopping

    def stop(self, *, now: bool = False) -> None:
        self.stopping = True
        if self.engine is not None:
            self.engine.stop(now=now)


class Server(uvicorn.Server):
    """uvicorn's server, with the engine thread beside it and signals that drain."""

    def __init__(
        self, config: uvicorn.Config, plan: ServingPlan, service: Service, url: str, reloads: Sequence[Reload]
    ) -> None:
        super().__init__(config)
        self._plan, self._service, self._url, self._reloads = plan, service, url, reloads
        self._drain = Drain(service, plan.settings[args.DRAIN])
        self._signals = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self.thread: EngineThread | None = None
        self.error: Exception | None = None  # what the server ends with

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._loop = asyncio.get_running_loop()
        if self._service.board is not None:
            self._service.board.first(self._plan, self._say_ready, self._first_failed)
        else:
            self.thread = EngineThread(self._plan, self._service, self, self._loop)
            self.thread.start()
        on_hangup(self._loop, self._reloads)

    def load_progress(self, part: float) -> None:
        self._service.progress = part

    def model_loaded(self, served: Served, seconds: float) -> None:
        self._service.serve(served)
        self._say_ready(served, seconds)

    def _first_failed(self, error: Exception | None) -> None:
        self.error = error
        self.engine_ended()

    def _say_ready(self, served: Served, seconds: float) -> None:
        clear = "\r\033[K" if logs.on_terminal() else ""
        logs.say(f"{clear}ready in {seconds:.1f} s: {self._url}/v1  (Ctrl-C stops)")

    def engine_ended(self) -> None:
        """The engine thread is gone: asked to, or by an error; either way there is nothing left to serve."""
        self.should_exit = True
        if self.thread is not None and self.thread.error is not None:
            self.error = self.thread.error
        if self.error is not None:
            self._service.state = "failed"
            self.force_exit = True

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal drains, the second ends at once. Only flags are set here: a signal interrupts anything."""
        self._signals += 1
        if self._signals > 1:
            self.should_exit = self.force_exit = True
        if self._loop is None:
            self.should_exit = True
        else:
            self._loop.call_soon_threadsafe(self._stopping)

    def _stopping(self) -> None:
        if self._service.board is not None:
            self._service.board.stop(now=self.force_exit)
        engine = self.thread.engine if self.thread is not None else None
        if self.thread is not None and (engine is None or self.force_exit):
            self.thread.stop(now=True)
        if self._service.state == "stopping":
            return  # the first signal has begun it
        self._service.state = "stopping"
        if jobs := sum(len(served.engine.jobs) for served in self._service.loaded):
            logs.say(f"finishing {jobs} request(s); press Ctrl-C again to stop at once")
        self._drain.begin(self._drained)

    def _drained(self) -> None:
        """Nothing is left to finish, or the time for it is over: what still runs is told so, and listening ends."""
        self.should_exit = True
        if self._service.board is not None:
            self._service.board.stop(now=True)
        if self.thread is not None:
            self.thread.stop(now=True)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        cut = asyncio.get_running_loop().call_later(SHUTDOWN_SECONDS, self._cut)
        await super().shutdown(sockets)
        cut.cancel()
        self._cut()
        if tasks := self.server_state.tasks:
            await asyncio.wait(tasks, timeout=1)
        self._service.close()
        if self._service.board is not None:
            self._service.board.close()
        if self.thread is not None:
            self.thread.stop(now=True)

    def _cut(self) -> None:
        """Whoever has not taken its answer by now does not get it. To handlers that is a hang-up, which they know how
        to end after; being cancelled is not."""
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def runners(self) -> list[Runner]:
        """The threads of engines that have not ended."""
        board = self._service.board
        return board.runners() if board is not None else [] if self.thread is None else [self.thread]


def serve(settings: Settings) -> int:
    """Plans, listens, loads and serves until a signal. Raises Ds4Error for what stands in the way."""
    components.check()
    each = settings[args.ACCESS_LOG]
    if not settings.given(args.ACCESS_LOG):
        each = settings[args.LOG_FORMAT] == "json"
    logs.configure(settings[args.LOG_FORMAT], settings[args.LOG_LEVEL], each_request=each)
    if settings[args.CHECK_CONFIG]:
        return check_config.check(settings)
    keys, tls, plan = check_config.keyring(settings), check_config.certificate(settings), check_config.plan(settings)
    context = tls.context() if tls is not None else None
    store = ResponseStore(
        settings[args.STATE_DIR],
        StoreLimits(settings[args.MAX_RESPONSES], settings[args.MAX_RESPONSE_BYTES], settings[args.RESPONSE_TTL]),
    )
    tracer = _tracer(plan)
    with contextlib.ExitStack() as stack:
        sock, url, host = _open(settings, context is not None, stack)
        if host is not None and not is_loopback(host) and not keys.guards:
            log.warning("whoever reaches %s may use it: there are no keys (--api-key-file)", url)
        if settings[args.PRINT_PLAN]:
            sys.stdout.write(plan.json() + "\n")
            sys.stdout.flush()
        for line in plan.lines(url):
            logs.say(line)
        reloads: list[Reload] = []
        if settings[args.API_KEY_FILE] is not None:
            reloads.append(keys.reload)
        if tls is not None and context is not None:
            reloads.append(functools.partial(tls.reload, context))
        service = Service(limits_of(settings), responses=store)
        if settings[args.MODELS_MAX] > 1:
            service.board = many_models(plan, service, EngineThread)
        service.tracer = tracer
        hosts, origins = settings[args.ALLOW_HOST], settings[args.CORS_ORIGIN]
        keeper = Doorkeeper(host, allow_hosts=hosts, origins=origins, max_header=service.limits.header)
        server = Server(_config(create_app(service, keeper, keys), context), plan, service, url, reloads)
        return _run(server, sock)


def _tracer(plan: ServingPlan) -> Tracer | None:
    folder = plan.settings[args.TRACE]
    if folder is None:
        return None
    kept = TraceLimits(plan.settings[args.TRACE_FILES], plan.settings[args.TRACE_BYTES])
    return Tracer(folder, plan.session.numeric.name.lower(), plan.session.kv_type.name.lower(), kept)


def _open(settings: Settings, tls: bool, stack: contextlib.ExitStack) -> tuple[socket.socket, str, str | None]:
    """What to listen on, its URL, and the host name (None for a unix socket, which is removed when the stack ends)."""
    scheme = "https" if tls else "http"
    path = settings[args.UNIX]
    if path is not None:
        own = UnixSocket(path, permissions(settings[args.UNIX_MODE]))
        stack.callback(own.remove)
        return own.sock, f"{scheme}+unix://{path}", None
    host = settings[args.HOST]
    sock = listen(host, settings[args.PORT])
    return sock, f"{scheme}://{f'[{host}]' if ':' in host else host}:{sock.getsockname()[1]}", host


def _config(app: Door, context: ssl.SSLContext | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Protocol,
        loop="uvloop",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_CONNECTION_SECONDS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS + 2,
        ssl_context_factory=None if context is None else lambda config, default: context,
    )


def _run(server: Server, sock: socket.socket) -> int:
    sys.setswitchinterval(SWITCH_INTERVAL)
    server.run(sockets=[sock])
    for runner in server.runners():
        runner.join(timeout=10)
    if isinstance(server.error, Ds4Error):
        raise server.error
    if server.error is not None:
        log.error("the engine thread ended by a bug", exc_info=server.error)
        return 1
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    """The `ds4-server` command."""
    from ds4.core.exits import guarded
    from ds4.core.settings import load

    return guarded("ds4-server", lambda: serve(load(args.PROGRAM, sys.argv[1:] if argv is None else argv)))
