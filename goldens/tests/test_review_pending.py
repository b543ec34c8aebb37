"""Pending results: what is written is found again, wherever Bazel or a run by hand left it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest

from goldens.tests.checkout import EXPECTED, FOUND, INPUT, LOGITS, leave, make, the_one
from parity import pending
from parity.pending import PendingError


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make(tmp_path)


def test_a_pending_is_read_as_it_was_written(root: Path) -> None:
    leave(root, setup="smollm2", oracle=b"emit \xff\n", reader="parity/x.py")
    one = the_one(root)
    assert (one.component, one.golden, one.setup, one.kind) == ("stops", "stops/splits.jsonl", "smollm2", "tape")
    assert (one.input, one.expected, one.oracle, one.found) == (
        INPUT.encode(),
        EXPECTED.encode(),
        b"emit \xff\n",
        FOUND.encode(),
    )
    assert (one.why, one.command, one.reader) == ("mismatch at the gate", "./dev gate stops", "parity/x.py")


def test_text_bytes_and_arrays_come_back_as_what_they_were(root: Path) -> None:
    leave(root, input="lone \ud800", expected=None, found=LOGITS)
    one = the_one(root)
    assert one.input == "lone \ud800"
    assert one.expected is None
    assert isinstance(one.found, np.ndarray) and one.found.dtype == np.float32
    assert pending.same(one.found, LOGITS)


def test_a_large_value_lies_in_a_file_of_its_own_that_is_checked(root: Path) -> None:
    large = bytes(range(256)) * (pending.INLINE // 256 + 1)
    path = leave(root, found=large)
    assert path.stat().st_size < 10_000
    assert the_one(root).found == large
    (side,) = path.parent.glob("*.found.bin")
    side.write_bytes(large + b"!")
    (broken,) = pending.collect(root).broken
    assert "is another file" in broken.message


def test_a_value_above_all_bounds_is_refused(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pending, "LARGEST", 100)
    with pytest.raises(PendingError, match=r"at most 100 bytes, found 101"):
        leave(root, found=b"x" * 101)


@pytest.mark.parametrize("golden", ["../x.jsonl", "/etc/x", "stops", "a/../../b", "stops/.x", ""])
def test_a_golden_that_leads_elsewhere_is_refused(root: Path, golden: str) -> None:
    with pytest.raises(PendingError, match="no golden's name"):
        leave(root, golden=golden)


def test_a_file_that_names_another_folder_is_refused(root: Path) -> None:
    path = leave(root)
    body = json.loads(path.read_bytes())
    body["found"] = {"as": "bytes", "file": "../../goldens/manifest.toml", "sha256": "0"}
    path.write_text(json.dumps(body))
    (broken,) = pending.collect(root).broken
    assert "leads elsewhere" in broken.message


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"pending": 2}', '{"pending": 1, "golden": 3}', "\0"])
def test_a_file_that_is_no_pending_is_told_and_hides_no_other(root: Path, text: str) -> None:
    leave(root)
    (root / ".dev" / "pending" / "other.json").write_text(text)
    found = pending.collect(root)
    assert len(found.pendings) == 1
    assert [one.source for one in found.broken] == [".dev/pending/other.json"]


def test_of_two_for_one_case_the_newer_counts_and_settles_both(root: Path) -> None:
    outputs = root / "bazel-testlogs" / "host" / "x_test" / "test.outputs"
    leave(root, found=b"older\n", into=outputs / "pending")
    leave(root, found=b"newer\n")
    one = the_one(root)
    assert one.found == b"newer\n" and len(one.copies) == 1
    pending.settle(one, "rejected", root)
    assert pending.collect(root).pendings == []
    assert list((outputs / "pending").glob("*.json")), "what Bazel wrote is Bazel's"


def test_a_new_result_after_a_decision_waits_again(root: Path) -> None:
    leave(root)
    pending.settle(the_one(root), "rejected", root)
    leave(root)
    assert the_one(root).found == FOUND.encode()


def test_pendings_are_found_in_the_archive_that_bazel_makes_of_outputs(root: Path) -> None:
    path = leave(root, found=b"\xff" * (pending.INLINE + 1), into=root / "elsewhere")
    outputs = root / "bazel-testlogs" / "host" / "x_test" / "test.outputs"
    outputs.mkdir(parents=True)
    with zipfile.ZipFile(outputs / "outputs.zip", "w") as archive:
        for file in path.parent.iterdir():
            archive.write(file, f"pending/{file.name}")
        archive.writestr("log.txt", "something else")
    one = the_one(root)
    assert one.found == b"\xff" * (pending.INLINE + 1)
    assert one.source.endswith(f"outputs.zip:pending/{path.name}")


def test_an_archive_that_is_none_is_told(root: Path) -> None:
    outputs = root / "bazel-testlogs" / "x_test" / "test.outputs"
    outputs.mkdir(parents=True)
    (outputs / "outputs.zip").write_bytes(b"PK no")
    (broken,) = pending.collect(root).broken
    assert "BadZipFile" in broken.message


def test_under_bazel_pendings_go_to_the_outputs_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_UNDECLARED_OUTPUTS_DIR", str(tmp_path / "outputs"))
    assert pending.folder() == tmp_path / "outputs" / "pending"
    monkeypatch.delenv("TEST_UNDECLARED_OUTPUTS_DIR")
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    assert pending.folder() == tmp_path / ".dev" / "pending"


def test_what_passes_again_waits_no_more(root: Path) -> None:
    leave(root, found=b"x" * (pending.INLINE + 1))
    pending.discard("stops/splits.jsonl", "a stop in two pieces", into=root / ".dev" / "pending")
    assert list((root / ".dev" / "pending").iterdir()) == []


def test_clearing_a_component_leaves_those_of_others(root: Path) -> None:
    leave(root)
    leave(root, component="kvc", golden="kvc/records.jsonl")
    pending.clear("stops", into=root / ".dev" / "pending")
    assert the_one(root).component == "kvc"


def test_a_new_case_takes_what_the_oracle_said_and_a_known_one_what_was_found(root: Path) -> None:
    leave(root, expected=None, oracle=b"oracle\n", found=b"python\n")
    assert the_one(root).proposal == b"oracle\n"
    leave(root, oracle=b"oracle\n", found=b"python\n")
    assert the_one(root).proposal == b"python\n"
