"""How many threads this process can compute with."""

from __future__ import annotations

import os
from pathlib import Path

_CPUS = Path("/sys/devices/system/cpu")
_CGROUP = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def _read(path: Path) -> str | None:
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def allowed() -> set[int]:
    """The processors that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def quota(root: Path = _CGROUP, own: Path = _OWN) -> float | None:
    """Processors' worth of time that the tightest cgroup (version 2) above this process grants; None: no limit."""
    best: float | None = None
    for line in (_read(own) or "").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers:
            continue
        folder = root / group.lstrip("/")
        while folder == root or root in folder.parents:
            most, _, period = (_read(folder / "cpu.max") or "max").partition(" ")
            if most.isdigit() and period.isdigit() and int(period):
                granted = int(most) / int(period)
                best = granted if best is None else min(best, granted)
            if folder == root:
                break
            folder = folder.parent
    return best


def physical_cores(processors: set[int] | None = None, cpus: Path = _CPUS, granted: float | None = None) -> int:
    """Cores to compute on: those that `processors` (default: the allowed ones) belong to, hyper-threads counted once,
    and no more than the cgroup's quota. Two threads of one core share its vector units, so a second one only costs."""
    processors = allowed() if processors is None else processors
    granted = quota() if granted is None else granted
    cores = {_read(cpus / f"cpu{n}" / "topology" / "thread_siblings_list") or str(n) for n in processors}
    count = max(1, len(cores))
    return count if granted is None else max(1, min(count, int(granted)))
