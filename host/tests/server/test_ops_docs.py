"""docs/operations.md and the systemd unit say what the server does."""

from __future__ import annotations

import re
from pathlib import Path

from ds4.server import arguments
from support.live_server import LiveServer

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
CLIENTS = (ROOT / "docs" / "clients.md").read_text(encoding="utf-8")
UNIT = (ROOT / "contrib" / "ds4.service").read_text(encoding="utf-8")


def told(text: str) -> set[str]:
    """The metrics that a text names, without their labels."""
    return set(re.findall(r"`((?:ds4_|llamacpp:|vllm:)[a-z0-9_]+)", text))


def test_every_metric_is_in_the_table_and_every_name_in_it_is_a_metric() -> None:
    with LiveServer() as live:
        live.service.metrics.routes["chat", "continuous", "default"] += 1
        live.post("/v1/completions", {"prompt": "abc", "max_tokens": 2})
        page = live.get("/metrics")[1].decode()
    shown = set()
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE):
        shown.add(name if kind != "counter" or name.endswith("_total") else name + "_total")
    assert {name for name in shown if not name.endswith("_created")} == told(PAGE)


def test_every_flag_that_is_told_of_exists() -> None:
    known = {spelling for option in arguments.PROGRAM.options for spelling in option.spellings}
    known |= {option.negation for option in arguments.PROGRAM.options if option.negation}
    known |= {"--help", "--config", "--show-config"}
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    flags = set(re.findall(r"`(--[a-z][a-z-]*)", prose + CLIENTS)) | set(re.findall(r" (--[a-z][a-z-]*)", _start()))
    assert len(flags) > 20 and flags <= known


def test_the_operators_flags_are_all_told_of() -> None:
    sections = {"Keys", "Log"}
    names = {option.name for option in arguments.PROGRAM.options if option.section in sections}
    names |= {"unix", "unix-mode", "tls-cert", "tls-key", "tls-key-password-file", "drain", "cors-origin", "allow-host"}
    assert not {name for name in names if f"--{name}" not in PAGE}


def _start() -> str:
    return next(line for line in UNIT.splitlines() if line.startswith("ExecStart="))


def test_the_unit_gives_answers_the_time_that_the_server_does() -> None:
    stop = re.search(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)
    assert stop is not None and int(stop[1]) > arguments.DRAIN.default
    assert "KillSignal=SIGTERM" in UNIT and "/bin/kill -HUP $MAINPID" in UNIT
