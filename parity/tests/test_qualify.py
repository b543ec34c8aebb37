"""The table of what is qualified holds what checks of a run passed, and nothing else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ds4.core import inventory, qualified
from ds4.core.qualified import AXES, Proof, Row
from ds4.errors import Ds4Error, EngineError
from ds4.sys.native import NativeSession
from ds4.sys.native import Row as NativeRow

from parity import qualify, qualify_file
from parity.live.process import Failure
from parity.proof import PROPERTY, Claim, parse
from parity.registry import ROOT, GateError

needs_model = pytest.mark.skipif("DS4_EMBEDDED_MODEL" not in os.environ, reason="DS4_EMBEDDED_MODEL names no model")
CLAIM = Claim("forward", "llama", "off by", 0.5, 1.0, numeric="ship", kv="f16", context=100, banks=1)


def report(*cases: str) -> bytes:
    return f"<testsuites><testsuite>{''.join(cases)}</testsuite></testsuites>".encode()


def case(name: str, claim: Claim, inside: str = "") -> str:
    value = claim.dump().replace('"', "&quot;")
    return (
        f'<testcase name="{name}"><properties><property name="{PROPERTY}" value="{value}"/></properties>'
        f"{inside}</testcase>"
    )


def test_a_claim_is_read_back_as_it_was_recorded_and_one_beyond_its_bound_is_none() -> None:
    assert parse(CLAIM.dump()) == CLAIM
    assert CLAIM.figure == "off by 0.5 (at most 1)"
    with pytest.raises(Ds4Error, match="at most 1"):
        Claim("forward", "llama", "off by", 1.5, 1.0)
    with pytest.raises(Ds4Error, match="no such axis"):
        Claim("beauty", "llama", "so nice")


def test_only_what_passed_tests_recorded_is_claimed() -> None:
    failed = (
        case("test_b", CLAIM, "<failure/>") + case("test_c", CLAIM, "<error/>") + case("test_d", CLAIM, "<skipped/>")
    )
    found = list(qualify.claims_of(report(case("test_a[x]", CLAIM), failed, '<testcase name="test_e"/>'), "t.py"))
    assert found == [("t.py::test_a", CLAIM)]


def test_runs_of_one_check_become_one_line_with_the_worst_figure_and_the_furthest_bounds() -> None:
    outcome = qualify.Outcome()
    other = Claim("forward", "llama", "off by", 0.7, 1.0, numeric="ship", kv="f16", context=50, banks=3)
    outcome.claims = [("t.py::test_a", CLAIM), ("t.py::test_a", other)]
    (row,) = qualify.merged((), outcome, "2026-01-02", "d")
    assert row.proofs == {
        "forward": (Proof("2026-01-02", "t.py::test_a", "off by 0.7 (at most 1)", "cpu", "ship", "f16", 100, 3, "d"),)
    }


def test_what_did_not_run_again_stays_and_what_failed_falls_away() -> None:
    old = Proof("2026-01-01", "t.py::test_a", "old", "cpu")
    kept = Proof("2026-01-01", "u.py::test_a", "old", "cpu")
    before = (Row("llama", "", "", "", {"forward": (old, kept), "loader": (old,)}),)
    (row,) = qualify.merged(before, qualify.Outcome(ran={(None, "t.py")}), "2026-01-02", "d")
    assert row.proofs == {"forward": (kept,)}
    assert qualify.merged(before[:0], qualify.Outcome(ran={(None, "t.py")}), "2026-01-02", "d") == []


@needs_model
def test_a_file_has_its_own_row_and_other_weights_under_its_name_start_afresh(tmp_path: Path) -> None:
    path = Path(os.environ["DS4_EMBEDDED_MODEL"])
    claim = Claim("loader", "llama", "bound", artifact=str(path))
    known = Proof("2026-01-01", "t.py", "old", "cpu")
    mark = qualified.mark(inventory.load(path))
    for before, axes in ((mark, {"api", "loader"}), ("another", {"loader"})):
        rows = (Row("llama", path.name, "00", before, {"api": (known,)}),)
        (row,) = qualify.merged(rows, qualify.Outcome([("t.py", claim)]), "2026-01-02", "d")
        assert (row.artifact, row.mark) == (path.name, mark)
        assert row.proofs.keys() == axes
    written = tmp_path / "qualified.toml"
    written.write_text(qualify.dump([row]))
    assert qualified.read(written) == (row,)


def test_the_performance_axis_is_taken_only_from_a_comparison_that_was_not_lost(tmp_path: Path) -> None:
    path = Path("SmolLM2.Q4_1.gguf")
    lost = "prefill Q4_1 t=1 ratio 1.20 [1.1-1.3]  ours 9 theirs 8 tok/s\ndecode Q4_1 t=1 ratio 0.97 [0.9-1]  ours 9\n"
    outcome = qualify.peer_claims(lost, [path])
    assert not outcome.claims and "decode Q4_1" in outcome.failures[0]
    with pytest.raises(GateError, match="no comparison"):
        qualify.peer_claims("all is well", [path])


@needs_model
def test_a_comparison_that_was_won_names_its_least_ratio(tmp_path: Path) -> None:
    path = Path(os.environ["DS4_EMBEDDED_MODEL"])
    text = "prefill Q4_1 t=1 ratio 1.20 [1.1-1.3]  ours\ndepth Q4_1 t=2 ratio 1.05 [1-2]  ours\n"
    ((evidence, claim),) = qualify.peer_claims(text, [path]).claims
    assert evidence == qualify.PEER and "1.05 at least (depth" in claim.figure and claim.context == 2176


@needs_model
def test_the_embedded_model_is_bound_and_keeps_its_state() -> None:
    path = Path(os.environ["DS4_EMBEDDED_MODEL"])
    assert "272 tensors" in qualify_file.loader(path)[0].what
    assert {(claim.numeric, claim.kv, claim.banks) for claim in qualify_file.state(path)} == {
        ("ship", "f16", 3),
        ("float", "f32", 3),
    }


class Forgetful:
    """A session whose copies hold something else."""

    def __init__(self, session: object) -> None:
        self._session = session

    def __getattr__(self, name: str) -> object:
        return getattr(self._session, name)

    def copy(self, source: int, target: int, length: int) -> None:
        self._session.copy(source, target, length)  # type: ignore[attr-defined]
        self._session.truncate(target, length - 1)  # type: ignore[attr-defined]
        self._session.wait(self._session.submit([NativeRow(target, length - 1, 5)]))  # type: ignore[attr-defined]


@needs_model
def test_a_copy_that_holds_something_else_is_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    real = NativeSession
    monkeypatch.setattr(qualify_file, "NativeSession", lambda *args: Forgetful(real(*args)))
    with pytest.raises((Failure, EngineError), match="a copy goes on with other logits"):
        qualify_file.state(Path(os.environ["DS4_EMBEDDED_MODEL"]))


def test_every_suite_exists_and_every_line_of_the_table_names_a_check_that_does() -> None:
    assert all((ROOT / suite.path).is_file() for suite in qualify.SUITES)
    checks = {*qualify_file.CHECKS, qualify.PEER}
    for row in qualified.read(ROOT / "parity" / "qualified.toml"):
        for axis in AXES:
            for proof in row.proofs.get(axis, ()):
                path, _, test = proof.evidence.partition("::")
                assert path in checks or f"def {test}(" in (ROOT / path).read_text(encoding="utf-8"), proof.evidence
