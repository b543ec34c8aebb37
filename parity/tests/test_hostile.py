"""What the parity system makes of files and commands that are not as they must be: it says so, and nothing is lost."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ds4.core import components
from ds4.core.components import ledger

from parity import __main__ as command
from parity import (
    deviations,
    digest,
    evidence,
    gate,
    golden_files,
    goldens,
    manifest,
    pending,
    promotion,
    registry,
    runner,
)
from parity.evidence import Evidence, Fuzz, Goldens, SpeedResult
from parity.ledger import Change, entries, write
from parity.pending import PendingError
from parity.registry import GateError

STOPS = registry.components()["stops"]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A checkout with a ledger, deviations, evidence and no goldens."""
    for folder in ("parity/evidence", "goldens/stops"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "parity/ledger.toml").write_text("")
    (tmp_path / "parity/deviations.toml").write_text("")
    (tmp_path / "goldens/manifest.toml").write_text("")
    for module in (registry, evidence, deviations, runner):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    monkeypatch.setattr(components, "_file", lambda: tmp_path / "parity/ledger.toml")
    ledger.cache_clear()
    yield tmp_path
    ledger.cache_clear()


# ---- the ledger ----


def test_several_changes_by_one_program_all_stay(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built = tmp_path / "components.toml"  # the copy that a program was built with, which no change reaches
    built.write_text("")
    monkeypatch.setattr(components, "_file", lambda: built)
    for name in ("stops", "ledger", "kvc"):
        write(Change(name, "oracle", f"why {name}"))
    assert sorted(entries()) == ["kvc", "ledger", "stops"]
    assert "why stops" in (root / "parity/ledger.toml").read_text()


def test_whatever_stands_in_the_ledger_a_change_leaves_it_readable(root: Path) -> None:
    (root / "parity/ledger.toml").write_text(
        '["an odd \\"name\\""]\nstate = "oracle"\nsince = "two\\nlines"\nreason = "\\u0007 \\\\"\n'
    )
    write(Change("stops", "oracle", 'a "reason" \\ of\nlines'))
    assert sorted(entries()) == ['an odd "name"', "stops"]


def test_a_name_in_the_ledger_that_no_component_has_is_refused(root: Path) -> None:
    (root / "parity/ledger.toml").write_text('[stopz]\nstate = "oracle"\n')
    with pytest.raises(GateError, match="ledger.toml: no such component .* found stopz"):
        gate.judge([STOPS], gate.Plan())


# ---- deviations ----

WHOLE = {"id": "a", "component": "stops", "input": ".*", "oracle": ".*", "python": ".*", "owner": "o", "reason": "r"}


def row(expires: str = "2030-01-31", **changes: object) -> str:
    return (
        "[[deviation]]\n"
        + "".join(f"{k} = {json.dumps(v)}\n" for k, v in (WHOLE | changes).items())
        + (f"expires = {expires}\n")
    )


@pytest.mark.parametrize(
    "text",
    ["junk ][", "deviation = 5", "deviation = [5]", "[deviations]", row(input="("), row(owner=5)]
    + [row("2030-01-31T00:00:00Z"), row("'2030-01-31'"), row() + row()],
)
def test_deviations_that_are_not_of_their_form_are_refused(root: Path, text: str) -> None:
    (root / "parity/deviations.toml").write_text(text)
    with pytest.raises(GateError):
        deviations.read()


def test_a_deviation_of_no_component_is_refused(root: Path) -> None:
    (root / "parity/deviations.toml").write_text(row(component="stopz"))
    with pytest.raises(GateError, match="deviations.toml: no such component"):
        gate.judge([STOPS], gate.Plan())


def test_what_was_proven_under_a_deviation_is_not_proven_without_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def with_text(text: str) -> str:
        monkeypatch.setattr("tomllib.loads", lambda _: loads(text))
        return digest.digest(STOPS)

    loads = tomllib.loads
    bare = with_text("")
    assert with_text(row()) != bare
    assert with_text(row(python="x")) not in (bare, with_text(row()))
    assert with_text(row(component="kvc")) == with_text("") == bare


# ---- what is remembered ----


def record(**changes: object) -> Evidence:
    fuzz, speed = Fuzz(gate.EXAMPLES, 1.0, 1, 0), SpeedResult(1.0, 1.0)
    whole = Evidence("stops", "d", "2026-01-02", "", "", Goldens(1, 1, 0), fuzz, None, speed)
    return replace(whole, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "plan", "proof"),
    [
        ({}, gate.Plan(), True),
        ({"fuzz": Fuzz(1, 1.0, 1, 0)}, gate.Plan(), False),
        ({"fuzz": None}, gate.Plan(), False),
        ({"fuzz": None}, gate.Plan(examples=0), True),
        ({"speed": None}, gate.Plan(), False),
        ({"speed": None}, gate.Plan(speed=False), True),
        ({"goldens": Goldens(1, 1, 1)}, gate.Plan(), False),
        ({"digest": "e"}, gate.Plan(), False),
    ],
)
def test_a_lesser_proof_is_none_for_a_larger_plan(
    root: Path, changes: dict[str, object], plan: gate.Plan, proof: bool
) -> None:
    evidence.remember(record(**changes))
    assert (gate._known(STOPS, "d", plan) is not None) == proof


@pytest.mark.parametrize(
    "text", ["", "[]", "5", "null", '{"component": 5}', "[" * 100_000, '{"goldens": 5}', '{"goldens": {"sets": "x"}}']
)
def test_junk_among_the_evidence_is_no_evidence(root: Path, text: str) -> None:
    (root / "parity/evidence/stops.json").write_text(text)
    assert evidence.kept("stops") is None
    with pytest.raises(GateError, match="no campaign"):
        promotion.promote(STOPS)


def test_numbers_that_are_texts_are_no_evidence(root: Path) -> None:
    raw = json.loads(record().dump())
    raw["fuzz"]["examples"] = "200000"
    (root / "parity/evidence/stops.json").write_text(json.dumps(raw))
    assert evidence.kept("stops") is None


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = evidence.keep(record())
    before = path.read_bytes()

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        evidence.keep(record(machine="another"))
    assert path.read_bytes() == before and os.listdir(path.parent) == ["stops.json"]


# ---- goldens ----


@pytest.mark.parametrize(
    "line",
    [b"junk", b"[]", b"5", b"{}", b'{"case": "a", "input": "x", "expected": 5}', b'{"case": ["a"], "expected": ""}']
    + [b"\xff", b"[" * 100_000, b'{"case": "a", "expected": ""}\n{"case": "a", "expected": ""}'],
)
def test_a_golden_that_is_not_of_its_form_is_named(root: Path, line: bytes) -> None:
    (root / "goldens/stops/zz.jsonl").write_bytes(line + b"\n")
    with pytest.raises((GateError, golden_files.GoldenFileError), match="zz.jsonl"):
        gate._readable(STOPS)


# ---- the command ----


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "stops", "/nonexistent"], "No such file"),
        (["show", "stops", "/"], "Is a directory"),
        (["show", "stops", "/dev/null"], "no tape"),
        (["show", "stops", "--golden", "nosuch"], "stops has stops/"),
        (["promote", "stops", "nosuch"], "no such component"),
    ],
)
def test_a_command_that_cannot_be_done_says_why_in_a_line(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    error = capsys.readouterr().err
    assert said in error and "Traceback" not in error


@pytest.mark.parametrize(
    "arguments",
    [
        ["stops", "--examples", "-1"],
        ["stops", "--jobs", "0"],
        ["campaign", "stops", "--jobs", "0"],
        ["campaign", "stops", "--examples", "0"],
        ["campaign", "stops", "--soak-minutes", "nan"],
    ],
)
def test_a_number_that_is_none_is_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit):
        command.main(arguments)


def test_a_reproducing_command_survives_quotes_in_a_cases_name() -> None:
    found = runner.Disagreement("stops", "", b"", b"a\n", b"b\n", b"c\n", "stops/x.jsonl", "it's $HOME; x")
    assert "--case 'it'\"'\"'s $HOME; x'" in gate._fault(found, gate.Plan())[1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_go_with_their_parent(tmp_path: Path, number: signal.Signals) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys, time\nfrom parity import workers\n\n"
        "def work(path):\n    open(path, 'w').write(str(os.getpid()))\n    time.sleep(600)\n\n"
        "if __name__ == '__main__':\n"
        "    with workers.pool(2) as pool:\n"
        "        for at in range(5):\n            pool.submit(work, sys.argv[1] + str(at))\n"
        "        time.sleep(600)\n"
    )
    paths = os.pathsep.join(p for p in sys.path if p)
    parent = subprocess.Popen(
        [sys.executable, str(program), str(tmp_path / "pid")], env={**os.environ, "PYTHONPATH": paths},
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    files = [tmp_path / "pid0", tmp_path / "pid1"]
    until(lambda: all(file.is_file() and file.read_text() for file in files))
    workers = [int(file.read_text()) for file in files]
    parent.send_signal(number)
    _, said = parent.communicate(timeout=120)
    until(lambda: not any(living(pid) for pid in workers))
    assert sorted(tmp_path.glob("pid*")) == files  # what waited was not begun
    assert said.count("KeyboardInterrupt") == (number == signal.SIGINT)  # the parent's own


def until(true: object) -> None:
    assert callable(true)
    end = time.monotonic() + 300
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def living(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# ---- pendings ----


def leave(root: Path, name: str, **changes: object) -> None:
    where = root / ".dev/pending"
    where.mkdir(parents=True, exist_ok=True)
    body = {
        "pending": 1, "component": "stops", "golden": "stops/zz.jsonl", "case": name, "setup": "", "kind": "text",
        "input": {"as": "text", "text": "stops\n"}, "expected": None, "oracle": None,
        "found": {"as": "text", "text": "x\n"}, "why": "new case", "command": "./dev gate", "reader": "",
        "created": "2026-11-29T00:00:00+00:00",
    }  # fmt: skip
    (where / f"{name}.json").write_text(json.dumps(body | changes))


HUGE = b"{'descr': '<f8', 'fortran_order': False, 'shape': (10000000000000,), }".ljust(117) + b"\n"
NPY = base64.b64encode(b"\x93NUMPY\x01\x00\x76\x00" + HUGE).decode()


@pytest.mark.parametrize(
    "changes",
    [
        {"golden": "../x/y.jsonl"},
        {"golden": "review/app.py"},
        {"golden": "tests/cases.jsonl"},
        {"golden": "stops/generate.py"},
        {"golden": "stops/BUILD"},
        {"golden": 5},
        {"case": "\ud800"},
        {"case": 5},
        {"command": "\ud800"},
        {"component": "\ud800"},
        {"setup": {}},
        {"found": {"as": "text"}},
        {"found": {"as": "text", "base64": 5}},
        {"found": {"as": "text", "file": "../../secret", "sha256": ""}},
        {"found": {"as": "npy", "base64": NPY}},
    ],
    ids=str,
)
def test_a_bad_pending_is_told_of_and_hides_no_other(root: Path, changes: dict[str, object]) -> None:
    leave(root, "good")
    leave(root, "bad", **changes)
    collected = pending.collect(root)
    assert [one.case for one in collected.pendings] == ["good"]
    assert [one.source for one in collected.broken] == [".dev/pending/bad.json"]


def test_files_of_any_kind_among_the_pendings_are_told_of(root: Path) -> None:
    leave(root, "good")
    where = root / ".dev/pending"
    (where / "deep.json").write_text("[" * 100_000)
    (where / "folder.json").mkdir()
    os.mkfifo(where / "pipe.json")
    (root / ".dev/reviewed.jsonl").write_bytes(b"\xff\n[]\n5\n{}\n" + b"[" * 100_000 + b"\n")
    collected = pending.collect(root)
    assert [one.case for one in collected.pendings] == ["good"] and len(collected.broken) == 3
    pending.clear("stops")
    assert sorted(path.name for path in where.iterdir()) == ["deep.json", "folder.json", "good.json", "pipe.json"]


def test_nothing_that_runs_can_be_written_as_a_golden(root: Path) -> None:
    with pytest.raises(PendingError, match="no golden's name"):
        pending.write(
            component="stops", golden="review/app.py", case=None, kind="text", found="x", why="new case", command=""
        )


def test_every_golden_there_is_can_wait() -> None:
    names = [f"{entry.folder}/{name}" for entry in manifest.read(goldens.ROOT) for name in entry.files]
    assert names and all(pending._is_golden(name) for name in names)


def test_an_entry_of_the_changes_cannot_be_forged(root: Path) -> None:
    leave(root, "a", command="x`\n## 2026-01-01: stops/zz.jsonl, another\n\nyes", why="new\ncase")
    goldens.accept(pending.collect(root).pendings[0], "somebody", "a good reason", root)
    text = (root / "goldens/CHANGES.md").read_text()
    assert text.count("\n## ") == 1 and "\n## 2026-01-01" not in text


@pytest.mark.parametrize(("name", "reason"), [("\ud800", "a good reason"), ("somebody", "a good \ud800 reason")])
def test_a_name_or_reason_that_cannot_be_written_down_is_refused(root: Path, name: str, reason: str) -> None:
    leave(root, "a")
    with pytest.raises(goldens.ReviewError, match="cannot be written down"):
        goldens.accept(pending.collect(root).pendings[0], name, reason, root)
    assert not (root / "goldens/CHANGES.md").exists()
