"""Recording requests while they run, and keeping their files within bounds; the format is ds4.core.trace's.

A recording is made before its request is queued. The engine thread adds tokens, the event loop adds what goes to the
client; the file is written by another thread, once the answer is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ds4.core.trace import Outcome, Token, Trace, TracedChoice, encode
from ds4.errors import SettingsError
from ds4.server.job import Job
from ds4.server.request import GenerationRequest
from ds4.server.schedule.scheduler import Step

log = logging.getLogger("ds4.server")

SUFFIX = ".ds4trace"
STRUCK = "[struck out]"
_KEYS = ("api_key", "apikey", "api-key", "authorization", "x-api-key", "access_token", "password", "secret")
_PARTIAL = ".tmp"


@dataclass(frozen=True, slots=True)
class TraceLimits:
    """count, size: files that are kept, and their bytes in all; the oldest go first."""

    count: int = 1000
    size: int = 1 << 30


class Recording:
    """One request on its way."""

    def __init__(self, tracer: Tracer, head: Trace, request: GenerationRequest) -> None:
        self._tracer, self._head, self._request = tracer, head, request
        self._began = time.monotonic()
        self._tokens: list[Token] = []
        self._wire = bytearray()
        self._jobs: list[Job] = []  # once they are queued; of a request that is answered anew there are two
        self._ahead = 0  # choices of the jobs before the one that runs

    def queued(self, job: Job) -> None:
        self._jobs.append(job)

    def anew(self) -> None:
        """The job so far has drawn its last token, and another is going to answer in its place: its choices are counted
        behind those there were."""
        self._ahead = sum(len(job.choices) for job in self._jobs)

    def token(self, choice: int, token: int, step: Step, elapsed_ns: int) -> None:
        """A drawn token. On the engine thread."""
        ms = self._since()
        self._tokens.append(Token(self._ahead + choice, token, ms, step.decoding, step.prompt_rows, elapsed_ns // 1000))

    def _since(self) -> float:
        return round(1e3 * (time.monotonic() - self._began), 3)

    def sent(self, message: MutableMapping[str, Any]) -> None:
        """A message of the answer, on its way to the client."""
        if message["type"] == "http.response.body":
            self._wire += message.get("body", b"")

    def pushing(self, push: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
        """The way past ASGI, recorded."""

        def recorded(data: bytes) -> bool:
            went = push(data)
            if went:
                self._wire += data
            return went

        return recorded

    def answered(self, answer: bytes) -> None:
        """An answer that is kept instead of sent."""
        self._wire += answer

    def close(self, *, gone: bool, failed: bool = False) -> None:
        """The answer is over. A request that never came to the queue leaves nothing."""
        if not self._jobs:
            return
        outcome: Outcome = "gone" if gone else "failed" if failed or self._jobs[-1].failed else "finished"
        request = self._request
        choices = [
            TracedChoice(
                prompt=one.timeline.prompt,
                sampling=job.sampling,
                seed=one.sampler().seed,
                stop=list(request.stop),
                ignore_eos=request.ignore_eos,
                held=job.request.held,
            )
            for job in self._jobs
            for one in job.choices
        ]
        wire = self._wire.decode("utf-8", "replace")
        whole = replace(self._head, choices=choices, tokens=self._tokens, wire=wire, outcome=outcome, ms=self._since())
        asyncio.get_running_loop().run_in_executor(None, self._tracer.write, whole)


class Tracer:
    """Writes traces into a folder, which is made if it is missing. SettingsError where that cannot be."""

    def __init__(self, folder: Path, numeric: str, kv: str, limits: TraceLimits | None = None) -> None:
        self.folder, self._numeric, self._kv, self._limits = folder, numeric, kv, limits or TraceLimits()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            probe = folder / f"probe-{os.getpid()}{_PARTIAL}"
            os.close(os.open(probe, os.O_WRONLY | os.O_CREAT, 0o600))
            probe.unlink()
        except OSError as error:
            why = "that is no folder" if folder.exists() and not folder.is_dir() else error.strerror
            raise SettingsError(f"cannot be written to: {why}", subject=f"--trace {folder}") from None

    def begin(self, surface: str, body: Mapping[str, Any], request: GenerationRequest, served: Any) -> Recording:
        head = Trace(
            id=request.id,
            surface=surface,
            created=request.created,
            model=served.model_id,
            fingerprint=served.fingerprint,
            numeric=self._numeric,
            kv=self._kv,
            context=served.context,
            body=struck(dict(body)),
            choices=[],
            tokens=[],
            wire="",
            outcome="finished",
            ms=0.0,
        )
        return Recording(self, head, request)

    def write(self, trace: Trace) -> None:
        """Whole or not at all: a reader never sees half a file. What goes wrong is logged: the answer has been
        given."""
        name = f"{time.time_ns():020d}-{trace.id}"
        partial = self.folder / (name + _PARTIAL)
        try:
            fd = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(fd, "wb") as file:
                file.write(encode(trace))
            partial.replace(self.folder / (name + SUFFIX))
            self._rotate()
        except OSError as error:
            log.error("no trace of %s: %s", trace.id, error)
            with contextlib.suppress(OSError):  # a full disk is not to be filled with what no reader takes
                partial.unlink(missing_ok=True)

    def _rotate(self) -> None:
        """Removes the oldest files beyond the limits; the newest stays however large it is."""
        kept, size = 0, 0
        for path in sorted(self.folder.glob("*" + SUFFIX), reverse=True):
            try:
                kept, size = kept + 1, size + path.stat().st_size
                if kept > 1 and (kept > self._limits.count or size > self._limits.size):
                    path.unlink()
            except FileNotFoundError:  # another thread was here first
                continue


def struck(value: Any) -> Any:
    """A body without what looks like a key, at any depth."""
    if isinstance(value, dict):
        return {
            name: STRUCK if name.lower() in _KEYS and isinstance(item, str) else struck(item)
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [struck(item) for item in value]
    return value
