"""What the `ds4-server` command takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ds4.core.exits import EPILOG
from ds4.core.options import ANSWER_OPTIONS, ENGINE_OPTIONS, MODEL_OPTIONS, SAMPLING_OPTIONS
from ds4.core.settings import Option, Program, boolean, choice, integer, number, path, size, text, texts
from ds4.server.doorkeeper import is_host, is_origin
from ds4.server.limits import LARGEST_COUNT, Limits
from ds4.server.ops.logs import LEVELS
from ds4.server.response_store import StoreLimits
from ds4.server.tracing import TraceLimits

_HTTP = "HTTP"
_KEYS = "Keys"
_LOG = "Log"
_SERVING = "Serving"
_LIMITS = "Limits"
_STORE = "Kept responses"
_TRACE = "Traces"
_PLAN = "Plan"
_DEFAULTS = Limits()
_STORED = StoreLimits()
_TRACED = TraceLimits()

HOST: Option[str] = Option(
    "host",
    text("ADDRESS"),
    "127.0.0.1",
    "Address to listen on.",
    _HTTP,
)
PORT: Option[int] = Option(
    "port",
    integer(0, 65535),
    8000,
    "Port to listen on; 0 takes a free one.",
    _HTTP,
)
ALLOW_HOST: Option[tuple[str, ...]] = Option(
    "allow-host",
    texts("NAME", lambda name: is_host(name) or name == "*", "a host's name without scheme and path, or *"),
    (),
    "Host name to answer to besides this machine's own; * for any. Repeats.",
    _HTTP,
)
CORS_ORIGIN: Option[tuple[str, ...]] = Option(
    "cors-origin",
    texts("ORIGIN", lambda origin: is_origin(origin) or origin == "*", "an origin such as https://app.example, or *"),
    (),
    "Origin whose pages may read answers; * for any. Repeats.",
    _HTTP,
)
KEEP_ALIVE: Option[float] = Option(
    "keep-alive",
    number(0.1, 3600, "SECONDS"),
    _DEFAULTS.keep_alive,
    "Silence after which a stream sends a comment.",
    _HTTP,
)
UNIX: Option[Path | None] = Option(
    "unix",
    path(),
    None,
    "Listen on a unix socket at this path instead of an address.",
    _HTTP,
)
UNIX_MODE: Option[str] = Option(
    "unix-mode",
    text("OCTAL"),
    "600",
    "Permissions of that socket.",
    _HTTP,
)
TLS_CERT: Option[Path | None] = Option(
    "tls-cert",
    path(),
    None,
    "Speak TLS with this certificate chain (PEM); SIGHUP reads it again.",
    _HTTP,
)
TLS_KEY: Option[Path | None] = Option(
    "tls-key",
    path(),
    None,
    "The certificate's private key (PEM).",
    _HTTP,
)
TLS_KEY_PASSWORD_FILE: Option[Path | None] = Option(
    "tls-key-password-file",
    path(),
    None,
    "File whose first line opens an encrypted key.",
    _HTTP,
)

API_KEY: Option[tuple[str, ...]] = Option(
    "api-key",
    texts("KEY"),
    (),
    "Ask clients for this key. Repeats. A command line can be read by others: rather use the file.",
    _KEYS,
    secret=True,
)
API_KEY_FILE: Option[Path | None] = Option(
    "api-key-file",
    path(),
    None,
    "File of keys, one a line; SIGHUP reads it again.",
    _KEYS,
)
SHARED_CACHE: Option[bool] = Option(
    "shared-cache",
    boolean(),
    False,
    "Let prompts of one key continue on what another key's have left, which tells by its speed what those were.",
    _KEYS,
)

LOG_FORMAT: Option[Any] = Option(
    "log-format",
    choice("text", "json"),
    "text",
    "How the log is written.",
    _LOG,
)
LOG_LEVEL: Option[str] = Option(
    "log-level",
    choice(*LEVELS),
    "info",
    "Least level that is logged.",
    _LOG,
)
ACCESS_LOG: Option[bool] = Option(
    "access-log",
    boolean(),
    False,
    "Log a line for each request when it ends.",
    _LOG,
    shows="on with --log-format json, else off",
)

MODEL_ID: Option[str | None] = Option(
    "model-id",
    text("NAME"),
    None,
    "Name of the model in answers.",
    _SERVING,
    shows="its file's name",
)
MAX_SEQS: Option[int | None] = Option(
    "max-seqs",
    integer(1, 1024),
    None,
    "Answers generated at once; each takes a bank of KV cache.",
    _SERVING,
    shows="what memory allows, at most 4",
)
MODELS_MAX: Option[int] = Option(
    "models-max",
    integer(1, 64),
    1,
    "Models loaded at once. With 1, that of -m answers whatever `model` says; with more, `model` chooses among what "
    "`ds4 models` lists.",
    _SERVING,
)
MODEL_IDLE: Option[float] = Option(
    "model-idle",
    number(0, 1e9, "SECONDS"),
    0.0,
    "With several models: how long one stays loaded without a request; 0: until another needs its place.",
    _SERVING,
)
LOAD_TIMEOUT: Option[float] = Option(
    "load-timeout",
    number(1, 86400, "SECONDS"),
    600.0,
    "With several models: how long a request waits for its model to load.",
    _SERVING,
)
PROMPT_CACHE: Option[bool] = Option(
    "prompt-cache",
    boolean(),
    True,
    "Continue on what a bank already holds of a prompt.",
    _SERVING,
)
DRAIN: Option[float] = Option(
    "drain",
    number(0, 86400, "SECONDS"),
    600.0,
    "How long running requests may finish after SIGINT or SIGTERM; a second signal ends them at once.",
    _SERVING,
)

MAX_CLIENTS: Option[int] = Option(
    "max-clients",
    integer(1, 65536),
    _DEFAULTS.clients,
    "Requests read or answered at once.",
    _LIMITS,
)
MAX_BODY: Option[int] = Option(
    "max-body",
    size(),
    _DEFAULTS.body,
    "Largest request body.",
    _LIMITS,
    shows="64M",
)
MAX_QUEUE: Option[int] = Option(
    "max-queue",
    integer(1, 65536),
    _DEFAULTS.queue.max_queue,
    "Answers that may wait for a bank.",
    _LIMITS,
)
MAX_QUEUE_BYTES: Option[int] = Option(
    "max-queue-bytes",
    size(),
    _DEFAULTS.queue.max_bytes,
    "Bytes of requests that may wait.",
    _LIMITS,
    shows="256M",
)
MAX_QUEUE_AGE: Option[float] = Option(
    "max-queue-age",
    number(0, 86400, "SECONDS"),
    _DEFAULTS.queue.max_age,
    "How long a request may wait for a bank.",
    _LIMITS,
)
MAX_BACKLOG: Option[int] = Option(
    "max-backlog",
    size(),
    _DEFAULTS.backlog,
    "Bytes of its answer that a client may leave unread before it is dropped.",
    _LIMITS,
    shows="1M",
)

STATE_DIR: Option[Path | None] = Option(
    "state-dir",
    path("directory"),
    None,
    "Where responses that are to be kept (`store`) outlive the server.",
    _STORE,
    shows="none: they end with it",
)
MAX_RESPONSES: Option[int] = Option(
    "max-responses",
    integer(1, LARGEST_COUNT),
    _STORED.count,
    "Responses that are kept; the least used go first.",
    _STORE,
)
MAX_RESPONSE_BYTES: Option[int] = Option(
    "max-response-bytes",
    size(),
    _STORED.size,
    "Bytes of responses that are kept.",
    _STORE,
    shows="256M",
)
RESPONSE_TTL: Option[float] = Option(
    "response-ttl",
    number(1, 1e9, "SECONDS"),
    _STORED.ttl,
    "How long a response is kept after it was made or built upon.",
    _STORE,
    shows="30 days",
)

TRACE: Option[Path | None] = Option(
    "trace",
    path("directory"),
    None,
    "Record each request, its tokens and its answer in a file there, for ds4 --replay; prompts as they are.",
    _TRACE,
    shows="none",
)
TRACE_FILES: Option[int] = Option(
    "trace-files",
    integer(1, LARGEST_COUNT),
    _TRACED.count,
    "Traces that are kept; the oldest go first.",
    _TRACE,
)
TRACE_BYTES: Option[int] = Option(
    "trace-bytes",
    size(),
    _TRACED.size,
    "Bytes of traces that are kept.",
    _TRACE,
    shows="1G",
)

MEM_FLOOR: Option[int | None] = Option(
    "mem-floor",
    size(),
    None,
    "Memory that stays free beside the model and its banks.",
    _PLAN,
    shows="a tenth of what is available",
)
EXPECT_PLAN: Option[Path | None] = Option(
    "expect-plan",
    path("file"),
    None,
    "Stop before serving, with exit code 2, unless the plan is the one in this file (from --print-plan).",
    _PLAN,
    shows="any plan will do",
)
PRINT_PLAN: Option[bool] = Option(
    "print-plan",
    boolean(),
    False,
    "Print the serving plan as JSON on standard output, then serve.",
    _PLAN,
    flag_only=True,
)
CHECK_CONFIG: Option[bool] = Option(
    "check-config",
    boolean(),
    False,
    "Print the serving plan as JSON and exit; opens no engine.",
    _PLAN,
    flag_only=True,
)

PROGRAM = Program(
    name="ds4-server",
    table="server",
    summary="Serves a model over HTTP with the APIs of OpenAI (chat, completions, responses, embeddings) and Anthropic "
    "(messages).",
    usage=("ds4-server", "ds4-server -m FILE -c 8192 --max-seqs 4", "ds4-server --check-config"),
    options=(
        HOST,
        PORT,
        ALLOW_HOST,
        CORS_ORIGIN,
        KEEP_ALIVE,
        UNIX,
        UNIX_MODE,
        TLS_CERT,
        TLS_KEY,
        TLS_KEY_PASSWORD_FILE,
        API_KEY,
        API_KEY_FILE,
        SHARED_CACHE,
        LOG_FORMAT,
        LOG_LEVEL,
        ACCESS_LOG,
        *MODEL_OPTIONS,
        MODEL_ID,
        MODELS_MAX,
        MODEL_IDLE,
        LOAD_TIMEOUT,
        MAX_SEQS,
        PROMPT_CACHE,
        DRAIN,
        *ENGINE_OPTIONS,
        *ANSWER_OPTIONS,
        *SAMPLING_OPTIONS,
        MAX_CLIENTS,
        MAX_BODY,
        MAX_QUEUE,
        MAX_QUEUE_BYTES,
        MAX_QUEUE_AGE,
        MAX_BACKLOG,
        STATE_DIR,
        MAX_RESPONSES,
        MAX_RESPONSE_BYTES,
        RESPONSE_TTL,
        TRACE,
        TRACE_FILES,
        TRACE_BYTES,
        MEM_FLOOR,
        EXPECT_PLAN,
        PRINT_PLAN,
        CHECK_CONFIG,
    ),
    epilog=EPILOG,
)
