"""Memory that this machine can still give, and what this process takes."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

_NO_LIMIT = 1 << 60  # cgroup v1 says "no limit" by a number close to 2^63


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return None


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.strip().isdigit() else None


def _fields(text: str | None, separator: str | None = None) -> dict[str, int]:
    """ "name value [unit]" lines as a dict; lines of another shape are left out."""
    found: dict[str, int] = {}
    for line in (text or "").splitlines():
        parts = line.replace(":", " ").split(separator)
        if len(parts) >= 2 and parts[1].isdigit():
            found[parts[0]] = int(parts[1])
    return found


def cgroup_available(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Bytes that the tightest memory cgroup above this process still allows; None where none limits it.

    Page cache of files (inactive_file) counts as available: the kernel drops it before it refuses memory, and a
    mapped model is made of it.
    """
    best: int | None = None
    for line in (_read(own) or "").splitlines():
        _, controllers, group = line.split(":", 2)
        if controllers == "":
            base, limit_name, usage_name = root, "memory.max", "memory.current"
        elif "memory" in controllers.split(","):
            base, limit_name, usage_name = root / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"
        else:
            continue
        folder = base / group.lstrip("/")
        while True:
            limit = _count(_read(folder / limit_name))
            usage = _count(_read(folder / usage_name))
            if limit is not None and usage is not None and limit < _NO_LIMIT:
                cache = _fields(_read(folder / "memory.stat")).get("inactive_file", 0)
                left = max(0, limit - max(0, usage - cache))
                best = left if best is None else min(best, left)
            if folder == base or base not in folder.parents:
                break
            folder = folder.parent
    return best


def available_bytes(meminfo: Path = Path("/proc/meminfo")) -> int:
    """Bytes that can be allocated without swapping: MemAvailable, or what the memory cgroup leaves if that is less.

    Where neither can be read (macOS), half of the physical memory.
    """
    free = _fields(_read(meminfo)).get("MemAvailable")
    if free is None:
        return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) // 2
    allowed = cgroup_available()
    return free * 1024 if allowed is None else min(free * 1024, allowed)


def rss() -> int:
    """Resident bytes of this process; where the kernel does not tell (macOS), the most it ever had."""
    pages = (_read(Path("/proc/self/statm")) or "").split()
    if len(pages) >= 2:
        return int(pages[1]) * int(os.sysconf("SC_PAGE_SIZE"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def rss_anonymous() -> int:
    """Resident bytes that are not file pages, so without the mapped model; rss() where the kernel does not tell."""
    kilobytes = _fields(_read(Path("/proc/self/status"))).get("RssAnon")
    return rss() if kilobytes is None else kilobytes * 1024
