"""The `golden` fixture: evidence that tests read and never write.

    from parity.golden_fixture import golden as golden      # in a conftest.py

    def test_stops(golden: Goldens) -> None:
        for case in golden("stops/splits.jsonl"):
            golden.check(case, run(case.tape))

A result that differs, or has no golden yet, becomes a pending and fails the test with the command that opens the
review.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

import pytest

from parity import goldens, pending
from parity.goldens import Case
from parity.pending import Kind

if TYPE_CHECKING:
    from parity.pending import Array

_LINES = 24  # of a difference that stand in the failure; the review shows all


class Goldens:
    """What the fixture gives a test."""

    def __init__(self, node: str) -> None:
        self._command = f"./dev shell pytest '{node}'"
        self._reader = node.partition("::")[0]

    def __call__(self, file: str) -> list[Case]:
        """The cases of a .jsonl golden, relative to goldens/; ManifestError unless it is the file that was frozen."""
        return goldens.read(file)

    def check(self, case: Case, found: str | bytes, *, oracle: str | bytes | None = None, kind: Kind = "tape") -> None:
        """Fails unless a case's output is the golden one."""
        self._compare(case.file, case.name, case.expected, found, oracle, case.tape, case.setup, kind)

    def match(
        self,
        file: str,
        found: str | bytes | Array,
        *,
        case: str | None = None,
        kind: Kind = "text",
        input: str | bytes | None = None,
        setup: str = "",
    ) -> None:
        """Fails unless a golden says what was found: a whole file, or a case of a .jsonl, .npz or .ambr one.

        Fails too where there is no such golden yet; the pending is then a new one.
        """
        self._compare(file, case, goldens.value(file, case), found, None, input, setup, kind)

    def _compare(
        self,
        file: str,
        case: str | None,
        expected: str | bytes | Array | None,
        found: str | bytes | Array,
        oracle: str | bytes | None,
        tape: str | bytes | None,
        setup: str,
        kind: Kind,
    ) -> None:
        if pending.same(expected, found):
            pending.discard(file, case)
            return
        pending.write(
            component=file.partition("/")[0],
            golden=file,
            case=case,
            setup=setup,
            kind=kind,
            input=tape,
            expected=expected,
            oracle=oracle,
            found=found,
            why="new case" if expected is None else "mismatch at the gate",
            command=self._command,
            reader=self._reader,
        )
        where = f"goldens/{file}" + (f", {case}" if case is not None else "")
        if expected is None:
            pytest.fail(f"{where}: no such golden yet. Look at it and accept it: {pending.REVIEW}", pytrace=False)
        pytest.fail(
            f"{where}: not what the golden says. See it side by side: {pending.REVIEW}\n{_difference(expected, found)}",
            pytrace=False,
        )


def _difference(expected: str | bytes | Array, found: str | bytes | Array) -> str:
    if not isinstance(expected, str | bytes) or not isinstance(found, str | bytes):
        return "(arrays)"
    old, new = (pending.raw(side).decode("utf-8", "replace").split("\n") for side in (expected, found))
    rows = list(difflib.unified_diff(old, new, "golden", "found", n=1, lineterm=""))
    shown = [row if len(row) <= 200 else row[:200] + "…" for row in rows[:_LINES]]
    return "\n".join(shown + ([f"… {len(rows) - _LINES} more lines"] if len(rows) > _LINES else []))


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Goldens:
    return Goldens(request.node.nodeid)
