"""Logging: text for people or a JSON object a line, and the line that each request leaves when it ends.

What clients choose (paths, headers, names) can appear in a line and never begin one: control characters are escaped.
Prompts, answers and keys are never logged.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import time
from collections.abc import MutableMapping
from typing import Any, Literal, TextIO

from ds4.server.ops.account import Account, Outcome, surface_of

Format = Literal["text", "json"]
LEVELS = ("debug", "info", "warning", "error")

requests = logging.getLogger("ds4.requests")
_FACTS = "ds4_facts"
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LONGEST_PATH = 512


def escaped(text: str) -> str:
    """Without anything that ends a line, moves a terminal's cursor, or cannot be written as UTF-8."""
    return _CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class TextFormatter(logging.Formatter):
    """A traceback's lines are indented: none of them can be taken for a line of the log."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        line = f"{self.formatTime(record)} {record.levelname} {escaped(record.getMessage())}"
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            line += "".join(f"\n    {escaped(part)}" for part in trace.splitlines())
        return line


class JsonFormatter(logging.Formatter):
    """ts is in UTC; ASCII only, so that no reader's idea of a line's end can differ."""

    def format(self, record: logging.LogRecord) -> str:
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line: dict[str, Any] = {
            "ts": f"{stamp}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        facts = getattr(record, _FACTS, None)
        if facts is None:
            line["message"] = record.getMessage()
        else:
            line |= {"event": "request", **facts}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line)


def configure(form: Format, level: str, *, each_request: bool, stream: TextIO | None = None) -> None:
    """Sets the server's loggers up. each_request: whether requests leave a line, whatever `level` says."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    least = logging.getLevelNamesMapping()[level.upper()]
    for name, own in (
        ("ds4.server", least),
        ("ds4.components", max(least, logging.WARNING)),
        ("uvicorn.error", max(least, logging.ERROR)),
        ("asyncio", max(least, logging.ERROR)),
        ("ds4.requests", logging.INFO if each_request else logging.CRITICAL),
    ):
        logger = logging.getLogger(name)
        logger.setLevel(own)
        logger.handlers = [handler]
        logger.propagate = False


def say(line: str) -> None:
    """Something for the person at the terminal; a line of the log where that is read by machines."""
    logger = logging.getLogger("ds4.server")
    if any(isinstance(handler.formatter, JsonFormatter) for handler in logger.handlers):
        logger.info(line.strip())
    else:
        tell(line + "\n")


def tell(text: str) -> None:
    """Writes to standard error if that is possible. Nobody may be there to read it (a closed terminal, a full disk):
    that must neither stop the server nor keep it from ending."""
    with contextlib.suppress(OSError, ValueError):  # ValueError: it is closed
        sys.stderr.write(text)
        sys.stderr.flush()


def on_terminal() -> bool:
    return sys.stderr.isatty()


def request_ended(
    scope: MutableMapping[str, Any],
    request_id: str,
    status: int,
    outcome: Outcome,
    seconds: float,
    account: Account | None,
) -> None:
    """The line of a request, when its answer is out or nobody waits for it any more. status: 0 if none was sent."""
    if not requests.isEnabledFor(logging.INFO):
        return
    path = scope["path"][:_LONGEST_PATH]
    facts: dict[str, Any] = {
        "request_id": request_id,
        "method": scope["method"],
        "path": path,
        "status": status,
        "outcome": outcome,
        "duration_ms": round(1e3 * seconds, 3),
        "surface": surface_of(scope["path"]),
    }
    if account is not None:
        facts |= account.facts()
    told = [f"{name}={value}" for name, value in facts.items() if name not in _SAID and value is not None]
    requests.info("%s %s %d %s", scope["method"], json.dumps(path), status, " ".join(told), extra={_FACTS: facts})


_SAID = ("method", "path", "status")
