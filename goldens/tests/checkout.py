"""A small checkout with goldens of every form, for the tests of pendings and of the review."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from parity import pending
from parity.pending import Pending

CASE = "a stop in two pieces"
INPUT = "stops END\npush Hello%20EN\npush D\nflush\n"
EXPECTED = "emit Hello%20\nhit END\n"
FOUND = "emit Hello%20EN\nhit END\n"
AMBER = "# serializer version: 1\n# name: test_help\n  '''\n  Usage: ds4\n    --stop TEXT\n  '''\n# ---\n"
SNAPSHOT = "'''\nUsage: ds4\n  --stop TEXT\n'''"
LOGITS = np.linspace(-4, 4, 64, dtype=np.float32).reshape(2, 32)
ABOUT = {
    "logits": ("an outside library 1.2", "python generate.py", "parity/reference/logits.py"),
    "snapshots/cli": ("our own text, as a person accepted it", "./dev shell pytest", "host/tests/cli/test_help.py"),
    "stops": ("worked out by hand", "by hand", "parity/components/stops.py"),
}


def make(root: Path) -> Path:
    """Lays the checkout and returns its folder."""
    files = {
        "logits/first.npy": pending.npy(LOGITS),
        "snapshots/cli/test_help.ambr": AMBER.encode(),
        "stops/splits.jsonl": b"".join(
            json.dumps(row).encode() + b"\n"
            for row in (
                {"case": "no stop at all", "input": "stops x\npush a\nflush\n", "expected": "emit a\n"},
                {"case": CASE, "input": INPUT, "expected": EXPECTED},
            )
        ),
    }
    listing = "# Where each golden comes from.\n"
    for folder, (source, command, reader) in ABOUT.items():
        listing += f'\n# About {folder}.\n[[golden]]\nfolder = "{folder}"\nsource = "{source}"\ncommand = "{command}"\n'
        listing += f'frozen = "2026-01-01"\nused_by = ["{reader}"]\n\n[golden.files]\n'
        for name, data in files.items():
            if name.rpartition("/")[0] == folder:
                listing += f'"{name.rpartition("/")[2]}" = "{hashlib.sha256(data).hexdigest()}"\n'
    for name, data in {**files, "manifest.toml": listing.encode()}.items():
        path = root / "goldens" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def leave(root: Path, **fields: Any) -> Path:
    """A pending in the checkout: a mismatch of the stops case unless said otherwise."""
    about: dict[str, Any] = {
        "component": "stops",
        "golden": "stops/splits.jsonl",
        "case": CASE,
        "kind": "tape",
        "input": INPUT.encode(),
        "expected": EXPECTED.encode(),
        "found": FOUND.encode(),
        "why": "mismatch at the gate",
        "command": "./dev gate stops",
        "into": root / ".dev" / "pending",
    }
    return pending.write(**(about | fields))


def leave_some(root: Path) -> None:
    """Three pendings of different sizes: an array, a snapshot, a tape."""
    found = LOGITS.copy()
    found[1, 3] += 0.5
    leave(root, component="logits", golden="logits/first.npy", case=None, kind="array", input=None)
    leave(
        root,
        component="logits",
        golden="logits/first.npy",
        case=None,
        kind="array",
        input=None,
        expected=LOGITS,
        found=found + np.float32(1e-4),
    )
    leave(
        root,
        component="cli (text)",
        golden="snapshots/cli/test_help.ambr",
        case="test_help",
        kind="text",
        input=None,
        expected=SNAPSHOT,
        found=SNAPSHOT.replace("--stop TEXT", "--stop WORDS"),
        why="snapshot",
        reader="host/tests/cli/test_help.py",
    )
    leave(root)


def the_one(root: Path) -> Pending:
    """The only pending of a checkout."""
    (one,) = pending.collect(root).pendings
    return one


def entry(root: Path, folder: str) -> str:
    """The lines of one entry of the manifest."""
    blocks = (root / "goldens" / "manifest.toml").read_text(encoding="utf-8").split("[[golden]]")
    return next(block for block in blocks if f'folder = "{folder}"' in block)
