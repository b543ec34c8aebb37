"""Thousands of requests made from /openapi.json, right ones and wrong ones, to a whole server over a scripted engine:
whatever is asked, the answer is one that the document describes, it comes in time, and nothing stays taken.

What is asked follows from a seed. DS4_OPENAPI_EXAMPLES asks for more drawn requests of each operation.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import schemathesis
from ds4.server.openapi.document import document
from schemathesis import BaseSchema, engine
from schemathesis.config import SchemathesisConfig
from schemathesis.engine import events
from support.documented import served
from support.live_server import LiveServer

SEED = 20261130
EXAMPLES = int(os.environ.get("DS4_OPENAPI_EXAMPLES", "4"))
LEAST = 5000
SECONDS = 20
"""For one answer: one that takes longer hangs."""

# Not among the checks: that all that fits is taken and all else refused. Some rules join fields ('top_logprobs' needs
# 'logprobs'), some are about the model (its context, its template), and unknown fields are ignored.
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "allow_header_conformance",
    "use_after_free",
)
STREAMS = {"chat/completions", "completions", "messages", "responses"}


@dataclass
class Run:
    """failures: how often, by what went wrong, with a request that shows it."""

    answers: Counter[tuple[str, int]] = field(default_factory=Counter)
    streams: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)

    def take(self, recorder: Any) -> None:
        for id, interaction in recorder.interactions.items():
            response, request = interaction.response, interaction.request
            if response is None:
                self.failures.setdefault("no answer", f"{request.method} {request.uri}")
                continue
            self.answers[request.method, response.status_code] += 1
            if response.headers.get("content-type", [""])[0].startswith("text/event-stream"):
                self.streams[request.uri.partition("/v1/")[2].partition("?")[0]] += 1
            for check in recorder.checks.get(id, ()):
                if check.failure_info is not None:
                    failure, code = check.failure_info.failure, check.failure_info.code_sample
                    self.failures.setdefault(f"{failure.operation}: {failure.title}: {failure.message}"[:600], code)


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with served() as live:
        done = ask(live)
        settle = time.monotonic() + SECONDS
        while not live.idle and time.monotonic() < settle:
            time.sleep(0.01)
        done.left = [] if live.idle else [json.dumps(facts(live))]
        yield done


def ask(live: LiveServer) -> Run:
    config = SchemathesisConfig.from_dict(
        {
            "seed": SEED,
            "workers": 2,
            "continue-on-failure": True,
            "request-timeout": SECONDS,
            "generation": {"max-examples": EXAMPLES, "no-shrink": True, "database": "none"},
            "checks": {"enabled": False, **{name: {"enabled": True} for name in CHECKS}},
        }
    )
    schema: BaseSchema = schemathesis.openapi.from_url(f"http://127.0.0.1:{live.port}/openapi.json", config=config)
    for path in document()["paths"]:
        if live.get(path)[0] == 404 and "{" not in path:
            schema = schema.exclude(path=path)  # described before it is served
    done = Run()
    for event in engine.from_schema(schema).execute():
        match event:
            case events.ScenarioFinished() | events.FuzzScenarioFinished():
                done.take(event.recorder)
            case events.NonFatalError() | events.FatalError():
                done.failures.setdefault(f"the tool: {event.info if hasattr(event, 'info') else event.exception}", "")
    return done


def facts(live: LiveServer) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(live.get("/v1/stats")[1])
    return whole


def test_every_answer_is_one_that_the_document_describes(run: Run) -> None:
    assert not run.failures, "\n\n".join(f"{why}\n{how}" for why, how in run.failures.items())


def test_enough_is_asked_of_both_kinds(run: Run) -> None:
    assert run.answers.total() >= LEAST
    by_status: Counter[int] = Counter()
    for (_, status), count in run.answers.items():
        by_status[status] += count
    assert by_status[200] >= LEAST / 10 and by_status[400] >= LEAST / 10, by_status
    assert set(run.streams) == STREAMS


def test_no_bank_stays_busy_and_nothing_waits(run: Run) -> None:
    assert run.left == []
