"""Cores, not hyper-threads, and no more than the container may use."""

from __future__ import annotations

from pathlib import Path

from ds4.sys.cpus import physical_cores, quota


def topology(root: Path, siblings: dict[int, str]) -> Path:
    for number, text in siblings.items():
        folder = root / f"cpu{number}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(text + "\n")
    return root


def test_hyper_threads_of_a_core_count_once(tmp_path: Path) -> None:
    cpus = topology(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
    assert physical_cores({0, 1, 2, 3}, cpus, granted=99) == 2


def test_only_processors_that_the_process_may_use_count(tmp_path: Path) -> None:
    cpus = topology(tmp_path, {0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"})
    assert physical_cores({0, 2}, cpus, granted=99) == 1


def test_a_machine_that_does_not_tell_counts_processors(tmp_path: Path) -> None:
    assert physical_cores({0, 1, 2}, tmp_path, granted=99) == 3


def test_a_quota_below_the_cores_wins_but_never_below_one(tmp_path: Path) -> None:
    assert physical_cores({0, 1, 2, 3}, tmp_path, granted=2.5) == 2
    assert physical_cores({0, 1, 2, 3}, tmp_path, granted=0.5) == 1


def test_the_tightest_group_above_sets_the_quota(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.write_text("0::/outer/inner\n")
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    assert quota(tmp_path, own) is None
    (tmp_path / "outer" / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "outer" / "inner" / "cpu.max").write_text("max 100000\n")
    assert quota(tmp_path, own) == 1.5
    (tmp_path / "outer" / "inner" / "cpu.max").write_text("100000 100000\n")
    assert quota(tmp_path, own) == 1.0


def test_a_machine_without_cgroups_has_no_quota(tmp_path: Path) -> None:
    assert quota(tmp_path, tmp_path / "none") is None
