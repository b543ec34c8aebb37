"""The whole real server, with its exchanges recorded, and its engine doubled if there is a script.

    python -m support.recorded_server RECORD SCRIPT|- ARGUMENTS...

RECORD: file of `support.recorder` lines. SCRIPT: file of `support.script` rules; -: the real engine. ARGUMENTS: of
ds4-server. `started` runs it in a process of its own.
"""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
from ds4.core.tokenizer import Tokenizer
from ds4.server import boot
from support import commands, recorder, script
from support.fake_native import FakeModel
from support.recorder import Exchange
from support.script import Rule

_START_SECONDS = 60
_SETTLE_SECONDS = 10


def main() -> int:
    record, rules, *arguments = sys.argv[1:]
    with open(record, "a", encoding="utf-8") as out:
        create = vars(boot)["create_app"]
        vars(boot)["create_app"] = lambda *parts: recorder.Recorder(create(*parts), out)
        if rules != "-":
            _double(script.read(Path(rules)))
        return boot.main(arguments)


def _double(rules: Sequence[Rule]) -> None:
    """Model and session are made on one thread, one after the other, and between them the tokenizer."""
    made: list[Tokenizer] = []
    from_metadata = Tokenizer.from_metadata

    class Noticed:
        @staticmethod
        def from_metadata(metadata: object) -> Tokenizer:
            made.append(from_metadata(metadata))  # type: ignore[arg-type]
            return made[-1]

    def session(model: FakeModel, desc: object) -> object:
        return script.sessions(rules, made[-1])(model, desc)  # type: ignore[arg-type]

    vars(boot).update(NativeModel=FakeModel, NativeSession=session, Tokenizer=Noticed)


@dataclass
class Recorded:
    """A running server. url: without /v1. said: its standard error so far."""

    process: subprocess.Popen[str]
    record: Path
    url: str
    said: list[str]

    def exchanges(self, path: str = "") -> list[Exchange]:
        """Those that have ended, in that order. path: only those to paths that end so."""
        return [one for one in recorder.read(self.record, _SETTLE_SECONDS) if one.path.endswith(path)]

    def metric(self, name: str) -> float:
        text = httpx.get(self.url + "/metrics", timeout=_SETTLE_SECONDS).text
        lines = [line for line in text.splitlines() if line.startswith(name)]
        assert lines, f"there is no metric {name}"
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)


@contextlib.contextmanager
def started(home: Path, rules: Sequence[Rule] | None, *arguments: str) -> Iterator[Recorded]:
    """A server process in the folder `home`. rules: None for the real engine. It is asserted at the end that it still
    lived; it is dead then."""
    record = home / "exchanges.jsonl"
    record.touch()
    file = "-" if rules is None else str(script.write(home / "script.json", rules))
    command = [sys.executable, "-m", "support.recorded_server", str(record), file, "--port", "0", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=home, env=commands.environment(home))
    said: list[str] = []
    url: list[str] = []
    told = threading.Event()

    def listen() -> None:
        assert process.stderr is not None
        for line in process.stderr:
            said.append(line)
            if match := re.search(r"^ready in .*: (http://\S+)/v1", line):
                url.append(match[1])
                told.set()
        told.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    try:
        assert told.wait(_START_SECONDS) and url, f"the server did not start: {''.join(said)}"
        yield Recorded(process, record, url[0], said)
        assert process.poll() is None, f"the server died: {''.join(said)}"
    finally:
        process.terminate()
        try:
            process.wait(20)
        finally:
            process.kill()
            process.wait()
            listener.join(5)


if __name__ == "__main__":
    sys.exit(main())
