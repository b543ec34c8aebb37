"""Snapshots of text (help, plans, tables, HTTP bodies): syrupy's, kept under goldens/ and changed only in the review.

    host/tests/cli/test_help.py    ->    goldens/snapshots/cli/test_help.ambr

A snapshot that differs or is missing fails the test and leaves a pending; --snapshot-update does no more than that, and
makes pendings of the snapshots that nothing asks for any more.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.data import SnapshotCollection
from syrupy.extensions.amber import AmberSnapshotExtension
from syrupy.location import PyTestLocation
from syrupy.types import SerializableData, SerializedData, SnapshotIndex

from parity import pending

_TESTS = ("host", "tests")


def root_of(test: str) -> tuple[Path, Path]:
    """(the repository's root, the test's path from host/tests)."""
    path = Path(test)
    for parent in path.parents:
        if parent.parts[-2:] == _TESTS:
            return parent.parents[1], path.relative_to(parent)
    raise ValueError(f"{test}: a snapshot belongs to a test in host/tests")


class GoldenExtension(AmberSnapshotExtension):
    """Amber files at goldens/snapshots/<room>/, which it reads and never writes."""

    @classmethod
    def dirname(cls, *, test_location: PyTestLocation) -> str:
        root, test = root_of(test_location.filepath)
        return str(root / "goldens" / "snapshots" / test.parent)

    @classmethod
    def matches_test_location(cls, *, test_location: PyTestLocation, snapshot_location: str) -> bool:
        return cls.get_location(test_location=test_location, index=0) == snapshot_location

    @classmethod
    def write_snapshot_collection(
        cls, *, snapshot_collection: SnapshotCollection, name_order: dict[str, int] | None = None
    ) -> None:
        raise AssertionError("snapshots change in the review only")

    def delete_snapshots(self, snapshot_location: str, snapshot_names: set[str]) -> None:
        for name in sorted(snapshot_names):
            expected = self.read_snapshot_collection(snapshot_location=snapshot_location).get(name)
            propose(snapshot_location, name, None if expected is None else str(expected.data), None, "", "unused")


class PendingSnapshot(SnapshotAssertion):
    """syrupy's assertion, whose every difference becomes a pending."""

    def _assert(self, data: SerializableData) -> bool:
        index: SnapshotIndex = self.index
        self.update_snapshots = self.update_new_snapshots_only = False
        passed = super()._assert(data)
        result = self.executions[self.num_executions - 1]
        location = self.extension.get_location(test_location=self.test_location, index=index)
        name = self.extension.get_snapshot_name(test_location=self.test_location, index=index)
        golden = golden_of(location)
        if passed:
            pending.discard(golden, name)
        elif result.asserted_data is not None:  # None: it could not be serialised, and the test says why
            propose(location, name, result.recalled_data, result.asserted_data, self.test_location.nodeid, "snapshot")
        return passed


def golden_of(location: str) -> str:
    """A snapshot file's name as goldens/ has it."""
    return location.rpartition("/goldens/")[2]


def propose(
    location: str, name: str, expected: SerializedData | None, found: SerializedData | None, node: str, why: pending.Why
) -> None:
    golden = golden_of(location)
    reader = f"host/tests/{golden.removeprefix('snapshots/').removesuffix('.ambr')}.py"
    pending.write(
        component=f"{Path(golden).parent.name} (text)",
        golden=golden,
        case=name,
        kind="text",
        expected=None if expected is None else str(expected),
        found=None if found is None else str(found),
        why=why,
        command=f"./dev shell pytest '{node or reader}'",
        reader=reader,
    )


@pytest.fixture
def snapshot(request: pytest.FixtureRequest) -> SnapshotAssertion:
    """Compares with the snapshot of this test: `assert text == snapshot`, or snapshot(name=...) for several."""
    config = request.config
    return PendingSnapshot(
        update_snapshots=False,
        update_new_snapshots_only=False,
        extension_class=GoldenExtension,
        test_location=PyTestLocation(request.node),
        session=config._syrupy,  # type: ignore[attr-defined]
    )
