"""The golden fixture and the snapshots of text, as a test meets them: in a pytest of its own, on a small checkout."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from goldens.tests.checkout import AMBER, CASE, EXPECTED, FOUND, make, the_one
from parity import goldens, pending

ROOT = Path.cwd()
CONFTEST = "from support.snapshots import snapshot as snapshot\n"
FIXTURE = """
import pytest
from pathlib import Path
from parity import goldens
from parity.golden_fixture import Goldens, golden as golden

@pytest.fixture(autouse=True)
def here(monkeypatch):
    monkeypatch.setattr(goldens, "ROOT", Path.cwd() / "goldens")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path)


def run(root: Path, file: str, text: str, *options: str) -> tuple[int, str]:
    """Exit status and output of pytest over one file."""
    path = root / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    if file.startswith("host/tests"):
        (root / "host/tests/conftest.py").write_text(CONFTEST, encoding="utf-8")
    (root / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider --import-mode=importlib\n")
    env = {key: value for key, value in os.environ.items() if key != "TEST_UNDECLARED_OUTPUTS_DIR"}
    ours = [str(ROOT), str(ROOT / "host"), str(ROOT / "host/tests")]
    env |= {
        "BUILD_WORKSPACE_DIRECTORY": str(root),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # they take longer to load than the test runs
        "PYTHONPATH": os.pathsep.join([*ours, *filter(None, sys.path)]),
    }
    plugins = ["-p", "syrupy"] if file.startswith("host/tests") else []
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pytest.ini", "--rootdir=.", *plugins, *options, file]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout + done.stderr


def stops(found: str) -> str:
    return f"""{FIXTURE}
def test_stops(golden: Goldens) -> None:
    for case in golden("stops/splits.jsonl"):
        golden.check(case, case.expected if case.name != {CASE!r} else {found!r})
"""


def test_a_case_that_is_as_its_golden_passes(root: Path) -> None:
    status, text = run(root, "checks/test_x.py", stops(EXPECTED))
    assert status == 0, text
    assert not (root / ".dev").exists()


def test_a_case_that_differs_fails_with_the_difference_and_the_way_to_the_review(root: Path) -> None:
    status, text = run(root, "checks/test_x.py", stops(FOUND))
    assert status == 1
    assert f"goldens/stops/splits.jsonl, {CASE}: not what the golden says" in text
    assert "./dev review" in text
    assert "-emit Hello%20\n" in text and "+emit Hello%20EN\n" in text
    one = the_one(root)
    assert (one.case, one.found, one.expected) == (CASE, FOUND.encode(), EXPECTED.encode()) or one.found == FOUND
    assert one.command == "./dev shell pytest 'checks/test_x.py::test_stops'"
    assert one.reader == "checks/test_x.py"


def test_a_case_that_passes_again_takes_its_pending_away(root: Path) -> None:
    run(root, "checks/test_x.py", stops(FOUND))
    run(root, "checks/test_x.py", stops(EXPECTED))
    assert pending.collect(root).pendings == []


def test_a_golden_that_was_edited_fails_before_anything_runs(root: Path) -> None:
    path = root / "goldens/stops/splits.jsonl"
    path.write_text(path.read_text().replace("emit a", "emit b"))
    status, text = run(root, "checks/test_x.py", stops(EXPECTED))
    assert status == 1 and "is not the one that was frozen" in text


def test_an_accepted_result_passes(root: Path) -> None:
    run(root, "checks/test_x.py", stops(FOUND))
    goldens.accept(the_one(root), "Ada", "the contract says so", root)
    status, text = run(root, "checks/test_x.py", stops(FOUND))
    assert status == 0, text


def test_a_result_without_a_golden_fails_and_waits_as_new(root: Path) -> None:
    test = f"""{FIXTURE}
def test_a_table(golden: Goldens) -> None:
    golden.match("tables/all.txt", "a table")
"""
    status, text = run(root, "checks/test_x.py", test)
    assert status == 1 and "goldens/tables/all.txt: no such golden yet" in text
    goldens.accept(the_one(root), "Ada", "read and found right", root)
    assert 'used_by = ["checks/test_x.py"]' in (root / "goldens/manifest.toml").read_text()
    status, text = run(root, "checks/test_x.py", test)
    assert status == 0, text


# ---- snapshots ----

HELP = """
def test_help(snapshot) -> None:
    assert "Usage: ds4\\n  --stop TEXT\\n" == snapshot
"""


def amber(root: Path) -> str:
    return (root / "goldens/snapshots/cli/test_help.ambr").read_text(encoding="utf-8")


@pytest.fixture
def taken(root: Path) -> Path:
    """A checkout whose snapshot was taken and accepted."""
    (root / "goldens/snapshots/cli/test_help.ambr").unlink()
    listing = (root / "goldens/manifest.toml").read_text()
    (root / "goldens/manifest.toml").write_text(
        listing.replace(listing[listing.index("# About snapshots") : listing.index("# About stops")], "")
    )
    status, text = run(root, "host/tests/cli/test_help.py", HELP)
    assert status == 1 and "does not exist" in text
    assert not (root / "goldens/snapshots/cli/test_help.ambr").exists(), "nothing is written in place"
    goldens.accept(the_one(root), "Ada", "this is the help", root)
    return root


def test_an_accepted_snapshot_is_the_one_that_syrupy_reads(taken: Path) -> None:
    status, text = run(taken, "host/tests/cli/test_help.py", HELP)
    assert status == 0 and "1 snapshot passed" in text
    assert amber(taken).startswith(AMBER[:24])


@pytest.mark.parametrize("option", [[], ["--snapshot-update"], ["--snapshot-update-new-only"]])
def test_a_snapshot_that_differs_fails_and_waits_whatever_is_asked_for(taken: Path, option: list[str]) -> None:
    before = amber(taken)
    status, text = run(taken, "host/tests/cli/test_help.py", HELP.replace("TEXT", "WORDS"), *option)
    assert status == 1, text
    assert amber(taken) == before
    one = the_one(taken)
    assert (one.golden, one.case, one.why) == ("snapshots/cli/test_help.ambr", "test_help", "snapshot")
    goldens.accept(one, "Ada", "words are what it takes", taken)
    status, text = run(taken, "host/tests/cli/test_help.py", HELP.replace("TEXT", "WORDS"))
    assert status == 0, text


def test_a_snapshot_that_nothing_asks_for_fails_and_goes_through_the_review(taken: Path) -> None:
    test = "def test_other() -> None: pass\n" + HELP.replace("test_help", "test_the_help")
    status, _ = run(taken, "host/tests/cli/test_help.py", test)
    assert status == 1
    goldens.accept(the_one(taken), "Ada", "the test was renamed", taken)
    before = amber(taken)
    status, text = run(taken, "host/tests/cli/test_help.py", test)
    assert status == 1 and "1 snapshot unused" in text
    run(taken, "host/tests/cli/test_help.py", test, "--snapshot-update")
    assert amber(taken) == before
    one = the_one(taken)
    assert (one.case, one.found, one.why) == ("test_help", None, "unused")
    goldens.accept(one, "Ada", "the test was renamed", taken)
    status, text = run(taken, "host/tests/cli/test_help.py", test)
    assert status == 0, text
