from __future__ import annotations

from pathlib import Path

from ds4.sys import memory

GIB = 1 << 30


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def group(folder: Path, limit: str, usage: int, cache: int = 0) -> None:
    write(folder / "memory.max", limit)
    write(folder / "memory.current", str(usage))
    write(folder / "memory.stat", f"anon 1\ninactive_file {cache}\n")


def test_the_tightest_group_above_the_process_decides(tmp_path: Path) -> None:
    write(tmp_path / "own", "0::/a/b\n")
    group(tmp_path / "a", str(4 * GIB), 3 * GIB)
    group(tmp_path / "a" / "b", "max", 2 * GIB)
    assert memory.cgroup_available(tmp_path, tmp_path / "own") == GIB
    group(tmp_path / "a" / "b", str(2 * GIB + 5), 2 * GIB)
    assert memory.cgroup_available(tmp_path, tmp_path / "own") == 5


def test_page_cache_counts_as_available(tmp_path: Path) -> None:
    write(tmp_path / "own", "0::/\n")
    group(tmp_path, str(4 * GIB), 3 * GIB, cache=2 * GIB)
    assert memory.cgroup_available(tmp_path, tmp_path / "own") == 3 * GIB


def test_more_use_than_the_limit_leaves_nothing_rather_than_less(tmp_path: Path) -> None:
    write(tmp_path / "own", "0::/\n")
    group(tmp_path, str(GIB), 2 * GIB)
    assert memory.cgroup_available(tmp_path, tmp_path / "own") == 0


def test_the_older_kind_of_group_is_read_too(tmp_path: Path) -> None:
    write(tmp_path / "own", "3:cpu:/x\n2:memory,blkio:/x\n")
    write(tmp_path / "memory" / "x" / "memory.limit_in_bytes", str(2 * GIB))
    write(tmp_path / "memory" / "x" / "memory.usage_in_bytes", str(GIB))
    write(tmp_path / "memory" / "memory.limit_in_bytes", str(0x7FFFFFFFFFFFF000))
    write(tmp_path / "memory" / "memory.usage_in_bytes", str(GIB))
    assert memory.cgroup_available(tmp_path, tmp_path / "own") == GIB


def test_no_limit_is_none(tmp_path: Path) -> None:
    write(tmp_path / "own", "0::/a\n")
    assert memory.cgroup_available(tmp_path, tmp_path / "own") is None
    assert memory.cgroup_available(tmp_path, tmp_path / "missing") is None


def test_available_memory_is_what_the_kernel_says(tmp_path: Path) -> None:
    write(tmp_path / "meminfo", "MemTotal:  8 kB\nMemFree:  1 kB\nMemAvailable:    4 kB\n")
    assert 0 < memory.available_bytes(tmp_path / "meminfo") <= 4096
    assert memory.available_bytes(tmp_path / "missing") > 0


def test_a_process_has_a_size_and_grows() -> None:
    before, anonymous = memory.rss(), memory.rss_anonymous()
    block = bytearray(b"x") * (32 << 20)
    assert memory.rss() > before + (16 << 20)
    assert memory.rss_anonymous() > anonymous + (16 << 20)
    del block
