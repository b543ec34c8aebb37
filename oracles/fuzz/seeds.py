#!/usr/bin/env python3
"""seeds.py NAME FOLDER: what the fuzzer of one oracle starts from.

Every stored input tape of goldens/NAME becomes a file in FOLDER/seeds, and the plain words met in them become
FOLDER/words.dict, so that the fuzzer need not guess the verbs.
"""

import base64
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

LARGEST = 1 << 16  # bytes: a long seed slows every mutation of it
VERB = re.compile(rb"(?<![^ \n])[a-z][a-z0-9_-]{1,23}(?![^ \n])")


def inputs(files: list[Path]) -> Iterator[bytes]:
    """The input tapes that golden files store; cases that only name a real file have none."""
    for path in files:
        for line in path.read_text(encoding="utf-8").splitlines():
            case = json.loads(line)
            if "input" in case:
                yield case["input"].encode("latin-1", "replace")
            elif "input_b64" in case:
                yield base64.b64decode(case["input_b64"])


def main(name: str, folder: Path) -> None:
    """Write the seeds and the dictionary."""
    seeds = folder / "seeds"
    seeds.mkdir(parents=True, exist_ok=True)
    verbs: set[bytes] = {b"%-", b"%00", b"%0A", b"%FF", b"-1", b"18446744073709551615", b"4294967295"}
    for data in inputs(sorted(Path("goldens", name).rglob("*.jsonl"))):
        if len(data) <= LARGEST:
            (seeds / hashlib.sha1(data).hexdigest()).write_bytes(data)
        verbs.update(VERB.findall(data[:4096]))
    quoted = ("".join(f"\\x{byte:02x}" for byte in verb) for verb in sorted(verbs)[:400])
    (folder / "words.dict").write_text("".join(f'"{word}"\n' for word in quoted), encoding="ascii")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
